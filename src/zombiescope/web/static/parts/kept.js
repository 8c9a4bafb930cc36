// SPDX-License-Identifier: Apache-2.0
// What is remembered: its descriptors, and from when to when. While live its end moves on in steps that can be seen, so that nothing is asked for a pixel.
import { useDocument } from "./ask.js";
import { version } from "./live.js";

const STEPS = 600, LEAST_STEP = 10;

export function useKept(pulse) {
  const series = useDocument("/api/v1/series", version(pulse, "series")), told = series.data;
  const from = told?.from ?? pulse.history?.from ?? null, last = told?.to ?? pulse.history?.to ?? null;
  const kept = from === null || last === null || !(last > from || moves(pulse)) ? null : { from, to: moves(pulse) ? Math.max(last, pulse.at) : last };
  return { series, kept };
}

// A saved file asks as the page did that it was saved from.
export function moves(pulse) {
  return Boolean(pulse.is_live || pulse.was_live);
}

export function stepped(at, span, isMoving) {
  const step = Math.max(LEAST_STEP, span / STEPS);
  return isMoving ? Math.floor(at / step) * step : at;
}
