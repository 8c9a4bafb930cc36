// SPDX-License-Identifier: Apache-2.0
// One zombie's story, in a drawer: its life, what pins it, who holds it, what frees it and what does not, and how we know.
import { useEffect, useRef } from "../vendor/hooks.js";
import { html } from "./html.js";
import { choose, link } from "./address.js";
import { useDocument } from "./ask.js";
import { Command, Failure, Gap } from "./marks.js";
import { bytes, count, local, moment, plural } from "./words.js";

export function Story({ id, colours, version }) {
  const story = useDocument(`/api/v1/zombie?id=${encodeURIComponent(id)}`, String(version)), close = useRef(null), box = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    if (matchMedia("(max-width: 700px)").matches) close.current.focus();
    return () => { if (before && before.isConnected && box.current?.contains(document.activeElement)) before.focus(); };
  }, []);
  const data = story.data;
  return html`<aside class="panel drawer" aria-label="Story of one zombie" ref=${box}>
    <header><h2>${data ? html`<code>${data.path ?? "path not known"}</code>` : `Zombie ${id}`}</h2><button class="btn spring" type="button" ref=${close} aria-label="Close the story" onClick=${() => choose({ z: "" })}>✕</button></header>
    ${story.error ? html`<${Failure} error=${story.error} />` : !data ? html`<p class="reading">reading</p>` : html`<${Told} data=${data} colours=${colours} />`}</aside>`;
}

function Told({ data, colours }) {
  return html`<div><p class="note">zombie ${data.id} · maker <code>${data.maker}</code>${data.refs?.total !== null && data.refs?.total !== undefined ? ` · ${plural(data.refs.total, "reference")}` : ""}</p>
    <section><h3>life</h3><ol class="life">${data.life.map((one) => html`<li class=${one.what === "released" && !one.at ? "never" : ""}><b>${one.what}</b><span title=${one.at ? local(one.at * 1000) : undefined}>${one.what === "born" && one.at ? moment(one.at * 1000, 100) : one.what === "died" && one.at ? `${moment(one.at * 1000, 100)}, ${one.words}` : one.words}</span></li>`)}</ol></section>
    <section><h3>what pins it</h3>${data.pins.length ? data.pins.map((pin) => html`<p><i class=${`key ${colours(pin.kind)}`}></i>${pin.words}${pin.pages ? `, ${plural(pin.pages, "page")} (${bytes(pin.bytes)})` : ""}${pin.sampled ? ", a sample of its pages" : pin.pages ? ", every page seen" : ""}</p>${(pin.path || pin.path_in_fs) && html`<p><code>${pin.path || `${pin.path_in_fs} on ${pin.fstype}`}</code></p>`}${pin.holder && html`<p class="note">${pin.holder}</p>`}`) : html`<p><${Gap} reason="no pin was found" /> no pin was found</p>`}</section>
    <section><h3>who holds it</h3>${data.holders.length ? data.holders.map((one) => html`<p>${one[0].toUpperCase() + one.slice(1)}${/[.!]$/.test(one) ? "" : "."}</p>`) : html`<p><${Gap} reason="not known" /> not known</p>`}</section>
    <section><h3>what frees it</h3>${data.freed_by.length ? data.freed_by.map((one, place) => html`<p>${place ? (one.together ? "and " : "or ") : ""}${one.words}${one.together ? "" : place ? "" : " (alone enough)"}</p>`) : html`<p><${Gap} reason="nothing known frees it" /> nothing known frees it alone</p>`}
      ${data.command && html`<p class="cmdlabel note">the plan for it: a dry run, changes nothing</p><${Command} text=${data.command} />`}
      ${data.siblings > 0 && html`<p class="note cmdlabel">and ${count(data.siblings)} like it: <a href=${link("remedies")}>the plan for all</a></p>`}</section>
    ${data.in_vain.length > 0 && html`<section><h3>does not help</h3>${data.in_vain.map((one) => html`<p>${one.words}: ${one.why}</p>`)}</section>`}
    <section><h3>how we know</h3><p class="note">${data.how}</p>${data.gaps.map((gap) => html`<p class="note"><${Gap} reason=${gap.reason} /> ${gap.reason}</p>`)}</section></div>`;
}
