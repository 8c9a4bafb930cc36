// SPDX-License-Identifier: Apache-2.0
// Numbers, sizes and times as a person reads them: 20,008 · 78.1 MiB · 3.1 s · 15 Nov 09:40:16Z. Null is never a zero: ask for a gap instead.
const GROUPS = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

export function count(value) {
  return GROUPS.format(value);
}

// Three figures that matter, and no more: 4.2, 18, 1,042, 0.007.
export function figure(value) {
  const size = Math.abs(value);
  if (size >= 100 || Number.isInteger(value)) return GROUPS.format(value);
  if (size >= 10) return value.toFixed(1).replace(/\.0$/, "");
  if (size >= 0.095) return value.toFixed(2).replace(/\.?0+$/, "");
  return size === 0 ? "0" : String(Number(value.toPrecision(2)));
}

export function bytes(value) {
  if (value === 0) return "none";
  let unit = 0, left = value;
  while (Math.abs(left) >= 1024 && unit < 4) { left /= 1024; unit += 1; }
  return `${left >= 100 || unit === 0 ? Math.round(left) : left.toFixed(1)} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}

export function seconds(value) {
  const size = Math.abs(value);
  if (size === 0) return "0 s";
  if (size < 0.001) return `${figure(value * 1e6)} µs`;
  if (size < 1) return `${figure(value * 1e3)} ms`;
  if (size < 120) return `${size < 10 ? value.toFixed(1) : Math.round(value)} s`;
  if (size < 7200) return `${Math.round(value / 60)} min`;
  if (size < 172800) return `${(value / 3600).toFixed(size < 36000 ? 1 : 0)} h`;
  return `${Math.round(value / 86400)} d`;
}

export function percent(share) {
  const value = 100 * share;
  if (value > 99 && value < 100) return `${(Math.floor(value * 100) / 100).toFixed(2).replace(/0+$/, "").replace(/\.$/, "")} %`; // not quite all
  return `${value >= 10 || value === 0 ? Math.round(value) : value.toFixed(value >= 0.1 ? 1 : 2)} %`;
}

export function milliseconds(time) {
  if (time === null || time === undefined || time === "") return null;
  const value = typeof time === "number" ? time * 1000 : Date.parse(time);
  return Number.isNaN(value) ? null : value;
}

const two = (value) => String(value).padStart(2, "0");

export function day(at) {
  const date = new Date(at);
  return `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
}

// `finest` in milliseconds: 60000 shows minutes, 1000 seconds, 100 tenths.
export function clock(at, finest = 1000) {
  const date = new Date(at), minutes = `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`;
  if (finest >= 60000) return `${minutes}Z`;
  const whole = `${minutes}:${two(date.getUTCSeconds())}`;
  if (finest >= 1000) return `${whole}Z`;
  return `${whole}.${String(date.getUTCMilliseconds()).padStart(3, "0").slice(0, finest >= 100 ? 1 : 3)}Z`;
}

export function moment(at, finest = 1000) {
  return `${day(at)} ${clock(at, finest)}`;
}

// A range says its day once.
export function range(from, to, finest = 60000) {
  return day(from) === day(to) ? `${day(from)} ${clock(from, finest)} to ${clock(to, finest)}` : `${moment(from, finest)} to ${moment(to, finest)}`;
}

export function local(at) {
  return new Date(at).toLocaleString(undefined, { timeZoneName: "short" });
}

export function plural(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

// A value in its unit, as descriptors and evidence name units.
export function measured(value, unit) {
  if (value === null || value === undefined) return null;
  if (typeof value !== "number") return String(value);
  switch (unit) {
    case "bytes": return bytes(value);
    case "seconds": return seconds(value);
    case "share": case "ratio": case "of the time": return percent(value);
    case "of the core": return `${percent(value)} of the core`;
    case "seconds per second": return value ? `${figure(value)} s/s` : "0";
    case "per second": return `${figure(value)}/s`;
    case "pages": return plural(value, "page");
    default: return unit ? `${figure(value)} ${unit}` : figure(value);
  }
}
