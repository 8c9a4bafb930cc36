// SPDX-License-Identifier: Apache-2.0
// Fleet: what do the sick share? Every node a cell, by any label and any number; cohorts; every node as a row; the way to its own page.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
import { html } from "../parts/html.js";
import { choose } from "../parts/address.js";
import { useDocument } from "../parts/ask.js";
import { version } from "../parts/live.js";
import { useKeys } from "../parts/keys.js";
import { Behind, Gap, Name, Panel, Severity } from "../parts/marks.js";
import { Making } from "../parts/making.js";
import { Grid } from "../parts/grid.js";
import { say, sayLater } from "../parts/status.js";
import { Cells, shape } from "../parts/fleet_cells.js";
import { Cohorts, Labelled, cohortOf } from "../parts/fleet_cohorts.js";
import { LEVELS, boundsOf, fleetOf, groupWords, groupable, groupsOf, labelsOf, listed, membersOf, rowOf, wordOf } from "../parts/fleet_data.js";
import { onRepaint } from "../parts/paper.js";
import { clock, count, figure, moment, percent, plural, seconds } from "../parts/words.js";

const WORDS = { critical: "critical", warning: "warning", unknown: "not judged", ok: "ok" };
const SEVERITY = "severity warning or critical";
const USUAL = ["zone", "topology_kubernetes_io_zone", "pool", "image", "kernel"];

