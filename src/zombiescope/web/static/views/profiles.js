// SPDX-License-Identifier: Apache-2.0
// Profiles: which function? The heat map says when, the flame graph what, the difference what is new.
import { useEffect, useRef, useState } from "../vendor/hooks.js";
import { html } from "../parts/html.js";
import { choose } from "../parts/address.js";
import { useDocument } from "../parts/ask.js";
import { useKeys } from "../parts/keys.js";
import { Failure, Gap, Name, Panel, Pick } from "../parts/marks.js";
import { HeatMap } from "../parts/heat.js";
import { AREAS, FlameGraph, laidOut } from "../parts/flame.js";
import { onRepaint, onWidth } from "../parts/paper.js";
import { count, milliseconds, moment, percent, plural, seconds } from "../parts/words.js";

const NONE = []; // one and the same, so that nothing looks like another answer
const FILTERS = ["core", "comm", "cgroup", "idle"];

export function Profiles({ query }) {
  const captures = useDocument("/api/v1/captures");
  // Newest first; a rolling one only where nothing else was captured.
  const list = (captures.data?.captures || []).filter((one) => !one.is_damaged).reverse();
  const name = query.name ?? (list.find((one) => one.triggered) || list.find((one) => !one.ring) || list[0])?.name;
  if (!captures.data) return html`<h1 class="vh">Profiles</h1><${Panel} of=${captures} label="Captures" />`;
  if (name === undefined) return html`<h1 class="answer">No capture was kept, so no function can be named.</h1><${Panel} title="Captures">${captures.data.gaps.map((gap) => html`<p><${Gap} reason=${gap.reason} /> ${gap.reason}${gap.hint && html`. Would help: <code>${gap.hint}</code>`}</p>`)}<p class="note">A capture is made by <code>sudo zombiescope profile record</code>, and by the agent when a core saturates.</p><//>`;
  return html`<${Capture} key=${name} name=${name} query=${query} list=${list} />`;
}

function Capture({ name, query, list }) {
  const of = (question, more = {}) => `/api/v1/captures/${question}?${new URLSearchParams({ name, ...more })}`;
  // Opens on the kernel's time, as the commands do: that is what starves a core.
  const filters = { side: query.side || "usual", ...Object.fromEntries(FILTERS.filter((one) => query[one]).map((one) => [one, query[one]])) };
  const ranged = query.from !== undefined && query.to !== undefined ? { from: query.from, to: query.to } : {};
  const about = useDocument(of("capture")), hasTime = about.data?.capture.has_time, side = query.side || (about.data?.kernel_samples === 0 ? "both" : "kernel");
  const heat = useDocument(hasTime ? of("heatmap", filters) : ""), flame = useDocument(of("flame", { ...filters, ...ranged, ...(query.before ? { before: query.before } : {}) }));
  const moments = useDocument(hasTime ? of("moments") : ""), marks = useDocument(hasTime ? of("marks") : ""), colours = useDocument("/api/v1/colours");
  const flameGraph = useRef(null), search = useRef(null), [at, setAt] = useState(0);
  const found = moments.data?.moments || NONE;
  const jump = (one) => choose({ moment: "", core: one.core, from: one.begin_seconds, to: one.end_seconds, before: one.begin_seconds > 0.2 ? `${Math.max(0, one.begin_seconds - 2).toFixed(1)}..${one.begin_seconds.toFixed(1)}` : "", zoom: "" });
  // A link to "the worst moment" becomes that moment as soon as it is known.
  useEffect(() => {
    if (query.moment !== undefined && moments.data) {
      const one = found[Math.max(0, Number(query.moment) - 1)];
      if (one) { jump(one); document.getElementById("flame")?.focus({ preventScroll: true }); } else choose({ moment: "" });
    }
  }, [query.moment, moments.data]);
  useEffect(() => { document.getElementById("flame")?.focus({ preventScroll: true }); }, []);
  const step = () => { const next = found[at % Math.max(1, found.length)]; if (next) { setAt(at + 1); jump(next); } };
  useKeys({
    h: () => document.getElementById("heat")?.focus(), f: () => document.getElementById("flame")?.focus(), q: () => search.current.focus(), m: step,
    b: () => (query.from === undefined ? false : choose({ before: `${query.from}..${query.to}`, from: "", to: "" })), x: () => choose({ before: "", from: "", to: "", core: "" }),
    d: () => choose({ data: query.data === "1" ? "" : "1" }),
  });
  return html`<h1 class="answer">${sentence(found, flame.data, query)}</h1>
    <div class="tools" aria-label="Filters" role="group">
      <${Choice} label="Capture" id="capture" value=${name} options=${(list.some((one) => one.name === name) ? list : [{ name }, ...list]).map((one) => [one.name, called(one)])} onChoose=${(value) => choose({ name: value, from: "", to: "", before: "", core: "", comm: "", cgroup: "", zoom: "" })} />
      <${Choice} label="Core" id="core" value=${query.core || ""} options=${[["", "all"], ...(about.data?.cores || []).map((one) => [String(one)])]} onChoose=${(value) => choose({ core: value })} />
      <${Choice} label="Thread" id="comm" value=${query.comm || ""} options=${[["", "all"], ...[...(about.data?.comms || [])].sort().map((one) => [one])]} onChoose=${(value) => choose({ comm: value })} />
      ${about.data?.cgroups?.length > 0 && html`<${Choice} label="Cgroup" id="cgroup" value=${query.cgroup || ""} options=${[["", "all"], ...about.data.cgroups.map((one) => [one])]} onChoose=${(value) => choose({ cgroup: value })} />`}
      <${Choice} label="Side" id="side" value=${side} options=${[["kernel"], ["user"], ["both", "kernel and user"]]} onChoose=${(value) => choose({ side: value })} />
      <label class="labelled"><input type="checkbox" id="idle" checked=${query.idle === "1"} onChange=${(event) => choose({ idle: event.target.checked ? "1" : "" })} /> idle too</label>
    </div>
    <p class="note" id="facts">${about.data ? factsOf(about.data) : ""}</p>
    ${(about.data?.gaps || []).concat(marks.data?.gaps || []).map((gap) => html`<p class="note gapline"><${Gap} reason=${gap.reason} /> ${gap.reason}</p>`)}
    ${about.error && html`<${Failure} error=${about.error} />`}
    ${hasTime && html`<${When} heat=${heat} colours=${colours.data} query=${query} side=${side} moments=${found} marks=${marks.data?.marks || NONE} onJump=${jump} />`}
    <${What} flame=${flame} query=${query} graph=${flameGraph} search=${search} />`;
}

