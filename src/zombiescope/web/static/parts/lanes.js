// SPDX-License-Identifier: Apache-2.0
// Lanes on one time axis, each a canvas: lines with their lowest and highest, heat, stretches, marks. A gap is hatched and never bridged.
import { colour, fit, hatch, systemFont, useCanvas } from "./paper.js";
import { html } from "./html.js";
import { ticks } from "./axis.js";
import { runs } from "./spark.js";

const SERIES = ["c1", "c2", "c3", "c4", "c0"];
export const seriesColour = (place) => SERIES[Math.min(place, 4)];

// Every series as runs of [time, low, high] that nothing breaks; and the stretches where nothing is known.
export function traced(series, range) {
  if (!series) return { known: [], unknown: [[range.from, range.to]] };
  if (series.at) return raw(series, range);
  const high = series.high || series.value, low = series.low || high, begin = range.from, step = range.step, at = (place) => begin + place * step;
  return {
    known: runs(high.length, (place) => high[place] !== null).map(([from, to]) => Array.from({ length: to - from }, (_, place) => [at(from + place) + step / 2, low[from + place] ?? high[from + place], high[from + place]])),
    unknown: runs(high.length, (place) => high[place] === null).map(([from, to]) => [at(from), at(to)]),
  };
}

function raw({ at, value }, range) {
  const usual = (range.interval_seconds || median(at)) * 3, known = [], unknown = [];
  let last = null;
  at.forEach((time, place) => {
    if (value[place] === null) return;
    if (last === null || time - last > usual) {
      if (last !== null) unknown.push([last, time]);
      else if (time - range.from > usual) unknown.push([range.from, time]);
      known.push([]);
    }
    known.at(-1).push([time, value[place], value[place]]);
    last = time;
  });
  if (last === null) unknown.push([range.from, range.to]);
  else if (range.to - last > usual) unknown.push([last, range.to]);
  return { known, unknown };
}

function median(at) {
  const steps = at.slice(1).map((time, place) => time - at[place]).sort((a, b) => a - b);
  return steps[steps.length >> 1] || 10;
}

export function grid(paper, axis, height) {
  paper.fillStyle = colour("line");
  for (const at of ticks(axis).at) paper.fillRect(Math.round(axis.x(at)), 0, 1, height);
}

export function gaps(paper, axis, unknown, height) {
  for (const [from, to] of unknown) {
    const left = Math.max(0, axis.x(from)), right = Math.min(axis.width, axis.x(to));
    hatch(paper, left, 0, right - left, height);
  }
}

export function label(paper, text, x, y, { strong = false, on = "" } = {}) {
  paper.font = systemFont(11);
  if (on) {
    paper.fillStyle = colour(on);
    paper.fillRect(x - 4, y - 11, paper.measureText(text).width + 8, 15);
  }
  paper.fillStyle = colour(strong ? "ink" : "soft");
  paper.fillText(text, x, y);
}

export function line(paper, axis, height, known, top, name, filled) {
  const y = (value) => height - 1 - (Math.max(0, value) / top) * (height - 4);
  paper.strokeStyle = paper.fillStyle = colour(name);
  for (const points of known) {
    if (filled) {
      paper.globalAlpha = 0.16;
      paper.beginPath();
      paper.moveTo(axis.x(points[0][0]), height);
      for (const [at, , high] of points) paper.lineTo(axis.x(at), y(high));
      paper.lineTo(axis.x(points.at(-1)[0]), height);
      paper.fill();
      paper.globalAlpha = 1;
    }
    paper.globalAlpha = 0.35;
    paper.beginPath(); // what lay between the lowest and the highest
    for (const [at, , high] of points) paper.lineTo(axis.x(at), y(high));
    for (let place = points.length - 1; place >= 0; place--) paper.lineTo(axis.x(points[place][0]), y(points[place][1]));
    paper.fill();
    paper.globalAlpha = 1;
    paper.lineWidth = 1.5;
    paper.lineJoin = "round";
    paper.beginPath();
    if (points.length === 1) paper.arc(axis.x(points[0][0]), y(points[0][2]), 1.5, 0, 7);
    for (const [at, , high] of points) paper.lineTo(axis.x(at), y(high));
    paper.stroke();
  }
}

