// SPDX-License-Identifier: Apache-2.0
// Single keys, everywhere but in fields: the part that came last is asked first. They can be turned off, for those who dictate.
import { useLayoutEffect, useRef } from "../vendor/hooks.js";

const layers = [];
const KEPT = "zombiescope-keys";
let isOn = recall() !== "off";

function recall() {
  try { return localStorage.getItem(KEPT); } catch { return null; }
}

export function keysAreOn() {
  return isOn;
}

export function turnKeys(on) {
  isOn = on;
  try { localStorage.setItem(KEPT, on ? "on" : "off"); } catch { /* a private window forgets */ }
}

export function inField(target) {
  return target instanceof Element && (target.matches("input, select, textarea") || target.isContentEditable);
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
  const isEscape = event.key === "Escape";
  if (!isEscape && (inField(event.target) || document.querySelector("dialog[open]"))) return;
  if (!isOn && event.key.length === 1) return;
  for (let layer = layers.length - 1; layer >= 0; layer--) {
    const act = layers[layer].current[event.key];
    if (act && act(event) !== false) { event.preventDefault(); return; }
  }
});

// `acts`: key to what it does; one that returns false leaves the key to the layer below.
export function useKeys(acts) {
  const kept = useRef(acts);
  kept.current = acts;
  useLayoutEffect(() => {
    layers.push(kept);
    return () => { layers.splice(layers.indexOf(kept), 1); };
  }, []);
}
