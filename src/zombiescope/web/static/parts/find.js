// SPDX-License-Identifier: Apache-2.0
// Find: one field for views, findings, makers, units, captures and zombies, over what was read so far.
import { useEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
import { html } from "./html.js";
import { go } from "./address.js";
import { answeredDocuments } from "./ask.js";
import { numbers } from "./columns.js";
import { count } from "./words.js";

const MOST = 40;

export function Find({ views, onClose }) {
  const dialog = useRef(null), [text, setText] = useState(""), [at, setAt] = useState(0);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current.showModal();
    return () => before && before.focus && before.focus({ preventScroll: true });
  }, []);
  const things = useMemo(() => known(views), []);
  const hits = useMemo(() => matching(things, text), [text]);
  const open = (hit) => { onClose(); if (hit) go(hit.view, hit.query); };
  const key = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) { event.preventDefault(); setAt(Math.min(Math.max(at + step, 0), hits.length - 1)); }
    else if (event.key === "Enter") { event.preventDefault(); open(hits[at]); }
  };
  useEffect(() => { document.getElementById(`hit-${at}`)?.scrollIntoView({ block: "nearest" }); }, [at]);
  return html`<dialog ref=${dialog} aria-label="Find" onClose=${onClose} onClick=${(event) => { if (event.target === dialog.current) onClose(); }}>
    <input class="field" type="search" placeholder="View, finding, maker, unit, capture, path or id of a zombie" aria-label="Find" role="combobox" aria-expanded="true" aria-controls="hits" aria-activedescendant=${hits.length ? `hit-${at}` : undefined} autofocus
      value=${text} onInput=${(event) => { setText(event.target.value); setAt(0); }} onKeyDown=${key} />
    <ul class="hits" id="hits" role="listbox" aria-label="Found">${hits.map((hit, place) => html`<li key=${place} id=${`hit-${place}`} role="option" aria-selected=${String(place === at)} onClick=${() => open(hit)}><small class="what">${hit.what}</small><code>${hit.name}</code><small>${hit.note}</small></li>`)}</ul>
    ${!hits.length && html`<p class="note">Nothing read so far has this name. <kbd>Enter</kbd> on a view reads more.</p>`}
    <p class="note"><kbd>↑</kbd> <kbd>↓</kbd> choose · <kbd>Enter</kbd> open · <kbd>Esc</kbd> back</p></dialog>`;
}

function known(views) {
  const things = views.map(([id, title], place) => ({ what: "view", name: title, note: `key ${place + 1}`, view: id, query: {} }));
  for (const [path, document] of answeredDocuments()) {
    const kind = path.split("?")[0].replace("/api/v1/", "");
    if (kind === "now") for (const one of document.findings) things.push({ what: "finding", name: one.id, note: one.title, view: "now", query: { link: one.id } });
    if (kind === "services") for (const one of document.units) things.push({ what: "unit", name: one.name, note: one.verdict, view: "services", query: { q: one.name } });
    if (kind === "captures") for (const one of document.captures) things.push({ what: "capture", name: one.name, note: one.ring ? "rolling" : one.source || "", view: "profiles", query: { name: one.name } });
    if (kind === "fleet") for (const label of document.labels) things.push({ what: "label", name: label.name, note: "group the nodes by it", view: "fleet", query: { by: label.name } });
    if (kind === "zombies") {
      for (const one of document.totals.by_maker || []) things.push({ what: "maker", name: one.maker, note: `${count(one.zombies)} zombies`, view: "zombies", query: { open: one.maker } });
      things.push({ rows: numbers(document.columns.id, document.count) });
    }
  }
  return things;
}

function matching(things, text) {
  const wanted = text.trim().toLowerCase();
  const named = things.filter((thing) => !thing.rows && (wanted ? `${thing.name} ${thing.note}`.toLowerCase().includes(wanted) : thing.what === "view"));
  const herd = things.find((thing) => thing.rows);
  return [...named.slice(0, MOST - 2), ...(wanted && herd ? zombiesLike(wanted, herd.rows) : [])];
}

// The table filters 65,000 rows; here one line leads to it.
function zombiesLike(wanted, ids) {
  const found = [{ what: "zombies", name: wanted, note: "show the rows with this in path, maker, file or id", view: "zombies", query: { q: wanted } }];
  if (/^\d+$/.test(wanted) && ids.includes(Number(wanted))) found.unshift({ what: "zombie", name: wanted, note: "its story", view: "zombies", query: { z: wanted } });
  return found;
}