export function limits(paper, axis, height, list, top) {
  for (const limit of list) {
    if (limit.value > top) continue;
    const y = height - 1 - (limit.value / top) * (height - 4);
    paper.strokeStyle = colour("critical");
    paper.lineWidth = 1;
    paper.setLineDash([4, 3]);
    paper.beginPath();
    paper.moveTo(0, y);
    paper.lineTo(axis.width, y);
    paper.stroke();
    paper.setLineDash([]);
    label(paper, limit.words, 8, y - 4);
  }
}

// Thin: warning. Thick: critical.
export function stretches(paper, axis, rows, order) {
  for (const row of rows) {
    const place = order.indexOf(row.id), thick = row.severity === "critical" ? 8 : 4, left = Math.max(0, axis.x(row.from)), right = Math.min(axis.width, axis.x(row.to));
    paper.fillStyle = colour(row.severity in { critical: 1, warning: 1 } ? row.severity : "unknown");
    paper.fillRect(left, 9 + place * 14 - thick / 2, Math.max(2, right - left), thick);
  }
}

export function marks(paper, axis, height, lane) {
  paper.fillStyle = colour(lane.id === "nic-reset" ? "critical" : "c0");
  if (lane.bins) {
    const most = Math.max(1, ...lane.bins.counts);
    lane.bins.counts.forEach((count, place) => {
      if (!count) return;
      const high = Math.max(2, (count / most) * (height - 8)), x = axis.x((lane.bins.from ?? axis.from) + place * lane.bins.step);
      paper.fillRect(x, height - 4 - high, Math.max(1, (lane.bins.step / (axis.to - axis.from)) * axis.width - 0.5), high);
    });
  }
  for (const [at] of lane.marks || []) paper.fillRect(Math.round(axis.x(at)) - 1, 5, 2, height - 10);
}

export function captures(paper, axis, height, list) {
  const middle = height / 2;
  for (const [from, to, , triggered] of list) {
    const x = axis.x(from);
    paper.fillStyle = colour("c0");
    paper.fillRect(x, middle - 3, Math.max(3, axis.x(to) - x), 6);
    if (triggered) {
      paper.fillStyle = colour("c1");
      paper.beginPath();
      paper.moveTo(x, middle - 7);
      paper.lineTo(x + 5, middle);
      paper.lineTo(x, middle + 7);
      paper.lineTo(x - 5, middle);
      paper.fill();
    }
  }
}

const RAMP = ["h0", "h1", "h2", "h3", "h4"];
export function heatColour(share) {
  return colour(RAMP[Math.min(4, Math.max(0, Math.floor(share * 5)))]);
}

// One row per core; null stays paper and is hatched.
export function heat(paper, axis, rows, heatDocument, high) {
  const { from, step } = heatDocument, wide = Math.max(1, (step / (axis.to - axis.from)) * axis.width);
  rows.forEach((row, place) => {
    const y = place * high;
    row.share.forEach((share, column) => {
      if (share === null) return;
      paper.fillStyle = heatColour(share);
      paper.fillRect(axis.x(from + column * step), y, wide + 0.5, high - (high > 4 ? 1 : 0));
    });
    gaps(paper, axis, runs(row.share.length, (column) => row.share[column] === null).map(([begin, end]) => [from + begin * step, from + end * step]), 0);
  });
  const any = rows.length ? runs(rows[0].share.length, (column) => rows.every((row) => row.share[column] === null)) : [];
  gaps(paper, axis, any.map(([begin, end]) => [from + begin * step, from + end * step]), rows.length * high);
}

export function LaneCanvas({ height, draw, inputs, label: words }) {
  const canvas = useCanvas((element) => {
    const { paper, width } = fit(element, height);
    draw(paper, width);
  }, [height, ...inputs]);
  return html`<canvas ref=${canvas} role="img" aria-label=${words}></canvas>`;
}
