// SPDX-License-Identifier: Apache-2.0
// Time: since when, together with what? Everything the agent remembers on one axis, from 30 days down to a second.
import { useEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
import { html } from "../parts/html.js";
import { choose, go, here } from "../parts/address.js";
import { useDocument } from "../parts/ask.js";
import { moves, stepped, useKept } from "../parts/kept.js";
import { useKeys } from "../parts/keys.js";
import { Behind, Failure, Gap, Panel, Pick } from "../parts/marks.js";
import { rounded, scale, within } from "../parts/axis.js";
import { Axis, CoresLane, EventLane, FindingsLane, SeriesLane, valueAt } from "../parts/lane_rows.js";
import { Beside } from "../parts/compare.js";
import { say } from "../parts/status.js";
import { count, figure, local, measured, moment, plural, range } from "../parts/words.js";

const SPANS = [["2592000", "30 d"], ["604800", "7 d"], ["86400", "24 h"], ["3600", "1 h"], ["60", "1 min"]];
const POINTS = 600;

export function pair(text) {
  const [from, to] = (text || "").split("..").map(Number);
  return Number.isFinite(from) && Number.isFinite(to) && to > from ? { from, to } : null;
}

export function Time({ query, pulse, live }) {
  const { series, kept } = useKept(pulse), told = series.data;
  if (!kept && !told && !series.error) return html`<h1 class="vh">Time</h1><p class="reading">reading</p>`;
  if (!kept) return html`<h1 class="answer">Nothing is remembered here.</h1><${Panel} title="No history"><p><${Gap} reason="no history is kept" /> ${[...(told?.gaps || []), ...(pulse.gaps || [])][0]?.reason || series.error?.message || "no history is kept"}. Would help: <code>zombiescope agent --state /var/lib/zombiescope</code></p><//>`;
  return html`<${Kept} query=${query} pulse=${pulse} series=${series} kept=${kept} live=${live} />`;
}

// While live and without a chosen window the axis follows the newest; then times in the address are absolute.
function useWindow(query, kept, isLive) {
  const isChosen = query.from !== undefined && query.to !== undefined;
  const span = Number(query.span) || 86400;
  const end = stepped(kept.to, span, isLive), last = stepped(kept.to, 86400, isLive);
  const asked = isChosen ? { from: Number(query.from), to: Number(query.to) } : { from: end - Math.min(span, 2592000), to: end };
  const bounds = { from: Math.min(kept.from, last - 2592000), to: Math.max(last, end) };
  return { ...(Number.isFinite(asked.from + asked.to) && asked.to > asked.from ? asked : { from: kept.to - 86400, to: kept.to }), bounds, isChosen };
}

function Kept({ query, pulse, series, kept, live }) {
  const shown = useWindow(query, kept, moves(pulse)), { from, to, bounds } = shown, span = to - from;
  const [cursor, setCursor] = useState(null), [drag, setDrag] = useState(null), lanes = useRef(null);
  const asks = `from=${rounded(from, span)}&to=${rounded(to, span)}`;
  const ranged = useDocument(`/api/v1/range?${asks}&points=${POINTS}`), events = useDocument(`/api/v1/events?${asks}`);
  const cores = useDocument(`/api/v1/cores?${asks}&points=300`), whole = useDocument(`/api/v1/range?from=${Math.round(bounds.from)}&to=${Math.round(bounds.to)}&points=300&series=zombies`);
  const a = pair(query.a), b = pair(query.b);
  const move = (begin, end) => {
    const next = within(begin, end, bounds), size = next.to - next.from;
    choose({ from: rounded(next.from, size), to: rounded(next.to, size), span: "" });
  };
  // From the address rather than from what was drawn last: a key that is held down is faster than a picture.
  const now = () => { const { query: asked } = here(), next = { from: Number(asked.from), to: Number(asked.to) }; return next.to > next.from ? next : { from, to }; };
  const about = (middle, times) => { const at = now(); move(middle - (middle - at.from) * times, middle + (at.to - middle) * times); };
  const zoom = (times) => { const at = now(); about(cursor !== null && cursor > at.from && cursor < at.to ? cursor : (at.from + at.to) / 2, times); };
  const shift = (share) => { const at = now(), by = share * (at.to - at.from); move(at.from + by, at.to + by); };
  const step = (share) => setCursor((old) => Math.min(Math.max((old ?? (from + to) / 2) + share * span, from), to));
  const stretch = (name) => {
    const middle = cursor ?? to - span / 16, long = a && name === "b" ? a.to - a.from : span / 8, next = within(middle - long / 2, middle + long / 2, bounds);
    choose({ [name]: `${rounded(next.from, span)}..${rounded(next.to, span)}` });
    say(`${name.toUpperCase()}: ${range(next.from * 1000, next.to * 1000, 1000)}`);
  };
  // Where the moment is inside it, its second; else all of it.
  const toCapture = (one, at) => {
    const second = at !== null && at >= one[0] && at <= (one[1] ?? one[0]) ? Math.floor(at - one[0]) : null;
    go("profiles", { name: one[2], ...(second === null ? {} : { from: second, to: second + 1 }) });
  };
  const openCapture = () => {
    const list = events.data?.lanes.find((lane) => lane.kind === "captures")?.marks || [], near = cursor ?? to;
    const best = list.reduce((found, one) => (!found || distance(one, near) < distance(found, near) ? one : found), null);
    if (!best) { say("No capture in this window"); return; }
    toCapture(best, cursor);
  };
  useKeys({
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => choose({ from: "", to: "", span: "" }), z: () => (a ? move(a.from, a.to) : false),
    ArrowLeft: () => shift(-1 / 4), ArrowRight: () => shift(1 / 4), "[": () => step(-1 / 60), "]": () => step(1 / 60), j: () => step(1 / 60), k: () => step(-1 / 60), "{": () => step(-1 / 8), "}": () => step(1 / 8),
    b: () => stretch("a"), c: () => stretch("b"), o: openCapture, Enter: (event) => (event.target.closest("button, a") ? false : openCapture()), x: () => choose({ a: "", b: "" }), d: () => choose({ data: query.data === "1" ? "" : "1" }),
    Escape: () => (query.a || query.b ? (choose({ a: "", b: "" }), true) : false),
  });
  const pointer = usePointer(lanes, from, to, { setCursor, setDrag, drag, zoom: about });
  const preset = shown.isChosen ? SPANS.find(([seconds]) => Math.abs(Number(seconds) - span) < 1)?.[0] : String(query.span || 86400);
  return html`<h1 class="answer">${sentence(series.data, ranged.data, events.data, from, to)}</h1>
    <div class="tools"><${Pick} label="Show" options=${SPANS} value=${preset} onPick=${(seconds) => (live === "live" && !shown.isChosen ? choose({ from: "", to: "", span: seconds === "86400" ? "" : seconds }) : move(Math.max((from + to) / 2 - seconds / 2, to - seconds), Math.max((from + to) / 2 + seconds / 2, to)))} />
      <span title=${`${local(from * 1000)} to ${local(to * 1000)}`}>${range(from * 1000, to * 1000, span > 7200 ? 60000 : span > 60 ? 1000 : 100)}</span>
      <span class="note spring wide noprint"><kbd>+</kbd> <kbd>−</kbd> zoom · <kbd>←</kbd> <kbd>→</kbd> move · <kbd>[</kbd> <kbd>]</kbd> cursor · <kbd>b</kbd> brush A · <kbd>c</kbd> compare B · <kbd>o</kbd> open the capture</span></div>
    <div class="withside">
      <section class="panel lanes" aria-label="Lanes on one time axis" aria-busy=${ranged.isOlder ? "true" : undefined}>
        <div class="lanebox" ref=${lanes} ...${pointer}>
          <${Axis} from=${from} to=${to} bounds=${bounds} kept=${kept} overview=${whole.data} onMove=${move} />
          <${Lanes} from=${from} to=${to} series=${series} ranged=${ranged} events=${events} cores=${cores} cursor=${cursor} onCapture=${toCapture} />
          <${Brush} from=${from} to=${to} a=${drag && drag.name === "a" ? drag : a} b=${drag && drag.name === "b" ? drag : b} cursor=${cursor} />
        </div>
        <p class="readout note" aria-live="polite">${cursor === null ? "Move the pointer over the lanes, or press [ and ], to read values." : html`<b>${moment(cursor * 1000, span > 7200 ? 1000 : 100)}</b> · ${local(cursor * 1000)}`}</p>
        <${Behind} shown=${query.data === "1"} caption="The values of every lane in this window" head=${["series", "first", "last", "lowest", "highest"]} rows=${behind(series.data, ranged.data)} />
      </section>
      <${Beside} a=${a} b=${b} from=${from} to=${to} asks=${asks} ranged=${ranged.data} series=${series.data} />
    </div>`;
}

const distance = ([from, to], at) => (at < from ? from - at : at > to ? at - to : 0);

// Drag marks A, with Shift B; the wheel with Ctrl zooms where the pointer is.
function usePointer(lanes, from, to, { setCursor, setDrag, drag, zoom }) {
  const begun = useRef(null);
  const timeOf = (event) => {
    const gutter = lanes.current.querySelector(".lane > div + div"), box = gutter.getBoundingClientRect();
    return { at: scale(from, to, box.width).at(event.clientX - box.left), isIn: event.clientX >= box.left && event.clientX <= box.right };
  };
  useEffect(() => {
    const wheel = (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      zoom(timeOf(event).at, event.deltaY > 0 ? 1.25 : 0.8);
    };
    const box = lanes.current;
    box.addEventListener("wheel", wheel, { passive: false });
    return () => box.removeEventListener("wheel", wheel);
  });
  return {
    onPointerDown: (event) => {
      const { at, isIn } = timeOf(event);
      if (!isIn || event.button || event.target.closest("button, .overview")) return;
      begun.current = { at, name: event.shiftKey ? "b" : "a", x: event.clientX };
      lanes.current.setPointerCapture(event.pointerId);
    },
    onPointerMove: (event) => {
      const { at, isIn } = timeOf(event);
      if (isIn) setCursor(at);
      if (begun.current && Math.abs(event.clientX - begun.current.x) > 4) setDrag({ name: begun.current.name, from: Math.min(at, begun.current.at), to: Math.max(at, begun.current.at) });
    },
    onPointerUp: () => {
      if (begun.current && drag) choose({ [drag.name]: `${rounded(Math.max(drag.from, from), to - from)}..${rounded(Math.min(drag.to, to), to - from)}` });
      begun.current = null;
      setDrag(null);
    },
    onDblClick: (event) => { const { at, isIn } = timeOf(event); if (isIn) zoom(at, 0.25); },
  };
}

function Brush({ from, to, a, b, cursor }) {
  const share = (at) => `${(100 * Math.min(Math.max(at - from, 0), to - from)) / (to - from)}%`;
  return html`<div class="brush" aria-hidden="true">${[["b", b], ["a", a]].map(([name, one]) => one && one.to > from && one.from < to && html`<div class=${`stretch ${name}`} style=${{ left: share(one.from), right: `calc(100% - ${share(one.to)})` }}><b>${name.toUpperCase()}</b></div>`)}
    ${cursor !== null && cursor >= from && cursor <= to && html`<div class="cursor" style=${{ left: share(cursor) }}></div>`}</div>`;
}

function Lanes({ from, to, series, ranged, events, cores, cursor, onCapture }) {
  if (series.error) return html`<${Failure} error=${series.error} />`;
  if (ranged.error) return html`<${Failure} error=${ranged.error} />`;
  if (!series.data || !ranged.data) return html`<p class="reading">reading</p>`;
  const findings = events.data?.lanes.find((lane) => lane.id === "findings"), others = events.data?.lanes.filter((lane) => lane.id !== "findings") || [];
  const drawn = series.data.series.filter((one) => one.default !== false && one.kind !== "heat");
  const list = [...series.data.lanes].sort((one, two) => one.order - two.order).map((lane) => ({ ...lane, series: drawn.filter((one) => one.lane === lane.id) })).filter((lane) => lane.series.length);
  for (const one of drawn) if (!series.data.lanes.some((lane) => lane.id === one.lane)) list.push({ id: one.lane, title: one.title, series: [one] });
  return html`${findings && html`<${FindingsLane} lane=${findings} from=${from} to=${to} ranged=${ranged.data} />`}
    ${list.map((lane) => html`<${SeriesLane} key=${lane.id} lane=${lane} from=${from} to=${to} ranged=${ranged.data} cursor=${cursor} />`)}
    <${CoresLane} from=${from} to=${to} cores=${cores} cursor=${cursor} />
    ${others.map((lane) => html`<${EventLane} key=${lane.id} lane=${lane} from=${from} to=${to} cursor=${cursor} onCapture=${onCapture} />`)}
    ${events.error && html`<${Failure} error=${events.error} />`}`;
}

function ends(one) {
  const list = (one?.value || one?.last || one?.high || []).filter((value) => value !== null);
  return list.length ? [list[0], list.at(-1)] : null;
}

function sentence(series, ranged, events, from, to) {
  if (!ranged || !series) return "Time";
  const stock = ends(ranged.series.zombies), resets = events?.lanes.find((lane) => lane.id === "nic-reset"), quiet = ranged.pauses?.length;
  const parts = [stock ? (stock[0] === stock[1] ? html`<b>${plural(stock[1], "zombie")}</b> all through this window` : html`<b>${stock[1] >= stock[0] ? "Grew" : "Fell"} from ${count(stock[0])} to ${plural(stock[1], "zombie")}</b>`) : "How many zombies there were is not known in this window"];
  if (resets && !resets.gap) parts.push(resets.count ? plural(resets.count, "network reset") : "no network reset");
  if (quiet) parts.push(`${plural(quiet, "stretch", "stretches")} not observed`);
  return parts.map((part, place) => html`${place ? "; " : ""}${part}`).concat(".");
}

function behind(series, ranged) {
  if (!series || !ranged) return [];
  return series.series.filter((one) => ranged.series[one.name]).map((one) => {
    const data = ranged.series[one.name], edge = ends(data), low = (data.low || data.value).filter((value) => value !== null), high = (data.high || data.value).filter((value) => value !== null);
    const say_ = (value) => measured(value, one.unit);
    return [one.title, ...(edge ? [say_(edge[0]), say_(edge[1]), say_(low.reduce((x, y) => Math.min(x, y))), say_(high.reduce((x, y) => Math.max(x, y)))] : ["not observed", "", "", ""])];
  });
}
