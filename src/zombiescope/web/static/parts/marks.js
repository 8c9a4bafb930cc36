// SPDX-License-Identifier: Apache-2.0
// The small things every view is made of: severities, gaps, names, commands, choices, panels.
import { Component } from "../vendor/preact.js";
import { useEffect, useRef, useState } from "../vendor/hooks.js";
import { html } from "./html.js";
import { say } from "./status.js";

const SEVERITIES = { critical: "Critical", warning: "Warning", ok: "OK", unknown: "Unknown" };

export function Icon({ name }) {
  return html`<svg class="icon" aria-hidden="true"><use href=${`#i-${name}`} /></svg>`;
}

export function Severity({ of, word, quiet }) {
  const known = SEVERITIES[of] ? of : "unknown";
  return html`<span class="sev" data-sev=${known}><${Icon} name=${known} /><span class=${quiet ? "vh" : ""}>${word ?? SEVERITIES[known]}</span></span>`;
}

// Unknown, and why: the reason also stands beside it wherever there is room.
export function Gap({ reason }) {
  return html`<span class="gap" title=${reason || "not known"}>?<span class="vh"> unknown${reason ? `: ${reason}` : ""}</span></span>`;
}

// A machine's name: text, isolated from what is around it, its end kept when it is too long.
export function Name({ children, cut = 0 }) {
  const text = String(children);
  if (!cut || text.length <= cut) return html`<code>${text}</code>`;
  const tail = Math.ceil(cut * 0.6);
  return html`<code title=${text}>${text.slice(0, cut - tail - 1)}…${text.slice(-tail)}</code>`;
}

// The tool's own sentence: what it puts in backticks is a machine's name.
export function Prose({ children }) {
  return String(children ?? "").split("`").map((part, place) => (place % 2 ? html`<code>${part}</code>` : part));
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // no permission, or not a secure address
    const field = document.body.appendChild(document.createElement("textarea"));
    field.value = text;
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  say(`Copied: ${text}`);
}

export function Command({ text, label }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return undefined;
    const timer = setTimeout(() => setCopied(false), 2000);
    return () => clearTimeout(timer);
  }, [copied]);
  return html`<div class="cmd"><code>${text}</code><button class="btn" type="button" aria-label=${`Copy ${label || text}`} onClick=${() => { copy(text); setCopied(true); }}>${copied ? "Copied" : "Copy"}</button></div>`;
}

// One of few: a row of buttons, the chosen one pressed.
export function Pick({ label, options, value, onPick }) {
  return html`<span class="pick">${label} <span role="group" aria-label=${label}>${options.map(([name, text = name]) =>
    html`<button type="button" key=${name} aria-pressed=${String(name === value)} onClick=${() => onPick(name)}>${text}</button>`)}</span></span>`;
}

// A part that fails says so in its place; the others live.
export class Panel extends Component {
  constructor(properties) {
    super(properties);
    this.state = { failed: null };
  }

  static getDerivedStateFromError(error) {
    return { failed: error };
  }

  componentDidCatch(error) {
    reportError(error);
  }

  componentDidUpdate(before) {
    if (this.state.failed && before.of !== this.props.of) this.setState({ failed: null });
  }

  render({ title, note, tools, id, class: kind = "", of, label, children }, { failed }) {
    const error = failed || (of && of.error && !of.data ? of.error : null);
    const isReading = of && !of.data && !of.error;
    return html`<section class=${`panel ${kind}`} id=${id} aria-label=${label || (typeof title === "string" ? title : undefined)} aria-busy=${isReading ? "true" : undefined}>
      ${title && html`<header><h2>${title}</h2>${note && html`<span class="note">${note}</span>`}${tools}</header>`}
      ${error ? html`<${Failure} error=${error} />` : isReading ? html`<p class="reading">reading</p>` : children}
    </section>`;
  }
}

export function Failure({ error }) {
  return html`<div class="panelerror" role="status"><${Gap} reason=${error.message} /><span><b>${error.message}</b>${error.why && html`<br /><span class="note">${error.why}</span>`}${error.hint && html`<br /><span class="note">Would help: ${error.hint}</span>`}</span></div>`;
}

// The table behind a picture: `d` shows and hides it.
export function Behind({ shown, caption, head, rows }) {
  const box = useRef(null);
  if (!shown) return null;
  return html`<div class="datatable" ref=${box} tabindex="0" role="region" aria-label=${caption}><table><caption class="vh">${caption}</caption>
    <thead><tr>${head.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${row.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table></div>`;
}

// What could not be read, in words, with the reason and what would help.
export function Unread({ unknowns }) {
  return unknowns?.length ? html`<${Panel} title="What could not be read"><ul class="unknowns">${unknowns.map((one) => html`<li><${Gap} reason=${one.reason} /><span><b>${one.question}</b><br /><span class="note">${one.reason}${one.hint && html`. Would help: <code>${one.hint}</code>`}</span></span></li>`)}</ul><//>` : null;
}
