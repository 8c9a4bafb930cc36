// SPDX-License-Identifier: Apache-2.0
// Every node a cell, on a canvas: blocks of cells laid out once, stamped as pixels, so that a frame costs as much as the canvas is large
// however many nodes there are. What is under the pointer lies on a second canvas above it.
import { colour, onRepaint, systemFont } from "./paper.js";
import { boundsOf, rowOf, stepOf, wordOf } from "./fleet_data.js";

const TITLE = 22, GAP = 18, MOST_ZOOM = 24, NAMED = 64;
const KINDS = ["critical", "warning", "unknown", "ok", "h0", "h1", "h2", "h3", "h4", "none"];
const SIZES = [16, 14, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2], SHAPES = [1, 1.6, 2.6, 4, 8];

export class Cells {
  constructor(canvas, above, tell) {
    Object.assign(this, { canvas, above, tell, zoom: 1, x: 0, y: 0, at: -1, chosen: -1, blocks: [], stamps: new Map() });
    this.forget = onRepaint(() => { this.stamps.clear(); this.draw(); });
    above.addEventListener("pointermove", (event) => this.#move(event));
    above.addEventListener("pointerdown", (event) => this.#press(event));
    above.addEventListener("pointerup", (event) => this.#release(event));
    above.addEventListener("pointercancel", () => { this.pressed = null; });
    above.addEventListener("pointerleave", () => { if (!this.pressed) this.#point(this.chosen); });
    above.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    above.addEventListener("keydown", (event) => this.#key(event));
    this.watch = new ResizeObserver(() => this.#fit());
    this.watch.observe(canvas.parentElement);
  }

  close() {
    this.watch.disconnect();
    this.forget();
    cancelAnimationFrame(this.waiting);
  }

  // `members`: 1 for those that are in sight, null for all.
  show({ fleet, groups, titles, by, members, chosen }) {
    const isOther = fleet !== this.fleet || groups !== this.groups, before = this.at >= 0 && this.fleet ? wordOf(this.fleet.node, this.at) : null;
    const stays = this.fleet && fleet !== this.fleet && this.groups.length === groups.length ? { zoom: this.zoom, x: this.x, y: this.y } : null;
    Object.assign(this, { fleet, groups, titles, members, chosen });
    const figures = fleet.figures.get(by);
    this.bounds = figures ? boundsOf(figures) : null;
    if (figures !== this.figures || isOther) this.kinds = kindsOf(fleet, figures, this.bounds);
    this.figures = figures;
    if (isOther) { // newer numbers of the same fleet leave the eye where it is
      this.at = rowOf(fleet, before);
      this.#lay();
      if (stays) { this.zoom = stays.zoom; this.move(stays.x, stays.y); }
    }
    this.draw();
  }

  #fit() {
    if (this.fleet && this.canvas.parentElement.clientWidth !== this.wide) { this.#lay(); this.draw(); }
  }

  // The largest cells with which all blocks fit into the height; the smallest where none do, and then they reach below.
  #lay() {
    this.wide = this.canvas.parentElement.clientWidth;
    const room = Math.max(220, Math.min(innerHeight * 0.5, 900));
    let found = null;
    for (const size of SIZES) {
      for (const shape of SHAPES) {
        const laid = flow(this.groups, this.wide, size, shape);
        if (!found || laid.high < found.high) found = laid;
        if (laid.high <= room) { found = laid; break; }
      }
      if (found.high <= room) break;
      if (size !== SIZES.at(-1)) found = null;
    }
    Object.assign(this, { blocks: found.blocks, size: found.size, bottom: found.high, high: Math.ceil(Math.min(found.high, room)), zoom: 1, x: 0, y: 0 });
  }

  draw() {
    cancelAnimationFrame(this.waiting);
    this.waiting = 0;
    if (!this.fleet || !this.wide) return;
    const ratio = devicePixelRatio || 1, width = Math.round(this.wide * ratio), height = Math.round(this.high * ratio);
    for (const one of [this.canvas, this.above]) {
      if (one.width !== width || one.height !== height) { one.width = width; one.height = height; }
      one.style.height = `${this.high}px`;
    }
    this.canvas.parentElement.style.height = `${this.high}px`;
    this.above.classList.toggle("moves", this.zoom > 1 || this.bottom > this.high);
    if (!this.image || this.image.width !== width || this.image.height !== height) {
      this.image = new ImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
    } else this.pixels.fill(0);
    for (const block of this.blocks) this.#block(block, ratio, width, height);
    const paper = this.canvas.getContext("2d");
    paper.putImageData(this.image, 0, 0);
    paper.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.#words(paper);
    this.#mark();
  }

  soon() {
    if (!this.waiting) this.waiting = requestAnimationFrame(() => this.draw());
  }

  #block(block, ratio, width, height) {
    const step = this.size * this.zoom * ratio, left = (block.x * this.zoom - this.x) * ratio, top = ((block.y + TITLE) * this.zoom - this.y) * ratio;
    const side = Math.max(1, Math.floor(step) - (step >= 4 ? 1 : 0)), { rows } = block.group, { columns } = block;
    const firstColumn = Math.max(0, Math.floor(-left / step)), lastColumn = Math.min(columns, Math.ceil((width - left) / step));
    const firstLine = Math.max(0, Math.floor(-top / step)), lastLine = Math.min(block.lines, Math.ceil((height - top) / step));
    for (let line = firstLine; line < lastLine; line++) {
      const y = Math.round(top + line * step);
      for (let column = firstColumn; column < lastColumn; column++) {
        const place = line * columns + column;
        if (place >= rows.length) break;
        const row = rows[place];
        this.#stamp(this.kinds[row], this.members && !this.members[row], side, Math.round(left + column * step), y, width, height);
      }
    }
  }

  #stamp(kind, isDim, side, left, top, width, height) {
    const stamp = this.#made(kind, isDim, side), { pixels } = this;
    const from = Math.max(0, -left), to = Math.min(side, width - left), last = Math.min(side, height - top);
    for (let y = Math.max(0, -top); y < last; y++) {
      let target = (top + y) * width + left + from;
      for (let x = from, source = y * side + from; x < to; x++) pixels[target++] = stamp[source++];
    }
  }

  // One cell's pixels, drawn once for each kind and size.
  #made(kind, isDim, side) {
    const key = kind * 2 + (isDim ? 1 : 0) + side * 32;
    let stamp = this.stamps.get(key);
    if (!stamp) {
      if (this.stamps.size > 400) this.stamps.clear();
      const paper = new OffscreenCanvas(side, side).getContext("2d", { willReadFrequently: true });
      paper.globalAlpha = isDim ? 0.22 : 1;
      shape(paper, KINDS[kind], side);
      stamp = new Uint32Array(paper.getImageData(0, 0, side, side).data.buffer);
      this.stamps.set(key, stamp);
    }
    return stamp;
  }

  #words(paper) {
    paper.font = systemFont(12, "600");
    paper.fillStyle = colour("ink");
    for (const block of this.blocks) {
      const x = block.x * this.zoom - this.x, wide = block.columns * this.size * this.zoom + GAP - 4, top = (block.y + TITLE) * this.zoom - this.y - 6;
      const y = Math.max(top, 15), left = Math.max(x, 0); // it stays in sight as long as any of its cells does
      if (y > this.high + TITLE || x > this.wide || x + wide < 0 || top + block.lines * this.size * this.zoom < 20) continue;
      paper.save();
      paper.beginPath();
      paper.rect(x, y - 16, wide, 22);
      paper.clip();
      if (y > top) {
        paper.fillStyle = colour("panel");
        paper.fillRect(left, 0, paper.measureText(this.titles[block.number]).width + 12, 21);
        paper.fillStyle = colour("ink");
      }
      paper.fillText(this.titles[block.number], y > top ? left + 5 : left, y);
      paper.restore();
    }
    if (this.size * this.zoom >= NAMED) this.#names(paper);
  }

  // Names in cells that have room for them, on a ground of their own.
  #names(paper) {
    const side = this.size * this.zoom;
    paper.font = systemFont(11);
    this.#visible((row, x, y) => {
      const name = this.fleet.node.names[this.fleet.node.codes[row]], text = name.length * 6.2 > side ? `…${name.slice(-Math.floor(side / 6.8))}` : name;
      paper.fillStyle = colour("panel");
      paper.fillRect(x + 1, y + side - 17, side - 3, 15);
      paper.fillStyle = colour("ink");
      paper.fillText(text, x + 3, y + side - 6, side - 6);
    });
  }

  #visible(visit) {
    const side = this.size * this.zoom;
    for (const block of this.blocks) {
      const left = block.x * this.zoom - this.x, top = (block.y + TITLE) * this.zoom - this.y;
      for (let line = Math.max(0, Math.floor(-top / side)); line < block.lines && top + line * side < this.high; line++) {
        for (let column = Math.max(0, Math.floor(-left / side)); column < block.columns && left + column * side < this.wide; column++) {
          const place = line * block.columns + column;
          if (place < block.group.rows.length) visit(block.group.rows[place], left + column * side, top + line * side);
        }
      }
    }
  }

  // The rings around the chosen node and the one under pointer or keyboard.
  #mark() {
    const ratio = devicePixelRatio || 1, paper = this.above.getContext("2d"), side = this.size * this.zoom;
    paper.setTransform(ratio, 0, 0, ratio, 0, 0);
    paper.clearRect(0, 0, this.wide, this.high);
    for (const [row, width] of [[this.chosen, 2], [this.at, 2]]) {
      const place = row >= 0 && this.#placeOf(row);
      if (!place) continue;
      const x = place.block.x * this.zoom - this.x + place.column * side, y = (place.block.y + TITLE) * this.zoom - this.y + place.line * side;
      paper.lineWidth = width + 3;
      paper.strokeStyle = colour("panel");
      paper.strokeRect(x - 2, y - 2, side + 3, side + 3);
      paper.lineWidth = width;
      paper.strokeStyle = colour(row === this.chosen ? "ink" : "link");
      paper.strokeRect(x - 2, y - 2, side + 3, side + 3);
    }
  }

  #placeOf(row) {
    for (const block of this.blocks) {
      const place = block.group.rows.indexOf(row);
      if (place >= 0) return { block, place, line: Math.floor(place / block.columns), column: place % block.columns };
    }
    return null;
  }

  #under(event) {
    const box = this.above.getBoundingClientRect(), x = (event.clientX - box.left + this.x) / this.zoom, y = (event.clientY - box.top + this.y) / this.zoom;
    for (const block of this.blocks) {
      const column = Math.floor((x - block.x) / this.size), line = Math.floor((y - block.y - TITLE) / this.size), place = line * block.columns + column;
      if (column >= 0 && column < block.columns && line >= 0 && place >= 0 && place < block.group.rows.length) return block.group.rows[place];
    }
    return -1;
  }

  #point(row, isKey = false) {
    if (row === this.at && !isKey) return;
    this.at = row;
    this.#mark();
    this.tell.point(row < 0 ? this.chosen : row, isKey);
  }

  #move(event) {
    if (!this.pressed) { this.#point(this.#under(event)); return; }
    const { clientX, clientY } = event;
    if (!this.pressed.moved && Math.hypot(clientX - this.pressed.x, clientY - this.pressed.y) < 4) return;
    this.pressed.moved = true;
    this.move(this.pressed.left - (clientX - this.pressed.x), this.pressed.top - (clientY - this.pressed.y));
  }

  #press(event) {
    if (event.button) return;
    this.pressed = { x: event.clientX, y: event.clientY, left: this.x, top: this.y };
    this.above.setPointerCapture(event.pointerId);
  }

  #release(event) {
    const { pressed } = this;
    this.pressed = null;
    if (!pressed || pressed.moved) return;
    const row = this.#under(event);
    if (row >= 0) { this.at = row; this.tell.choose(row); }
  }

  // The page scrolls with the wheel; with Ctrl, or two fingers, the picture zooms.
  #wheel(event) {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const box = this.above.getBoundingClientRect();
    this.scale(Math.exp(-event.deltaY / 240), event.clientX - box.left, event.clientY - box.top);
  }

  scale(by, x = this.wide / 2, y = this.high / 2) {
    const zoom = Math.min(Math.max(this.zoom * by, 1), MOST_ZOOM), factor = zoom / this.zoom;
    this.zoom = zoom;
    this.move((this.x + x) * factor - x, (this.y + y) * factor - y);
  }

  move(x, y) {
    this.x = Math.min(Math.max(x, 0), Math.max(0, this.wide * this.zoom - this.wide));
    this.y = Math.min(Math.max(y, 0), Math.max(0, this.bottom * this.zoom - this.high));
    this.soon();
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }, zooms = { "+": 1.5, "=": 1.5, "-": 1 / 1.5, 0: 1e-9 };
    if (event.key in zooms) this.scale(zooms[event.key], ...this.#eye());
    else if (event.key === "Enter" && this.at >= 0) this.tell.choose(this.at);
    else if (event.key in steps) this.#walk(...steps[event.key]);
    else if (event.key === "PageDown" || event.key === "PageUp") this.#group(event.key === "PageDown" ? 1 : -1);
    else if (event.key === "Home" || event.key === "End") this.#go(this.blocks.at(event.key === "Home" ? 0 : -1), event.key === "Home" ? 0 : Infinity);
    else return;
    event.preventDefault();
  }

  #eye() {
    const place = this.at >= 0 && this.#placeOf(this.at), side = this.size * this.zoom;
    return place ? [place.block.x * this.zoom - this.x + (place.column + 0.5) * side, (place.block.y + TITLE) * this.zoom - this.y + (place.line + 0.5) * side] : [this.wide / 2, this.high / 2];
  }

  #walk(across, down) {
    const from = this.#placeOf(this.at >= 0 ? this.at : this.chosen);
    if (!from) { this.#go(this.blocks[0], 0); return; }
    const { block, place } = from, next = place + across + down * block.columns, length = block.group.rows.length;
    if (next >= 0 && next < length) this.#go(block, next);
    else if (next >= length && down > 0 && from.line < block.lines - 1) this.#go(block, length - 1);
    else this.#group(next < 0 ? -1 : 1);
  }

  #group(step) {
    const from = this.#placeOf(this.at >= 0 ? this.at : this.chosen), number = from ? this.blocks.indexOf(from.block) + step : 0;
    if (this.blocks[number]) this.#go(this.blocks[number], 0);
  }

  #go(block, place) {
    const at = Math.min(place, block.group.rows.length - 1), side = this.size * this.zoom;
    this.#point(block.group.rows[at], true);
    const x = block.x * this.zoom + (at % block.columns) * side, y = (block.y + TITLE) * this.zoom + Math.floor(at / block.columns) * side;
    if (x < this.x || x + side > this.x + this.wide || y - TITLE < this.y || y + side > this.y + this.high) this.move(x - this.wide / 2, y - this.high / 2);
  }
}

