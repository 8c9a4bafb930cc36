// SPDX-License-Identifier: Apache-2.0
// Every zombie as typed columns, and the questions asked of them: groups, filters, orders.
import { names, numbers } from "./columns.js";
import { filtered, ranks, sorted } from "./slices.js";

const AGES = [[60, "less than a minute"], [600, "1 to 10 minutes"], [3600, "10 to 60 minutes"], [21600, "1 to 6 hours"], [86400, "6 to 24 hours"], [604800, "1 to 7 days"], [Infinity, "more than a week"]];
const MOST_FILES = 500;
export const GROUPS = ["maker", "pin", "file", "parent", "age"];

export function herd(document) {
  const { columns, count } = document, of = (name) => names(columns[name], count);
  const made = {
    count, at: document.at, document, words: document.words || {},
    id: numbers(columns.id, count), born: numbers(columns.born, count), died: numbers(columns.died, count), bytes: numbers(columns.bytes, count), refs: numbers(columns.refs, count),
    maker: of("maker"), parent: of("parent"), folder: of("folder"), name: of("name"), pin: of("pin"), pins: of("pins"),
    fileFolder: of("file_folder"), fileName: of("file_name"), holder: of("holder"), freedBy: of("freed_by"), groupings: new Map(), summed: new Map(),
  };
  made.lived = made.died.map((died, row) => died - made.born[row]);
  return made;
}

export const nameOf = (column, row) => column.names[column.codes[row]];

export function pathOf(made, row) {
  return `${nameOf(made.folder, row) ?? ""}${nameOf(made.name, row) ?? ""}` || null;
}

export function fileOf(made, row) {
  const folder = nameOf(made.fileFolder, row), name = nameOf(made.fileName, row);
  return folder === null && name === null ? null : `${folder ?? ""}${name ?? ""}`;
}

// A code for each row and a name for each code.
export function grouping(made, by) {
  if (!made.groupings.has(by)) made.groupings.set(by, groupedBy(made, by));
  return made.groupings.get(by);
}

function groupedBy(made, by) {
  if (by === "maker" || by === "pin" || by === "parent") return { title: by === "pin" ? "pinned by" : by, ...made[by] };
  if (by === "age") {
    const codes = new Uint32Array(made.count);
    for (let row = 0; row < made.count; row++) {
      const age = made.at - made.died[row];
      codes[row] = Number.isNaN(age) ? AGES.length : AGES.findIndex(([most]) => age < most);
    }
    return { title: "dead for", names: [...AGES.map(([, name]) => name), null], codes, inOrder: true };
  }
  if (made.fileName.names.length > MOST_FILES) return { title: "folder of the file", ...made.fileFolder };
  const files = names({ values: Array.from({ length: made.count }, (_, row) => fileOf(made, row)) }, made.count);
  return files.names.length <= MOST_FILES ? { title: "file", ...files } : { title: "folder of the file", ...made.fileFolder };
}

export function wordOf(made, by, name) {
  if (name === null) return by === "file" ? "no file" : "not known";
  return by === "pin" ? made.words.pins?.[name] || name : name;
}

// Sums of every group: how many, how many bytes, the pin that most have, the youngest and oldest.
export function groups(made, by) {
  if (!made.summed.has(by)) made.summed.set(by, sums(made, by));
  return made.summed.get(by);
}

function sums(made, by) {
  const { codes, names: list, inOrder } = grouping(made, by), size = list.length;
  const zombies = new Uint32Array(size), held = new Float64Array(size), youngest = new Float64Array(size).fill(Infinity), oldest = new Float64Array(size).fill(-Infinity), pins = new Uint32Array(size * made.pin.names.length);
  for (let row = 0; row < made.count; row++) {
    const code = codes[row], age = made.at - made.died[row];
    zombies[code] += 1;
    if (made.bytes[row] === made.bytes[row]) held[code] += made.bytes[row];
    if (age < youngest[code]) youngest[code] = age;
    if (age > oldest[code]) oldest[code] = age;
    pins[code * made.pin.names.length + made.pin.codes[row]] += 1;
  }
  const found = list.map((name, code) => {
    const share = pins.subarray(code * made.pin.names.length, (code + 1) * made.pin.names.length);
    return { name, code, zombies: zombies[code], bytes: held[code], youngest: youngest[code], oldest: oldest[code], pin: made.pin.names[share.indexOf(Math.max(...share))] };
  }).filter((group) => group.zombies);
  return inOrder ? found : found.sort((a, b) => b.zombies - a.zombies || b.bytes - a.bytes);
}

// Text is looked for once in each dictionary; a row then asks for its codes.
export async function rowsOf(made, { by, open, node, text }, isStale) {
  const tests = [];
  if (open !== undefined && open !== "") {
    const group = grouping(made, by), code = group.names.findIndex((name) => String(name) === open);
    tests.push((row) => group.codes[row] === code);
  }
  if (node && node !== "/") {
    const inside = made.parent.names.map((name) => name === node || (name !== null && name.startsWith(`${node}/`)));
    tests.push((row) => inside[made.parent.codes[row]]);
  }
  const wanted = (text || "").trim().toLowerCase();
  if (wanted) tests.push(matcher(made, wanted));
  if (!tests.length) return every(made.count);
  return filtered(made.count, (row) => tests.every((test) => test(row)), isStale);
}

function every(count) {
  const rows = new Uint32Array(count);
  for (let row = 0; row < count; row++) rows[row] = row;
  return rows;
}

function matcher(made, wanted) {
  const hit = [made.maker, made.folder, made.name, made.fileFolder, made.fileName, made.pins, made.parent].map((column) => [column, column.names.map((name) => name !== null && name.toLowerCase().includes(wanted))]);
  const isNumber = /^\d+$/.test(wanted), across = wanted.includes("/");
  return (row) => hit.some(([column, found]) => found[column.codes[row]])
    || (isNumber && String(made.id[row]).includes(wanted))
    || (across && ((pathOf(made, row) || "").toLowerCase().includes(wanted) || (fileOf(made, row) || "").toLowerCase().includes(wanted)));
}

const after = (a, b) => (a === b ? 0 : Number.isNaN(a) ? (Number.isNaN(b) ? 0 : 1) : Number.isNaN(b) ? -1 : a - b);

export async function inOrder(made, rows, by, down, isStale) {
  const numeric = { born: made.born, died: made.died, lived: made.lived, id: made.id, bytes: made.bytes, refs: made.refs }[by];
  const columns = { maker: [made.maker], pin: [made.pins], parent: [made.parent], path: [made.folder, made.name], file: [made.fileFolder, made.fileName], freed: [made.freedBy] }[by];
  let compare = numeric ? (a, b) => after(numeric[a], numeric[b]) : () => 0;
  if (columns) {
    const keyed = [];
    for (const column of columns) {
      const rank = await ranks(column, isStale);
      if (!rank) return null;
      keyed.push([column.codes, rank]);
    }
    compare = (a, b) => {
      for (const [codes, rank] of keyed) if (rank[codes[a]] !== rank[codes[b]]) return rank[codes[a]] - rank[codes[b]];
      return 0;
    };
  }
  return sorted(rows, down ? (a, b) => compare(b, a) : compare, isStale);
}

// What every row of these has; undefined where they differ.
export function shared(made, rows, columns) {
  for (const column of columns) for (let at = 1; at < rows.length; at++) if (column.codes[rows[at]] !== column.codes[rows[0]]) return undefined;
  return rows.length ? columns.map((column) => nameOf(column, rows[0])).join("") : undefined;
}
