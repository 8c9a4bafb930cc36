// SPDX-License-Identifier: Apache-2.0
// The pulse: what the server has, and since when it does not answer. Nothing is asked while nobody looks.
import { useEffect, useState } from "../vendor/hooks.js";
import { get, isFile } from "./ask.js";

const RETRY_SECONDS = 5, PATIENCE_SECONDS = 10;
const listeners = new Set();
let state = { live: "loading", pulse: null, answeredAt: 0, askAgainAt: 0 };
let timer = 0, failures = 0, isAsking = false;

export function pulse() {
  return state.pulse;
}

function become(changes) {
  state = { ...state, ...changes };
  document.documentElement.dataset.live = state.live;
  for (const listener of [...listeners]) listener(state);
}

export async function askPulse() {
  clearTimeout(timer);
  if (isAsking) return;
  isAsking = true;
  // One that is there and says nothing is as lost as one that is gone.
  const giving = new AbortController(), patience = setTimeout(() => giving.abort(), PATIENCE_SECONDS * 1000);
  try {
    const found = await get("/api/v1/page", giving.signal);
    failures = 0;
    const live = isFile() ? "saved" : found.is_live ? "live" : "recording";
    become({ live, pulse: found, answeredAt: Date.now(), error: null });
    if (found.poll_seconds) wait(found.poll_seconds);
  } catch (error) {
    failures += giving.signal.aborted ? 2 : 1;
    const seconds = failures === 1 ? 1 : RETRY_SECONDS;
    if (failures > 1 || !state.pulse) become({ live: state.pulse ? "lost" : "loading", error, askAgainAt: Date.now() + seconds * 1000 });
    if (!isFile()) wait(seconds);
  } finally {
    clearTimeout(patience);
    isAsking = false;
  }
}

function wait(seconds) {
  clearTimeout(timer);
  if (document.visibilityState === "visible") timer = setTimeout(askPulse, seconds * 1000);
}

export function startPulse() {
  document.documentElement.dataset.live = "loading";
  if (!isFile()) document.addEventListener("visibilitychange", () => { if (document.visibilityState === "visible" && state.live !== "recording") askPulse(); });
  return askPulse();
}

export function useLive() {
  const [shown, setShown] = useState(state);
  useEffect(() => {
    listeners.add(setShown);
    setShown(state);
    return () => listeners.delete(setShown);
  }, []);
  return shown;
}

// What the pulse says of one document; another one when a newer can be had. `heavy` ones are only renewed for those who ask again.
export function version(pulse, name, heavy = false) {
  const told = pulse && pulse.documents && pulse.documents[name];
  if (!told) return "";
  return `${told.version || ""}${heavy && pulse.is_live ? `@${Math.floor(pulse.now / 30)}` : ""}`;
}
