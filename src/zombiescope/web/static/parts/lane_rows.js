// SPDX-License-Identifier: Apache-2.0
// The rows of the time view: a label with name, unit, top and bottom of the scale beside each picture.
import { html } from "./html.js";
import { Gap } from "./marks.js";
import { scale, tickWords, ticks } from "./axis.js";
import { LaneCanvas, captures, gaps, grid, heat, label, limits, line, marks, seriesColour, stretches, traced } from "./lanes.js";
import { fit, useCanvas, colour } from "./paper.js";
import { count, day, figure, measured, percent, range } from "./words.js";

const HIGH = { stock: 96 };

function Lane({ title, unit, high, low, keys, slim, children, wide }) {
  return html`<div class=${`lane ${slim ? "slim" : ""}`}><div><b>${title}</b>${unit && html`<span class="unit">${unit}</span>`}${keys}${high !== undefined && html`<span class="hi">${high}</span>`}${low !== undefined && html`<span class="lo">${low}</span>`}</div><div class=${wide}>${children}</div></div>`;
}

export function Axis({ from, to, bounds, kept, overview, onMove }) {
  const span = to - from, all = scale(bounds.from, bounds.to, 1);
  const canvas = useCanvas((element) => {
    const { paper, width } = fit(element, 26), axis = scale(bounds.from, bounds.to, width);
    if (overview) {
      const { known, unknown } = traced(overview.series.zombies, overview), top = Math.max(1, ...known.flat().map(([, , high]) => high));
      gaps(paper, axis, unknown, 26);
      line(paper, axis, 26, known, top, "c1", true);
    }
    const notKept = axis.x(kept.from);
    if (notKept > 60) {
      if (!overview) gaps(paper, axis, [[bounds.from, kept.from]], 26);
      label(paper, notKept > 220 ? `not kept before ${day(kept.from * 1000)}` : "not kept", 8, 17, { strong: true, on: "panel" });
    }
    paper.strokeStyle = colour("ink");
    paper.strokeRect(Math.max(0.5, axis.x(from)), 0.5, Math.max(3, Math.min(axis.x(to), width) - axis.x(from) - 1), 25);
  }, [overview, from, to, bounds.from, bounds.to]);
  const centre = (event) => { const box = event.currentTarget.getBoundingClientRect(), at = bounds.from + ((event.clientX - box.left) / box.width) * (bounds.to - bounds.from); onMove(at - span / 2, at + span / 2); };
  return html`<div class="lane axislane"><div><b>${Math.round((bounds.to - bounds.from) / 86400)} days</b><span class="unit">window shown, UTC</span></div>
    <div><div class="overview" onClick=${centre}><canvas ref=${canvas} role="img" aria-label=${`All that is kept: ${range(kept.from * 1000, kept.to * 1000)}. The window is ${range(from * 1000, to * 1000)}.`}></canvas></div>
    <${LaneCanvas} height=${20} inputs=${[from, to]} label="time axis" draw=${(paper, width) => {
      const axis = scale(from, to, width), { step, at } = ticks(axis);
      paper.textAlign = "center";
      for (const one of at) if (axis.x(one) > 18 && axis.x(one) < width - 18) label(paper, tickWords(one, step), axis.x(one), 14);
      paper.textAlign = "left";
    }} /></div></div>`;
}

export function FindingsLane({ lane, from, to, ranged }) {
  const order = [...new Set(lane.rows.map((row) => row.id))];
  const words = lane.rows.map((row) => `${row.id} ${row.severity} ${range(row.from * 1000, row.to * 1000)}`).join("; ");
  return html`<${Lane} title=${lane.title} keys=${html`<span class="ids">${order.map((id) => html`<span>${id}</span>`)}</span>`}>
    <${LaneCanvas} height=${Math.max(28, 6 + 14 * order.length + 20)} inputs=${[lane, ranged, from, to]} label=${`Findings: ${words || "none"}`} draw=${(paper, width) => {
      const axis = scale(from, to, width), high = Math.max(28, 6 + 14 * order.length + 20);
      grid(paper, axis, high);
      label(paper, order.length ? `thin: warning, thick: critical${lane.rows.some((row) => !row.severity) ? ", grey: how bad was not kept" : ""}` : lane.gap ? "" : "none in this window", 8, 14);
      paper.save();
      paper.translate(0, 18);
      stretches(paper, axis, lane.rows, order);
      paper.restore();
      for (const pause of ranged.pauses || []) { paper.fillStyle = colour("panel"); paper.fillRect(axis.x(pause.from), 0, axis.x(pause.to) - axis.x(pause.from), high); gaps(paper, axis, [[pause.from, pause.to]], high); }
      if (lane.gap) whole(paper, axis, high, lane.gap.reason || lane.gap);
    }} /><//>`;
}

