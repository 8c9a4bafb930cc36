// SPDX-License-Identifier: Apache-2.0
// Ties the page together: the address keeps the view, the server is asked once a change, the newest answer wins.
import { HeatMap } from "./heat.js";
import { FlameGraph } from "./flame.js";

const at = (id) => document.getElementById(id);
const FIELDS = ["view", "core", "comm", "cgroup", "side", "theme"];
const state = { view: "cores", core: "", comm: "", cgroup: "", side: "both", theme: "auto", idle: "", from: "", to: "", before: "", search: "", zoom: "" };
const START = { ...state };
let asked = 0;

const heat = new HeatMap(at("heat"), (range) => {
  state.from = range ? String(range[0]) : "";
  state.to = range ? String(range[1]) : "";
  save();
  askFlame();
});
const flame = new FlameGraph(at("flame"), describe, (path) => { state.zoom = path; save(); });

async function ask(path, parameters) {
  const answer = await fetch(`${path}?${new URLSearchParams(parameters)}`);
  const document = await answer.json();
  if (!answer.ok) throw new Error(`${document.error}: ${document.why || ""}`);
  return document;
}

function filters() {
  return Object.fromEntries(["core", "comm", "cgroup", "side", "idle"].filter((name) => state[name]).map((name) => [name, state[name]]));
}

async function askHeat() {
  if (at("when").hidden) return; // stacks without times have no heat map
  const data = await ask("/api/heatmap", filters());
  heat.range = state.from !== "" ? [Number(state.from), Number(state.to)] : null;
  heat.show(data, state.view === "sum");
}

async function askFlame(zoom = "") {
  const number = ++asked;
  const range = state.from !== "" ? { from: state.from, to: state.to } : {};
  const data = await ask("/api/flame", { ...filters(), ...range, ...(state.before ? { before: state.before } : {}) });
  if (number !== asked) return;
  at("range").textContent = (state.from !== "" ? `${state.from} s to ${state.to} s` : "the whole capture") + `: ${data.samples.toLocaleString("en")} samples`;
  at("compared").textContent = state.before ? `against ${state.before.replace("..", " s to ")} s (${data.before_samples.toLocaleString("en")} samples): red grew, blue shrank` : "";
  at("clear").hidden = !state.before;
  flame.show(data);
  search();
  describe(0);
  flame.follow(zoom);
  table(data);
}

function describe(box) {
  const data = flame.data;
  if (!data || !data.boxes.frame.length) return;
  const [name, file] = data.frames[data.boxes.frame[box]], total = data.boxes.total[box];
  const percent = (part, whole) => `${(100 * part / Math.max(1, whole)).toFixed(2)} %`;
  const earlier = data.boxes.before ? `, before ${percent(data.boxes.before[box], data.before_samples)}` : "";
  at("detail").textContent = `${name}${file ? ` (${file})` : ""}: ${total.toLocaleString("en")} samples, ${percent(total, data.samples)}${earlier}`;
}

function table(data) {
  const best = new Map();
  data.boxes.frame.forEach((number, box) => {
    const row = best.get(number) || { total: 0, self: 0 };
    row.total = Math.max(row.total, data.boxes.total[box]);
    row.self += data.boxes.self[box];
    best.set(number, row);
  });
  const rows = [...best].filter(([number]) => data.frames[number][1]).sort((a, b) => b[1].total - a[1].total).slice(0, 30);
  at("rows").replaceChildren(...rows.map(([number, row]) => {
    const line = document.createElement("tr");
    for (const text of [`${(100 * row.total / Math.max(1, data.samples)).toFixed(2)} %`, `${(100 * row.self / Math.max(1, data.samples)).toFixed(2)} %`, ...data.frames[number]]) {
      line.append(Object.assign(document.createElement("td"), { textContent: text }));
    }
    return line;
  }));
}

function search() {
  const share = flame.search(at("search").value);
  at("matched").textContent = share === null ? "" : `${(100 * share).toFixed(2)} % matched`;
}

function save() {
  const kept = Object.entries(state).filter(([name, value]) => value && !(name === "view" && value === "cores") && !(name === "side" && value === "both") && !(name === "theme" && value === "auto"));
  history.replaceState(null, "", kept.length ? `#${new URLSearchParams(kept)}` : location.pathname);
}

function restore() {
  Object.assign(state, START);
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) if (name in state) state[name] = value;
  for (const name of FIELDS) at(name).value = state[name];
  at("idle").checked = state.idle === "1";
  at("search").value = state.search;
}