// When, what for; its name where that says more than when.
function called(one) {
  const reason = /^[0-9a-f]{8,}$/.test(one.triggered || "") ? "rolling" : one.triggered || (one.ring ? "rolling" : "");
  return [one.from && moment(one.from * 1000), one.from && /^\d{8}T\d{6}Z$/.test(one.name) ? "" : one.name, reason].filter(Boolean).join(" · ");
}

function sentence(found, flame, query) {
  const [worst] = found;
  if (worst && query.moment === undefined) {
    const function_ = worst.stack?.at(-1), shown = query.from !== undefined;
    return html`<b>Core ${worst.core} was held by ${function_ ? html`<${Name} cut=${60}>${function_}<//>` : "no single function"}</b>${worst.stack_share ? ` (${percent(worst.stack_share)} of its samples)` : ""}, for <${Name}>${worst.comm}<//>, from ${worst.begin_seconds.toFixed(1)} s to ${worst.end_seconds.toFixed(1)} s: ${percent(worst.kernel_share)} in the kernel${shown ? "" : html`. <button class="linklike" type="button" onClick=${() => choose({ moment: "1" })}>Show that moment</button>`}`;
  }
  const top = flame && widest(flame)[0];
  return top ? html`<b><${Name} cut=${60}>${top.name}<//> has ${percent(top.self / Math.max(1, flame.samples))} of the samples</b>; no core left its own baseline for kernel work.` : "Which function?";
}

function factsOf(about) {
  const { capture } = about, at = milliseconds(about.taken_at);
  return [plural(capture.samples, "sample"), `${capture.seconds.toFixed(1)} s`, plural(about.cores.length, "core"), capture.host && `host ${capture.host}`, at !== null && `from ${moment(at)}`].filter(Boolean).join(", ");
}

function Choice({ label, id, value, options, onChoose }) {
  return html`<label class="labelled">${label} <select class="field" id=${id} value=${value} onChange=${(event) => onChoose(event.target.value)}>${options.map(([one, text = one]) => html`<option value=${one} selected=${one === value}>${text}</option>`)}</select></label>`;
}

const SIDES = { kernel: "Time in the kernel", user: "Time in programs", both: "Time in the kernel and in programs" };

