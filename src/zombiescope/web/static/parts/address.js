// SPDX-License-Identifier: Apache-2.0
// The address is the state: `#/zombies?group=pin&z=42`. Views and drawers add to the history, choices replace.
const listeners = new Set();
let current = read();

function read() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { view: path || "now", query: Object.fromEntries(new URLSearchParams(query)) };
}

export function here() {
  return current;
}

export function link(view, query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString().replaceAll("%3A", ":").replaceAll("%2F", "/");
  return `#/${view}${text ? `?${text}` : ""}`;
}

function arrive(address, adds) {
  if (address === location.hash) return;
  history[adds ? "pushState" : "replaceState"](null, "", address);
  tell();
}

function tell() {
  current = read();
  for (const listener of [...listeners]) listener(current);
}

// Where a saved file begins.
export function openAt(address) {
  arrive(address, false);
}

export function go(view, query = {}) {
  arrive(link(view, query), true);
}

// Some choices of this view; undefined or "" takes one out. `adds`: a drawer, which Back closes.
export function choose(changes, adds = false) {
  arrive(link(current.view, { ...current.query, ...changes }), adds);
}

export function follow(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

addEventListener("popstate", tell);
addEventListener("hashchange", () => { if (JSON.stringify(read()) !== JSON.stringify(current)) tell(); });
