// What the cells have declared, in a few words each, without running any of their code.

import {
  Array,
  ArrayBuffer,
  core,
  Date,
  Deno,
  Function,
  JSON,
  Map,
  Math,
  Number,
  Object,
  Set,
  String,
  Symbol,
} from "./natives.mjs";

const MAX_ENTRIES = 200;
const MAX_CHARACTERS = 60_000;
const MAX_DIGEST = 120;
const MAX_ITEMS = 4;
const COUNTED = [Map, Set];

/** Variables, functions and classes by name, newest first, and where this runs. `entries` are `[name, value]`. */
export function snapshot(entries) {
  const found = { variables: [], functions: [], classes: [], modules: [] };
  let room = MAX_CHARACTERS;
  let omitted = 0;
  for (const [name, value] of entries) {
    const [kind, about] = entry(value);
    room -= name.length + Object.values(about).reduce((sum, field) => sum + String(field).length, 50);
    if (room > 0 && found[kind].length < MAX_ENTRIES) found[kind].push({ name, ...about });
    else omitted++;
  }
  return {
    ...found,
    omitted,
    cwd: Deno.cwd(),
    interpreter: Deno.execPath(),
    python: `deno ${Deno.version.deno}`,
  };
}

/** Type, and where they can be had safely length and digest. */
export function describeValue(value) {
  if (core.isProxy(value)) return { type: "Proxy" };
  const type = typeName(value);
  if (typeof value === "string") return { type, length: value.length, digest: cut(quoted(value)) };
  if (Array.isArray(value)) return { type, length: value.length, digest: cut(`[${listed(value)}]`) };
  if (value instanceof Date) {
    return { type, digest: Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString() };
  }
  if (COUNTED.includes(value?.constructor)) return { type, length: value.size };
  if (ArrayBuffer.isView(value)) return { type, length: value.length ?? value.byteLength };
  if (typeof value === "object" && value !== null) return { type, digest: cut(`{${fields(value)}}`) };
  return { type, digest: cut(item(value)) };
}

function entry(value) {
  if (typeof value !== "function" || core.isProxy(value)) {
    if (isModule(value)) return ["modules", {}];
    return ["variables", describeValue(value)];
  }
  const text = Function.prototype.toString.call(value);
  if (/^class\b/.test(text)) return ["classes", { class: cut(ownName(value)) }];
  return ["functions", { signature: cut(signature(text)) }];
}

function isModule(value) {
  if (typeof value !== "object" || value === null || core.isProxy(value)) return false;
  return Object.getOwnPropertyDescriptor(value, Symbol.toStringTag)?.value === "Module";
}

/** A function's parameters as its text has them. */
function signature(text) {
  const from = text.indexOf("(");
  const arrow = text.indexOf("=>");
  if (from < 0 || (arrow >= 0 && arrow < from)) {
    return `(${text.slice(0, Math.max(0, arrow)).replace("async", "").trim()})`;
  }
  let depth = 0;
  for (let at = from; at < text.length; at++) {
    if ("([{".includes(text[at])) depth++;
    else if (")]}".includes(text[at]) && --depth === 0) {
      return text.slice(from, at + 1).replace(/\s+/g, " ").replaceAll(" ,", ",").replaceAll(" )", ")");
    }
  }
  return "(…)";
}

function typeName(value) {
  if (value === null) return "null";
  if (typeof value !== "object") return typeof value;
  const prototype = Object.getPrototypeOf(value);
  const maker = prototype && Object.getOwnPropertyDescriptor(prototype, "constructor")?.value;
  return typeof maker === "function" ? ownName(maker) || "Object" : "Object";
}

function ownName(maker) {
  const name = Object.getOwnPropertyDescriptor(maker, "name")?.value;
  return typeof name === "string" ? name : "";
}

function listed(values) {
  const shown = values.slice(0, MAX_ITEMS).map(item);
  return shown.join(", ") + (values.length > MAX_ITEMS ? ", …" : "");
}

function fields(value) {
  const names = Object.keys(value);
  const shown = names.slice(0, MAX_ITEMS).map((name) => {
    const property = Object.getOwnPropertyDescriptor(value, name);
    return `${name}: ${"value" in property ? item(property.value) : "[getter]"}`;
  });
  return shown.join(", ") + (names.length > MAX_ITEMS ? ", …" : "");
}

/** One value inside of another, which may be anything. */
function item(value) {
  if (typeof value === "string") return quoted(value.slice(0, 30));
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "function") return `<function ${ownName(value)}>`;
  if (typeof value !== "object" || value === null) return String(value);
  return core.isProxy(value) ? "<Proxy>" : `<${typeName(value)}>`;
}

function quoted(text) {
  return JSON.stringify(text.slice(0, MAX_DIGEST));
}

function cut(text) {
  return text.length > MAX_DIGEST ? `${text.slice(0, MAX_DIGEST - 1)}…` : text;
}
