// SPDX-License-Identifier: Apache-2.0
// The one way to a document: the server, or in a saved file the island. What was answered is kept: for the next view, and for saving.
import { useEffect, useState } from "../vendor/hooks.js";

const island = document.getElementById("documents");
const inFile = island ? JSON.parse(island.textContent) : null;
const answered = new Map();
const tags = new Map();
const unsettled = new Set();
const listeners = new Set();

export function isFile() {
  return inFile !== null;
}

export function openingAddress() {
  return inFile && inFile["#"];
}

export class AskError extends Error {
  constructor(message, why = "", hint = "", isLost = false) {
    super(message);
    Object.assign(this, { why, hint, isLost });
  }
}

// A document, or { making } while the server makes it.
export async function get(path, signal) {
  if (inFile) {
    const found = inFile[path] ?? inFile[path.split("?")[0]];
    if (found === undefined) throw new AskError("This is not in the saved file.", "It holds what was on the screen when it was saved.", "open the page of the node itself");
    return found;
  }
  let answer;
  try {
    answer = await fetch(path, { cache: "no-cache", signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new AskError("The server did not answer.", "", "", true);
  }
  const tag = answer.headers.get("etag"), known = tags.get(path);
  if (answer.ok && tag && known && known.tag === tag) { await answer.body?.cancel(); return known.document; } // 65,000 rows are not parsed again
  let document = null, text = "";
  try {
    if (/json/.test(answer.headers.get("content-type"))) document = await answer.json();
    else text = await answer.text(); // the guards speak plain text
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (!(error instanceof SyntaxError)) throw new AskError("The server's answer broke off.", "", "", true);
  }
  if (answer.status === 202) return { making: document || {} };
  if (!answer.ok) {
    const told = document || {};
    throw Object.assign(new AskError(told.error || text.trim() || `answered ${answer.status}`, told.why, told.hint), { isBusy: answer.status === 503 });
  }
  if (document === null) throw new AskError("The server's answer is no JSON.");
  if (tag) tags.set(path, { tag, document });
  return document;
}

export function answeredDocuments() {
  return answered;
}

export function onSettled(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function isSettled() {
  return unsettled.size === 0;
}

function settle(token, done) {
  const before = unsettled.size;
  if (done) unsettled.delete(token);
  else unsettled.add(token);
  if ((before === 0) !== (unsettled.size === 0)) for (const listener of listeners) listener();
}

// `version` is another one when the pulse says so. The last answer stays in sight until the next is there.
export function useDocument(path, version = "") {
  const [state, setState] = useState(() => first(path));
  useEffect(() => {
    if (!path) { setState({}); return undefined; }
    const aborting = new AbortController(), token = {};
    let timer = 0;
    const cached = first(path);
    if (cached.data !== state.data) setState((old) => (cached.data ? cached : { ...old, error: null, isOlder: true }));
    if (!cached.data) settle(token, false);
    const ask = async () => {
      try {
        const document = await get(path, aborting.signal);
        if (aborting.signal.aborted) return;
        if (document.making) {
          setState((old) => ({ ...old, making: document.making }));
          timer = setTimeout(ask, 1000);
          return;
        }
        answered.set(path, document);
        setState((old) => (old.data === document ? old : { data: document, path }));
      } catch (error) {
        if (aborting.signal.aborted || error.name === "AbortError") return;
        setState((old) => ((error.isLost || error.isBusy) && old.data ? old : { error, path }));
        if (error.isBusy) timer = setTimeout(ask, 2000); // it begins, or has too much to do
      }
      settle(token, true);
    };
    ask();
    return () => { clearTimeout(timer); aborting.abort(); settle(token, true); };
  }, [path, version]);
  return state;
}

function first(path) {
  const document = path && (answered.get(path) ?? (inFile && (inFile[path] ?? inFile[path.split("?")[0]])));
  return document ? { data: document, path } : {};
}