function When({ heat, colours, query, side, moments, marks, onJump }) {
  const canvas = useRef(null), map = useRef(null), [scale, setScale] = useState(null);
  useEffect(() => {
    const made = new HeatMap(canvas.current, (range) => choose({ from: range ? range[0] : "", to: range ? range[1] : "", zoom: "" }));
    map.current = made;
    window.zombiescope = { ...window.zombiescope, heat: made };
    const unwatch = onWidth(canvas.current.parentElement, () => made.draw());
    const forget = onRepaint(() => { made.repaint(); setScale(made.scale); });
    return () => { unwatch(); forget(); };
  }, []);
  useEffect(() => {
    const made = map.current;
    if (!colours || !heat.data) return;
    made.colours = colours;
    made.marks = moments.map((one) => ({ core: one.core, begin: one.begin_seconds, end: one.end_seconds }));
    made.lines = marks;
    made.show(heat.data, query.strip === "sum");
    setScale(made.scale);
  }, [colours, heat.data, query.strip, moments, marks]);
  useEffect(() => { map.current.point(query.from !== undefined ? [Number(query.from), Number(query.to)] : null); }, [query.from, query.to]);
  return html`<section class="panel" aria-labelledby="heat-title"><header><h2 id="heat-title">When</h2><span class="note" id="heat-hint">Drag to choose a range. Keys: arrows move it, Shift and arrows change its end, Home chooses all.</span>
      <span class="spring"><${Pick} label="Strips" options=${[["cores", "one per core"], ["sum", "all cores"]]} value=${query.strip === "sum" ? "sum" : "cores"} onPick=${(value) => choose({ strip: value === "sum" ? value : "" })} /></span></header>
    ${heat.error && html`<${Failure} error=${heat.error} />`}
    ${scale && html`<p class="note heatscale">${SIDES[side]}, samples in ${seconds(scale.cell)}: none <span class="heatkey">${scale.colours.map((one) => html`<i style=${{ background: one }}></i>`)}</span> ${count(scale.hottest)} · each column one second, upwards</p>`}
    <div class="heatbox"><canvas id="heat" ref=${canvas} tabindex="0" role="application" aria-label="Heat map of samples by time" aria-describedby="heat-hint range"></canvas></div>
    ${marks.length > 0 && html`<h3 class="note">What else happened then</h3><ol id="marks" class="linklist">${marks.map((one) => html`<li><button class="linklike" type="button" onClick=${() => map.current.choose([Math.max(0, one.seconds - 5), Math.min(map.current.seconds, one.seconds + 1)])}>${`${one.seconds.toFixed(1)} s, ${one.kind}: ${one.label}`}</button></li>`)}</ol>`}
    ${moments.length > 0 && html`<h3 class="note">Moments when a core left its own baseline for kernel work <kbd class="wide">m</kbd></h3><ol id="moments" class="linklist">${moments.map((one) => html`<li><button class="linklike" type="button" onClick=${() => onJump(one)}>${`core ${one.core}, ${one.begin_seconds.toFixed(1)} s to ${one.end_seconds.toFixed(1)} s: ${Math.round(100 * one.kernel_share)} % kernel, ${one.comm}, ${one.stack.at(-1) || "no single stack"}`}</button></li>`)}</ol>`}</section>`;
}

const WIDEST = 30, widestOf = new WeakMap();

// The functions that take most by themselves; asked for with every change of the page, and worked out once for each answer.
function widest(data) {
  if (!widestOf.has(data)) widestOf.set(data, mostOf(data));
  return widestOf.get(data);
}

// With callees: a box inside of another one of the same function is in that one's count already. Above the functions stand all
// samples and their processes.
function mostOf({ frames, boxes }) {
  const { parent, frame } = boxes, total = new Float64Array(frames.length), self = new Float64Array(frames.length), best = [];
  for (let box = 0; box < frame.length; box++) {
    if (parent[box] <= 0) continue;
    const number = frame[box];
    let above = parent[box];
    while (parent[above] > 0 && frame[above] !== number) above = parent[above];
    if (parent[above] <= 0) total[number] += boxes.total[box];
    self[number] += boxes.self[box];
  }
  const isMore = (one, two) => self[one] > self[two] || (self[one] === self[two] && total[one] > total[two]);
  for (let number = 0; number < frames.length; number++) {
    if (!total[number] || (best.length === WIDEST && !isMore(number, best[WIDEST - 1]))) continue;
    let place = best.length;
    while (place > 0 && isMore(number, best[place - 1])) place--;
    best.splice(place, 0, number);
    best.length = Math.min(best.length, WIDEST);
  }
  return best.map((number) => ({ name: frames[number][0], file: frames[number][1], total: total[number], self: self[number] }));
}

