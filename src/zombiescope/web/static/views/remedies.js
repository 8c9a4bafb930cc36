// SPDX-License-Identifier: Apache-2.0
// Remedies: what was done, did it hold? The plan step by step, what was applied with its check, and whether it can be undone, in words.
import { html } from "../parts/html.js";
import { useDocument } from "../parts/ask.js";
import { moves, stepped, useKept } from "../parts/kept.js";
import { version } from "../parts/live.js";
import { useKeys } from "../parts/keys.js";
import { Command, Gap, Name, Panel, Prose, Severity, Unread, copy } from "../parts/marks.js";
import { sideWords } from "../parts/compare.js";
import { Making } from "../parts/making.js";
import { count, figure, measured, milliseconds, moment, plural } from "../parts/words.js";

const RISK = { high: "critical", medium: "warning", low: "ok" };
const HELD = { held: ["ok", "Held"], "not-held": ["critical", "Did not hold"], inconclusive: ["unknown", "Cannot tell"] };
const UNDO = { possible: "can be undone", undone: "was undone", nothing: "nothing can be taken back", "in-the-middle": "was cut short: undo it first", "at-work": "at work now", unknown: "not known: its journal cannot be read" };

const since = (time) => milliseconds(time) / 1000;

// Where the agent remembers both sides of a change: ten minutes before it, and everything after.
function useSides(pulse, action) {
  const { kept } = useKept(pulse), begun = action && since(action.begun_at), ended = action && since(action.ended_at || action.begun_at);
  const isKept = kept && begun > kept.from + 60 && ended < kept.to - 10;
  return useDocument(isKept ? `/api/v1/compare?a=${Math.round(ended)}..${Math.round(stepped(kept.to, 86400, moves(pulse)))}&b=${Math.round(Math.max(kept.from, begun - 600))}..${Math.round(begun)}` : "");
}

export function Remedies({ pulse }) {
  const remedies = useDocument("/api/v1/remedies", version(pulse, "remedies", true)), data = remedies.data;
  const sides = useSides(pulse, data?.actions?.[0]).data;
  const walk = (step) => {
    const list = [...document.querySelectorAll(".step, .action")], place = list.findIndex((one) => one.contains(document.activeElement));
    list[Math.min(Math.max(place + step, 0), list.length - 1)]?.focus();
  };
  useKeys({ c: () => { if (!data?.commands?.look_first) return false; copy(data.commands.look_first); return true; }, j: () => walk(1), k: () => walk(-1), ArrowDown: () => walk(1), ArrowUp: () => walk(-1) });
  if (!data) return html`<h1 class="vh">Remedies</h1>${remedies.making ? html`<${Making} making=${remedies.making} of="the plan" />` : html`<${Panel} of=${remedies} label="Remedies" />`}`;
  return html`<h1 class="answer">${sentence(data, sides)}</h1>
    ${data.actions?.length ? html`<div class="two remedies"><div class="withmain"><${Done} data=${data} sides=${sides} /></div><div class="withmain"><${Plan} data=${data} /></div></div>` : html`<${Plan} data=${data} />`}
    <${Unread} unknowns=${data.unknowns} />`;
}

function sentence(data, sides) {
  const [last] = data.actions || [], check = last?.verify, steps = data.plan?.steps.length || 0;
  const stock = sides?.rows.find((row) => row.name === "zombies");
  const waiting = steps ? `The plan has ${plural(steps, "step")}.` : "Nothing is left to do.";
  if (!last && data.actions_total === null) return html`<b>${data.plan ? waiting : "No plan could be made."}</b> What was done here is not known.`;
  if (!last) return html`<b>Nothing was changed here yet.</b> ${data.plan ? waiting : ""}`;
  if (last.undo === "undone") return html`<b>The last change was undone.</b> ${waiting}`;
  if (!check && stock && sideWords(stock, "a") && sideWords(stock, "b")) return html`<b>${sideWords(stock, "b")} zombies before the last change, ${sideWords(stock, "a")} now.</b> ${waiting}`;
  if (!check) return html`<b>The last change freed ${last.zombies_freed === null ? "zombies that were not counted" : plural(last.zombies_freed, "zombie")}</b>; nobody has checked yet whether it holds. ${waiting}`;
  return html`<b>${HELD[check.verdict]?.[1] || check.verdict}:</b> <${Prose}>${check.why}<//>. ${waiting}`;
}

function Plan({ data }) {
  const { plan, commands } = data;
  if (!plan || !plan.steps.length) return html`<${Panel} title="Plan"><p class="note">${data.gaps.find((gap) => gap.fact.startsWith("plan"))?.reason || "Nothing needs to be done."}</p><//>`;
  return html`<${Panel} title=${`Plan: ${plural(plan.steps.length, "step")}`} note=${[plan.zombies !== null && `${count(plan.zombies)} zombies`, plan.out_of_reach ? `${count(plan.out_of_reach)} out of reach` : ""].filter(Boolean).join(", ")}>
    ${commands?.look_first && html`<p class="note">look first: changes nothing</p><${Command} text=${commands.look_first} label="the dry run" />`}
    ${commands?.do_it && html`<p class="note cmdlabel">do it</p><${Command} text=${commands.do_it} label="the command that changes the node" />`}
    <ol class="steps">${plan.steps.map((step) => html`<li class="step" tabindex="-1" data-step=${step.name}><h3><span class="stepn">${step.n}</span> <${Prose}>${step.title[0].toUpperCase() + step.title.slice(1)}<//></h3>
      <dl class="facts"><div><dt>frees</dt><dd>${step.frees ?? (step.expected && step.expected.zombies_freed !== null ? plural(step.expected.zombies_freed, "zombie") : step.expected ? html`<${Gap} reason="cannot be known before" />` : "nothing by itself")}</dd></div><div><dt>risk</dt><dd><${Severity} of=${RISK[step.risk] || "unknown"} word=${step.risk} /></dd></div><div><dt>undo</dt><dd>${step.undo_words || step.undo}</dd></div>${step.needs_consent && html`<div><dt>consent</dt><dd>asked for by name</dd></div>`}</dl>
      <p class="note"><${Prose}>${step.why}<//></p>
      ${step.is_for_people && (step.change.commands || []).map((command) => html`<${Command} text=${command} />`)}
      ${step.check && html`<p class="note">to see that it worked: <code>${step.check}</code></p>`}</li>`)}</ol><//>`;
}

