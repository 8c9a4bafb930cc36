// SPDX-License-Identifier: Apache-2.0
// Long work in slices of 8 ms, so that scrolling never waits for sorting. A newer question ends an older one.
const SLICE_MS = 8, RUN = 2048;

function breath() {
  return new Promise((done) => { const channel = new MessageChannel(); channel.port1.onmessage = done; channel.port2.postMessage(0); });
}

export function slicer(isStale) {
  let until = performance.now() + SLICE_MS;
  return async () => {
    if (performance.now() < until) return true;
    await breath();
    until = performance.now() + SLICE_MS;
    return !isStale();
  };
}

// Rows for which `keep` holds; null when nobody wants them any more.
export async function filtered(count, keep, isStale) {
  const found = new Uint32Array(count), rest = slicer(isStale);
  let kept = 0;
  for (let from = 0; from < count; from += RUN) {
    for (let row = from; row < Math.min(count, from + RUN); row++) if (keep(row)) found[kept++] = row;
    if (!await rest()) return null;
  }
  return found.slice(0, kept);
}

// The place of each name in the order of names: sorting rows is sorting numbers. Worked out once for a column.
export async function ranks(column, isStale) {
  if (!column.ranks) {
    const { names } = column, codes = new Uint32Array(names.length);
    for (let code = 0; code < codes.length; code++) codes[code] = code;
    const order = await sorted(codes, (a, b) => (names[a] === names[b] ? 0 : names[a] === null ? 1 : names[b] === null ? -1 : names[a] < names[b] ? -1 : 1), isStale);
    if (!order) return null;
    column.ranks = new Uint32Array(names.length);
    order.forEach((code, place) => { column.ranks[code] = place; });
  }
  return column.ranks;
}

// A merge sort by runs, stable. `compare` takes two rows.
export async function sorted(rows, compare, isStale) {
  const rest = slicer(isStale);
  let from = Uint32Array.from(rows), to = new Uint32Array(rows.length);
  for (let at = 0; at < from.length; at += RUN) {
    from.subarray(at, at + RUN).sort((a, b) => compare(a, b) || a - b);
    if (!await rest()) return null;
  }
  for (let width = RUN; width < from.length; width *= 2) {
    for (let at = 0; at < from.length; at += 2 * width) {
      let left = at, right = Math.min(at + width, from.length), out = at;
      const middle = right, end = Math.min(at + 2 * width, from.length);
      while (left < middle && right < end) {
        to[out++] = (compare(from[left], from[right]) || from[left] - from[right]) <= 0 ? from[left++] : from[right++];
        if ((out & 2047) === 0 && !await rest()) return null;
      }
      while (left < middle) to[out++] = from[left++];
      while (right < end) to[out++] = from[right++];
    }
    [from, to] = [to, from];
  }
  return from;
}