function kindsOf(fleet, figures, bounds) {
  if (!figures) return fleet.level;
  return Uint8Array.from(figures, (value) => (Number.isNaN(value) ? 9 : 4 + stepOf(value, bounds)));
}

function flow(groups, wide, size, shape) {
  const blocks = [], most = Math.max(1, Math.floor(wide / size)), least = Math.min(most, Math.ceil(240 / size));
  let x = 0, y = 0, tall = 0;
  groups.forEach((group, number) => {
    const count = group.rows.length, columns = Math.min(most, Math.max(least, Math.ceil(Math.sqrt(count * shape)))), lines = Math.ceil(count / columns);
    if (x && x + columns * size > wide) { x = 0; y += tall + 8; tall = 0; }
    blocks.push({ group, number, columns, lines, x, y });
    x += columns * size + GAP;
    tall = Math.max(tall, TITLE + lines * size);
  });
  return { blocks, size, high: y + tall + 2 };
}

// A kind is told by its shape as well: full, triangle, hollow, dot; numbers by how much of the cell they fill.
export function shape(paper, kind, side) {
  const step = kind.startsWith("h") ? Number(kind[1]) : -1;
  paper.fillStyle = paper.strokeStyle = colour(step >= 0 ? (step ? kind : "edge") : kind === "none" ? "unknown" : kind === "ok" ? "c0" : kind);
  if (side < 4 || kind === "critical") { if (side >= 4 || (kind !== "ok" && step !== 0)) paper.fillRect(0, 0, side, side); else { paper.globalAlpha *= 0.45; paper.fillRect(0, 0, side, side); } } else if (kind === "warning") {
    paper.beginPath();
    paper.moveTo(0, 0);
    paper.lineTo(0, side);
    paper.lineTo(side, side);
    paper.fill();
  } else if (kind === "unknown" || kind === "none") {
    const line = Math.max(1, side / 9);
    paper.lineWidth = line;
    paper.strokeRect(line / 2, line / 2, side - line, side - line);
    if (kind === "none" && side >= 7) { paper.beginPath(); paper.moveTo(0, side); paper.lineTo(side, 0); paper.stroke(); }
  } else if (kind === "ok") {
    const dot = Math.max(2, Math.round(side / 3)), edge = Math.floor((side - dot) / 2);
    paper.fillRect(edge, edge, dot, dot);
  } else {
    const fill = Math.max(2, Math.round(side * [0.3, 0.55, 0.7, 0.85, 1][step])), edge = Math.floor((side - fill) / 2);
    paper.fillRect(edge, edge, fill, fill);
  }
}
