// SPDX-License-Identifier: Apache-2.0
// Light, dark, or as the system has it; kept in this browser.
import { repaint } from "./paper.js";

const KEPT = "zombiescope-theme", ORDER = ["auto", "light", "dark"];

function read() {
  try { return localStorage.getItem(KEPT) || "auto"; } catch { return "auto"; }
}

export function isDark() {
  const told = document.documentElement.dataset.theme;
  return told ? told === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

export function recallTheme() {
  put(read());
}

function put(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  repaint();
}

export function nextTheme() {
  const theme = ORDER[(ORDER.indexOf(read()) + 1) % ORDER.length];
  try { localStorage.setItem(KEPT, theme); } catch { /* a private window forgets */ }
  put(theme);
  return theme === "auto" ? "as the system" : theme;
}
