// SPDX-License-Identifier: Apache-2.0
// Every key, those of the view in sight first; and the switch that turns single keys off.
import { useEffect, useRef, useState } from "../vendor/hooks.js";
import { html } from "./html.js";
import { keysAreOn, turnKeys } from "./keys.js";

const EVERYWHERE = [["1 to 7", "views"], ["/", "find"], ["?", "this help"], ["Esc", "back, close"], ["t", "theme: as the system, light, dark"], ["y", "copy the link of what you see"], ["S", "save this view as one file"], ["d", "show the data behind the picture"], ["j k ↑ ↓", "within a list"], ["Enter", "open"]];
const OF_VIEWS = {
  now: [["← →", "walk the chain"], ["Enter", "its evidence"], ["c", "copy the dry run"], ["f", "flame graph of the saturated core"]],
  zombies: [["g", "group by the next thing"], ["s", "size by zombies or bytes"], ["x", "clear the filter"], ["q", "filter"], ["r", "take the newer look"]],
  time: [["+ −", "zoom"], ["← →", "move"], ["b", "brush A: the cursor's stretch"], ["c", "compare: make it B"], ["o", "open the capture at the cursor"], ["x", "clear A and B"], ["[ ]", "move the cursor"]],
  cores: [["j k", "saturated stretches"], ["Enter, f", "flame graph of that stretch"]],
  profiles: [["h", "heat map"], ["f", "flame graph"], ["b", "compare with this range"], ["x", "stop comparing"], ["m", "next moment"], ["q", "search"]],
  services: [["j k", "units"], ["Enter", "why"], ["u", "only those that may harm"]],
  fleet: [["g", "group by the next label"], ["c", "colour by the next number"], ["← → ↑ ↓", "walk the cells"], ["PgUp PgDn", "the group before, the next"], ["+ − 0", "zoom, all"], ["q", "filter"], ["o", "open the chosen node's page"], ["x", "show all"]],
  remedies: [["c", "copy the dry run"], ["j k", "steps and actions"]],
};

function Keys({ list }) {
  return html`<dl class="keylist">${list.map(([keys, what]) => html`<dt>${keys.split(" ").map((key) => (key.length > 2 && !/^Esc|^Enter/.test(key) ? html`${key} ` : html`<kbd>${key.replace(",", "")}</kbd> `))}</dt><dd>${what}</dd>`)}</dl>`;
}

export function Help({ view, title, onClose }) {
  const dialog = useRef(null), [on, setOn] = useState(keysAreOn());
  useEffect(() => {
    const before = document.activeElement;
    dialog.current.showModal();
    return () => before && before.focus && before.focus({ preventScroll: true });
  }, []);
  return html`<dialog ref=${dialog} aria-labelledby="help-title" onClose=${onClose} onClick=${(event) => { if (event.target === dialog.current) onClose(); }}>
    <header><h2 id="help-title">Keys</h2><button class="btn spring" type="button" aria-label="Close" onClick=${onClose}>✕</button></header>
    <h3 class="note">${title}</h3><${Keys} list=${OF_VIEWS[view] || []} />
    <h3 class="note">Everywhere</h3><${Keys} list=${EVERYWHERE} />
    <label><input type="checkbox" checked=${on} onChange=${(event) => { setOn(event.target.checked); turnKeys(event.target.checked); }} /> single keys are on</label>
    <p class="note cmdlabel">Words: <b>zombie</b>, a memory cgroup whose directory is gone and which the kernel still keeps. <b>Pin</b>, what keeps it. <b>Maker</b>, who made it. <b>Sweep</b>, reading every cgroup's statistics. <b>Gap</b>, a fact that could not be read, hatched and with its reason. <code>zombiescope explain</code> has a page for each.</p></dialog>`;
}
