// SPDX-License-Identifier: Apache-2.0
// A table of any length: about sixty rows are alive, of one height; scrolled, never paged. One stop for Tab, arrows within.
import { useEffect, useLayoutEffect, useRef, useState } from "../vendor/hooks.js";
import { html } from "./html.js";

const SPARE = 8;

export function Grid({ rows, columns, label, sort, down, onSort, isOpen, onOpen, keyOf, at, onAt, onInside, height = "28rem" }) {
  const box = useRef(null), table = useRef(null), [top, setTop] = useState(0), [room, setRoom] = useState({ row: 28, high: 400 });
  const measure = () => {
    if (!box.current) return;
    const row = Math.round(parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row")) * (getComputedStyle(document.documentElement).getPropertyValue("--row").includes("rem") ? parseFloat(getComputedStyle(document.documentElement).fontSize) : 1));
    setRoom((old) => (old.row === row && old.high === box.current.clientHeight ? old : { row, high: box.current.clientHeight }));
  };
  useEffect(() => {
    const watch = new ResizeObserver(measure);
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  const first = Math.max(0, Math.floor(top / room.row) - SPARE), last = Math.min(rows.length, Math.ceil((top + room.high) / room.row) + SPARE);
  const slots = Math.ceil(room.high / room.row) + 2 * SPARE + 2;
  const visible = () => Math.max(1, Math.floor(room.high / room.row) - 2);
  const reveal = (place) => {
    const head = table.current.tHead.offsetHeight, high = box.current.clientHeight - head, y = place * room.row;
    if (y < box.current.scrollTop) box.current.scrollTop = y;
    else if (y + room.row > box.current.scrollTop + high) box.current.scrollTop = y + room.row - high;
  };
  useLayoutEffect(() => { if (at >= 0 && at < rows.length) reveal(at); }, [at]);
  useLayoutEffect(() => { if (box.current.scrollTop > rows.length * room.row) box.current.scrollTop = 0; }, [rows]);
  const key = (event) => {
    const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: visible(), PageUp: -visible(), Home: -rows.length, End: rows.length };
    if (event.key in steps && !event.ctrlKey && !event.metaKey) { event.preventDefault(); onAt(Math.min(Math.max((at < 0 ? -1 : at) + steps[event.key], 0), rows.length - 1)); }
    else if (event.key === "Enter" && at >= 0 && event.target === table.current) { event.preventDefault(); onOpen(rows[at]); }
  };
  const shown = [];
  for (let place = first; place < last; place++) shown.push(place);
  return html`<div class="scroller" ref=${box} style=${{ height }} onScroll=${() => setTop(box.current.scrollTop)} onPointerEnter=${() => onInside?.(true)} onPointerLeave=${() => onInside?.(false)}>
    <table role="grid" ref=${table} tabindex="0" aria-label=${label} aria-rowcount=${rows.length + 1} aria-activedescendant=${at >= first && at < last ? `row-${at}` : undefined} onKeyDown=${key} onFocusIn=${() => onInside?.(true)} onFocusOut=${() => onInside?.(false)}>
      <thead><tr aria-rowindex="1">${columns.map((column) => html`<th scope="col" key=${column.id} class=${column.class} aria-sort=${sort === column.id ? (down ? "descending" : "ascending") : undefined}><button type="button" tabindex="-1" onClick=${() => onSort(column.id)}>${column.title}${sort === column.id ? (down ? " ↓" : " ↑") : ""}</button></th>`)}</tr></thead>
      <tbody><tr class="pad" aria-hidden="true"><td style=${{ height: `${first * room.row}px` }}></td></tr>
        ${shown.map((place) => { // a slot is used again: only its words change
          const row = rows[place];
          return html`<tr key=${`slot-${place % slots}`} id=${`row-${place}`} aria-rowindex=${place + 2} aria-selected=${String(isOpen(row))} class=${place === at ? "at" : ""} ...${keyOf(row)} onClick=${() => { onAt(place); onOpen(row); }}>${columns.map((column) => html`<td key=${column.id} class=${column.class}>${column.cell(row)}</td>`)}</tr>`;
        })}
        <tr class="pad" aria-hidden="true"><td style=${{ height: `${Math.max(0, rows.length - last) * room.row}px` }}></td></tr></tbody></table></div>`;
}
