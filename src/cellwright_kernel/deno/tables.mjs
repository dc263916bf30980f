// Arrays of records as tables: the same form that frames of the Python kernel have (`cellwright_kernel.tables`).

import { grouped } from "./budget.mjs";
import { Array, Date, Map, Math, Number, Object, String } from "./natives.mjs";

const MAX_COLUMNS = 200;
const MAX_TEXT = 2000;
const SHOWN_ROWS = 20;
const ISO = /^\d{4}-\d\d-\d\d(?:[T ][\d:.]+(?:Z|[+-]\d\d:?\d\d)?)?$/;

/** Whether a value is an array of plain objects whose values are scalars. */
export function isRecords(value) {
  return Array.isArray(value) && value.length > 0 && value.every(isRecord);
}

function isRecord(value) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) return false;
  const properties = Object.getOwnPropertyDescriptors(value);
  const keys = Object.keys(properties);
  return keys.length > 0 &&
    keys.every((key) => "value" in properties[key] && isScalar(properties[key].value));
}

export function isScalar(value) {
  return value === null || value instanceof Date || !["object", "function", "symbol"].includes(typeof value);
}

/** The table of some records, of which at most `maxRows` are kept: the first, or such as are spread evenly. */
export function tableOf(records, maxRows = records.length, { evenly = false } = {}) {
  const names = new Map();
  for (const record of records) for (const name of Object.keys(record)) names.set(name, true);
  const kept = [...names.keys()].slice(0, MAX_COLUMNS);
  const chosen = evenly ? spread(records, maxRows) : records.slice(0, maxRows);
  const rows = chosen.map((record) => kept.map((name) => cellValue(record[name])));
  const notices = [];
  if (rows.length < records.length) {
    const told = `${grouped(rows.length)} of ${grouped(records.length)} rows`;
    notices.push(evenly ? `${told}, spread evenly` : `the first ${told}`);
  }
  if (kept.length < names.size) notices.push(`the first ${kept.length} of ${names.size} columns`);
  const columns = kept.map((name) => columnOf(name, records));
  return { columns, rows, total_rows: records.length, notices };
}

function spread(records, most) {
  if (records.length <= most) return records;
  const step = Math.ceil(records.length / Math.max(1, most));
  return most > 0 ? records.filter((_, index) => index % step === 0) : [];
}

function columnOf(name, records) {
  const kinds = new Map();
  let missing = 0;
  for (const record of records) {
    const value = record[name];
    if (value === null || value === undefined || Number.isNaN(value)) missing++;
    else kinds.set(kindOf(value), (kinds.get(kindOf(value)) ?? 0) + 1);
  }
  const kind = kinds.size === 1 ? kinds.keys().next().value : kinds.size ? "other" : "text";
  return { name, kind, dtype: "", missing };
}

function kindOf(value) {
  if (value instanceof Date) return "time";
  return { number: "number", bigint: "number", boolean: "bool", string: "text" }[typeof value] ?? "other";
}

function cellValue(value) {
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (typeof value === "number") return Number.isFinite(value) ? value : null;
  return value ?? null;
}

/** The records of a table: what columns of times hold becomes dates. */
export function recordsOf(table) {
  return table.rows.map((row) =>
    Object.fromEntries(table.columns.map(({ name, kind }, index) => {
      const value = row[index];
      return [
        name,
        kind === "time" && typeof value === "string" && ISO.test(value) ? new Date(value) : value,
      ];
    }))
  );
}

/** A table for people: the first rows as HTML. */
export function htmlTable(table) {
  const rows = table.rows.slice(0, SHOWN_ROWS);
  const cells = (row) =>
    row.map((value, index) => {
      const align = table.columns[index].kind === "number" ? ' style="text-align: right"' : "";
      return `<td${align}>${value === null ? "" : escaped(value)}</td>`;
    }).join("");
  const head = table.columns.map(({ name }) => `<th>${escaped(name)}</th>`).join("");
  const body = rows.map((row) => `<tr>${cells(row)}</tr>`).join("\n");
  const rest = table.total_rows > rows.length ? `\n<p>${rows.length} of ${table.total_rows} rows</p>` : "";
  return `<table>\n<thead><tr>${head}</tr></thead>\n<tbody>\n${body}\n</tbody>\n</table>${rest}`;
}

/** A table as text: names, the first rows, and how many there are. */
export function textTable(table, maxRows = 10) {
  const rows = [
    table.columns.map(({ name }) => name),
    ...table.rows.slice(0, maxRows).map((row) => row.map(short)),
  ];
  const widths = table.columns.map((_, index) =>
    rows.reduce((most, row) => Math.max(most, row[index].length), 0)
  );
  const lines = rows.map((row) => row.map((text, index) => text.padEnd(widths[index])).join("  ").trimEnd());
  return `${lines.join("\n")}\n… ${table.total_rows} rows, ${table.columns.length} columns`;
}

function short(value) {
  const text = value === null ? "" : String(value).replaceAll("\n", "⏎");
  return text.length > 40 ? `${text.slice(0, 39)}…` : text;
}

function escaped(value) {
  const text = String(value).slice(0, MAX_TEXT);
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll(
    '"',
    "&quot;",
  );
}