function whole(paper, axis, height, reason) {
  gaps(paper, axis, [[axis.from, axis.to]], height);
  paper.textAlign = "center";
  const text = `not known: ${reason}`;
  paper.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const wide = paper.measureText(text).width;
  paper.fillStyle = colour("panel");
  paper.fillRect(axis.width / 2 - wide / 2 - 6, height / 2 - 9, wide + 12, 17);
  paper.fillStyle = colour("ink");
  paper.fillText(text, axis.width / 2, height / 2 + 4);
  paper.textAlign = "left";
}

// The top of a scale: a round number that nothing exceeds.
function roof(most) {
  if (!(most > 0)) return 1;
  const size = 10 ** Math.floor(Math.log10(most));
  return [1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map((one) => one * size).find((one) => one >= most * 0.9999);
}

export function valueAt(data, ranged, at) {
  if (!data) return null;
  if (data.at) {
    let best = -1;
    data.at.forEach((time, place) => { if (time <= at) best = place; });
    return best < 0 ? null : data.value[best];
  }
  const place = Math.floor((at - ranged.from) / ranged.step);
  return (data.high || data.value)[place] ?? null;
}

export function SeriesLane({ lane, from, to, ranged, cursor }) {
  const lines = ranked(lane.series.map((one) => ({ ...one, short: one.title.slice(beginning(lane.series)), traced: traced(ranged.series[one.name], ranged) })));
  const given = lane.series.find((one) => one.maximum)?.maximum;
  let most = 0;
  for (const one of lines) for (const points of one.traced.known) for (const [, , high] of points) if (high > most) most = high;
  const bounds = lane.series.flatMap((one) => one.limits || []), near = bounds.filter((limit) => limit.value <= most * 4).map((limit) => limit.value * 1.05);
  const top = given || roof(Math.max(most, ...near)), unit = lane.series[0].unit, height = HIGH[lane.id] || (lines.length > 1 ? 72 : 44);
  const any = lines.some((one) => one.traced.known.length), isOne = lines.length === 1 && !whose(lines[0]);
  const reads = (one) => { const value = cursor === null ? null : valueAt(ranged.series[one.name], ranged, cursor); return cursor === null ? null : value === null ? "?" : measured(value, unit === "cgroups" ? "" : unit); };
  const keys = html`${!isOne && html`<span class="keys">${lines.slice(0, 5).map((one, place) => html`<span class="sw"><i class=${`key ${seriesColour(place).replace("c", "k")}`}></i><span title=${one.title}>${one.short}</span>${reads(one) !== null && html` <b class="at">${reads(one)}</b>`}</span>`)}</span>`}${isOne && reads(lines[0]) !== null && html`<b class="at">${reads(lines[0])}</b>`}`;
  const spoken = lines.map((one) => { const all = one.traced.known.flat(); return all.length ? `${one.title} between ${figure(all.reduce((low, point) => Math.min(low, point[1]), Infinity))} and ${figure(all.reduce((high, point) => Math.max(high, point[2]), -Infinity))} ${unit}` : `${one.title} not observed`; }).join("; ");
  return html`<${Lane} title=${lane.title} unit=${unit === "share" ? "share of the time" : unit} high=${any ? scaleWords(top, unit) : undefined} low=${any ? "0" : undefined} keys=${keys}>
    <${LaneCanvas} height=${height} inputs=${[ranged, from, to, lane.id, lane.series.length]} label=${spoken} draw=${(paper, width) => {
      const axis = scale(from, to, width);
      grid(paper, axis, height);
      gaps(paper, axis, common(lines.map((one) => one.traced.unknown)), height);
      lines.slice(0, 5).forEach((one, place) => line(paper, axis, height, one.traced.known, top, seriesColour(place), lines.length === 1));
      limits(paper, axis, height, bounds, top);
      if (!any) whole(paper, axis, height, reason(ranged, lane));
      else if (most === 0) label(paper, "watched: none", 8, 14);
    }} /><//>`;
}

// A maker, which the lane's own title does not name.
const whose = (one) => one.title.includes(" of ") && one.name.includes(".");

// "Zombies of a", "Zombies of b": the lane has said it already.
function beginning(list) {
  const [first] = list, place = first.title.indexOf(" of ") + 4;
  return (list.length > 1 || whose(first)) && place > 3 && list.every((one) => one.title.startsWith(first.title.slice(0, place))) ? place : 0;
}

// Makers by rank; a lane of a few named things keeps their order.
function ranked(lines) {
  if (!lines.every((one) => one.name.includes("."))) return lines;
  const most = (one) => one.traced.known.reduce((high, points) => points.reduce((top, point) => Math.max(top, point[2]), high), 0);
  return lines.map((one) => [most(one), one]).sort((one, two) => two[0] - one[0]).map(([, one]) => one);
}

// Where none of several lines is known.
function common(lists) {
  if (lists.length === 1) return lists[0];
  return lists.reduce((left, right) => left.flatMap(([from, to]) => right.map(([begin, end]) => [Math.max(from, begin), Math.min(to, end)]).filter(([begin, end]) => end > begin)));
}

function reason(ranged, lane) {
  const gap = (ranged.gaps || []).find((one) => lane.series.some((series) => one.fact.includes(series.name)));
  return gap ? gap.reason : "nothing was kept in this window";
}

function scaleWords(top, unit) {
  return unit === "share" ? percent(top) : unit === "bytes" || unit === "seconds" ? measured(top, unit) : unit === "per second" ? `${figure(top)}/s` : figure(top);
}

export function CoresLane({ from, to, cores, cursor }) {
  const data = cores.data, rows = data ? data.cores.slice(0, 32) : [], high = rows.length > 16 ? 5 : 8, height = Math.max(28, rows.length * high);
  if (!data && !cores.error) return null;
  const gap = cores.error ? cores.error.message : data.gaps[0]?.reason;
  return html`<${Lane} title="Cores" unit="time in the kernel" keys=${rows.length ? html`<span class="ids">${rows.slice(0, Math.max(1, Math.floor((height - 40) / 14))).map((row) => html`<span>${row.label}</span>`)}</span>` : ""}>
    <${LaneCanvas} height=${height} inputs=${[data, from, to]} label=${rows.length ? `Time in the kernel, worst first: ${rows.slice(0, 4).map((row) => `${row.label} ${figure(row.saturated_seconds ?? 0)} s saturated`).join(", ")}` : "Cores: not observed"} draw=${(paper, width) => {
      const axis = scale(from, to, width);
      if (rows.length) heat(paper, axis, rows, data, high);
      else whole(paper, axis, height, gap || "nothing was kept in this window");
    }} /><//>`;
}

export function EventLane({ lane, from, to, cursor, onCapture }) {
  const list = lane.marks || [], isCaptures = lane.kind === "captures", total = lane.count ?? (lane.bins ? lane.bins.counts.reduce((sum, one) => sum + one, 0) : list.length);
  const width_ = 28, open = (event) => {
    if (!isCaptures) return;
    const box = event.currentTarget.getBoundingClientRect(), at = scale(from, to, box.width).at(event.clientX - box.left), reach = ((to - from) / box.width) * 8;
    const hit = list.find(([begin, end]) => at >= begin && at <= end) || list.find(([begin, end]) => at >= begin - reach && at <= end + reach);
    if (hit) onCapture(hit, at);
  };
  const near = cursor === null ? null : list.find(([at, end]) => (isCaptures && cursor >= at && cursor <= end) || Math.abs(at - cursor) < (to - from) / 150);
  return html`<${Lane} slim=${true} title=${lane.title} unit=${lane.gap ? "" : isCaptures ? "◆ kept for a reason" : count(total)} keys=${near && html`<span class="sw at">${isCaptures ? `${near[2]}${near[4] ? ` · ${near[4]}` : ""}` : near[1]}</span>`} wide=${isCaptures ? "opens" : ""}>
    <div onClick=${open}><${LaneCanvas} height=${width_} inputs=${[lane, from, to]} label=${lane.gap ? `${lane.title}: not known, ${lane.gap.reason || lane.gap}` : `${lane.title}: ${count(total)} in this window`} draw=${(paper, width) => {
      const axis = scale(from, to, width);
      grid(paper, axis, width_);
      if (lane.gap) { whole(paper, axis, width_, lane.gap.reason || lane.gap); return; }
      if (lane.watched) gaps(paper, axis, outside(lane.watched, from, to), width_);
      if (isCaptures) captures(paper, axis, width_, list);
      else marks(paper, axis, width_, lane);
      if (!total) label(paper, "watched: none", 8, 18, { on: "panel" });
      else { paper.fillStyle = colour("edge"); paper.fillRect(0, width_ - 1, width, 1); }
    }} /></div><//>`;
}

function outside(watched, from, to) {
  const found = [];
  let at = from;
  for (const [begin, end] of [...watched].sort((one, two) => one[0] - two[0])) {
    if (begin > at) found.push([at, Math.min(begin, to)]);
    at = Math.max(at, end);
  }
  if (at < to) found.push([at, to]);
  return found.filter(([begin, end]) => end > begin);
}
