// SPDX-License-Identifier: Apache-2.0
// Beside the lanes: A against B in numbers, what follows what with its test, and what was not observed.
import { html } from "./html.js";
import { useDocument } from "./ask.js";
import { Gap, Panel, Prose } from "./marks.js";
import { count, figure, measured, range } from "./words.js";

// A stock by its end, a rate or a share by its mean.
function valueOf(row, side) {
  return row[side] ? (row.kind === "level" || row.kind === "bytes" ? row[side].last : row[side].mean) ?? null : null;
}

export function sideWords(row, side) {
  const value = valueOf(row, side);
  return row[`words_${side}`] || (value === null ? null : measured(value, row.unit === "cgroups" ? "" : row.unit));
}

// "No change" only where both sides are known.
function changeWords(row) {
  if (row.change) return row.change.words;
  const now = valueOf(row, "a"), then = valueOf(row, "b");
  if (now === null || then === null) return null;
  if (Math.abs(now - then) <= 1e-9 * Math.max(1, Math.abs(now))) return "none";
  if (row.unit === "share") return Math.abs(now - then) < 0.005 ? "none" : `${now > then ? "+" : "−"}${Math.round(Math.abs(100 * (now - then)))} points`;
  if (row.unit === "cgroups") return `${now > then ? "+" : "−"}${count(Math.abs(now - then))}`;
  return then > 0 && now > 0 ? `${figure(now / then)} ×` : `${now > then ? "+" : "−"}${measured(Math.abs(now - then), row.unit)}`;
}

export function Beside({ a, b, from, to, asks, ranged }) {
  const compared = useDocument(a && b ? `/api/v1/compare?a=${a.from}..${a.to}&b=${b.from}..${b.to}` : ""), follows = useDocument(`/api/v1/follows?${asks}`);
  return html`<aside class="withmain" aria-label="Comparison">
    <${Panel} title=${a && b ? "A against B" : "Compare two stretches"} of=${a && b ? compared : undefined}>
      ${a && b ? compared.data && html`<${Table} data=${compared.data} />` : html`<${Hint} a=${a} />`}<//>
    <${Panel} title="What follows what" of=${follows}>${follows.data && html`<${Follows} data=${follows.data} />`}<//>
    <div class="panel"><p class="note"><i class="hatchkey"></i>not observed${(ranged?.pauses || []).slice(0, 4).map((one) => html` · ${range(one.from * 1000, one.to * 1000)} ${one.why}`)}</p>
      <p class="note cmdlabel">Kernel time <span class="heatkey"><i></i><i></i><i></i><i></i><i></i></span> 0 to 100 %</p></div></aside>`;
}

function Hint({ a }) {
  return html`<p>${a ? html`<b>A</b> ${range(a.from * 1000, a.to * 1000, 1000)}. Now mark B: ` : "Mark A: "}drag over the lanes${a ? " with Shift" : ""}, or move the cursor (<kbd>[</kbd> <kbd>]</kbd>) and press <kbd>${a ? "c" : "b"}</kbd>.</p>`;
}

function Table({ data }) {
  return html`<p><b>A</b> ${range(data.a.from * 1000, data.a.to * 1000, 1000)}<br /><b>B</b> ${range(data.b.from * 1000, data.b.to * 1000, 1000)}</p>
    <table><thead><tr><th scope="col">series</th><th scope="col" class="num">A</th><th scope="col" class="num">B</th><th scope="col" class="num">change</th></tr></thead>
    <tbody>${data.rows.filter((row) => row.kind !== "heat").map((row) => html`<tr><td>${row.title}</td><td class="num"><b>${known(sideWords(row, "a"))}</b></td><td class="num">${known(sideWords(row, "b"))}</td><td class="num">${changeWords(row) ?? html`<span class="note">cannot tell</span>`}</td></tr>`)}
    ${(data.events || []).map((row) => html`<tr><td>${row.title}</td><td class="num"><b>${row.a === null ? html`<${Gap} />` : count(row.a)}</b></td><td class="num">${row.b === null ? html`<${Gap} />` : count(row.b)}</td><td class="num">${row.a === null || row.b === null ? html`<span class="note">cannot tell</span>` : row.a === row.b ? "none" : `${row.a > row.b ? "+" : "−"}${count(Math.abs(row.a - row.b))}`}</td></tr>`)}</tbody></table>`;
}

function known(words) {
  return words ?? html`<${Gap} reason="not observed" />`;
}

function Follows({ data }) {
  if (!data.rows.length) return html`<p class="note">${data.gaps[0]?.reason || "Too few events in this window to test."}</p>`;
  return html`<ul class="followlist">${data.rows.map((row) => html`<li><${Prose}>${row.words}<//>${row.p_value !== null && row.p_value !== undefined && !row.words.includes("p =") ? html` <span class="note">(p = ${row.p_value})</span>` : ""}</li>`)}</ul>`;
}
