// Values as what can be drawn of them: a table, or a graph of nodes and links. The Python kernel draws the same ones.

import { isScalar, tableOf } from "./tables.mjs";
import { plainOf } from "./plainness.mjs";
import { Array, ArrayBuffer, core, DataView, JSON, Map, Object, Set, String } from "./natives.mjs";

const MAX_NODES = 5000;
const MAX_LINKS = 20_000;
const MAX_CELL = 200;
const ENDS = [["source", "target"], ["from", "to"]];
const IDENTITIES = ["id", "name", "label", "key"];
const DATE = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?$/;

/** A value as nodes and links, or null. A list of links counts where it is asked to. */
export function graphOf(value, { alsoRecords = false } = {}) {
  if (core.isProxy(value)) return null;
  if (Array.isArray(value)) {
    return alsoRecords && value.length && value.every(endsOf) ? graph([], value) : null;
  }
  const links = own(value, "links") ?? own(value, "edges");
  const nodes = own(value, "nodes") ?? [];
  return Array.isArray(links) && Array.isArray(nodes) && links.every(endsOf) ? graph(nodes, links) : null;
}

function graph(nodes, links) {
  const found = new Map();
  const add = (node) => found.has(node.id) || found.set(node.id, node);
  nodes.forEach((node, number) => add(nodeOf(node, number)));
  const made = links.map((link) => {
    const [source, target] = endsOf(link);
    add({ id: source });
    add({ id: target });
    return { source, target, ...attributes(link, [...ENDS.flat()]) };
  });
  const kept = new Set([...found.keys()].slice(0, MAX_NODES));
  const among = made.filter(({ source, target }) => kept.has(source) && kept.has(target));
  const notices = [];
  if (found.size > MAX_NODES) notices.push(`the first ${MAX_NODES} of ${found.size} nodes`);
  if (among.length > MAX_LINKS) notices.push(`the first ${MAX_LINKS} of ${among.length} links`);
  return { nodes: [...found.values()].slice(0, MAX_NODES), links: among.slice(0, MAX_LINKS), notices };
}

function nodeOf(node, number) {
  if (isScalar(node)) return { id: String(node) };
  const name = IDENTITIES.map((key) => own(node, key)).find((held) => held !== undefined && isScalar(held));
  return { id: String(name ?? number), ...attributes(node, ["id"]) };
}

function endsOf(link) {
  if (Array.isArray(link)) return link.length > 1 ? [String(link[0]), String(link[1])] : null;
  for (const ends of ENDS) {
    const held = ends.map((end) => own(link, end));
    if (held.every((end) => end !== undefined && isScalar(end))) return held.map(String);
  }
  return null;
}

function attributes(held, skipped) {
  if (Array.isArray(held)) return {};
  const some = Object.keys(held).filter((key) => !skipped.includes(key) && isScalar(own(held, key)));
  return Object.fromEntries(some.slice(0, 10).map((key) => [key, plainOf(own(held, key)) ?? null]));
}

/** A value as a table of at most `maxRows` rows, or null. */
export function tableIn(value, maxRows) {
  const records = recordsIn(value);
  if (!records?.length) return null;
  const table = tableOf(records, maxRows, { evenly: true });
  table.columns.forEach((column, index) => {
    const isDated = column.kind === "text" &&
      table.rows.every((row) => row[index] === null || DATE.test(row[index]));
    if (isDated && table.rows.some((row) => row[index] !== null)) column.kind = "time";
  });
  return table;
}

function recordsIn(value) {
  if (core.isProxy(value) || typeof value !== "object" || value === null) return null;
  if (ArrayBuffer.isView(value)) return value instanceof DataView ? null : scalars([...value]);
  if (Array.isArray(value)) return value.every(isScalar) ? scalars(value) : rows(value);
  if (value instanceof Set) return recordsIn([...value]);
  const entries = value instanceof Map ? [...value] : isPlain(value) ? fields(value) : [];
  if (entries.length && entries.every(([, held]) => Array.isArray(held) && held.every(isScalar))) {
    return columns(entries);
  }
  if (!entries.every(([key, held]) => isScalar(key) && isScalar(held))) return null;
  return entries.map(([key, held]) => ({ key: String(key), value: held }));
}

function scalars(values) {
  return values.map((value, index) => ({ index, value }));
}

function rows(values) {
  if (values.every((row) => Array.isArray(row) && row.every(isScalar))) {
    return values.map((row) => Object.fromEntries(row.map((held, place) => [String(place), held])));
  }
  if (!values.every(isPlain)) return null;
  return values.map((row) => Object.fromEntries(fields(row).map(([key, held]) => [key, told(held)])));
}

function columns(entries) {
  const length = entries[0][1].length;
  if (!entries.every(([, held]) => held.length === length)) return null;
  return entries[0][1].map((_, at) =>
    Object.fromEntries(entries.map(([key, held]) => [String(key), held[at]]))
  );
}

/** What stands in a cell of a table: what is not a scalar, in words. */
function told(value) {
  if (isScalar(value)) return value;
  try {
    return JSON.stringify(plainOf(value)).slice(0, MAX_CELL);
  } catch {
    return `<${typeof value}>`;
  }
}

function isPlain(value) {
  if (typeof value !== "object" || value === null || Array.isArray(value) || core.isProxy(value)) {
    return false;
  }
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function fields(value) {
  return Object.keys(value).map((key) => [key, own(value, key)]);
}

/** A property that is a value: no getter is run. */
function own(value, key) {
  if (typeof value !== "object" || value === null) return undefined;
  return Object.getOwnPropertyDescriptor(value, key)?.value;
}
