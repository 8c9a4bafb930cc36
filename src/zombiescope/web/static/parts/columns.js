// SPDX-License-Identifier: Apache-2.0
// Columns as they come over the wire, as typed arrays: numbers with NaN for what is not known, names as codes of a dictionary.
const EMPTY = { constant: null };

export function numbers(column = EMPTY, count) {
  const values = new Float64Array(count);
  if (column.deltas) {
    const scale = column.scale ?? 1;
    let sum = 0;
    column.deltas.forEach((step, row) => {
      if (step === null) values[row] = NaN;
      else { sum += step; values[row] = sum * scale; }
    });
  } else if (column.codes) {
    const known = column.dictionary.map((value) => (value === null ? NaN : value));
    for (let row = 0; row < count; row++) values[row] = known[column.codes[row]];
  } else if (column.values) {
    for (let row = 0; row < count; row++) values[row] = column.values[row] ?? NaN;
  } else values.fill(column.constant ?? NaN);
  return values;
}

// Any column of names as { names, codes }; null keeps a code of its own.
export function names(column = EMPTY, count) {
  if (column.codes) return { names: column.dictionary, codes: Uint32Array.from(column.codes) };
  if (!column.values) return { names: [column.constant ?? null], codes: new Uint32Array(count) };
  const places = new Map(), found = [], codes = new Uint32Array(count);
  for (let row = 0; row < count; row++) {
    const name = column.values[row] ?? null;
    let code = places.get(name);
    if (code === undefined) { code = found.length; places.set(name, code); found.push(name); }
    codes[row] = code;
  }
  return { names: found, codes };
}
