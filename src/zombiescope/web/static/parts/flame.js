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

const KINDS = ["k-none", "k-user", "k-kernel", ...AREAS.map(([id]) => `k-${id}`), "more", "less"];

// Of all samples, for each box; in a difference the larger of both.
function shares({ boxes: { total, before }, samples, before_samples }, share) {
  const whole = Math.max(1, samples), earlier = Math.max(1, before_samples || 0);
  for (let box = 0; box < share.length; box++) share[box] = Math.max(total[box] / whole, before ? before[box] / earlier : 0);
}

const ordered = new WeakMap();

// The same graph level by level, below each box its widest child first. The server sends it so; another order is mended here.
export function laidOut(data) {
  if (!ordered.has(data)) ordered.set(data, inOrder(data));
  return ordered.get(data);
}

function inOrder(data) {
  const { parent } = data.boxes, share = new Float64Array(parent.length);
  shares(data, share);
  let isOrdered = true;
  for (let box = 2; box < parent.length && isOrdered; box++) {
    isOrdered = parent[box] > parent[box - 1] || (parent[box] === parent[box - 1] && share[box] <= share[box - 1]);
  }
  if (isOrdered) return data;
  const children = Array.from(parent, () => []), order = [], place = [];
  for (let box = 1; box < parent.length; box++) children[parent[box]].push(box);
  if (parent.length) order.push(0);
  for (let at = 0; at < order.length; at++) {
    place[order[at]] = at;
    order.push(...children[order[at]].sort((a, b) => share[b] - share[a] || a - b));
  }
  const moved = (column) => column && order.map((box) => column[box]), { frame, total, self, before } = data.boxes;
  const above = order.map((box) => (parent[box] < 0 ? -1 : place[parent[box]]));
  return { ...data, boxes: { parent: above, frame: moved(frame), total: moved(total), self: moved(self), before: moved(before) } };
}

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

  // Boxes in the order of `laidOut`: children and levels are stretches of numbers. Gives what `search` gives.
  show(data, query = this.query) {
    this.data = data;
    const { parent, total, before } = data.boxes, count = parent.length;
    const share = new Float64Array(count), needed = new Float64Array(count), next = new Float64Array(count);
    const left = new Float64Array(count), width = new Float64Array(count), depth = new Int32Array(count);
    const first = new Int32Array(count), many = new Int32Array(count), levels = count ? [0, 1] : [0];
    shares(data, share);
    for (let box = 1; box < count; box++) {
      const above = parent[box];
      if (!many[above]++) first[above] = box;
      needed[above] += share[box];
    }
    if (count) width[0] = 1;
    for (let box = 1; box < count; box++) {
      const above = parent[box], scale = width[above] / Math.max(share[above], needed[above], 1e-12);
      if (box === first[above]) next[above] = left[above];
      left[box] = next[above];
      width[box] = share[box] * scale;
      next[above] += width[box];
      depth[box] = depth[above] + 1;
      if (depth[box] === levels.length - 1) levels.push(box + 1);
      else levels[levels.length - 1] = box + 1;
    }
    Object.assign(this, { left, width, depth, first, many, levels });
    this.kinds = new Int8Array(before ? count : data.frames.length).fill(-1);
    this.root = 0;
    this.selected = 0;
    this.hovered = -1;
    return this.search(query);
  }

  // The number of its colour, worked out once for each function that is drawn.
  #kind(box) {
    const { frame, before } = this.data.boxes, place = before ? box : frame[box];
    if (this.kinds[place] < 0) this.kinds[place] = KINDS.indexOf(this.#colour(box, frame[box], before));
    return this.kinds[place];
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
      const { frame, parent, total } = this.data.boxes, hit = this.data.frames.map(([name]) => name.toLowerCase().includes(wanted));
      this.found = Uint8Array.from(frame, (number) => (hit[number] ? 1 : 0));
      // Boxes inside a found one are part of it already.
      const inside = new Uint8Array(this.found.length);
      let all = 0;
      for (let box = 0; box < inside.length; box++) {
        const above = parent[box], within = above >= 0 && inside[above];
        inside[box] = this.found[box] || within ? 1 : 0;
        if (this.found[box] && !within) all += total[box];
      }
      share = all / Math.max(1, this.data.samples);
    }
    this.draw();
    return share;
  }

  draw() {
    if (!this.data || !this.canvas.clientWidth) return;
    const height = Math.max(1, this.levels.length - 1) * ROW + 2;
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

  // Boxes of one colour after the other: changing the colour costs more than a box. Of boxes narrower than a pixel, one a pixel;
  // those of one colour side by side are one box.
  #boxes(context, width, only, named) {
    const from = this.left[this.root] || 0, scale = width / (this.width[this.root] || 1), drawn = KINDS.map(() => []);
    const { left, width: share, levels } = this;
    for (let level = 0; level + 1 < levels.length; level++) {
      let begin = 0, end = 0, kind = -1; // of those that are not drawn yet
      for (let box = this.#firstFrom(level, from), last = levels[level + 1]; box < last; box++) {
        const x = (left[box] - from) * scale, wide = share[box] * scale;
        if (x >= width) break;
        if (wide < 0.4 || x + wide <= 0 || (only && !only[box])) continue;
        // Whole pixels: nothing to blend at the edges.
        const shown = x > 0 ? x : 0, room = (x + wide < width ? x + wide : width) - shown, left_ = Math.floor(shown);
        const size = Math.floor(shown + room) - left_;
        if (size <= 2) {
          const free = Math.max(left_, end), over = left_ + (size || 1);
          if (over <= free) continue;
          const mine = this.#kind(box);
          if (mine !== kind || free !== end) {
            if (kind >= 0) drawn[kind].push(begin, level, end - begin);
            begin = free;
            kind = mine;
          }
          end = over;
          continue;
        }
        if (kind >= 0) drawn[kind].push(begin, level, end - begin);
        kind = -1;
        end = left_ + size - 1;
        drawn[this.#kind(box)].push(left_, level, size - 1);
        if (room > 24) named.push([box, shown, room]);
      }
      if (kind >= 0) drawn[kind].push(begin, level, end - begin);
    }
    for (let kind = 0; kind < drawn.length; kind++) {
      const all = drawn[kind];
      if (all.length) context.fillStyle = colour(KINDS[kind]);
      for (let at = 0; at < all.length; at += 3) context.fillRect(all[at], all[at + 1] * ROW, all[at + 2], ROW - 1);
    }
  }

  // The first box of a level that does not end before a place: what lies left of a zoomed box is not gone through.
  #firstFrom(level, place) {
    let low = this.levels[level], high = this.levels[level + 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.left[middle] + this.width[middle] <= place) low = middle + 1;
      else high = middle;
    }
    return low;
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
    const level = Math.floor((event.clientY - place.top) / ROW);
    if (level < 0 || level + 1 >= this.levels.length) return -1;
    const box = this.#firstFrom(level, share);
    return box < this.levels[level + 1] && this.left[box] <= share ? box : -1;
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
    for (let at = box; parent[at] >= 0; at = parent[at]) path.unshift(at - this.first[parent[at]]);
    return path.join(".");
  }

  follow(path) {
    let box = 0;
    for (const place of path.split(".").filter((one) => one !== "")) {
      if (!(Number(place) < this.many[box]) || !/^\d+$/.test(place)) return; // a link to a box that is not there shows all
      box = this.first[box] + Number(place);
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
    const above = this.data.boxes.parent[this.selected] ?? -1, box = this.selected;
    const next = {
      ArrowUp: above, ArrowDown: this.many[box] ? this.first[box] : -1,
      ArrowLeft: above >= 0 && box > this.first[above] ? box - 1 : -1,
      ArrowRight: above >= 0 && box + 1 < this.first[above] + this.many[above] ? box + 1 : -1,
    };
    if (event.key in next) {
      event.preventDefault();
      if (next[event.key] >= 0) this.select(next[event.key]);
    } else if (event.key === "Enter") this.zoom(this.selected);
    else if (event.key === "Escape") this.zoom(0);
  }
}
