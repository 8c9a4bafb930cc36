// SPDX-License-Identifier: Apache-2.0
// The frame around every view: bar, banner, find, help, theme, foot. The entry of the page.
import { render } from "./vendor/preact.js";
import { useEffect, useLayoutEffect, useRef, useState } from "./vendor/hooks.js";
import { html } from "./parts/html.js";
import { follow, go, here, link, openAt } from "./parts/address.js";
import { isSettled, onSettled, openingAddress } from "./parts/ask.js";
import { askPulse, startPulse, useLive } from "./parts/live.js";
import { Failure, Icon, Severity, copy } from "./parts/marks.js";
import { useKeys } from "./parts/keys.js";
import { clock, moment, seconds } from "./parts/words.js";
import { nextTheme, recallTheme } from "./parts/theme.js";
import { saveView } from "./parts/save.js";
import { say, statusRegion } from "./parts/status.js";
import { Find } from "./parts/find.js";
import { Help } from "./parts/help.js";
import { Now } from "./views/now.js";
import { Zombies } from "./views/zombies.js";
import { Time } from "./views/time.js";
import { Cores } from "./views/cores.js";
import { Profiles } from "./views/profiles.js";
import { Services } from "./views/services.js";
import { Remedies } from "./views/remedies.js";
import { Fleet } from "./views/fleet.js";

const VIEWS = [
  ["now", "Now", Now], ["zombies", "Zombies", Zombies], ["time", "Time", Time], ["cores", "Cores", Cores],
  ["profiles", "Profiles", Profiles], ["services", "Services", Services], ["remedies", "Remedies", Remedies], ["fleet", "Fleet", Fleet],
];

