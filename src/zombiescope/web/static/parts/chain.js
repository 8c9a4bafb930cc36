// SPDX-License-Identifier: Apache-2.0
// The chain drawn: the worst one as a row, symptom first; whatever else joins it stands beneath the link that it joins.
import { html } from "./html.js";
import { Prose, Severity } from "./marks.js";

// Every finding in the order of the screen.
export function laid(chains, findings) {
  return placed(chains, findings).cards.map((card) => card.id);
}

function placed(chains, findings) {
  const known = chains.map((chain) => chain.filter((id) => findings.has(id))).filter((chain) => chain.length);
  if (!known.length) return { cards: [], columns: 0, rows: 0, free: 1 };
  const [main, ...others] = known, columns = Math.max(...known.map((chain) => chain.length)), seen = new Set(main);
  const cards = main.map((id, at) => ({ id, row: 1, column: at + 1, arrow: at > 0 }));
  let rows = 1, free = 1;
  for (const chain of others) {
    const joined = chain.findIndex((id) => seen.has(id)), own = (joined < 0 ? chain : chain.slice(0, joined)).filter((id) => !seen.has(id));
    if (!own.length) continue;
    rows += 1;
    const target = joined < 0 ? null : cards.find((card) => card.id === chain[joined]);
    const last = target && target.row === 1 && target.column > own.length ? target.column - 1 : 0;
    own.forEach((id, at) => {
      seen.add(id);
      const column = last ? last - own.length + 1 + at : at + 1;
      cards.push({ id, row: rows, column, arrow: at > 0, joins: last > 0 && at === own.length - 1, up: rows - 1 });
      if (rows === 2) free = column + 1;
    });
  }
  return { cards, columns, rows, free };
}

export function Chain({ chains, findings, chosen, onChoose, facts }) {
  const { cards, columns, rows, free } = placed(chains, findings), beside = rows > 1 && columns - free >= 1;
  return html`<ol class="chain" style=${{ "--columns": String(columns) }}>
    ${cards.map((card) => {
      const one = findings.get(card.id);
      return html`<li key=${card.id} data-sev=${one.severity} class=${[card.row > 1 ? "side" : "", card.arrow ? "arrow" : "", card.joins ? "joins" : ""].join(" ")} style=${{ "--column": String(card.column), "--row": String(card.row) }}>
        <button type="button" id=${`link-${card.id}`} aria-pressed=${String(chosen && chosen.id === card.id)} onClick=${() => onChoose(card.id)}>
          <span class="role">${one.role}<${Severity} of=${one.severity} /></span><b>${one.title}</b>${short(one) && html`<span class="said"><${Prose}>${short(one)}<//></span>`}<small class="mono">${one.id}</small></button></li>`;
    })}
    ${facts && html`<li class="why" style=${beside ? { "--column": `${free}`, "--row": "2" } : { "--column": "1", "--row": String(rows + 1) }}>${facts}</li>`}
  </ol>`;
}

// The summary says the title again: what is left is the line beneath it.
function short(one) {
  const text = one.summary || "";
  return text.length > 90 ? `${text.slice(0, text.lastIndexOf(" ", 88))} …` : text;
}