export function Fleet({ query, pulse }) {
  const asked = useDocument("/api/v1/fleet", version(pulse, "fleet", true)), told = useDocument("/api/v1/cohorts", version(pulse, "cohorts", true));
  const fleet = useMemo(() => (asked.data ? fleetOf(asked.data) : null), [asked.data]), field = useRef(null), tell = useRef(() => {});
  const labels = useMemo(() => (fleet ? groupable(fleet) : []), [fleet]), by = query.by === "-" || labels.includes(query.by) ? query.by : usual(labels, told.data);
  const colour = fleet && fleet.figures.has(query.colour) ? query.colour : "severity", wanted = cohortOf(query.c);
  const members = useMemo(() => (fleet ? membersOf(fleet, wanted) : null), [fleet, query.c]), chosen = fleet ? rowOf(fleet, query.n) : -1;
  const step = (list, one) => list[(list.indexOf(one) + 1) % list.length];
  useKeys({
    g: () => choose({ by: step([...labels, "-"], by) }), c: () => choose({ colour: fleet ? step(["severity", ...fleet.figures.keys()], colour) : "" }), x: () => choose({ c: "", q: "", n: "" }),
    q: () => { field.current?.focus(); }, d: () => choose({ data: query.data === "1" ? "" : "1" }), o: () => { document.querySelector(".nodepage")?.click(); },
    Escape: () => (query.n ? (choose({ n: "" }), true) : query.c || query.q ? (choose({ c: "", q: "" }), true) : false),
  });
  if (!fleet) return html`<h1 class="vh">Fleet</h1>${asked.making ? html`<${Making} making=${asked.making} of="every node" />` : html`<${Panel} of=${asked} label="Fleet" />`}`;
  const groups = groupsOf(fleet, by, colour), failed = pulse.documents?.fleet?.why;
  return html`<${Verdict} fleet=${fleet.document} cohorts=${told.data} />
    ${failed && html`<p class="panel note" role="status"><${Gap} reason="the last pull failed" /> The last pull failed: ${failed}. Everything below is as of ${clock(fleet.document.at * 1000)}.</p>`}
    <section class="panel" aria-label="Every node a cell"><header><h2>${plural(fleet.count, "node")}</h2><${Legend} fleet=${fleet} colour=${colour} />
      <span class="tools spring noprint"><label class="labelled">Colour by <select class="field" value=${colour} onChange=${(event) => choose({ colour: event.target.value === "severity" ? "" : event.target.value })}><option value="severity">severity</option>${fleet.document.numbers.map(({ id, title }) => html`<option value=${id}>${title}</option>`)}</select></label>
      <label class="labelled">Group by <select class="field" value=${by} onChange=${(event) => choose({ by: event.target.value })}>${labels.map((name) => html`<option value=${name}>${name}</option>`)}<option value="-">nothing</option></select></label></span></header>
      ${wanted && html`<p class="only">Only <${Labelled} labels=${wanted} />: ${count(members.reduce((sum, one) => sum + one, 0))} of ${plural(fleet.count, "node")}. <button class="linklike" type="button" onClick=${() => choose({ c: "" })}>Show all</button></p>`}
      <${Map_} fleet=${fleet} groups=${groups} by=${by} colour=${colour} members=${members} chosen=${chosen} tell=${tell} />
      <${Readout} fleet=${fleet} chosen=${chosen} tell=${tell} />
      <${Behind} shown=${query.data === "1"} caption=${by === "-" ? "All nodes" : `Nodes by ${by}`} head=${[by === "-" ? "nodes" : by, "nodes", ...LEVELS.map((level) => WORDS[level])]} rows=${groups.map((group) => [group.isTold ? group.name : "not told", count(group.rows.length), ...group.counts.map(count)])} /></section>
    ${chosen >= 0 && html`<${OneNode} fleet=${fleet} row=${chosen} />`}
    ${query.n && chosen < 0 && html`<p class="panel note">No node is called <${Name} cut=${80}>${query.n}<//> now. <button class="linklike" type="button" onClick=${() => choose({ n: "" })}>Close</button></p>`}
    <${Panel} title="What sets them apart" of=${told}>${told.data && html`<${Cohorts} data=${told.data} chosen=${query.c || ""} onChoose=${(key) => choose({ c: key })} />`}<//>
    <${Rows} fleet=${fleet} query=${query} members=${members} field=${field} />
    <${Untold} gaps=${[...fleet.document.gaps, ...(told.data?.gaps || [])]} />`;
}

// What the cause is about, or a label that people group by, or nothing.
function usual(labels, cohorts) {
  const cause = cohorts && cohorts.causes > 0 ? Object.keys(cohorts.cohorts[0].labels)[0] : null;
  return [cause, ...USUAL].find((name) => labels.includes(name)) || labels[0] || "-";
}

function Verdict({ fleet, cohorts }) {
  const [first, ...more] = cohorts ? cohorts.verdict.split("; ") : ["reading what they share"], unjudged = fleet.severity === "unknown";
  return html`<section id="verdict" class="verdict" data-sev=${fleet.severity}><p class="sevline"><${Severity} of=${fleet.severity} word=${unjudged ? "Cannot tell" : undefined} /><span>${fleet.verdict}</span></p>
    ${cohorts && cohorts.sick !== SEVERITY && html`<p class="note">From here on sick means: ${cohorts.sick}.</p>`}<h1>${sentence(first)}</h1>${more.map((part) => html`<p class="more">${sentence(part)}</p>`)}</section>`;
}

const sentence = (text) => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`;

function Legend({ fleet, colour }) {
  const figures = fleet.figures.get(colour), about = fleet.document.numbers.find(({ id }) => id === colour);
  if (!figures) {
    const counts = [0, 0, 0, 0];
    for (const level of fleet.level) counts[level] += 1;
    return html`<span class="legend">${LEVELS.map((level, place) => html`<span><${Swatch} kind=${level} />${WORDS[level]} ${count(counts[place])}</span>`)}</span>`;
  }
  const bounds = boundsOf(figures), unknown = figures.reduce((sum, value) => sum + (Number.isNaN(value) ? 1 : 0), 0);
  return html`<span class="legend">${about.title}${about.unit ? ` ${about.unit}` : ""}: ${[0, 1, 2, 3, 4].map((level) => html`<span><${Swatch} kind=${`h${level}`} />${level ? `${figure(bounds[level - 1])} or more` : `below ${figure(bounds[0])}`}</span>`)}<span><${Swatch} kind="none" />not known ${count(unknown)}</span></span>`;
}

function Swatch({ kind }) {
  const canvas = useRef(null);
  useLayoutEffect(() => {
    const draw = () => { const paper = canvas.current.getContext("2d"); paper.clearRect(0, 0, 22, 22); paper.globalAlpha = 1; shape(paper, kind, 22); };
    draw();
    return onRepaint(draw);
  }, [kind]);
  return html`<canvas class="swatch" ref=${canvas} width="22" height="22" aria-hidden="true" aria-label=${kind}></canvas>`;
}

function Map_({ fleet, groups, by, colour, members, chosen, tell }) {
  const canvas = useRef(null), above = useRef(null), cells = useRef(null);
  useEffect(() => {
    cells.current = new Cells(canvas.current, above.current, { point: (row, isKey) => tell.current(row, isKey), choose: (row) => choose({ n: wordOf(cells.current.fleet.node, row) }, true) });
    return () => cells.current.close();
  }, []);
  const titles = useMemo(() => groups.map((group) => groupWords(group, by === "-" ? "" : by, { count, percent })), [groups, by]);
  useEffect(() => { cells.current.show({ fleet, groups, titles, by: colour, members, chosen }); }, [fleet, groups, titles, colour, members, chosen]);
  const words = `${plural(fleet.count, "node")} as cells, ${groups.length > 1 ? `in ${groups.length} groups by ${by}` : "in one group"}. ${titles.slice(0, 6).join(". ")}`;
  return html`<div class="cells"><canvas ref=${canvas} aria-hidden="true" aria-label="cells"></canvas><canvas class="above" ref=${above} tabindex="0" role="application" aria-label=${words} aria-describedby="cells-hint"></canvas></div>
    <p class="note noprint cellhint" id="cells-hint"><span class="zooms"><button class="btn" type="button" aria-label="Zoom in" onClick=${() => cells.current.scale(1.5)}>+</button><button class="btn" type="button" aria-label="Zoom out" onClick=${() => cells.current.scale(1 / 1.5)}>−</button><button class="btn" type="button" onClick=${() => cells.current.scale(1e-9)}>All</button></span>
      <span><span class="wide"><kbd>←</kbd> <kbd>→</kbd> <kbd>↑</kbd> <kbd>↓</kbd> node · <kbd>PgUp</kbd> <kbd>PgDn</kbd> group · <kbd>Enter</kbd> choose · <kbd>+</kbd> <kbd>−</kbd> or <kbd>Ctrl</kbd> and wheel zoom · drag moves · </span>the table below lists the same nodes</span></p>`;
}

// The line of the node under pointer or keyboard: only it is drawn anew when the pointer moves.
function Readout({ fleet, chosen, tell }) {
  const [row, setRow] = useState(-1);
  useEffect(() => {
    tell.current = (at, isKey) => {
      setRow(at);
      if (isKey && at >= 0) say(`${wordOf(fleet.node, at)}, ${WORDS[LEVELS[fleet.level[at]]]}, ${facts(fleet, at).join(", ")}`);
    };
  }, [fleet]);
  const at = row >= 0 && row < fleet.count ? row : chosen;
  if (at < 0) return html`<p class="readout note">Point at a cell, or walk there with the arrow keys.</p>`;
  return html`<p class="readout"><${Severity} of=${LEVELS[fleet.level[at]]} /><b><${Name} cut=${60}>${wordOf(fleet.node, at)}<//></b>${facts(fleet, at).map((text) => html`<span>${text}</span>`)}<span class="note labelsline">${labelsOf(fleet, at).map(([name, value]) => `${name} ${value}`).join(" · ")}</span></p>`;
}

function facts(fleet, row) {
  const of = (id) => fleet.figures.get(id)[row], found = [];
  if (Number.isNaN(of("zombies"))) found.push(Number.isNaN(of("counted")) ? "zombies not known" : `at most ${count(of("counted"))} zombies`);
  else found.push(plural(of("zombies"), "zombie"));
  if (!Number.isNaN(of("growth_per_hour"))) found.push(`${of("growth_per_hour") < 0 ? "−" : "+"}${figure(Math.abs(of("growth_per_hour")))} per hour`);
  if (of("resets") > 0) found.push(plural(Math.round(of("resets")), "network reset"));
  if (of("restarts") > 0) found.push(plural(Math.round(of("restarts")), "restart"));
  if (of("saturated_seconds") > 0) found.push(`${seconds(of("saturated_seconds"))} saturated`);
  return found;
}

function isPage(address) {
  return typeof address === "string" && /^https?:\/\/[^\s]+$/.test(address);
}

function OneNode({ fleet, row }) {
  const page = wordOf(fleet.page, row), untold = wordOf(fleet.untold, row), findings = wordOf(fleet.findings, row), reached = fleet.reached[row];
  const number = ({ id, title, unit }) => { const value = fleet.figures.get(id)[row]; return html`<div><dt>${title}${unit ? `, ${unit}` : ""}</dt><dd>${Number.isNaN(value) ? html`<${Gap} reason="not known of this node" />` : figure(value)}</dd></div>`; };
  return html`<section class="panel" aria-label="The chosen node" id="node"><header><h2><${Severity} of=${LEVELS[fleet.level[row]]} /> <${Name} cut=${80}>${wordOf(fleet.node, row)}<//></h2>
      ${isPage(page) ? html`<a class="nodepage spring" href=${page} rel="noreferrer noopener">Open this node's page</a>` : html`<span class="note spring">Its own page: <code>zombiescope serve</code> on it. Where pages are: <code>fleet serve --node-page URL</code></span>`}<button class="btn" type="button" aria-label="Close" onClick=${() => choose({ n: "" })}>✕</button></header>
    <dl class="facts">${fleet.document.numbers.map(number)}<div><dt>next limit</dt><dd>${Number.isNaN(reached) ? "none in sight" : moment(reached * 1000, 60000)}</dd></div><div><dt>findings</dt><dd>${findings ? html`<code>${findings}</code>` : "none told"}</dd></div>
      ${labelsOf(fleet, row).map(([name, value]) => html`<div><dt>${name}</dt><dd><${Name} cut=${80}>${value}<//></dd></div>`)}</dl>${untold && html`<p class="note"><${Gap} reason=${untold} /> ${untold}</p>`}</section>`;
}

function Rows({ fleet, query, members, field }) {
  const [rows, setRows] = useState(null), [at, setAt] = useState(-1), turn = useRef(0);
  const sort = (query.sort || "").replace(/^-/, ""), down = Boolean(query.sort?.startsWith("-")), text = query.q || "";
  useEffect(() => {
    const number = ++turn.current, isStale = () => number !== turn.current;
    (async () => {
      const found = await listed(fleet, { members, text, sort, down }, isStale);
      if (!found || isStale()) return;
      setRows(found);
      setAt(-1);
      if (text) sayLater(`${plural(found.length, "node")} of ${count(fleet.count)}`);
    })();
  }, [fleet, members, text, sort, down]);
  const columns = useMemo(() => columnsOf(fleet), [fleet]);
  if (!rows) return html`<section class="panel rows rowsbox"><p class="reading">reading</p></section>`;
  return html`<section class="panel rows" aria-label="Every node, row by row"><header><h2>${rows.length === fleet.count ? `All ${plural(fleet.count, "node")}` : `${count(rows.length)} of ${plural(fleet.count, "node")}`}</h2><span class="note">${sort ? "" : "the sickest first"}</span>
      <input class="field spring noprint" type="search" ref=${field} placeholder="Filter: node, finding, label" aria-label="Filter" value=${text} onInput=${(event) => choose({ q: event.target.value })} /></header>
    ${rows.length ? html`<${Grid} rows=${rows} columns=${columns} label="Nodes" sort=${sort} down=${down} at=${at} onAt=${setAt} height=${`min(50vh, calc(${rows.length + 1} * var(--row) + 10px))`}
      onSort=${(id) => choose({ sort: sort === id ? (down ? "" : `-${id}`) : id })} isOpen=${(row) => wordOf(fleet.node, row) === query.n} onOpen=${(row) => choose({ n: wordOf(fleet.node, row) }, true)} keyOf=${(row) => ({ "data-node": wordOf(fleet.node, row) })} />` : html`<p class="note">No node is like this. <kbd>x</kbd> clears the filter.</p>`}
    <footer class="note">${plural(rows.length, "row")} <span class="wide noprint">· <kbd>j</kbd> <kbd>k</kbd> row · <kbd>Enter</kbd> choose · <kbd>g</kbd> group by · <kbd>c</kbd> colour by · <kbd>q</kbd> filter · <kbd>o</kbd> open the chosen node's page · <kbd>x</kbd> clear</span></footer></section>`;
}

function columnsOf(fleet) {
  const number = (id, title) => ({ id, title, class: "num w1 cut", cell: (row) => { const value = fleet.figures.get(id)[row]; return Number.isNaN(value) ? html`<${Gap} reason="not known of this node" />` : figure(value); } });
  const told = [...fleet.labels].filter(([, column]) => column.names.length > 1).slice(0, 4).map(([name, column]) => ({ id: name, title: name, class: "opt cut", cell: (row) => wordOf(column, row) ?? html`<span class="note">not told</span>` }));
  return [{ id: "node", title: "node", class: "cut w3", cell: (row) => html`<code>${wordOf(fleet.node, row)}</code>` }, { id: "severity", title: "severity", class: "w2 cut opt", cell: (row) => html`<${Severity} of=${LEVELS[fleet.level[row]]} />` }, number("zombies", "zombies"), number("growth_per_hour", "per hour"), { id: "findings", title: "findings", class: "opt cut", cell: (row) => wordOf(fleet.findings, row) ?? "" }, ...told];
}

function Untold({ gaps }) {
  const [...each] = new Map(gaps.map((gap) => [`${gap.fact}${gap.reason}`, gap])).values();
  if (!each.length) return null;
  return html`<${Panel} title="What could not be read"><ul class="unknowns">${each.map((gap) => html`<li><${Gap} reason=${gap.reason} /><span><b>${gap.fact}</b><br /><span class="note">${gap.reason}${gap.hint && html`. Would help: <code>${gap.hint}</code>`}</span></span></li>`)}</ul><//>`;
}
