// SPDX-License-Identifier: Apache-2.0
// Cores: which core, held by whom? Heat of every core, worst first; its saturated stretches, each with the capture of that moment.
import { useRef, useState } from "../vendor/hooks.js";
import { html } from "../parts/html.js";
import { choose, go, link } from "../parts/address.js";
import { useDocument } from "../parts/ask.js";
import { moves, stepped, useKept } from "../parts/kept.js";
import { version } from "../parts/live.js";
import { useKeys } from "../parts/keys.js";
import { Behind, Gap, Name, Panel, Pick } from "../parts/marks.js";
import { rounded, scale, tickWords, ticks } from "../parts/axis.js";
import { LaneCanvas, heat, label } from "../parts/lanes.js";
import { Making } from "../parts/making.js";
import { figure, milliseconds, moment, percent, plural, range, seconds } from "../parts/words.js";

const SPANS = [["86400", "24 h"], ["3600", "1 h"], ["600", "10 min"]];
const LETTERS = { K: ["saturated", "h4"], k: ["kernel", "h3"], s: ["softirq", "c4"], i: ["interrupts", "c4"], t: ["steal", "c3"], u: ["user", "c1"], w: ["disks", "c0"], ".": ["idle", "h0"] };

export function Cores({ query, pulse }) {
  const { kept } = useKept(pulse), span = Number(query.span) || 86400;
  const to = query.to ? Number(query.to) : stepped(kept ? kept.to : pulse.at, span, moves(pulse)), from = query.from ? Number(query.from) : to - span;
  const cores = useDocument(`/api/v1/cores?from=${rounded(from, to - from)}&to=${rounded(to, to - from)}&points=360`, ""), look = useDocument("/api/v1/window", version(pulse, "window", true)), [at, setAt] = useState(0);
  const data = cores.data && { ...cores.data, window: cores.data.window || look.data || null };
  const list = data ? stretchesOf(data) : [], captures = useDocument("/api/v1/captures"), hasCaptures = !captures.data || captures.data.captures.length > 0;
  const open = (one) => (one ? go("profiles", one.capture ? { name: one.capture, moment: "1" } : { moment: "1" }) : false);
  const walk = (step) => { setAt(Math.min(Math.max(at + step, 0), Math.max(0, list.length - 1))); document.querySelectorAll("#stretches tbody button")[Math.min(Math.max(at + step, 0), list.length - 1)]?.focus(); };
  useKeys({ j: () => walk(1), k: () => walk(-1), ArrowDown: () => walk(1), ArrowUp: () => walk(-1), f: () => open(list[at] || {}), Enter: (event) => (event.target.closest("button, a, summary") ? false : open(list[at])), d: () => choose({ data: query.data === "1" ? "" : "1" }) });
  return html`<h1 class="answer">${data ? sentence(data, list) : "Which core, held by whom?"}</h1>
    ${kept && html`<div class="tools"><${Pick} label="Show" options=${SPANS} value=${String(span)} onPick=${(value) => choose({ span: value === "86400" ? "" : value, from: "", to: "" })} /><span>${range(from * 1000, to * 1000)}</span><a class="note" href=${link("time", { from: rounded(from, to - from), to: rounded(to, to - from) })}>the same stretch on Time</a></div>`}
    ${look.making && !data?.cores.length ? html`<${Making} making=${look.making} of="the cores" />` : html`<${Panel} of=${cores} title="Time in the kernel" note=${data?.folded || "worst core first"} tools=${html`<span class="note spring">0 <span class="heatkey"><i></i><i></i><i></i><i></i><i></i></span> 100 %</span>`}>
      ${data && (data.cores.length ? html`<${Heat} data=${data} from=${from} to=${to} />` : data.window ? html`<${Strips} window=${data.window} />` : html`<${Nothing} gaps=${data.gaps} />`)}
      ${data && html`<${Behind} shown=${query.data === "1"} caption="Saturated seconds of every core" head=${["core", "saturated", "highest share in the kernel"]} rows=${data.cores.map((core) => [core.label, core.saturated_seconds === null ? "not known" : seconds(core.saturated_seconds), percent(core.share.reduce((most, one) => Math.max(most, one ?? 0), 0))])} />`}<//>`}
    ${data && (data.cores.length > 0 || data.window) && html`<${Panel} title="Saturated stretches" note="a core without time but for the kernel, half a second or longer" tools=${html`<span class="note spring wide noprint"><kbd>j</kbd> <kbd>k</kbd> stretch · <kbd>f</kbd> flame graph</span>`}>
      ${list.length ? html`<${Stretches} list=${list} at=${at} onOpen=${open} hasCaptures=${hasCaptures} />` : html`<p>${data.gaps.length && !data.window ? html`<${Gap} reason=${data.gaps[0].reason} /> ${data.gaps[0].reason}` : "None in this window."}</p>`}<//>`}
    ${data?.window && data.cores.length > 0 && html`<${Panel} title="The last look" note=${`${seconds(data.window.window.seconds)}, a look every ${seconds(data.window.window.interval_seconds)}`}><${Strips} window=${data.window} /><//>`}
    ${data?.gaps.length > 0 && data.cores.length > 0 && html`<${Panel} title="What could not be read"><${Nothing} gaps=${data.gaps} /><//>`}`;
}

// Core, length and mode have columns of their own; what is left says who.
const alone = (words) => words && words.replace(/^core \d+: (at least )?[\d.]+ s(, \d+% \w+)?(, )?/, "");

function stretchesOf(data) {
  if (data.stretches.length) return data.stretches.map((one) => ({ ...one, words: alone(one.words) })).reverse();
  return (data.window?.stretches || []).map((one) => ({ core: one.core, from: (milliseconds(one.begin) ?? 0) / 1000, seconds: one.seconds, mode: one.mode, kernel_share: one.kernel_share, words: blamed(one.blame), capture: null }));
}

function blamed(blame) {
  if (!blame) return null;
  const first = (list) => (list && list[0] ? `${list[0].name} ${percent(list[0].share)}` : null);
  return [first(blame.functions), first(blame.processes), first(blame.causes)].filter(Boolean).join(", ");
}

function sentence(data, list) {
  if (list.length) {
    const worst = list.reduce((most, one) => (one.seconds > most.seconds ? one : most));
    const known = data.cores.find((core) => core.core === worst.core)?.saturated_seconds;
    return html`<b>Core ${worst.core} was saturated</b> ${plural(list.filter((one) => one.core === worst.core).length, "time")}, for up to ${seconds(worst.seconds)} without a break${known ? ` (${seconds(known)} in all)` : ""}${worst.words ? html`: ${worst.words}` : worst.share ? `: ${percent(worst.share)} ${worst.mode}` : ""}.`;
  }
  const [first] = data.cores;
  if (first && first.saturated_seconds > 0) return html`<b>${first.label} was saturated for ${seconds(first.saturated_seconds)}</b> in this window.`;
  if (data.window && data.window.window) return data.window.stretches.length ? "Cores were saturated." : `No core was saturated in the last look of ${seconds(data.window.window.seconds)}.`;
  return data.cores.length ? "No core was saturated in this window." : "It is not known what the cores did.";
}

function Heat({ data, from, to }) {
  const rows = data.cores, high = rows.length > 64 ? 6 : rows.length > 24 ? 10 : 18, height = rows.length * high;
  return html`<div class="coreheat"><div class="corenames" aria-hidden="true">${rows.map((row, place) => (high >= 14 || place % 2 === 0 ? html`<span style=${{ height: `${high >= 14 ? high : high * 2}px` }}>${row.label}</span>` : null))}</div>
    <div><${LaneCanvas} height=${height} inputs=${[data, from, to]} label=${`Time in the kernel of ${plural(rows.length, "core")}, worst first: ${rows.slice(0, 5).map((row) => `${row.label} ${row.saturated_seconds === null ? "not known" : `${figure(row.saturated_seconds)} s saturated`}`).join(", ")}`} draw=${(paper, width) => heat(paper, scale(from, to, width), rows, data, high)} />
    <${LaneCanvas} height=${18} inputs=${[from, to]} label="time axis" draw=${(paper, width) => { const axis = scale(from, to, width), { step, at } = ticks(axis); paper.textAlign = "center"; for (const one of at) if (axis.x(one) > 18 && axis.x(one) < width - 18) label(paper, tickWords(one, step), axis.x(one), 13); paper.textAlign = "left"; }} /></div></div>`;
}

// One letter per look and core, as `zombiescope cores` draws it.
function Strips({ window: look }) {
  const worst = [...look.cores].sort((one, two) => (two.strip.match(/K/g)?.length || 0) - (one.strip.match(/K/g)?.length || 0) || one.core - two.core).slice(0, 128);
  const used = Object.entries(LETTERS).filter(([letter]) => worst.some((core) => core.strip.includes(letter)));
  return html`<div class="strips">${worst.map((core) => html`<div class="strip"><span>core ${core.core}</span><svg class="chart unwatched" role="img" aria-label=${stripWords(core)} height="14" preserveAspectRatio="none" viewBox=${`0 0 ${Math.max(1, core.strip.length)} 14`}>${[...core.strip].map((letter, place) => LETTERS[letter] && html`<rect x=${place} width="1.02" height="14" class=${`s-${LETTERS[letter][0]}`} />`)}</svg><span class="num note">${core.system === null || core.system === undefined ? "" : `${percent(core.system + (core.softirq || 0))} kernel`}</span></div>`)}</div>
    <p class="legend cmdlabel">${used.map(([, [word]]) => html`<span><i class=${`key s-${word}`}></i>${word}</span>`)}${worst.some((core) => core.strip.includes("?")) && html`<span><i class="hatchkey"></i>not observed</span>`}</p>`;
}

function stripWords(core) {
  const saturated = (core.strip.match(/K/g) || []).length;
  return `core ${core.core}: ${saturated} of ${core.strip.length} looks saturated`;
}

function Stretches({ list, at, onOpen, hasCaptures }) {
  return html`<table id="stretches" class="stack"><thead><tr><th scope="col" class="num w0">core</th><th scope="col" class="w2">began</th><th scope="col" class="num w1">lasted</th><th scope="col" class="w1">mode</th><th scope="col">held by</th><th scope="col" class="w2">capture</th></tr></thead>
    <tbody>${list.slice(0, 200).map((one, place) => html`<tr class=${place === at ? "at" : ""}><td class="num"><b><span class="narrow">core </span>${one.core}</b></td><td>${one.from ? moment(one.from * 1000, 100) : ""}</td><td class="num">${seconds(one.seconds)}</td><td>${one.mode}${one.share ? ` ${percent(one.share)}` : ""}</td><td class="wrap">${one.words || html`<${Gap} reason="call chains were not sampled" />`}</td><td>${one.capture || hasCaptures ? html`<button class="linklike" type="button" onClick=${() => onOpen(one)}>${one.capture ? "flame graph" : "nearest profile"}</button>` : html`<span class="note">not captured</span>`}</td></tr>`)}</tbody></table>
    ${list.length > 200 && html`<p class="note">the newest 200 of ${list.length}</p>`}`;
}

function Nothing({ gaps }) {
  return html`<ul class="unknowns">${gaps.map((gap) => html`<li><${Gap} reason=${gap.reason} /><span><b>${gap.fact}</b><br /><span class="note">${gap.reason}${gap.hint && html`. Would help: <code>${gap.hint}</code>`}</span></span></li>`)}</ul>`;
}
