// SPDX-License-Identifier: Apache-2.0
// Now: what is wrong, and what do I do? Verdict, chain, first remedy, six numbers; unknowns and evidence below.
import { html } from "../parts/html.js";
import { choose, go, link } from "../parts/address.js";
import { useDocument } from "../parts/ask.js";
import { version } from "../parts/live.js";
import { useKeys } from "../parts/keys.js";
import { Behind, Command, Gap, Name, Panel, Prose, Severity, copy } from "../parts/marks.js";
import { Making } from "../parts/making.js";
import { Chain, laid } from "../parts/chain.js";
import { Spark } from "../parts/spark.js";
import { clock, milliseconds, moment, plural } from "../parts/words.js";

export function Now({ query, pulse, live }) {
  const now = useDocument("/api/v1/now", version(pulse, "now"));
  const data = now.data;
  if (!data) return html`<h1 class="vh">Now</h1>${now.making ? html`<${Making} making=${now.making} of="this node" />` : html`<${Panel} of=${now} label="Verdict" />`}`;
  const findings = new Map(data.findings.map((one) => [one.id, one]));
  const order = laid(data.chains, findings), chosen = findings.get(query.link) || findings.get(order[0]);
  return html`<${Keys} data=${data} order=${order} chosen=${chosen} query=${query} />
    <${Verdict} data=${data} findings=${findings} />
    ${order.length > 0 && html`<${Panel} title="Why: from what hurts to where it comes from" label="Chain" kind="chainpanel" tools=${html`<span class="note wide">choose a link for its evidence</span><span class="note spring wide noprint"><kbd>←</kbd> <kbd>→</kbd> links · <kbd>Enter</kbd> evidence · <kbd>f</kbd> flame graph</span>`}>
      <${Chain} chains=${data.chains} findings=${findings} chosen=${chosen} onChoose=${(id) => choose({ link: id })} facts=${chosen && html`<${Facts} finding=${chosen} />`} /><//>`}
    <div class=${data.remedy ? "two" : "one"}>
      ${data.remedy ? html`<${First} remedy=${data.remedy} vain=${data.in_vain} />` : null}
      <${Numbers} numbers=${data.numbers} shown=${query.data === "1"} />
    </div>
    <div class="two">
      <${Unknowns} unknowns=${data.unknowns} />
      ${order.length ? html`<${Evidence} finding=${chosen} />` : html`<${LookedFor} data=${data} findings=${findings} />`}
    </div>
    ${data.last_change && html`<${Panel} title="Last change" note=${data.last_change.at ? moment(data.last_change.at * 1000) : ""} tools=${html`<a class="spring" href=${link("remedies")}>receipt and check</a>`}><p><${Prose}>${data.last_change.words}<//></p><//>`}`;
}

function Keys({ data, order, chosen, query }) {
  const walk = (step) => {
    const at = chosen ? order.indexOf(chosen.id) : -1, next = order[Math.min(Math.max(at + step, 0), order.length - 1)];
    if (!next) return false;
    choose({ link: next });
    if (document.activeElement?.closest(".chain")) document.getElementById(`link-${next}`)?.focus();
    return true;
  };
  useKeys({
    ArrowLeft: () => walk(-1), ArrowRight: () => walk(1), j: () => walk(1), k: () => walk(-1),
    Enter: (event) => {
      if (event.target.closest("a, button:not(.chain button), summary")) return false;
      document.getElementById("evidence")?.scrollIntoView({ block: "nearest" });
      document.getElementById("evidence")?.focus({ preventScroll: true });
      return true;
    },
    c: () => { if (!data.remedy) return false; copy(data.remedy.look_first || data.remedy.do_it); return true; },
    f: () => go("profiles", { moment: "1" }),
    d: () => choose({ data: query.data === "1" ? "" : "1" }),
  });
  return null;
}

// The tool's sentence, its clauses in two sizes.
function split(verdict) {
  for (const mark of ["; made by ", ". Made by ", "; nobody ", "; nothing "]) {
    const at = verdict.indexOf(mark);
    if (at > 0) return [verdict.slice(0, at + 1).replace(/;$/, ""), verdict.slice(at + 2)];
  }
  const at = verdict.length > 140 ? verdict.lastIndexOf("; ") : -1;
  return at > 0 ? [verdict.slice(0, at), verdict.slice(at + 2)] : [verdict, ""];
}

const capital = (text) => text && text[0].toUpperCase() + text.slice(1);

function Verdict({ data, findings }) {
  const [head, rest] = split(data.verdict), open = [...findings.values()].filter((one) => one.verdict === "unknown").length;
  const unknown = data.unknowns.length;
  return html`<section id="verdict" class="verdict" data-sev=${data.severity} aria-label="Verdict">
    <p class="sevline"><${Severity} of=${data.severity} word=${data.severity === "unknown" ? "Cannot tell" : undefined} /> <small>${[data.since && `since ${moment(data.since * 1000, 60000)}`, data.how].filter(Boolean).join(" · ")}${unknown > 0 && html`${data.since || data.how ? " · " : ""}<a href="#unknowns" onClick=${(event) => { event.preventDefault(); document.getElementById("unknowns").scrollIntoView(); document.getElementById("unknowns").focus({ preventScroll: true }); }}>${plural(unknown, "fact")} unknown</a>`}</small></p>
    <h1><${Prose}>${head}<//></h1>
    ${rest && html`<p class="more"><${Prose}>${capital(rest)}<//></p>`}
    ${!data.chains.length && html`<p class="more">${data.looked_for.length} of ${findings.size} possible findings were looked for and are absent${open ? `; ${open} could not be judged` : ""}.</p>`}
    ${data.remedy && html`<a class="jump" href="#first" onClick=${(event) => { event.preventDefault(); document.getElementById("first").scrollIntoView(); }}>What to do first</a>`}
  </section>`;
}

const spoken = (fact) => fact.replace(/\[([^\]]*)\]/g, " $1").replace(/[._]/g, " ").trim();

const ON_A_CORE = new Set(["saturated-core", "costly-reclaim-walk", "costly-sweep", "reclaim-pressure", "starved-softirq", "nic-reset", "real-time-hog"]);

function Facts({ finding }) {
  const best = finding.evidence.filter((one) => one.value !== null).slice(0, 4);
  return html`<dl class="facts">${best.map((one) => html`<div><dt>${one.label ?? spoken(one.fact)}</dt><dd><b>${one.text ?? String(one.value)}</b></dd></div>`)}</dl>
    <p class="note">why we say “${finding.title}” · <a href="#evidence" onClick=${(event) => { event.preventDefault(); document.getElementById("evidence").scrollIntoView(); document.getElementById("evidence").focus({ preventScroll: true }); }}>all ${plural(finding.evidence.length, "fact")}</a>${ON_A_CORE.has(finding.id) && html` · <a href=${link("profiles", { moment: "1" })}>flame graph</a>`}</p>`;
}

function First({ remedy, vain }) {
  const risk = { high: "critical", medium: "warning", low: "ok" }[remedy.risk] || "unknown";
  return html`<${Panel} id="first" kind="remedy" title="Do this first" tools=${html`<a class="spring" href=${link("remedies")}>${remedy.steps > 1 ? `all ${remedy.steps} steps` : "the step"}</a>`}>
    <h3><${Prose}>${capital(remedy.title)}<//></h3>
    <dl class="facts"><div><dt>frees</dt><dd>${remedy.frees || html`<${Gap} reason="cannot be known before" />`}</dd></div><div><dt>risk</dt><dd><${Severity} of=${risk} word=${remedy.risk} /></dd></div><div><dt>undo</dt><dd>${remedy.undo_words || remedy.undo}</dd></div></dl>
    ${remedy.look_first && html`<p class="cmdlabel note">look first: changes nothing</p><${Command} text=${remedy.look_first} label="the dry run" />`}
    ${remedy.elsewhere && html`<p class="note">This is a recording: type it on the host that was recorded.</p>`}
    ${remedy.do_it && html`<p class="cmdlabel note">do it</p><${Command} text=${remedy.do_it} label="the command that changes the node" />`}
    ${vain.length > 0 && html`<details><summary>What will not help: ${vain[0].what}${vain.length > 1 ? ` and ${vain.length - 1} more` : ""}</summary><dl class="vain">${vain.map((one) => html`<div><dt>${one.what}</dt><dd class="note">${one.why}</dd></div>`)}</dl></details>`}
  <//>`;
}

