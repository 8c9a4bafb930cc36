// SPDX-License-Identifier: Apache-2.0
// Zombies: whose are they, what holds them? The live tree, groups, every row of the chosen group, and one zombie's story.
import { useEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
import { html } from "../parts/html.js";
import { choose } from "../parts/address.js";
import { useDocument } from "../parts/ask.js";
import { version } from "../parts/live.js";
import { useKeys } from "../parts/keys.js";
import { Behind, Failure, Gap, Name, Panel, Pick } from "../parts/marks.js";
import { GROUPS, fileOf, grouping, groups, herd, inOrder, nameOf, pathOf, rowsOf, shared, wordOf } from "../parts/herd.js";
import { Grid } from "../parts/grid.js";
import { Icicle, grown } from "../parts/icicle.js";
import { Making } from "../parts/making.js";
import { Story } from "../parts/story.js";
import { sayLater } from "../parts/status.js";
import { bytes, clock, count, day, moment, percent, plural, seconds } from "../parts/words.js";

const SIZES = ["zombies", "bytes"];
const MOST_GROUPS = 200;

export function Zombies({ query, pulse }) {
  const asked = useDocument("/api/v1/zombies", version(pulse, "zombies", true)), tree = useDocument("/api/v1/tree", version(pulse, "tree", true));
  const [data, setData] = useState(null), [inside, setInside] = useState(false), field = useRef(null);
  // Rows keep their order while somebody is inside: the newer look waits for `r`.
  useEffect(() => { if (asked.data && asked.data !== data && (!data || !inside)) setData(asked.data); }, [asked.data, inside]);
  const made = useMemo(() => (data ? herd(data) : null), [data]);
  const by = GROUPS.includes(query.group) ? query.group : "maker", size = query.size === "bytes" ? "bytes" : "zombies";
  const colours = useMemo(() => (made ? pinColours(made) : () => ""), [made]);
  const root = useMemo(() => (tree.data && tree.data.nodes.length ? grown(tree.data.nodes) : null), [tree.data]);
  useKeys({
    g: () => choose({ group: next(GROUPS, by), open: "" }), s: () => choose({ size: size === "bytes" ? "" : "bytes" }),
    x: () => choose({ q: "", open: "", node: "" }), q: () => { field.current.focus(); }, r: () => { setData(asked.data); },
    d: () => choose({ data: query.data === "1" ? "" : "1" }),
    Escape: () => (query.z ? (choose({ z: "" }), true) : query.q || query.open || query.node ? (choose({ q: "", open: "", node: "" }), true) : false),
  });
  if (!made) return html`<h1 class="vh">Zombies</h1>${asked.making ? html`<${Making} making=${asked.making} of="every zombie" />` : html`<${Panel} of=${asked} label="Zombies" />`}`;
  const isNewer = asked.data && asked.data !== data;
  return html`<h1 class="answer">${sentence(made)}</h1>
    <div class="tools">
      <${Pick} label="Group by" options=${GROUPS.map((name) => [name])} value=${by} onPick=${(name) => choose({ group: name === "maker" ? "" : name, open: "" })} />
      <${Pick} label="Size by" options=${SIZES.map((name) => [name])} value=${size} onPick=${(name) => choose({ size: name === "bytes" ? name : "" })} />
      <input class="field" type="search" ref=${field} placeholder="Filter: path, maker, file, id" aria-label="Filter" value=${query.q || ""} onInput=${(event) => choose({ q: event.target.value })} onKeyDown=${(event) => { if (event.key === "Escape") { event.preventDefault(); event.stopPropagation(); event.target.blur(); } }} />
      ${isNewer && html`<button class="btn" type="button" aria-keyshortcuts="r" onClick=${() => setData(asked.data)}>${newer(data, asked.data)} <kbd>r</kbd></button>`}
      <span class="note spring wide how" title=${how(data)}>${how(data)}</span>
    </div>
    <div class=${query.z ? "withside" : "withside nodrawer"}>
      <div class="withmain">
        <${Panel} of=${tree} title="Live cgroups, and what their dead hold" label="Live tree" tools=${html`<span class="note">width is ${size}</span><span class="legend spring">${byColour(made).map(([colour, words]) => html`<span><i class=${`key ${colour}`}></i>${words}</span>`)}</span>`}>
          ${tree.making ? html`<${Making} making=${tree.making} of="the tree" />` : root ? html`<${Icicle} root=${root} size=${size} chosen=${query.node} maker=${by === "maker" ? query.open : undefined} colourOf=${colours}
            onNode=${(path) => choose({ node: path === "/" ? "" : path, open: "" })} onLeaf=${(leaf) => choose({ node: leaf.path === "/" ? "" : leaf.path, group: "", open: leaf.maker })} label=${treeWords(root)} />` : tree.data && html`<p class="note">No live cgroup has zombies.</p>`}
          ${tree.data && tree.data.gaps.map((gap) => html`<p class="note"><${Gap} reason=${gap.reason} /> ${gap.reason}${gap.hint && html`. Would help: <code>${gap.hint}</code>`}</p>`)}
          <${Behind} shown=${query.data === "1"} caption="Live cgroups with zombies" head=${["cgroup", "zombies", "bytes held"]} rows=${root ? flat(root) : []} /><//>
        <${Groups} made=${made} by=${by} query=${query} colours=${colours} />
        <${Rows} made=${made} by=${by} query=${query} colours=${colours} onInside=${setInside} />
        ${data.gaps.length > 0 && html`<${Panel} title="What could not be read"><ul class="unknowns">${data.gaps.map((gap) => html`<li><${Gap} reason=${gap.reason} /><span><b>${gap.fact}</b><br /><span class="note">${gap.reason}${gap.hint && html`. Would help: <code>${gap.hint}</code>`}</span></span></li>`)}</ul><//>`}
      </div>
      ${query.z && html`<${Story} id=${query.z} colours=${colours} version=${data.at} />`}
    </div>`;
}

const next = (list, one) => list[(list.indexOf(one) + 1) % list.length];

function sentence(made) {
  const { document } = made;
  if (!made.count) return html`No zombies: ${count(document.counted ?? 0)} counted, ${count(document.live ?? 0)} live.`;
  const [most] = groups(made, "maker"), [pin] = groups(made, "pin"), all = most.zombies === made.count;
  return html`<b>${plural(made.count, "zombie")}</b>${all ? ", all" : `, ${percent(most.zombies / made.count)} of them`} made by <${Name} cut=${60}>${wordOf(made, "maker", most.name)}<//>; ${pin.zombies === made.count ? "all" : percent(pin.zombies / made.count)} held by ${wordOf(made, "pin", pin.name)}.`;
}

function how(document) {
  const tiers = { bpf: "walked by BPF", kcore: "walked through /proc/kcore", pages: "by pages", residual: "by residual bytes" };
  const { reconciliation } = document, at = `at ${clock(document.at * 1000)}`;
  return `${tiers[document.tier] || document.tier || "seen"} ${at}${reconciliation ? `, ${reconciliation.agree ? "agrees with counted minus live" : reconciliation.why}` : ""}`;
}

function newer(old, fresh) {
  const more = fresh.count - old.count;
  return more > 0 ? `${count(more)} more in a newer look` : more < 0 ? `${count(-more)} fewer in a newer look` : "a newer look";
}

// Four pins have a colour, by rank; the others share one.
function legend(made) {
  return groups(made, "pin").map((group, place) => [group.name, place < 4 ? `k${place + 1}` : "k0"]);
}

// Each colour once, with all that it stands for.
function byColour(made) {
  const found = new Map();
  for (const [pin, colour] of legend(made)) found.set(colour, [...(found.get(colour) || []), wordOf(made, "pin", pin)]);
  return [...found].map(([colour, words]) => [colour, words.length > 2 ? `${words.length} others` : words.join(", ")]);
}

function pinColours(made) {
  const known = new Map(legend(made));
  return (pin) => known.get(pin) || "k0";
}

function treeWords(root) {
  const parts = root.children.map((node) => `${node.path} ${node.zombies === null ? "not known" : count(node.zombies)}`);
  return `Cgroup tree: ${root.zombies === null ? "not known how many" : count(root.zombies)} zombies. ${parts.slice(0, 6).join(", ")}`;
}

function flat(node) {
  return [[node.path, node.zombies === null ? "not known" : count(node.zombies), node.bytes === null ? "not known" : bytes(node.bytes)], ...node.children.flatMap(flat)];
}

function ages({ youngest, oldest }) {
  if (!Number.isFinite(oldest)) return html`<${Gap} reason="when they died was not seen" />`;
  const low = seconds(Math.max(0, youngest)), high = seconds(Math.max(0, oldest)), [value, unit] = low.split(" ");
  return low === high ? low : high.endsWith(` ${unit}`) ? `${value} to ${high}` : `${low} to ${high}`;
}

function Groups({ made, by, query, colours }) {
  const list = useMemo(() => groups(made, by), [made, by]), { title } = grouping(made, by), body = useRef(null);
  if (!made.count) return null;
  const pick = (name) => choose({ open: String(name) === query.open ? "" : String(name) });
  const key = (event) => {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
    if (!step || !event.target.closest("tr")) return;
    event.preventDefault();
    event.stopPropagation();
    const buttons = [...body.current.querySelectorAll("td button")], place = buttons.indexOf(document.activeElement);
    buttons[Math.min(Math.max(place + step, 0), buttons.length - 1)]?.focus();
  };
  const dead = by === "age" ? "pin" : "age";
  return html`<section class="panel rows" aria-label=${`Groups by ${title}`}><div class=${list.length > 6 ? "shortscroll" : ""}><table><thead><tr><th scope="col">${title}</th><th scope="col" class="num w1" aria-sort=${by === "age" ? undefined : "descending"}>zombies${by === "age" ? "" : " ↓"}</th><th scope="col" class="opt w3">share of all</th>${by !== "pin" && html`<th scope="col" class="opt w3">mostly pinned by</th>`}<th scope="col" class="num w1">held</th>${dead === "age" && html`<th scope="col" class="num opt w2">dead for</th>`}</tr></thead>
    <tbody ref=${body} onKeyDown=${key}>${list.slice(0, MOST_GROUPS).map((group) => html`<tr key=${group.code} aria-selected=${String(String(group.name) === query.open)} onClick=${() => pick(group.name)}>
      <td class="cut"><button class="linklike plain" type="button" title=${String(group.name)} aria-pressed=${String(String(group.name) === query.open)} onClick=${(event) => { event.stopPropagation(); pick(group.name); }}>${by === "age" || by === "pin" || group.name === null ? wordOf(made, by, group.name) : html`<code>${wordOf(made, by, group.name)}</code>`}</button></td>
      <td class="num"><b>${count(group.zombies)}</b></td>
      <td class="opt"><svg class="chart share" aria-hidden="true"><rect width=${`${Math.max(0.4, (100 * group.zombies) / made.count)}%`} height="10" class=${`f${colours(group.pin).slice(1)}`} /></svg></td>
      ${by !== "pin" && html`<td class="opt cut"><i class=${`key ${colours(group.pin)}`}></i>${wordOf(made, "pin", group.pin)}</td>`}
      <td class="num">${group.bytes ? bytes(group.bytes) : "no pages"}</td>${dead === "age" && html`<td class="num opt">${ages(group)}</td>`}</tr>`)}</tbody></table></div>
    ${list.length > MOST_GROUPS && html`<p class="note">the ${MOST_GROUPS} largest of ${count(list.length)} groups; the filter reaches all</p>`}</section>`;
}

function useRows(made, by, query, sort, down) {
  const [rows, setRows] = useState(null), asked = useRef(0);
  useEffect(() => {
    const number = ++asked.current, isStale = () => number !== asked.current;
    (async () => {
      const found = await rowsOf(made, { by, open: query.open, node: query.node, text: query.q }, isStale);
      const ordered = found && await inOrder(made, found, sort, down, isStale);
      if (!ordered || isStale()) return;
      setRows(ordered);
      if (query.q) sayLater(`${plural(ordered.length, "row")} of ${count(made.count)}`);
    })();
  }, [made, by, query.open, query.node, query.q, sort, down]);
  return rows;
}

const ALL = { born: ["born", "w2"], died: ["died", "w2"], lived: ["lived", "num opt w0"], id: ["id", "opt w1"], maker: ["maker", "opt"], path: ["former path", "opt"], pin: ["pinned by", "w3"], bytes: ["held", "num opt w1"], file: ["file", ""], freed: ["freed by", "opt w3"] };

function Rows({ made, by, query, colours, onInside }) {
  const sort = (query.sort || "").replace(/^-/, "") in ALL ? query.sort.replace(/^-/, "") : "died", down = Boolean(query.sort?.startsWith("-"));
  const rows = useRows(made, by, query, sort, down), [at, setAt] = useState(-1);
  useEffect(() => { if (rows && query.z) setAt(rows.findIndex((row) => String(made.id[row]) === query.z)); }, [rows]);
  const same = useMemo(() => (rows ? alike(made, rows) : {}), [rows]);
  const columns = useMemo(() => (rows ? columnsFor(made, same, colours) : []), [rows, same]);
  if (!rows) return html`<section class="panel rows rowsbox"><p class="reading">reading</p></section>`;
  const title = query.open !== undefined && query.open !== "" ? html`${count(rows.length)} of <${Name} cut=${70}>${wordOf(made, by, query.open === "null" ? null : query.open)}<//>` : query.q || query.node ? `${count(rows.length)} of ${count(made.count)} zombies` : `All ${plural(made.count, "zombie")}`;
  return html`<section class="panel rows" aria-label="Zombies, row by row"><header><h2>${title}</h2><span class="note">${sharedWords(same)}</span></header>
    ${rows.length ? html`<${Grid} rows=${rows} columns=${columns} label="Zombies" sort=${sort} down=${down} at=${at} onAt=${setAt} onInside=${onInside} height=${`min(60vh, calc(${rows.length + 1} * var(--row) + 10px))`}
      onSort=${(id) => choose({ sort: sort === id && !down ? `-${id}` : id === "died" ? "" : id })} isOpen=${(row) => String(made.id[row]) === query.z} onOpen=${(row) => choose({ z: String(made.id[row]) }, true)} keyOf=${(row) => ({ "data-zombie": String(made.id[row]) })} />`
      : html`<p class="note">No zombie is like this. <kbd>x</kbd> clears the filter.</p>`}
    <footer class="note">${plural(rows.length, "row")}, scrolled, not paged <span class="wide noprint">· <kbd>j</kbd> <kbd>k</kbd> row · <kbd>Enter</kbd> story · <kbd>g</kbd> group by · <kbd>s</kbd> size by · <kbd>q</kbd> filter · <kbd>Esc</kbd> close the story</span></footer></section>`;
}

function alike(made, rows) {
  return { maker: shared(made, rows, [made.maker]), path: shared(made, rows, [made.folder, made.name]), freed: shared(made, rows, [made.freedBy]), bytes: rows.every((row) => made.bytes[row] === made.bytes[rows[0]]), fileFolder: shared(made, rows, [made.fileFolder]), today: sameDay(made, rows), noDeath: rows.every((row) => Number.isNaN(made.died[row])), noBirth: rows.every((row) => Number.isNaN(made.born[row])), noFile: rows.every((row) => fileOf(made, row) === null) };
}

function sameDay(made, rows) {
  let low = Infinity, high = -Infinity;
  for (const row of rows) { const died = made.died[row]; if (died < low) low = died; if (died > high) high = died; }
  return Number.isFinite(low) && day(low * 1000) === day(high * 1000) ? day(low * 1000) : undefined;
}

function sharedWords(same) {
  const parts = [];
  if (same.path) parts.push(html`former path of all: <${Name} cut=${80}>${same.path}<//>`);
  else if (same.maker) parts.push(html`made by <${Name} cut=${60}>${same.maker}<//>`);
  if (same.noDeath) parts.push("nobody saw when they died");
  return parts.map((part, place) => html`${place ? " · " : ""}${part}`);
}

function columnsFor(made, same, colours) {
  const unknown = html`<${Gap} reason="not seen" />`, freed = (text) => (text ? text.split(" + ").map((action) => made.words.actions?.[action] || action).join(" and ") : null);
  const path_ = (text) => { const place = text.lastIndexOf("/", text.length - 2), tail = text.slice(Math.max(place, text.length - 28)); return html`<code class="mid" title=${text}><span>${text.slice(0, text.length - tail.length)}</span><span>${tail}</span></code>`; };
  const cells = {
    born: (row) => (Number.isNaN(made.born[row]) ? unknown : moment(made.born[row] * 1000)),
    died: (row) => (Number.isNaN(made.died[row]) ? unknown : same.today ? clock(made.died[row] * 1000, 100) : moment(made.died[row] * 1000)),
    lived: (row) => (Number.isNaN(made.lived[row]) ? unknown : seconds(Math.max(0, made.lived[row]))),
    id: (row) => html`<code>${String(made.id[row])}</code>`,
    maker: (row) => { const name = nameOf(made.maker, row); return name === null ? "not known" : path_(name); },
    path: (row) => { const path = pathOf(made, row); return path === null ? unknown : path_(path); },
    pin: (row) => html`<i class=${`key ${colours(nameOf(made.pin, row))}`}></i>${nameOf(made.pins, row) === null ? "not known" : nameOf(made.pins, row).split("+").map((kind) => wordOf(made, "pin", kind)).join(" and ")}`,
    bytes: (row) => (Number.isNaN(made.bytes[row]) ? unknown : made.bytes[row] ? bytes(made.bytes[row]) : "no pages"),
    file: (row) => { const file = fileOf(made, row); return file === null ? "" : path_(file); },
    freed: (row) => freed(nameOf(made.freedBy, row)) ?? unknown,
  };
  const wanted = [...(same.noDeath ? (same.noBirth ? [] : ["born"]) : ["died", "lived"]), "id", ...(same.maker === undefined ? ["maker"] : []), ...(same.path === undefined ? ["path"] : []), "pin", ...(same.bytes ? [] : ["bytes"]), ...(same.noFile ? [] : ["file"]), "freed"];
  return wanted.map((id) => ({ id, title: id === "died" && same.today ? `died on ${same.today}` : ALL[id][0], class: `${ALL[id][1]} cut`, cell: cells[id] }));
}
