// SPDX-License-Identifier: Apache-2.0
// A day in one line: from zero, nulls hatched and never bridged, the limit dashed. Widths are shares, so nothing is measured.
import { html } from "./html.js";

const HIGH = 34;

// Runs of [from, to) where `is` holds.
export function runs(length, is) {
  const found = [];
  for (let at = 0; at < length; at++) {
    if (!is(at)) continue;
    const from = at;
    while (at < length && is(at)) at += 1;
    found.push([from, at]);
  }
  return found;
}

function topOf(day, limit) {
  let top = 0;
  for (const value of day.high) if (value !== null && value > top) top = value;
  if (limit && limit.value <= top * 4) top = Math.max(top, limit.value * 1.1);
  return top;
}

export function Spark({ day, limit, label }) {
  if (!day) return html`<svg class="chart" height=${HIGH} role="img" aria-label=${label}><rect class="hatch" width="100%" height=${HIGH} /><line class="base" x1="0" x2="100%" y1=${HIGH - 0.5} y2=${HIGH - 0.5} /></svg>`;
  const { low, high } = day, length = high.length, top = topOf(day, limit), x = (at) => (100 * at) / Math.max(1, length);
  const y = (value) => HIGH - 1 - (top ? (Math.max(0, value) / top) * (HIGH - 4) : 0);
  const known = runs(length, (at) => high[at] !== null), unknown = runs(length, (at) => high[at] === null);
  return html`<svg class="chart" height=${HIGH} role="img" aria-label=${label}>
    ${unknown.map(([from, to]) => html`<rect class="hatch" x=${`${x(from)}%`} width=${`${x(to) - x(from)}%`} height=${HIGH} />`)}
    <svg viewBox=${`0 0 100 ${HIGH}`} preserveAspectRatio="none" width="100%" height=${HIGH}>
      ${known.map(([from, to]) => (day.kind === "bars" ? bars(from, to, high, x, y) : line(from, to, low, high, x, y)))}
      ${limit && top >= limit.value && html`<path class="limit" vector-effect="non-scaling-stroke" d=${`M0,${y(limit.value)}H100`} />`}
    </svg>
    <line class="base" x1="0" x2="100%" y1=${HIGH - 0.5} y2=${HIGH - 0.5} /></svg>`;
}

function line(from, to, low, high, x, y) {
  const points = [];
  for (let at = from; at < to; at++) points.push(`${x(at + 0.5).toFixed(2)},${y(high[at]).toFixed(1)}`);
  const first = x(from), last = x(to);
  const path = `M${first.toFixed(2)},${y(high[from]).toFixed(1)}L${points.join("L")}L${last.toFixed(2)},${y(high[to - 1]).toFixed(1)}`;
  return html`<path class="ar" d=${`${path}L${last},${HIGH}L${first},${HIGH}Z`} /><path class="ln" d=${path} />`;
}

function bars(from, to, high, x, y) {
  let path = "";
  for (let at = from; at < to; at++) if (high[at] > 0) path += `M${x(at + 0.1).toFixed(2)},${HIGH}V${y(high[at]).toFixed(1)}H${x(at + 0.9).toFixed(2)}V${HIGH}Z`;
  return html`<path class="f0" d=${path} />`;
}