function Numbers({ numbers, shown }) {
  return html`<section class="panel numbers" aria-label="Six numbers and their last day"><dl class="nums">${numbers.map((one) => html`<div key=${one.id} data-number=${one.id}>
      <dt>${one.title}</dt>
      <dd class="big">${one.value === null && one.gap ? html`<${Gap} reason=${one.gap.reason} />` : one.text} <small>${one.suffix}</small></dd>
      <dd class="note">${one.value === null && one.gap ? one.gap.reason : one.note}</dd>
      <dd><${Spark} day=${one.day} limit=${one.limit} label=${dayWords(one)} /></dd></div>`)}</dl>
    <p class="note foot">each line: the last 24 h, from zero · dashed: a limit · hatched: not observed</p>
    <${Behind} shown=${shown} caption="The last day of each number" head=${["number", "from", "lowest", "highest"]} rows=${numbers.flatMap(dayRows)} /></section>`;
}

function dayRows(one) {
  if (!one.day) return [[one.title, "", "not observed", "not observed"]];
  const { from, to, low, high } = one.day, step = (to - from) / Math.max(1, high.length);
  return high.map((value, at) => [one.title, moment((from + at * step) * 1000, 60000), low[at] ?? "not observed", value ?? "not observed"]);
}

function dayWords(one) {
  if (!one.day) return `${one.title}, last 24 hours: not observed${one.gap ? `, ${one.gap.reason}` : ""}.`;
  const low = one.day.low.filter((value) => value !== null), high = one.day.high.filter((value) => value !== null);
  if (!high.length) return `${one.title}, last 24 hours: not observed.`;
  const least = Math.min(...low), most = Math.max(...high), gaps = one.day.high.some((value) => value === null) ? "; parts were not observed" : "";
  return most === 0 ? `${one.title}, last 24 hours: none${gaps}.` : `${one.title}, last 24 hours: between ${+least.toPrecision(4)} and ${+most.toPrecision(4)}${gaps}.`;
}

