// SPDX-License-Identifier: Apache-2.0
// Services: who can loop, who is unneeded? One row per unit, what may harm first, what could not be judged next.
import { useMemo, useRef, useState } from "../vendor/hooks.js";
import { html } from "../parts/html.js";
import { choose } from "../parts/address.js";
import { useDocument } from "../parts/ask.js";
import { version } from "../parts/live.js";
import { useKeys } from "../parts/keys.js";
import { Gap, Name, Panel, Pick, Severity, Unread } from "../parts/marks.js";
import { Making } from "../parts/making.js";
import { count, plural } from "../parts/words.js";

export function Services({ query, pulse }) {
  const services = useDocument("/api/v1/services", version(pulse, "services", true)), data = services.data, field = useRef(null), body = useRef(null);
  const [opened, setOpened] = useState(query.open || "");
  const list = useMemo(() => (data ? [...data.units].sort((one, two) => (one.rank ?? 9) - (two.rank ?? 9) || (two.restarts ?? 0) - (one.restarts ?? 0) || (one.name < two.name ? -1 : 1)) : []), [data]);
  const untold = { restarts: list.length > 0 && list.every((unit) => (unit.restarts ?? null) === null), zombies: list.length > 0 && list.every((unit) => (unit.zombies ?? null) === null) };
  const wanted = (query.q || "").toLowerCase(), shown = list.filter((unit) => (!query.only || isBad(unit)) && (!wanted || `${unit.name} ${unit.verdict} ${unit.why}`.toLowerCase().includes(wanted)));
  const walk = (step) => {
    const buttons = [...(body.current?.querySelectorAll("td:first-child button") || [])], place = buttons.indexOf(document.activeElement);
    buttons[Math.min(Math.max(place + step, 0), buttons.length - 1)]?.focus();
  };
  useKeys({ j: () => walk(1), k: () => walk(-1), ArrowDown: () => walk(1), ArrowUp: () => walk(-1), u: () => choose({ only: query.only ? "" : "harm" }), q: () => { field.current?.focus(); }, x: () => choose({ q: "", only: "" }) });
  if (!data) return html`<h1 class="vh">Services</h1>${services.making ? html`<${Making} making=${services.making} of="every service" />` : html`<${Panel} of=${services} label="Services" />`}`;
  return html`<h1 class="answer">${sentence(data, list)}</h1>
    ${list.length > 0 && html`<div class="tools"><${Pick} label="Show" options=${[["", `all ${list.length}`], ["harm", "those that may harm"]]} value=${query.only || ""} onPick=${(value) => choose({ only: value })} />
      <input class="field" type="search" ref=${field} placeholder="Filter: name, why" aria-label="Filter" value=${query.q || ""} onInput=${(event) => choose({ q: event.target.value })} />
      ${data.counts && html`<span class="note spring">${plural(data.counts.can_loop ?? 0, "can loop", "can loop")} · ${count(data.counts.unneeded ?? 0)} unneeded · ${count(data.counts.unknown ?? 0)} not judged · ${count(data.counts.fine ?? 0)} fine</span>`}</div>
    <section class="panel rows" aria-label="Services"><table class="stack"><thead><tr><th scope="col" class="w4">unit</th><th scope="col" class="w2">verdict</th><th scope="col" class="w2">can it loop?</th>${!untold.restarts && html`<th scope="col" class="num w0">restarts</th>`}${!untold.zombies && html`<th scope="col" class="num w0">zombies</th>`}<th scope="col">why</th></tr></thead>
      <tbody ref=${body}>${shown.map((unit) => html`<${Unit} key=${unit.name} unit=${unit} untold=${untold} isOpen=${opened === unit.name} onToggle=${() => setOpened(opened === unit.name ? "" : unit.name)} />`)}</tbody></table>
      ${!shown.length && html`<p class="note">No unit is like this. <kbd>x</kbd> clears the filter.</p>`}<footer class="note">${plural(shown.length, "unit")} of ${count(list.length)}${untold.restarts ? html` · <${Gap} reason="systemd could not be asked" /> how often each was restarted is not known` : ""}${untold.zombies ? html` · <${Gap} reason="not walked" /> nor how many zombies each left` : ""} <span class="wide noprint">· <kbd>j</kbd> <kbd>k</kbd> unit · <kbd>Enter</kbd> why · <kbd>u</kbd> only those that may harm</span></footer></section>`}
    <${Unread} unknowns=${data.unknowns} />`;
}

