// SPDX-License-Identifier: Apache-2.0
// What sets the sick nodes apart: one row per cohort with its odds as a range on a log scale, since when, and how to read it.
import { useState } from "../vendor/hooks.js";
import { html } from "./html.js";
import { Gap, Name } from "./marks.js";
import { count, figure, milliseconds, moment, percent, plural } from "./words.js";

const FIRST = 12, WIDE = 200, LOW = 0.1, HIGH = 1000, HIGH_PX = 20;
const place = (odds) => (Math.log(Math.min(Math.max(odds, LOW), HIGH) / LOW) / Math.log(HIGH / LOW)) * WIDE;

export const cohortKey = (labels) => JSON.stringify(labels);

export function cohortOf(text) {
  try { const found = JSON.parse(text || "null"); return found && typeof found === "object" && !Array.isArray(found) ? found : null; } catch { return null; }
}

export function Labelled({ labels }) {
  return Object.entries(labels).map(([name, value], at) => html`${at ? " and " : ""}<span class="label">${name} <b><${Name} cut=${48}>${value}<//></b></span>`);
}

export function Cohorts({ data, chosen, onChoose }) {
  const [all, setAll] = useState(false);
  const rows = data.cohorts.filter((row) => row.reading === "the cause" || Object.keys(row.labels).length === 1 || all), shown = all ? rows : rows.slice(0, FIRST);
  const untold = data.gaps.find((gap) => gap.fact === "cohorts[].since")?.reason || "no moment of change can be told";
  const few = data.too_small.slice(0, all ? undefined : 3), hasLine = shown.some((row) => row.line.length > 1), hidden = data.cohorts.length - shown.length;
  return html`<div class="sideways" tabindex="0" role="region" aria-label="Cohorts"><table class="cohorts stack"><thead><tr><th scope="col">cohort</th><th scope="col" class="num">nodes</th><th scope="col" class="num">sick</th><th scope="col" class="num">share</th><th scope="col" class="num">odds</th><th scope="col" class="opt"><span class="vh">95 % range of the odds, on a log scale</span><${Axis} /></th><th scope="col" class="num opt">q</th><th scope="col" class="opt">since</th>${hasLine && html`<th scope="col" class="opt">zombies of its sick nodes</th>`}<th scope="col">how to read it</th></tr></thead>
    <tbody>${shown.map((row) => html`<${Row} key=${cohortKey(row.labels)} row=${row} untold=${untold} hasLine=${hasLine} isChosen=${chosen === cohortKey(row.labels)} onChoose=${onChoose} />`)}
      ${few.map(({ labels, nodes, sick }) => html`<tr key=${cohortKey(labels)}><td><${Labelled} labels=${labels} /></td><td class="num">${count(nodes)}<span class="narrow"> nodes,</span></td><td class="num">${count(sick)}<span class="narrow"> sick, odds</span></td><td class="num"></td><td class="num"><${Gap} reason="too few nodes" /></td><td class="opt"></td><td class="num opt"><${Gap} reason="too few nodes" /></td><td class="opt"></td>${hasLine && html`<td class="opt"></td>`}<td class="note">too few nodes to compare: fewer than ${data.least_nodes}</td></tr>`)}</tbody></table></div>
    <p class="note">sick means ${data.sick}; ${plural(data.tested, "cohort")} of ${plural(data.nodes, "node")} compared with all others by Fisher's exact test; q is corrected for so many tests, and a cause needs q of at most ${data.most_q}.
      ${data.too_small.length > few.length ? ` ${plural(data.too_small.length - few.length, "more value")} with too few nodes.` : ""}${Object.entries(data.left_out).slice(0, 4).map(([name, why]) => html` Not compared: <${Name} cut=${40}>${name}<//> (${why}).`)}
      ${!all && hidden > 0 && html` <button class="linklike noprint" type="button" onClick=${() => setAll(true)}>Show ${plural(hidden, "more cohort")}</button>`}</p>`;
}

function Axis() {
  return html`<svg class="chart odds" viewBox=${`0 0 ${WIDE} 12`} aria-hidden="true">${[1, 10, 100].map((odds) => html`<text x=${place(odds)} y="10" text-anchor="middle">${odds}</text>`)}</svg>`;
}

function Row({ row, untold, hasLine, isChosen, onChoose }) {
  const isDated = row.reading === "the cause" || (row.explained_by && Object.keys(row.labels).length === 1);
  const key = cohortKey(row.labels), isCause = row.reading === "the cause", at = milliseconds(row.since);
  return html`<tr class=${isCause ? "first" : ""} aria-selected=${String(isChosen)}><td><button class="linklike plain" type="button" aria-pressed=${String(isChosen)} title="Show only these nodes" onClick=${() => onChoose(isChosen ? "" : key)}><${Labelled} labels=${row.labels} /></button></td>
    <td class="num">${count(row.nodes)}<span class="narrow"> nodes,</span></td><td class="num">${count(row.sick)}<span class="narrow"> sick,</span></td><td class="num">${percent(row.sick / Math.max(1, row.nodes))}<span class="narrow">, odds</span></td><td class="num"><b>${figure(row.odds_ratio)}</b></td>
    <td class="opt"><${Range} row=${row} /></td><td class="num opt">${chance(row.q_value)}</td><td class="opt">${at !== null ? moment(at, 60000) : isDated ? html`<${Gap} reason=${untold} />` : html`<span class="note">not looked for</span>`}</td>
    ${hasLine && html`<td class="opt"><${Line} points=${row.line} since=${at} /></td>`}
    <td class="wrap">${isCause ? html`<b>the cause</b>${row.same_as.length ? html`: the same nodes as <${Labelled} labels=${row.same_as[0]} />, which cannot be told apart` : ""}` : row.reading}${row.explained_by && row.odds_ratio_left !== undefined ? html`<span class="note">: beside it odds of ${figure(row.odds_ratio_left)} are left</span>` : ""}</td></tr>`;
}

function chance(value) {
  return value < 1e-300 ? "< 1e−300" : value < 0.0001 ? `1e${Math.floor(Math.log10(value))}`.replace("-", "−").replace(/^/, "< ").replace(/(\d+)$/, (digits) => String(Number(digits) - 1)) : figure(value);
}

function Range({ row }) {
  const [low, high] = row.odds_ratio_range;
  return html`<svg class="chart odds" viewBox=${`0 0 ${WIDE} ${HIGH_PX}`} role="img" aria-label=${`odds between ${figure(low)} and ${figure(high)}`}>${[1, 10, 100].map((odds) => html`<line class=${odds === 1 ? "base" : "faint"} x1=${place(odds)} x2=${place(odds)} y1="0" y2=${HIGH_PX} />`)}
    <line class="range" x1=${place(low)} x2=${place(high)} y1=${HIGH_PX / 2} y2=${HIGH_PX / 2} /><circle class="f1" cx=${place(row.odds_ratio)} cy=${HIGH_PX / 2} r="3.5" /></svg>`;
}

// The mean of the cohort's sick nodes over time, from zero; the change is marked.
function Line({ points, since }) {
  if (points.length < 2) return null;
  const from = points[0][0], span = Math.max(points.at(-1)[0] - from, 1), top = Math.max(...points.map(([, value]) => value), 1);
  const path = points.map(([at, value], number) => `${number ? "L" : "M"}${(((at - from) / span) * 120).toFixed(1)},${(HIGH_PX - 2 - (value / top) * (HIGH_PX - 4)).toFixed(1)}`).join("");
  const x = since === null ? null : ((since / 1000 - from) / span) * 120;
  return html`<svg class="chart line" viewBox=${`0 0 120 ${HIGH_PX}`} preserveAspectRatio="none" role="img" aria-label=${`from ${figure(points[0][1])} to ${figure(points.at(-1)[1])} zombies per node${since === null ? "" : `, since ${moment(since, 60000)}`}`}><line class="base" x1="0" x2="120" y1=${HIGH_PX - 1} y2=${HIGH_PX - 1} /><path class="ln" d=${path} />${x !== null && x >= 0 && html`<line class="limit" x1=${x} x2=${x} y1="0" y2=${HIGH_PX} />`}</svg>`;
}