function What({ flame, query, graph, search }) {
  const canvas = useRef(null), [box, setBox] = useState(0), [share, setShare] = useState(null), [isListed, list] = useState(query.data === "1");
  const data = flame.data && laidOut(flame.data);
  useEffect(() => {
    const made = new FlameGraph(canvas.current, setBox, (path) => choose({ zoom: path }));
    graph.current = made;
    window.zombiescope = { ...window.zombiescope, flame: made };
    const unwatch = onWidth(canvas.current.parentElement, () => made.draw());
    const forget = onRepaint(() => made.repaint());
    return () => { unwatch(); forget(); };
  }, []);
  useEffect(() => {
    if (!data) return;
    setShare(graph.current.show(data, query.q || ""));
    setBox(0);
    if (query.zoom) graph.current.follow(query.zoom);
  }, [data]);
  useEffect(() => { if (data && graph.current.query !== (query.q || "")) setShare(graph.current.search(query.q || "")); }, [query.q]);
  const rows = data && isListed ? widest(flame.data) : NONE;
  const chosen = query.from !== undefined ? `${query.from} s to ${query.to} s` : "the whole capture";
  return html`<section class="panel" aria-labelledby="flame-title"><header><h2 id="flame-title">What</h2><output class="note" id="range">${data ? `${chosen}: ${plural(data.samples, "sample")}` : ""}</output>
      <output class="note" id="compared">${data && data.before_samples !== null && query.before ? `against ${query.before.replace("..", " s to ")} s (${plural(data.before_samples, "sample")}): orange is more, blue is less` : ""}</output></header>
    <div class="tools"><label class="labelled">Search <input id="search" ref=${search} class="field" type="search" autocomplete="off" spellcheck=${false} value=${query.q || ""} onInput=${(event) => choose({ q: event.target.value })} /></label><output class="note" id="matched">${share === null ? "" : `${(100 * share).toFixed(2)} % matched`}</output>
      <button class="btn" type="button" id="baseline" aria-keyshortcuts="b" disabled=${query.from === undefined} onClick=${() => choose({ before: `${query.from}..${query.to}`, from: "", to: "" })}>Compare with this range</button>
      ${query.before && html`<button class="btn" type="button" id="clear" onClick=${() => choose({ before: "" })}>Stop comparing</button>`}
      <button class="btn" type="button" id="reset" onClick=${() => graph.current.zoom(0)}>Zoom out</button>
      ${query.before ? html`<span class="legend spring"><span><i class="key kmore"></i>more</span><span><i class="key kless"></i>less</span></span>` : html`<span class="legend spring">${AREAS.map(([id, text]) => html`<span><i class=${`key k-${id}`}></i>${text}</span>`)}<span><i class="key k-kernel"></i>other kernel</span><span><i class="key k-user"></i>programs</span></span>`}</div>
    ${flame.error && html`<${Failure} error=${flame.error} />`}
    <p id="detail" class="mono" role="status">${data ? describe(data, box) : ""}</p>
    <p class="note" id="flame-hint">Click a box to zoom. Keys: arrows walk, Enter zooms, Escape zooms out, <kbd>q</kbd> searches.</p>
    <div class="flamebox" id="flame-box"><canvas id="flame" ref=${canvas} tabindex="0" role="application" aria-label="Flame graph of the chosen range" aria-describedby="flame-hint detail"></canvas></div>
    <details open=${query.data === "1"} onToggle=${(event) => list(event.currentTarget.open)}><summary>The widest functions as a table</summary>
      <table class="stack"><thead><tr><th scope="col" class="num w1">own</th><th scope="col" class="num w1">with callees</th><th scope="col">function</th><th scope="col">file</th></tr></thead><tbody id="rows">${rows.map((row) => html`<tr><td class="num"><b>${percent(row.self / Math.max(1, data.samples))}</b></td><td class="num">${percent(row.total / Math.max(1, data.samples))}</td><td><code>${row.name}</code></td><td><code>${row.file}</code></td></tr>`)}</tbody></table></details></section>`;
}

function describe(data, box) {
  if (!data.boxes.frame.length || box >= data.boxes.frame.length) return "no samples";
  const [name, file] = data.frames[data.boxes.frame[box]], total = data.boxes.total[box], share = (part, whole) => `${((100 * part) / Math.max(1, whole)).toFixed(2)} %`;
  return `${name}${file ? ` (${file})` : ""}: ${plural(total, "sample")}, ${share(total, data.samples)}${data.boxes.before ? `, before ${share(data.boxes.before[box], data.before_samples)}` : ""}`;
}
