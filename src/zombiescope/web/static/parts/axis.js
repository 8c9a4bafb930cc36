// SPDX-License-Identifier: Apache-2.0
// One time axis: where a moment lies, round steps, moving and zooming within what is kept. Seconds, UTC.
import { clock, day } from "./words.js";

const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000];
export const LEAST_SPAN = 1;

export function scale(from, to, width) {
  const span = Math.max(to - from, 1e-6);
  return { from, to, width, x: (at) => ((at - from) / span) * width, at: (x) => from + (x / Math.max(1, width)) * span };
}

export function ticks({ from, to, width }, room = 84) {
  const span = to - from, step = STEPS.find((one) => (one / span) * width >= room) || STEPS.at(-1), found = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return { step, at: found };
}

export function tickWords(at, step) {
  if (step >= 86400) return day(at * 1000);
  const midnight = Math.abs(at / 86400 - Math.round(at / 86400)) < 1e-9;
  if (step >= 60) return midnight ? day(at * 1000) : clock(at * 1000, 60000).slice(0, -1);
  return clock(at * 1000, step >= 1 ? 1000 : 100).slice(0, -1);
}

// A window of the same length or another, kept within what there is.
export function within(from, to, bounds) {
  const span = Math.min(Math.max(to - from, LEAST_SPAN), Math.max(bounds.to - bounds.from, LEAST_SPAN));
  const middle = (from + to) / 2;
  let begin = middle - span / 2;
  begin = Math.min(Math.max(begin, bounds.from), Math.max(bounds.from, bounds.to - span));
  return { from: begin, to: begin + span };
}

// As few digits as the span needs: a link stays short.
export function rounded(at, span) {
  const unit = span > 7200 ? 1 : span > 60 ? 0.1 : 0.001;
  return Number((Math.round(at / unit) * unit).toFixed(3));
}
