// SPDX-License-Identifier: Apache-2.0
// What every canvas needs: its size in device pixels, colours of the theme, the hatch of a gap, and a word when its size or theme changes.
import { useEffect, useLayoutEffect, useRef } from "../vendor/hooks.js";

let colours = new Map();
const themed = new Set();

// light-dark() is only resolved on an element.
export function colour(name) {
  if (!colours.has(name)) {
    const probe = document.body.appendChild(document.createElement("i"));
    probe.style.color = `var(--${name})`;
    colours.set(name, getComputedStyle(probe).color);
    probe.remove();
  }
  return colours.get(name);
}

export function repaint() {
  colours = new Map();
  for (const draw of themed) draw();
}

export function onRepaint(draw) {
  themed.add(draw);
  return () => themed.delete(draw);
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);

export function fit(canvas, height) {
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth;
  const wide = Math.max(1, Math.round(width * ratio)), high = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== wide || canvas.height !== high) { canvas.width = wide; canvas.height = high; }
  canvas.style.height = `${height}px`;
  const paper = canvas.getContext("2d");
  paper.setTransform(ratio, 0, 0, ratio, 0, 0);
  paper.clearRect(0, 0, width, height);
  return { paper, width };
}

export function hatch(paper, x, y, width, height) {
  if (width <= 0) return;
  paper.save();
  paper.beginPath();
  paper.rect(x, y, width, height);
  paper.clip();
  paper.strokeStyle = colour("unknown");
  paper.globalAlpha = 0.7;
  paper.lineWidth = 1.6;
  paper.beginPath();
  // Lines lie where they would lie in any other lane: a gap through all lanes is one hatch.
  for (let start = Math.floor((x - height) / 8.5) * 8.5; start < x + width; start += 8.5) {
    paper.moveTo(start + height, y);
    paper.lineTo(start, y + height);
  }
  paper.stroke();
  paper.restore();
}

export function systemFont(size, weight = "") {
  return `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;
}

// Another height is no reason to draw: it follows from what was drawn.
export function onWidth(element, draw) {
  let width = 0;
  const watch = new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (now !== width) { width = now; draw(); }
  });
  watch.observe(element);
  return () => watch.disconnect();
}

// A canvas that draws itself when what it shows, its width or the theme is another.
export function useCanvas(draw, inputs) {
  const canvas = useRef(null), kept = useRef(draw);
  kept.current = draw;
  const redraw = () => { if (canvas.current && canvas.current.clientWidth) kept.current(canvas.current); };
  useEffect(() => {
    const unwatch = onWidth(canvas.current, redraw);
    themed.add(redraw);
    return () => { unwatch(); themed.delete(redraw); };
  }, []);
  useLayoutEffect(redraw, inputs);
  return canvas;
}