function Unknowns({ unknowns }) {
  return html`<section class="panel" id="unknowns" tabindex="-1" aria-label="What is unknown, and why"><header><h2>What is unknown, and why</h2></header>
    ${unknowns.length ? html`<ul class="unknowns">${unknowns.map((one) => html`<li><${Gap} reason=${one.reason} /><span><b>${one.question}</b><br /><span class="note">${one.reason}${one.hint && html`. Would help: <code>${one.hint}</code>`}</span></span></li>`)}</ul>` : html`<p class="note">Nothing: every fact that was looked for could be read.</p>`}</section>`;
}

function Evidence({ finding }) {
  if (!finding) return null;
  return html`<section class="panel" id="evidence" tabindex="-1" aria-label="Evidence"><header><h2>Evidence: ${finding.title}</h2></header><p class="evidencesum"><${Prose}>${finding.summary}<//></p>
    <table class="stack"><thead><tr><th scope="col">fact</th><th scope="col" class="num">value</th><th scope="col" class="opt">source</th><th scope="col" class="opt num">read at</th></tr></thead>
    <tbody>${finding.evidence.map((one) => html`<tr><td title=${one.fact}>${one.label ?? spoken(one.fact)}</td><td class="num wrap">${one.value === null ? html`<${Gap} />` : html`<b>${one.text ?? `${one.value} ${one.unit || ""}`}</b>`}</td><td class="opt note">${one.source}</td><td class="opt note num">${milliseconds(one.at) === null ? "" : clock(milliseconds(one.at))}</td></tr>`)}</tbody></table></section>`;
}

function LookedFor({ data, findings }) {
  const rank = { unknown: 0, absent: 1, present: -1 };
  const list = [...findings.values()].sort((a, b) => rank[a.verdict] - rank[b.verdict]);
  return html`<${Panel} title="Looked for" tools=${html`<span class="note"><${Severity} of="ok" word="absent" /></span><span class="note"><${Severity} of="unknown" word="could not be judged" /></span>`}>
    <ul class="checks">${list.map((one) => html`<li><${Severity} quiet=${true} of=${one.verdict === "absent" ? "ok" : one.verdict === "present" ? one.severity : "unknown"} word=${one.verdict} /><span title=${one.summary}><${Name}>${one.id}<//></span></li>`)}</ul><//>`;
}