function App() {
  const [place, setPlace] = useState(here());
  const [opened, open] = useState("");
  const { live, pulse, answeredAt, askAgainAt, error } = useLive();
  const main = useRef(null), first = useRef(true);
  useEffect(() => follow((next) => { document.getElementById("app").setAttribute("data-ready", "false"); setPlace(next); }), []);
  const offered = VIEWS.filter(([id]) => !pulse || !pulse.views || pulse.views.includes(id));
  useEffect(() => { if (pulse && !offered.some(([one]) => one === here().view)) openAt(link(offered[0][0], here().query)); }, [pulse !== null]);
  const [id, title, View] = offered.find(([one]) => one === place.view) || offered[0];

  useLayoutEffect(() => {
    if (first.current) { first.current = false; return; }
    main.current.focus({ preventScroll: true });
    scrollTo(0, 0);
    say(`${title} view`);
  }, [id]);
  useEffect(() => {
    // A document may lead to the next: loaded is what stays settled.
    let timer = 0;
    const mark = () => {
      clearTimeout(timer);
      const app = document.getElementById("app");
      if (!pulse || !isSettled()) app.setAttribute("data-ready", "false");
      else timer = setTimeout(() => { if (isSettled()) app.setAttribute("data-ready", "true"); }, 50);
    };
    mark();
    const forget = onSettled(mark);
    return () => { clearTimeout(timer); forget(); };
  }, [pulse !== null, place]);
  useEffect(() => {
    if (pulse) document.title = `${title} · ${nodeOf(pulse)} · Zombiescope`;
  }, [id, pulse && pulse.host.name]);

  const digits = Object.fromEntries(offered.map(([one], place) => [String(place + 1), () => go(one)]));
  useKeys({
    ...digits,
    "/": () => open("find"),
    "?": () => open("help"),
    t: () => say(`Theme: ${nextTheme()}`),
    y: () => { copy(location.href); },
    S: () => { saveView(pulse, id); },
    Escape: () => (opened ? (open(""), true) : false),
  });

  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current.focus(); }}>Skip to the answer</a>
    <header class="bar">
      <a class="brand" href=${link("now")} aria-label="Zombiescope"><${Icon} name="mark" /><span>Zombiescope</span></a>
      ${pulse && html`<p class="host">${pulse.mode !== "profile" && html`<${Severity} of=${pulse.severity} quiet=${true} />`}<b title=${nodeOf(pulse)}>${nodeOf(pulse)}</b><small>${pulse.mode === "fleet" ? pulse.label : about(pulse.host)}</small></p>`}
      <nav class="views" aria-label="Views">${offered.map(([one, name], place) => html`<a key=${one} href=${link(one)} aria-current=${one === id ? "page" : undefined} aria-keyshortcuts=${String(place + 1)}>${name}</a>`)}</nav>
      <p class="live spring">${liveWords(live, pulse, answeredAt)}</p>
      <span class="barbuttons"><button class="btn" type="button" aria-keyshortcuts="/" onClick=${() => open("find")}>Find <kbd>/</kbd></button>
      <button class="btn" type="button" aria-keyshortcuts="?" aria-label="Keys and help" onClick=${() => open("help")}>?</button></span>
    </header>
    ${live === "lost" && html`<${Lost} answeredAt=${answeredAt} askAgainAt=${askAgainAt} mode=${pulse.mode} />`}
    <main id="main" tabindex="-1" ref=${main}>
      ${pulse ? html`<${View} key=${id} query=${place.query} pulse=${pulse} live=${live} />` : error ? html`<section class="panel"><h1>This page cannot be filled</h1><${Failure} error=${error} /></section>` : html`<p class="reading">reading</p>`}
    </main>
    <footer class="pagefoot">
      <span class="noprint narrow"><button class="linklike" type="button" onClick=${() => open("find")}>Find</button> · <button class="linklike" type="button" onClick=${() => open("help")}>Help</button></span>
      <span class="noprint"><button class="linklike" type="button" aria-keyshortcuts="S" onClick=${() => saveView(pulse, id)}>Save this view</button></span>
      <span class="noprint"><button class="linklike" type="button" aria-keyshortcuts="y" onClick=${() => copy(location.href)}>Copy its link</button></span>
      <span>This page only reads; it changes nothing on any node.</span>
      ${pulse && html`<span>zombiescope ${pulse.version}</span>`}
      <span class="onpaper">${location.href} · ${pulse?.at ? moment(pulse.at * 1000) : ""}</span>
    </footer>
    <div class="vh" role="status" aria-live="polite" ref=${statusRegion}></div>
    ${opened === "find" && html`<${Find} pulse=${pulse} views=${offered} onClose=${() => open("")} />`}
    ${opened === "help" && html`<${Help} view=${id} title=${title} onClose=${() => open("")} />`}`;
}

function nodeOf(pulse) {
  return pulse.host.name || pulse.label || "this node";
}

function about(host) {
  return [host.cluster && `cluster ${host.cluster}`, host.kernel, host.hierarchy && `memory on ${host.hierarchy}`, host.cpus && `${host.cpus} CPUs`].filter(Boolean).join(" · ");
}

function liveWords(live, pulse, answeredAt) {
  if (!pulse) return live === "loading" ? "reading" : "no answer";
  if (pulse.mode === "profile") return `capture${pulse.at ? ` · ${moment(pulse.at * 1000)}` : ""}`;
  const at = pulse.at * 1000;
  if (pulse.mode === "fleet" && live !== "lost") return `${pulse.is_live ? "asked" : "read"} · ${clock(at)}`;
  if (live === "lost") return `lost · last ${clock(answeredAt)}`;
  if (live === "recording") return `recording · ${moment(at)}`;
  if (live === "saved") return `saved · ${moment(at)}`;
  return `live · ${clock(at)}`;
}

// Said once to those who listen; the age runs on for those who look.
function Lost({ answeredAt, askAgainAt, mode }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const who = mode === "agent" ? "The agent" : "The server", left = Math.max(0, Math.ceil((askAgainAt - now) / 1000));
  return html`<aside class="banner" aria-label="Lost"><${Icon} name="unknown" /><span><b role="alert">${who} does not answer.</b> <span aria-hidden="true">Its last word is ${seconds((now - answeredAt) / 1000)} old.</span> Everything below is as of ${clock(answeredAt)} and does not move. <span aria-hidden="true">Asking again ${left ? `in ${left} s` : "now"}.</span></span>
    <button class="btn spring" type="button" onClick=${askPulse}>Ask now</button></aside>`;
}

recallTheme();
const opening = openingAddress();
if (opening && !location.hash) openAt(opening);
startPulse();
const app = document.getElementById("app");
app.textContent = "";
render(html`<${App} />`, app);
