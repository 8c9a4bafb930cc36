// SPDX-License-Identifier: Apache-2.0
// The live tree from the top down, width by zombies or bytes. Leaves are what a maker left, in the colour of its pin.
import { useEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
import { html } from "./html.js";
import { bytes, count, plural } from "./words.js";

const ROW = 32, LEAST = 10, MOST = 300, DIGIT = 8, EDGES = 16;

// What has room: never half a number, and of a path its last part rather than its first.
function fitting(one, name, size) {
  const room = Math.floor((one.wide - EDGES) / DIGIT);
  if (name.length <= room) return name;
  const zombies = count(one.leaf ? one.zombies : one.more ? one.zombies : one.node.zombies ?? 0);
  if (one.leaf) return room >= zombies.length + 8 ? `${zombies} of ${tail(one.leaf.maker, room - zombies.length - 4)}` : room >= zombies.length ? zombies : "";
  if (one.more || one.node.path === "/") return room >= 8 ? name : "";
  const told_ = told(one.node, size), last = `/${one.node.path.split("/").at(-1)}`;
  if (last.length + told_.length + 5 <= room) return `…${last} · ${told_}`;
  return room >= 8 ? tail(one.node.path, room) : "";
}

const tail = (text, room) => (text.length <= room ? text : `…${text.slice(text.length - Math.max(3, room - 1))}`);

// The flat list of the server as a tree of paths; a live cgroup whose dead all lie in one child is drawn with it.
export function grown(nodes) {
  const made = nodes.map((node) => ({ ...node, children: [], path: "" }));
  let root = null;
  for (const node of made) {
    const parent = made[node.parent];
    node.path = parent ? `${parent.path === "/" ? "" : parent.path}/${node.name.replace(/^\//, "")}` : node.name;
    if (parent) parent.children.push(node);
    else root = node;
  }
  return root;
}

export function find(root, path) {
  let node = root;
  while (node && node.path !== path) node = node.children.find((child) => path === child.path || path.startsWith(`${child.path}/`));
  return node;
}

function told(node, size) {
  const zombies = node.zombies === null ? "? zombies" : count(node.zombies), held = node.bytes === null ? "? bytes" : node.bytes ? bytes(node.bytes) : "no bytes";
  return size === "bytes" ? `${held} · ${zombies}` : `${zombies} · ${held}`;
}

const sizeOf = (node, size) => (size === "bytes" ? node.bytes : node.zombies) ?? 0;

// Boxes as { node | leaf | more, x, wide, depth } in pixels; what is too narrow becomes one box "n more".
function boxes(root, size, width) {
  const found = [];
  const place = (given, x, wide, depth) => {
    let node = given;
    while (depth > 0 && node.children.length === 1 && !(node.makers || []).length) [node] = node.children;
    found.push({ node, x, wide, depth });
    const leaves = (node.makers || []).map(([maker, zombies, held, pin]) => ({ leaf: { maker, pin, zombies, bytes: held, path: node.path }, zombies, bytes: held }));
    const inner = [...node.children, ...leaves].sort((a, b) => sizeOf(b, size) - sizeOf(a, size));
    const whole = inner.reduce((sum, one) => sum + sizeOf(one, size), 0), all = Math.max(whole, sizeOf(node, size));
    const wides = inner.map((one) => (all ? (sizeOf(one, size) / all) * wide : wide / inner.length));
    const fits = inner.filter((_, at) => wides[at] >= LEAST).length, small = inner.slice(fits), room = Math.max(wide / 8, LEAST);
    const slots = Math.floor(wide / LEAST), most = Math.min(Math.floor(room / LEAST), slots);
    const kept = small.slice(0, small.length <= most ? most : Math.max(0, Math.min(most, slots - 1))), rest = small.slice(kept.length);
    const needed = (kept.length + (rest.length ? 1 : 0)) * LEAST, big = wides.slice(0, fits).reduce((sum, one) => sum + one, 0);
    const squeeze = fits && big + needed > wide ? (wide - needed) / big : 1;
    let left = x;
    const lay = (one, size_) => {
      if (found.length >= MOST) return;
      if (one.leaf) found.push({ ...one, x: left, wide: size_, depth: depth + 1 });
      else if (one.more) found.push({ ...one, x: left, wide: size_, depth: depth + 1 });
      else place(one, left, size_, depth + 1);
      left += size_;
    };
    inner.slice(0, fits).forEach((one, at) => lay(one, wides[at] * squeeze));
    kept.forEach((one) => lay(one, LEAST));
    if (rest.length) lay({ more: rest.length, zombies: rest.reduce((sum, one) => sum + (one.zombies ?? 0), 0), bytes: rest.reduce((sum, one) => sum + (one.bytes ?? 0), 0), path: node.path }, LEAST);
  };
  place(root, 0, width, 0);
  return found;
}

export function Icicle({ root, size, chosen, maker, colourOf, onNode, onLeaf, label }) {
  const box = useRef(null), [width, setWidth] = useState(0), [at, setAt] = useState(0);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  const zoomed = useMemo(() => {
    const target = chosen && chosen !== "/" ? find(root, chosen) : null, above = [];
    for (let node = root; target && node && node !== target; node = node.children.find((child) => chosen === child.path || chosen.startsWith(`${child.path}/`))) above.push(node);
    return { above, target: target || root };
  }, [root, chosen]);
  const drawn = useMemo(() => (width ? [...zoomed.above.map((node, depth) => ({ node, x: 0, wide: width, depth })), ...boxes(zoomed.target, size, width).map((one) => ({ ...one, depth: one.depth + zoomed.above.length }))] : []), [zoomed, size, width]);
  const deepest = drawn.reduce((most, one) => Math.max(most, one.depth), 0), high = (deepest + 1) * ROW;
  const key = (event) => {
    const one = drawn[at];
    if (!one) return;
    const inRow = (depth) => drawn.filter((other) => other.depth === depth), centre = one.x + one.wide / 2;
    const near = (list) => list.reduce((best, other) => (Math.abs(other.x + other.wide / 2 - centre) < Math.abs(best.x + best.wide / 2 - centre) ? other : best), list[0]);
    const row = inRow(one.depth).sort((a, b) => a.x - b.x), place = row.indexOf(one);
    const next = { ArrowLeft: row[place - 1], ArrowRight: row[place + 1], ArrowUp: near(inRow(one.depth - 1)), ArrowDown: near(inRow(one.depth + 1)) }[event.key];
    if (!next) return;
    event.preventDefault();
    event.stopPropagation();
    setAt(drawn.indexOf(next));
    box.current.querySelector(`[data-at="${drawn.indexOf(next)}"]`)?.focus();
  };
  return html`<div class="icicle" ref=${box} role="group" aria-label=${label} style=${{ height: `${high}px` }} onKeyDown=${key}>${drawn.map((one, place) => {
    const isLeaf = Boolean(one.leaf), name = isLeaf ? `${count(one.zombies)} of ${one.leaf.maker} · ${one.bytes ? bytes(one.bytes) : "no pages"}` : one.more ? `${plural(one.more, "more part")} · ${told(one, size)}` : `${one.node.path} · ${told(one.node, size)}`;
    const isOn = isLeaf ? maker === one.leaf.maker && (!chosen || chosen === one.leaf.path) : one.node && chosen === one.node.path && !maker;
    const kind = isLeaf ? `pin ${colourOf(one.leaf.pin)}` : one.more ? "rest" : one.node.zombies === null ? "untold" : "";
    return html`<button type="button" key=${isLeaf ? `${one.leaf.path} ${one.leaf.maker}` : one.more ? `more ${one.path}` : one.node.path} data-at=${place} tabindex=${place === Math.min(at, drawn.length - 1) ? "0" : "-1"} class=${`${kind} ${one.wide < 24 ? "thin" : ""}`} title=${name} aria-label=${name} aria-pressed=${String(Boolean(isOn))}
      style=${{ left: `${one.x}px`, width: `${Math.max(2, one.wide - 1)}px`, top: `${one.depth * ROW}px`, height: isLeaf || one.more ? `${high - one.depth * ROW - 1}px` : `${ROW - 1}px` }}
      onFocus=${() => setAt(place)} onClick=${() => (isLeaf ? onLeaf(one.leaf) : onNode(one.more ? one.path : one.node.path))}>${one.wide < 24 ? "" : fitting(one, name, size)}</button>`;
  })}</div>`;
}
