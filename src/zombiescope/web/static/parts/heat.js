// SPDX-License-Identifier: Apache-2.0
// The heat map: one strip per core, one column per second, time upwards within it. Draws cells, the chosen range and the marks.
import { colour, systemFont } from "./paper.js";
import { isDark } from "./theme.js";

const LEFT = 64, GAP = 22, TOP = 4;

export class HeatMap {
  constructor(canvas, onRange) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.onRange = onRange;
    this.range = null;
    this.marks = [];
    this.lines = [];
    canvas.addEventListener("pointerdown", (event) => this.#press(event));
    canvas.addEventListener("pointermove", (event) => this.#drag(event));
    canvas.addEventListener("pointerup", (event) => this.#release(event));
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  show(data, summed) {
    this.data = data;
    this.strips = summed ? [{ name: "all", counts: sum(data.cores) }]
      : data.cores.map((core) => ({ name: `core ${core.core}`, core: core.core, counts: core.counts }));
    this.columns = this.strips.length ? this.strips[0].counts.length : 0;
    this.hottest = 1;
    for (const strip of this.strips) for (const column of strip.counts) for (const value of column) if (value > this.hottest) this.hottest = value;
    this.repaint();
  }

  get seconds() { return this.columns * this.data.column_seconds; }

  // What a legend says: nothing, to the hottest cell.
  get scale() {
    if (!this.data || !this.colours) return null;
    const palette = this.colours[isDark() ? "dark" : "light"];
    return { hottest: this.hottest, cell: this.data.column_seconds / this.data.rows, colours: [colour("h0"), ...[64, 128, 192, 255].map((one) => `rgb(${palette[one].join(" ")})`)] };
  }

  // The strips, drawn anew only when they or the room for them are others: a range lies on their picture.
  #strips(width, ratio) {
    const strip = this.data.rows * (this.strips.length > 8 ? 1 : this.strips.length > 2 ? 2 : 3);
    const height = TOP + this.strips.length * (strip + GAP) + 4;
    const wide = Math.round(width * ratio), high = Math.round(height * ratio);
    if (this.still && this.still.width === wide && this.still.height === high) return height;
    this.still = new OffscreenCanvas(wide, high);
    const context = this.still.getContext("2d"), palette = this.colours[isDark() ? "dark" : "light"];
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = systemFont(12);
    this.wide = (width - LEFT - 8) / Math.max(1, this.columns);
    this.strips.forEach((one, index) => {
      const top = TOP + index * (strip + GAP);
      context.fillStyle = colour("h0");
      context.fillRect(LEFT, top, this.columns * this.wide, strip);
      this.#cells(context, one.counts, top, strip, palette);
      context.fillStyle = colour("ink");
      context.fillText(one.name, 6, top + strip / 2 + 4);
      context.fillStyle = colour("soft");
      this.#axis(context, top + strip + 14);
      this.#markers(context, one, top, strip, colour("link"));
    });
    return height;
  }

  draw() {
    if (!this.data || !this.colours || !this.canvas.clientWidth) return;
    const width = this.canvas.clientWidth, ratio = devicePixelRatio || 1, height = this.#strips(width, ratio);
    if (this.canvas.width !== this.still.width || this.canvas.height !== this.still.height) {
      this.canvas.style.height = `${height}px`;
      this.canvas.width = this.still.width;
      this.canvas.height = this.still.height;
    }
    const context = this.context;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(this.still, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = systemFont(12);
    this.#lined(height, colour("warning"), colour("panel"));
    this.#chosen(height, colour("link"));
    this.drawn = this.range;
  }

  repaint() {
    this.still = null;
    this.draw();
  }

  // A range from elsewhere; one that is in sight already needs no new picture.
  point(range) {
    this.range = range;
    if (String(this.drawn) !== String(range)) this.draw();
  }

  #lined(height, colour, ground) {
    const context = this.context;
    this.lines.forEach((line, index) => {
      const x = this.#x(line.seconds);
      // Light beneath and dashes above: seen on an empty cell and on the hottest.
      for (const [style, width, dashes] of [[ground, 5, []], [colour, 2, [5, 3]]]) {
        context.strokeStyle = style;
        context.lineWidth = width;
        context.setLineDash(dashes);
        context.beginPath();
        context.moveTo(x, TOP);
        context.lineTo(x, height);
        context.stroke();
      }
      context.fillStyle = colour;
      context.fillText(String(index + 1), x + 5, TOP + 11);
    });
    context.setLineDash([]);
  }

  #cells(context, counts, top, strip, palette) {
    const image = new ImageData(Math.max(1, this.columns), this.data.rows);
    for (let column = 0; column < this.columns; column++) {
      for (let row = 0; row < this.data.rows; row++) {
        const value = counts[column][row];
        if (!value) continue;
        const at = 4 * ((this.data.rows - 1 - row) * this.columns + column);
        image.data.set([...palette[Math.ceil(value * 255 / this.hottest)], 255], at); // as the pictures of the command have it
      }
    }
    const small = new OffscreenCanvas(image.width, image.height);
    small.getContext("2d").putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(small, LEFT, top, this.columns * this.wide, strip);
  }

  #axis(context, y) {
    const step = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200].find((one) => one * this.wide >= 60) || 3600;
    for (let column = 0; column < this.columns; column += step) {
      context.fillText(`${+(this.data.begin_seconds + column * this.data.column_seconds).toFixed(2)} s`, LEFT + column * this.wide, y);
    }
  }

  #markers(context, one, top, strip, colour) {
    context.strokeStyle = colour;
    context.lineWidth = 2;
    for (const mark of this.marks) {
      if (one.core !== undefined && mark.core !== one.core) continue;
      context.strokeRect(this.#x(mark.begin), top + 1, Math.max(2, this.#x(mark.end) - this.#x(mark.begin)), strip - 2);
    }
  }

  #chosen(height, colour) {
    if (!this.range) return;
    const [begin, end] = this.range.map((seconds) => this.#x(seconds));
    this.context.globalAlpha = 0.18;
    this.context.fillStyle = colour;
    this.context.fillRect(begin, 0, Math.max(1, end - begin), height);
    this.context.globalAlpha = 1;
    this.context.fillRect(begin - 1, 0, 2, height);
    this.context.fillRect(end - 1, 0, 2, height);
  }

  #x(seconds) { return LEFT + (seconds - this.data.begin_seconds) / this.data.column_seconds * this.wide; }

  #time(event) {
    const at = event.clientX - this.canvas.getBoundingClientRect().left;
    const seconds = this.data.begin_seconds + (at - LEFT) / this.wide * this.data.column_seconds;
    return Math.min(Math.max(seconds, 0), this.data.begin_seconds + this.seconds);
  }

  #press(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.pressed = this.#time(event);
  }

  #drag(event) {
    if (this.pressed === undefined) return;
    this.range = [this.pressed, this.#time(event)].sort((a, b) => a - b);
    this.draw();
  }

  #release(event) {
    if (this.pressed === undefined) return;
    const range = [this.pressed, this.#time(event)].sort((a, b) => a - b);
    this.pressed = undefined;
    this.choose(range[1] - range[0] < 0.01 ? null : range);
  }

  #key(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1 };
    if (event.key === "Home") { this.choose(null); event.preventDefault(); return; }
    if (!(event.key in steps) || !this.data) return;
    event.preventDefault();
    const whole = this.data.begin_seconds + this.seconds, step = steps[event.key];
    const [begin, end] = this.range || [0, Math.min(1, whole)];
    if (event.shiftKey) this.choose([begin, Math.min(whole, Math.max(begin + 0.1, end + step * 0.1))]);
    else if (this.range) {
      const moved = Math.min(Math.max(begin + step * 0.1, 0), whole - (end - begin));
      this.choose([moved, moved + end - begin]);
    } else this.choose([begin, end]);
  }

  choose(range) {
    this.range = range && range.map((seconds) => Math.round(seconds * 1000) / 1000);
    this.draw();
    this.onRange(this.range);
  }
}

function sum(cores) {
  return cores.length ? cores[0].counts.map((column, x) => column.map((_, y) => cores.reduce((all, core) => all + core.counts[x][y], 0))) : [];
}