const isBad = (unit) => unit.can_loop !== false || unit.verdict !== "needed" || unit.restarts > 0;

function sentence(data, list) {
  if (!list.length) return data.gaps.length ? "It is not known which services run here." : "No service is started here.";
  const loops = list.filter((unit) => unit.can_loop === true && unit.restarts > 0), risky = list.filter((unit) => unit.can_loop === true), unneeded = list.filter((unit) => unit.verdict === "unneeded"), unknown = list.filter((unit) => unit.verdict === "unknown" || unit.can_loop === null);
  const names = (units) => units.slice(0, 2).map((unit, place) => html`${place ? " and " : ""}<${Name} cut=${40}>${unit.name}<//>`).concat(units.length > 2 ? ` and ${units.length - 2} more` : "");
  if (loops.length) return html`<b>${names(loops)} ${loops.length === 1 ? "loops" : "loop"}</b>: ${plural(loops.reduce((sum, unit) => sum + unit.restarts, 0), "restart")}${loops[0].verdict === "unneeded" ? ", and nothing needs it" : ""}.${unknown.length ? ` ${plural(unknown.length, "service")} could not be judged.` : ""}`;
  if (unneeded.length || risky.length) return html`<b>${risky.length ? html`${names(risky)} could loop for ever` : html`${names(unneeded)} ${unneeded.length === 1 ? "is" : "are"} not needed`}</b>; none of ${plural(list.length, "service")} loops now.${unknown.length ? ` ${plural(unknown.length, "service")} could not be judged.` : ""}`;
  return html`<b>None of ${plural(list.length, "service")} can loop or is unneeded</b>${unknown.length ? html`, as far as could be judged: ${plural(unknown.length, "service")} could not.` : "."}`;
}

function severityOf(unit) {
  if (unit.can_loop === true && unit.restarts > 0) return "critical";
  if (unit.verdict === "unneeded" || unit.can_loop === true) return "warning";
  return unit.verdict === "unknown" || unit.can_loop === null ? "unknown" : "ok";
}

function Unit({ unit, untold, isOpen, onToggle }) {
  const known = (value, reason) => (value === null || value === undefined ? html`<${Gap} reason=${reason} />` : count(value));
  return html`<tr aria-selected=${String(isOpen)} data-unit=${unit.name}><td class="cut"><button class="linklike plain" type="button" aria-expanded=${String(isOpen)} title=${unit.name} onClick=${onToggle}><code>${unit.name}</code></button></td>
      <td><${Severity} of=${severityOf(unit)} word=${unit.verdict} /></td><td class="cut">${unit.can_loop === null || unit.can_loop === undefined ? html`<${Gap} reason="not known" />` : unit.can_loop ? "yes, for ever" : "no"}</td>
      ${!untold.restarts && html`<td class="num">${known(unit.restarts, "systemd could not be asked")}</td>`}${!untold.zombies && html`<td class="num">${known(unit.zombies, "not walked")}</td>`}<td class="cut" title=${unit.why}>${unit.why}</td></tr>
    ${isOpen && html`<tr class="opened"><td colspan="6"><div class="unitmore"><p>${unit.why}</p><dl class="facts"><div><dt>enabled</dt><dd>${unit.enabled}</dd></div><div><dt>state</dt><dd>${unit.state ?? "not known"}</dd></div><div><dt>restarts when it fails</dt><dd>${unit.restart_policy || "not known"}${unit.loop_why ? `; ${unit.loop_why}` : ""}</dd></div><div><dt>needed by</dt><dd>${unit.needed_by?.length ? unit.needed_by.join(", ") : "nobody that was found"}</dd></div><div><dt>from the vendor</dt><dd>${unit.from_vendor === null ? "not known" : unit.from_vendor ? "yes" : "no"}</dd></div><div><dt>file</dt><dd><code>${unit.path ?? "not known"}</code></dd></div></dl>
      ${unit.evidence?.length > 0 && html`<table><thead><tr><th scope="col">fact</th><th scope="col">value</th><th scope="col">source</th></tr></thead><tbody>${unit.evidence.map((one) => html`<tr><td><code>${one.fact}</code></td><td class="wrap">${String(one.value)}</td><td class="note">${one.source}</td></tr>`)}</tbody></table>`}</div></td></tr>`}`;
}
