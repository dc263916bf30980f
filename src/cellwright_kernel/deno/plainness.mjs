// Values as JSON can hold them, without a loss that nobody is told of.

import { Array, ArrayBuffer, DataView, Date, Map, Number, Object, Set, TypeError } from "./natives.mjs";

const PASSED = ["string", "boolean", "undefined"];

/**
 * The same value in JSON's own types: a map and a plain object as an object, sets and typed arrays as arrays, dates
 * as texts. What has no such form is refused, with the part that it is.
 */
export function plainOf(value, part = "value", above = []) {
  if (value === null || PASSED.includes(typeof value)) return value;
  if (typeof value === "number") return Number.isFinite(value) ? value : null;
  if (typeof value === "bigint") return Number(value);
  if (typeof value !== "object") throw refusal(part, `a ${typeof value}`);
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  if (above.includes(value)) throw refusal(part, "a value that it is itself part of");
  const inner = [...above, value];
  if (typeof value.toJSON === "function") return plainOf(value.toJSON(), part, inner);
  const list = listIn(value);
  if (list) return list.map((held, at) => plainOf(held, `${part}[${at}]`, inner) ?? null);
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  if (entries.some(([key]) => !["string", "number"].includes(typeof key))) {
    throw refusal(part, "a map with other keys than texts and numbers");
  }
  return Object.fromEntries(entries.map(([key, held]) => [key, plainOf(held, `${part}.${key}`, inner)]));
}

function listIn(value) {
  if (Array.isArray(value)) return value;
  if (value instanceof Set) return [...value];
  return ArrayBuffer.isView(value) && !(value instanceof DataView) ? [...value] : null;
}

function refusal(part, what) {
  return new TypeError(`${part} is ${what}, which cannot pass to another language`);
}