function Done({ data, sides }) {
  const actions = data.actions || [];
  return html`<${Panel} title="What was done, and did it hold?" note=${actions.length ? plural(actions.length, "change") : ""}>
    ${actions.length ? html`<ol class="actions">${actions.map((action, place) => html`<${Action} key=${action.id} action=${action} check=${action.verify} sides=${place ? null : sides} verify=${place ? null : data.commands?.verify} />`)}</ol>` : null}<//>`;
}

function Sides({ sides }) {
  return html`<table class="checktable"><thead><tr><th scope="col">what the agent remembers</th><th scope="col" class="num">before</th><th scope="col" class="num">since</th></tr></thead><tbody>${sides.rows.slice(0, 8).map((row) => html`<tr><td>${row.title}</td><td class="num">${sideWords(row, "b") ?? html`<${Gap} reason="not observed" />`}</td><td class="num"><b>${sideWords(row, "a") ?? html`<${Gap} reason="not observed" />`}</b></td></tr>`)}</tbody></table>`;
}

function Action({ action, check, sides, verify }) {
  const at = milliseconds(action.begun_at), [severity, word] = check ? HELD[check.verdict] || ["unknown", check.verdict] : [action.undo === "undone" ? "ok" : "unknown", action.undo === "undone" ? "Undone" : "Done, not checked"];
  return html`<li class="action" tabindex="-1" data-action=${action.id}><h3><${Severity} of=${severity} word=${word} /> <span class="note">${at === null ? "" : moment(at)} · <${Name}>${action.id}<//></span></h3>
    ${check && html`<p><${Prose}>${check.why}<//> <span class="note">checked ${moment(milliseconds(check.at))}</span></p>`}
    <ul>${action.steps.map((step) => html`<li class="note"><b>${step.status}</b> <${Prose}>${step.title}<//>${step.zombies_freed === null ? "" : `: ${plural(step.zombies_freed, "zombie")} freed`}${step.note ? `; ${step.note}` : ""}</li>`)}</ul>
    ${check ? html`<${Check} check=${check} />` : sides && html`<${Sides} sides=${sides} />`}
    ${action.checks?.length > 1 && html`<details><summary>${`${plural(action.checks.length - 1, "earlier check")}`}</summary><ol class="checks">${action.checks.slice(0, -1).reverse().map((one) => html`<li class="note"><b>${HELD[one.verdict]?.[1] || one.verdict}</b>, ${moment(milliseconds(one.at))}: <${Prose}>${one.why}<//></li>`)}</ol></details>`}
    ${verify && action.undo !== "undone" && html`<p class="note cmdlabel">to see whether it ${check ? "still " : ""}holds: changes nothing</p><${Command} text=${verify} />`}
    <p class="cmdlabel"><span class="note">undo:</span> ${UNDO[action.undo] || action.undo}</p>
    ${action.undo_with && action.undo === "possible" && html`<${Command} text=${action.undo_with} label="the command that takes it back" />`}
    ${action.restore_with && html`<p class="note cmdlabel">put kept files back</p><${Command} text=${action.restore_with} />`}</li>`;
}

const CHANGE = { better: "ok", worse: "critical" };
const NAMED = ["at the end", "seconds", "share"];

function Check({ check }) {
  const known = check.rows.filter((row) => row.before.value !== null || row.after.value !== null), unknown = check.rows.filter((row) => !known.includes(row));
  const told = (side, unit) => (side.value === null ? html`<${Gap} reason="not measured" />` : unit === "at the end" ? count(side.value) : unit === "per hour" ? figure(side.value) : measured(side.value, unit));
  return html`${known.length > 0 && html`<table class="checktable"><thead><tr><th scope="col">what</th><th scope="col" class="num">before</th><th scope="col" class="num">after</th><th scope="col">change</th></tr></thead><tbody>${known.map((row) => html`<tr><td>${row.what}${NAMED.includes(row.unit) ? "" : html` <span class="note">${row.unit}</span>`}</td><td class="num">${told(row.before, row.unit)}</td><td class="num"><b>${told(row.after, row.unit)}</b></td><td>${CHANGE[row.verdict] ? html`<${Severity} of=${CHANGE[row.verdict]} word=${row.verdict} />` : html`<span class="note">${row.verdict === "same" ? "as before" : "cannot tell"}</span>`}</td></tr>`)}</tbody></table>`}
    ${unknown.length > 0 && html`<p class="note"><${Gap} reason="not measured" /> not measured: ${unknown.map((row) => row.what).join(", ")}</p>`}`;
}
