// SPDX-License-Identifier: Apache-2.0
// Every node of a fleet as typed columns, and the questions asked of them: groups, cohorts, levels of a number.
import { names, numbers } from "./columns.js";
import { filtered, ranks, sorted } from "./slices.js";

export const LEVELS = ["critical", "warning", "unknown", "ok"];
const MOST_GROUPS = 60;

export function fleetOf(document) {
  const { columns, count } = document, severity = names(columns.severity, count);
  const levels = severity.names.map((name) => (LEVELS.includes(name) ? LEVELS.indexOf(name) : 2));
  const fleet = {
    document, count, node: names(columns.node, count), findings: names(columns.findings, count), untold: names(columns.untold, count), page: names(columns.page, count),
    reached: numbers(columns.reached_at, count), level: Uint8Array.from(severity.codes, (code) => levels[code]), figures: new Map(), labels: new Map(), grouped: new Map(),
  };
  for (const { id } of document.numbers) fleet.figures.set(id, numbers(columns[id], count));
  for (const column of document.labels) fleet.labels.set(column.name, names(column, count));
  return fleet;
}

export const wordOf = (column, row) => column.names[column.codes[row]];
export const isSick = (fleet, row) => fleet.level[row] < 2;

export function labelsOf(fleet, row) {
  const found = [];
  for (const [name, column] of fleet.labels) { const value = wordOf(column, row); if (value !== null) found.push([name, value]); }
  return found;
}

export function rowOf(fleet, name) {
  return name ? fleet.node.codes.findIndex((code) => fleet.node.names[code] === name) : -1;
}

// Labels that can group: more than one value, fewer than there are nodes; those with fewest values first.
export function groupable(fleet) {
  return [...fleet.labels].map(([name, column]) => [name, column.names.length]).filter(([, values]) => values > 1 && values <= Math.max(2, fleet.count / 2)).sort((a, b) => a[1] - b[1] || (a[0] < b[0] ? -1 : 1)).map(([name]) => name);
}

// Nodes by the value of a label, the worst share first; within a group by the colour's number, or the sickest first as they come.
export function groupsOf(fleet, by, colour) {
  const key = JSON.stringify([by, colour]);
  if (!fleet.grouped.has(key)) fleet.grouped.set(key, grouped(fleet, by, colour));
  return fleet.grouped.get(key);
}

function grouped(fleet, by, colour) {
  const column = fleet.labels.get(by), size = column ? column.names.length : 1, found = [];
  for (let code = 0; code < size; code++) found.push({ name: column ? column.names[code] : "all nodes", isTold: !column || column.names[code] !== null, rows: [], counts: [0, 0, 0, 0] });
  for (let row = 0; row < fleet.count; row++) {
    const group = found[column ? column.codes[row] : 0];
    group.rows.push(row);
    group.counts[fleet.level[row]] += 1;
  }
  let list = found.filter((group) => group.rows.length).sort((a, b) => share(b) - share(a) || b.rows.length - a.rows.length || (String(a.name) < String(b.name) ? -1 : 1));
  if (list.length > MOST_GROUPS) list = [...list.slice(0, MOST_GROUPS - 1), merged(list.slice(MOST_GROUPS - 1))];
  const figures = fleet.figures.get(colour);
  for (const group of list) {
    if (figures) group.rows.sort((a, b) => after(figures[b], figures[a]) || a - b);
    group.rows = Uint32Array.from(group.rows);
  }
  return list;
}

const sick = (group) => group.counts[0] + group.counts[1];
const judged = (group) => group.rows.length - group.counts[2];
const share = (group) => (judged(group) ? sick(group) / judged(group) : -1);
const after = (a, b) => (Number.isNaN(a) ? (Number.isNaN(b) ? 0 : -1) : Number.isNaN(b) ? 1 : a - b);

function merged(groups) {
  const rows = groups.flatMap((group) => [...group.rows]).sort((a, b) => a - b), counts = [0, 1, 2, 3].map((level) => groups.reduce((sum, group) => sum + group.counts[level], 0));
  return { name: `${groups.length} more values`, isTold: true, isRest: true, rows, counts };
}

export function groupWords(group, by, words) {
  const told = judged(group), name = group.isRest || !by ? group.name : group.isTold ? `${by} ${group.name}` : `${by} not told`;
  return `${name}: ${told ? `${words.count(sick(group))} sick of ${words.count(told)} (${words.percent(sick(group) / told)})` : `${words.count(group.rows.length)} not judged`}`;
}

// Five levels of a number, powers of ten apart: what is below the first bound is the lowest, what is unknown is NaN.
export function boundsOf(figures) {
  let most = 0;
  for (const value of figures) if (value > most) most = value;
  const top = 10 ** Math.ceil(Math.log10(Math.max(most, 1)) - 1e-9);
  return [top / 10000, top / 1000, top / 100, top / 10].map((bound) => Math.max(bound, Number.MIN_VALUE));
}

export function stepOf(value, bounds) {
  let step = 0;
  while (step < 4 && value >= bounds[step]) step += 1;
  return step;
}

// 1 for every node that has all these labels; null for no cohort at all.
export function membersOf(fleet, labels) {
  if (!labels) return null;
  const marks = new Uint8Array(fleet.count), tests = Object.entries(labels).map(([name, value]) => { const column = fleet.labels.get(name); return column ? [column.codes, column.names.indexOf(value)] : [null, -1]; });
  for (let row = 0; row < fleet.count; row++) marks[row] = tests.every(([codes, code]) => codes && codes[row] === code) ? 1 : 0;
  return marks;
}

export async function listed(fleet, { members, text, sort, down }, isStale) {
  const wanted = text.trim().toLowerCase(), columns = [fleet.node, fleet.findings, ...fleet.labels.values()];
  const hits = wanted ? columns.map((column) => [column.codes, column.names.map((name) => name !== null && name.toLowerCase().includes(wanted))]) : [];
  const rows = await filtered(fleet.count, (row) => (!members || members[row]) && (!wanted || hits.some(([codes, found]) => found[codes[row]])), isStale);
  if (!rows || !sort) return rows;
  const column = sort === "node" ? fleet.node : sort === "findings" ? fleet.findings : fleet.labels.get(sort), rank = column && await ranks(column, isStale);
  if (column && !rank) return null;
  const figures = sort === "reached" ? fleet.reached : fleet.figures.get(sort);
  const compare = rank ? (a, b) => rank[column.codes[a]] - rank[column.codes[b]] : figures ? (a, b) => after(figures[a], figures[b]) : (a, b) => fleet.level[a] - fleet.level[b];
  return sorted(rows, down ? (a, b) => compare(b, a) : compare, isStale);
}