function theme() {
  const dark = state.theme === "dark" || (state.theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}

function options(id, values, shown = (value) => value) {
  at(id).append(...values.map((value) => Object.assign(document.createElement("option"), { value, textContent: shown(value) })));
}

async function moments() {
  const data = await ask("/api/moments", {});
  heat.marks = data.moments.map((one) => ({ core: one.core, begin: one.begin_seconds, end: one.end_seconds }));
  at("moments").hidden = at("moments-title").hidden = !data.moments.length;
  at("moments").replaceChildren(...data.moments.map((one) => {
    const button = Object.assign(document.createElement("button"), { type: "button" });
    button.textContent = `core ${one.core}, ${one.begin_seconds.toFixed(1)} s to ${one.end_seconds.toFixed(1)} s: ${Math.round(100 * one.kernel_share)} % kernel, ${one.comm}, ${one.stack.slice(-1)[0] || "no single stack"}`;
    button.addEventListener("click", () => {
      state.core = at("core").value = String(one.core);
      state.before = `${Math.max(0, one.begin_seconds - 2).toFixed(1)}..${one.begin_seconds.toFixed(1)}`;
      askHeat();
      heat.choose([one.begin_seconds, one.end_seconds]);
    });
    const item = document.createElement("li");
    item.append(button);
    return item;
  }));
  heat.draw();
}

async function marks() {
  const data = await ask("/api/marks", {});
  heat.lines = data.marks;
  if (data.gaps.length) at("gaps").textContent += data.gaps.map((gap) => ` Not known: ${gap.reason}.`).join("");
  at("marks").hidden = at("marks-title").hidden = !data.marks.length;
  at("marks").replaceChildren(...data.marks.map((one) => {
    const button = Object.assign(document.createElement("button"), { type: "button" });
    button.textContent = `${one.seconds.toFixed(1)} s, ${one.kind}: ${one.label}`;
    button.addEventListener("click", () => heat.choose([Math.max(0, one.seconds - 5), Math.min(heat.seconds, one.seconds + 1)]));
    const item = document.createElement("li");
    item.append(button);
    return item;
  }));
  heat.draw();
}

async function begin() {
  restore();
  theme();
  const about = await ask("/api/capture", {});
  document.title = `${about.capture.name} · Zombiescope profile`;
  at("title").textContent = about.capture.name;
  at("facts").textContent = `${about.capture.samples.toLocaleString("en")} samples, ${about.capture.seconds.toFixed(1)} s, ${about.cores.length} cores${about.capture.host ? `, host ${about.capture.host}` : ""}${about.taken_at ? `, from ${about.taken_at}` : ""}`;
  at("gaps").textContent = about.gaps.map((gap) => `Not known: ${gap.reason}.`).join(" ");
  at("when").hidden = !about.capture.has_time;
  options("core", about.cores.map(String));
  options("comm", [...about.comms].sort());
  options("cgroup", about.cgroups);
  restore();
  heat.colours = await ask("/api/colours", {});
  await askHeat();
  await Promise.all([askFlame(state.zoom), moments(), marks()]);
  document.documentElement.dataset.ready = "yes";
}

for (const name of FIELDS) at(name).addEventListener("change", () => {
  state[name] = at(name).value;
  save();
  theme();
  if (name === "view") { if (heat.data) heat.show(heat.data, state.view === "sum"); }
  else if (name === "theme") { heat.draw(); flame.draw(); }
  else { askHeat(); askFlame(); }
});
at("idle").addEventListener("change", () => { state.idle = at("idle").checked ? "1" : ""; save(); askHeat(); askFlame(); });
at("search").addEventListener("input", () => { state.search = at("search").value; save(); search(); });
at("baseline").addEventListener("click", () => { state.before = state.from !== "" ? `${state.from}..${state.to}` : ""; save(); askFlame(); });
at("clear").addEventListener("click", () => { state.before = ""; save(); askFlame(); });
at("reset").addEventListener("click", () => flame.zoom(0));
at("filters").addEventListener("submit", (event) => event.preventDefault());
addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== at("search")) { event.preventDefault(); at("search").focus(); }
});
addEventListener("hashchange", () => { restore(); theme(); askHeat(); askFlame(state.zoom); }); // a link pasted over this one
addEventListener("resize", () => { heat.draw(); flame.draw(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { theme(); heat.draw(); flame.draw(); });
addEventListener("unhandledrejection", (event) => { at("gaps").textContent = String(event.reason && event.reason.message || event.reason); });

begin();
// For measurements and tests.
window.zombiescope = { heat, flame, state };
