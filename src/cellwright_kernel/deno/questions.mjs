// Answers to what is asked about the kernel and its values. Runs no cell.

import { complete } from "./completion.mjs";
import { describeValue, snapshot } from "./inspection.mjs";
import { text } from "./display.mjs";
import { graphOf, tableIn } from "./drawables.mjs";
import { Deno, Error, JSON, Math, Object, Set, world } from "./natives.mjs";

const DEFAULT_ROWS = 1000;
const MAX_ROWS = 100_000;
const MAX_VALUE = 100_000;
const MAX_NAMES = 1000;
const MAX_DIGEST = 500;
const VARIABLE = /^[\p{ID_Start}$_][\p{ID_Continue}$]*/u;

/** The names of the world that no cell declared. */
let inborn = new Set();

/** Takes what the world holds now for what it holds by birth. */
export function noteInborn() {
  inborn = new Set(Object.getOwnPropertyNames(world));
}

/** `kernel_info_reply`. */
export function kernelInfo() {
  const { deno, typescript } = Deno.version;
  return {
    status: "ok",
    protocol_version: "5.4",
    implementation: "cellwright-deno",
    implementation_version: deno,
    banner: `TypeScript ${typescript} on Deno ${deno}`,
    language_info: {
      name: "typescript",
      version: typescript,
      mimetype: "text/x.typescript",
      file_extension: ".ts",
      pygments_lexer: "typescript",
      codemirror_mode: "typescript",
    },
    help_links: [],
  };
}

export async function completions({ code, cursor_pos: position }, link) {
  return await complete(code, position ?? [...code].length, link);
}

/** `inspect_reply`: what the name at the cursor stands for. */
export async function about({ code, cursor_pos: position }, link) {
  const path = pathAt([...code], position ?? [...code].length);
  const answer = path ? await quietly(path, link) : null;
  if (!answer) return { status: "ok", found: false, data: {}, metadata: {} };
  const { type } = describeValue(answer.value);
  return {
    status: "ok",
    found: true,
    data: { "text/plain": `${type}: ${text(answer.value)}` },
    metadata: {},
  };
}

function pathAt(characters, position) {
  const before = /[\p{ID_Continue}$.]*$/u.exec(characters.slice(0, position).join(""))[0];
  const after = /^[\p{ID_Continue}$]*/u.exec(characters.slice(position).join(""))[0];
  const path = before + after;
  return VARIABLE.test(path) ? path : "";
}

/** `cellwright_data_reply`: a variable or a cell's result as data. */
export async function data(
  { name, execution_count: count, max_rows: maxRows = DEFAULT_ROWS, want = "auto" },
  link,
  results,
) {
  const value = name === undefined || name === null ? resultOf(count, results) : await variable(name, link);
  const { type, length, digest } = describeValue(value);
  const told = { status: "ok", type, digest: digest ?? (length === undefined ? type : `${type}(${length})`) };
  const graph = want === "table" ? null : graphOf(value, { alsoRecords: want === "graph" });
  if (graph) return { ...told, kind: "graph", graph };
  if (want === "graph") {
    throw new Error(`${type} is no graph: give nodes and links, or a list of source and target`);
  }
  const table = tableIn(value, Math.max(0, Math.min(maxRows, MAX_ROWS)));
  if (table) {
    const names = table.columns.map((column) => column.name).join(", ");
    return {
      ...told,
      digest: `${type} of ${table.total_rows}: ${names}`.slice(0, MAX_DIGEST),
      kind: "table",
      table,
    };
  }
  const plain = asJson(value);
  return plain === undefined ? { ...told, kind: "value" } : { ...told, kind: "value", value: plain };
}

function asJson(value) {
  try {
    const words = JSON.stringify(value);
    return words !== undefined && words.length <= MAX_VALUE ? JSON.parse(words) : undefined;
  } catch {
    return undefined;
  }
}

function resultOf(count, results) {
  if (count === undefined || count === null) throw new Error("give `name` or `execution_count`");
  if (!results.has(count)) {
    throw new Error(`cell [${count}] left no result: end it with the expression, or name a variable`);
  }
  return results.get(count);
}

async function variable(name, link) {
  const answer = VARIABLE.test(name) ? await quietly(name, link) : null;
  if (!answer) throw new Error(`there is no variable '${name}' that can be read without a call`);
  return answer.value;
}

async function quietly(expression, link) {
  const answer = await link.evaluate({ expression, throwOnSideEffect: true, silent: true, timeout: 1000 });
  return answer.result && !answer.result.exceptionDetails ? answer : null;
}

/** `cellwright_inspect_reply`: what the cells have declared. */
export async function namespace(link) {
  const { result } = await link.call("Runtime.globalLexicalScopeNames", {});
  const lexical = [...new Set(result.names.filter(isVisible))].slice(-MAX_NAMES);
  const getters = lexical.map((name) => `get ${name}() { return ${name}; }`).join(", ");
  const held = await link.evaluate({ expression: `({ ${getters} })`, silent: true });
  const entries = lexical.map((name) => [name, valueOf(held.value, name)]);
  for (const name of Object.getOwnPropertyNames(world)) {
    const property = Object.getOwnPropertyDescriptor(world, name);
    if (!inborn.has(name) && isVisible(name) && property && "value" in property) {
      entries.push([name, property.value]);
    }
  }
  return { status: "ok", ...snapshot(entries.reverse()) };
}

/** A name that was declared and never given a value cannot be read. */
function valueOf(holder, name) {
  try {
    return holder?.[name];
  } catch {
    return undefined;
  }
}

function isVisible(name) {
  return !name.startsWith("_");
}
