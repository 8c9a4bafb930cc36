// SPDX-License-Identifier: Apache-2.0
// The flame graph: boxes laid out once, drawn from flat arrays, so that tens of thousands stay quick.
import { colour } from "./paper.js";

const ROW = 18;
// Five areas of the kernel and what is outside of it; the first that a name belongs to.
export const AREAS = [
  ["memory", "memory", /mem_cgroup|memcg|shrink|lru|folio|reclaim|kswapd|page(?!_fault$)|alloc|slab|kmem|swap|vm_|mm_|zap|unmap|oom|vmpressure|list_lru/],
  ["files", "files", /vfs|ext4|xfs|btrfs|nfs|kernfs|seq_|proc_|d_lookup|dentry|inode|path|file|read|write|open|getdents|cgroup|sysfs|shmem|tmpfs|jbd|bio|blk|writeback/],
  ["network", "network", /net|napi|tcp|udp|ip_|ip6_|skb|sock|inet|eth|xdp|dev_|qdisc|nf_/],
];
const OF_PROCESSES = /^\[(vdso|vsyscall|stack|heap|anon|uprobes)/; // written as the kernel's modules are, and none of them

export class FlameGraph {
  constructor(canvas, onSelect, onZoom) {
    this.canvas = canvas;
    this.onZoom = onZoom;
    this.context = canvas.getContext("2d");
    this.onSelect = onSelect;
    this.selected = 0;
    this.root = 0;
    this.query = "";
    canvas.addEventListener("pointermove", (event) => this.#hover(event));
    canvas.addEventListener("click", (event) => { const box = this.#at(event); if (box >= 0) this.zoom(box); });
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  show(data) {
    this.data = data;
    const { parent, frame, total, before } = data.boxes, count = parent.length;
    const share = new Float64Array(count);
    for (let box = 0; box < count; box++) {
      share[box] = Math.max(total[box] / Math.max(1, data.samples), before ? before[box] / Math.max(1, data.before_samples) : 0);
    }
    const children = Array.from({ length: count }, () => []);
    for (let box = 1; box < count; box++) children[parent[box]].push(box);
    this.left = new Float64Array(count);
    this.width = new Float64Array(count);
    this.depth = new Int32Array(count);
    this.width[0] = count ? 1 : 0;
    this.children = children;
    this.levels = count ? [[0]] : [];
    for (let level = 0; level < this.levels.length; level++) {
      const following = [];
      for (const box of this.levels[level]) {
        const inner = children[box].sort((a, b) => share[b] - share[a] || a - b);
        const needed = inner.reduce((all, child) => all + share[child], 0);
        const scale = this.width[box] / Math.max(share[box], needed, 1e-12);
        let at = this.left[box];
        for (const child of inner) {
          this.left[child] = at;
          this.width[child] = share[child] * scale;
          this.depth[child] = level + 1;
          at += this.width[child];
          following.push(child);
        }
      }
      if (following.length) this.levels.push(following);
    }
    const byColour = new Map();
    for (const level of this.levels) for (const box of level) {
      const named = this.#colour(box, frame[box], before), boxes = byColour.get(named);
      if (boxes) boxes.push(box);
      else byColour.set(named, [box]);
    }
    this.byColour = [...byColour].map(([named, boxes]) => [named, Int32Array.from(boxes)]);
    this.root = 0;
    this.selected = 0;
    this.search(this.query);
  }

  #colour(box, number, before) {
    if (before) {
      const after = this.data.boxes.total[box] / Math.max(1, this.data.samples);
      const earlier = before[box] / Math.max(1, this.data.before_samples), rise = after - earlier;
      const strength = Math.min(1, Math.abs(rise) / Math.max(0.05, 0.5 * Math.max(after, earlier)));
      return strength < 0.1 ? "k-none" : rise > 0 ? "more" : "less";
    }
    const [name, file] = this.data.frames[number];
    if (!file || name === "[unknown]" || file === "[unknown]") return "k-none";
    if (!file.startsWith("[") || OF_PROCESSES.test(file)) return "k-user";
    const area = AREAS.find(([, , names]) => names.test(name));
    return area ? `k-${area[0]}` : "k-kernel";
  }

  search(query) {
    this.query = query;
    this.found = null;
    let share = null;
    if (this.data && query) {
      const wanted = query.toLowerCase();
      const hit = this.data.frames.map(([name]) => name.toLowerCase().includes(wanted));
      this.found = this.data.boxes.frame.map((number) => hit[number]);
      // Boxes inside a found one are part of it already.
      const inside = new Uint8Array(this.found.length);
      let total = 0;
      for (const level of this.levels) for (const box of level) {
        const parent = this.data.boxes.parent[box];
        inside[box] = this.found[box] || (parent >= 0 && inside[parent]) ? 1 : 0;
        if (this.found[box] && !(parent >= 0 && inside[parent])) total += this.data.boxes.total[box];
      }
      share = total / Math.max(1, this.data.samples);
    }
    this.draw();
    return share;
  }

  draw() {
    if (!this.data || !this.canvas.clientWidth) return;
    const height = Math.max(1, this.levels.length) * ROW + 2;
    if (this.canvas.style.height !== `${height}px`) this.canvas.style.height = `${height}px`;
    const width = this.canvas.clientWidth, ratio = devicePixelRatio || 1;
    const wide = Math.round(width * ratio), high = Math.round(height * ratio);
    if (!this.still || this.still.width !== wide || this.still.height !== high) {
      this.canvas.width = wide;
      this.canvas.height = high;
      this.still = new OffscreenCanvas(wide, high);
      this.plain = new OffscreenCanvas(wide, high);
      this.plainOf = null;
    }
    this.#plain(width, height, ratio);
    const context = this.still.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.globalAlpha = this.found ? 0.3 : 1;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(this.plain, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.globalAlpha = 1;
    if (this.found) this.#boxes(context, width, this.found, []);
    this.#names(context);
    this.#mark();
  }

  // Every box without a name, drawn anew only when the zoom or the graph is another: a search lays itself over it.
  #plain(width, height, ratio) {
    if (this.plainOf === this.root && this.plainData === this.data) return;
    const context = this.plain.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    this.named = [];
    this.#boxes(context, width, null, this.named);
    this.plainOf = this.root;
    this.plainData = this.data;
  }

  // Boxes of one colour after the other: changing the colour costs more than a box. Of boxes narrower than a pixel, one a pixel.
  #boxes(context, width, only, named) {
    const from = this.left[this.root] || 0, scale = width / (this.width[this.root] || 1);
    const { left, width: share, depth } = this;
    for (const [name, boxes] of this.byColour) {
      context.fillStyle = colour(name);
      let pixel = -1, level = -1;
      for (let index = 0; index < boxes.length; index++) {
        const box = boxes[index];
        if (only && !only[box]) continue;
        const x = (left[box] - from) * scale, wide = share[box] * scale;
        if (wide < 0.4 || x >= width || x + wide <= 0) continue;
        if (wide < 1) {
          if ((x | 0) === pixel && depth[box] === level) continue;
          pixel = x | 0;
          level = depth[box];
        }
        const shown = x > 0 ? x : 0, room = (x + wide < width ? x + wide : width) - shown;
        // Whole pixels: nothing to blend at the edges.
        const first = Math.floor(shown), last = Math.floor(shown + room);
        context.fillRect(first, depth[box] * ROW, last - first > 2 ? last - first - 1 : Math.max(1, last - first), ROW - 1);
        if (room > 24) named.push([box, shown, room]);
      }
    }
  }

  #names(context) {
    context.font = "11px ui-monospace, monospace";
    context.textBaseline = "middle";
    const soft = colour("soft"), ink = colour("ink");
    for (const [box, x, room] of this.named) {
      const most = Math.floor((room - 6) / 6.7), name = this.#told(box, room);
      context.fillStyle = this.found && !this.found[box] ? soft : ink;
      context.fillText(name.length <= most ? name : name.slice(0, most - 1) + "…", x + 3, this.depth[box] * ROW + ROW / 2);
    }
  }

  // In a difference the sign and the number stand before the name: colour alone tells nobody enough.
  #told(box, room) {
    const name = this.data.frames[this.data.boxes.frame[box]][0], { before, total } = this.data.boxes;
    if (!before || room < 90) return name;
    const rise = 100 * (total[box] / Math.max(1, this.data.samples) - before[box] / Math.max(1, this.data.before_samples));
    return `${rise >= 0 ? "+" : "−"}${Math.abs(rise).toFixed(1)} ${name}`;
  }

  repaint() {
    this.plainOf = null;
    this.draw();
  }

  // The picture as it was drawn last, and a frame around the chosen box: walking needs no new picture.
  #mark() {
    const width = this.canvas.clientWidth, ratio = devicePixelRatio || 1, context = this.context;
    const from = this.left[this.root] || 0, scale = width / (this.width[this.root] || 1);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(this.still, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.strokeStyle = colour("ink");
    context.lineWidth = 2;
    const x = (this.left[this.selected] - from) * scale;
    context.strokeRect(Math.max(1, x), this.depth[this.selected] * ROW + 1, Math.max(2, Math.min(width - 2, this.width[this.selected] * scale) - 1), ROW - 3);
  }

  #at(event) {
    if (!this.data) return -1;
    const place = this.canvas.getBoundingClientRect();
    const share = this.left[this.root] + (event.clientX - place.left) / place.width * this.width[this.root];
    const level = this.levels[Math.floor((event.clientY - place.top) / ROW)] || [];
    let low = 0, high = level.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1, box = level[middle];
      if (share < this.left[box]) high = middle - 1;
      else if (share >= this.left[box] + this.width[box]) low = middle + 1;
      else return box;
    }
    return -1;
  }

  #hover(event) {
    const box = this.#at(event);
    if (box >= 0 && box !== this.hovered) { this.hovered = box; this.onSelect(box); }
  }

  select(box) {
    this.selected = box;
    this.#mark();
    this.#reveal();
    this.onSelect(box);
  }

  zoom(box) {
    this.root = box;
    this.selected = box;
    this.draw();
    this.#reveal();
    this.onSelect(box);
    this.onZoom(this.#path(box));
  }

  // A box by its place among its siblings, level after level: the same capture, range and filters give the same boxes.
  #path(box) {
    const path = [], { parent } = this.data.boxes;
    for (let at = box; parent[at] >= 0; at = parent[at]) path.unshift(this.children[parent[at]].indexOf(at));
    return path.join(".");
  }

  follow(path) {
    let box = 0;
    for (const place of path.split(".").filter((one) => one !== "")) {
      box = this.children[box][Number(place)];
      if (box === undefined) return; // a link to a box that is not there shows all
    }
    if (this.data.boxes.frame.length) this.zoom(box);
  }

  // Stacks may be deeper than the window: the chosen row stays in sight.
  #reveal() {
    const room = this.canvas.parentElement, top = this.depth[this.selected] * ROW;
    if (top < room.scrollTop) room.scrollTop = top;
    else if (top + ROW > room.scrollTop + room.clientHeight) room.scrollTop = top + ROW - room.clientHeight;
  }

  #key(event) {
    if (!this.data) return;
    const { parent } = this.data.boxes, siblings = parent[this.selected] >= 0 ? this.children[parent[this.selected]] : [0];
    const place = siblings.indexOf(this.selected);
    const next = {
      ArrowUp: parent[this.selected], ArrowDown: this.children[this.selected][0],
      ArrowLeft: siblings[place - 1], ArrowRight: siblings[place + 1],
    };
    if (event.key in next) {
      event.preventDefault();
      if (next[event.key] !== undefined && next[event.key] >= 0) this.select(next[event.key]);
    } else if (event.key === "Enter") this.zoom(this.selected);
    else if (event.key === "Escape") this.zoom(0);
  }
}
