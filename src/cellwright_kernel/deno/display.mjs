// The forms in which a value is shown: MIME types and their data. Publishes nothing.

import { htmlTable, isRecords, tableOf, textTable } from "./tables.mjs";
import { inspect, JSON, String, Symbol, Uint8Array, WeakSet } from "./natives.mjs";

export const DISPLAY = Symbol.for("Jupyter.display");

const INSPECTION = {
  colors: false,
  depth: 4,
  iterableLimit: 100,
  strAbbreviateSize: 10_000,
  trailingComma: false,
};
const INSPECTED_RECORDS = 20;
const KEPT_RECORDS = 20;
const IMAGES = [
  ["image/png", [0x89, 0x50, 0x4e, 0x47]],
  ["image/jpeg", [0xff, 0xd8, 0xff]],
  ["image/gif", [0x47, 0x49, 0x46, 0x38]],
];

/** Promises that only say when something was shown: nobody wants to see them. */
const quiet = new WeakSet();

/** The same promise, which is no result worth showing. */
export function quietly(promise) {
  quiet.add(promise);
  return promise;
}

/** Whether a cell's value is worth showing. */
export function isShown(value) {
  return value !== undefined && !quiet.has(value);
}

/**
 * Everything that a value can be shown as, or a promise of it where the value takes its time. Calls the value's own
 * ways of showing itself, which may fail.
 */
export function bundle(value) {
  if ((typeof value === "object" && value !== null) || typeof value === "function") {
    const own = ownBundle(value);
    if (own) return own;
  }
  if (isRecords(value)) return recordsBundle(value);
  return { "text/plain": text(value) };
}

/** A value in words, as a REPL would print it. */
export function text(value) {
  return inspect(value, INSPECTION);
}

function ownBundle(value) {
  if (typeof value[DISPLAY] === "function") return settled(value[DISPLAY](), plain);
  if (value instanceof Uint8Array) return imageBundle(value);
  if (typeof value.toDataURL === "function") return settled(value.toDataURL(), dataUrlBundle);
  if (typeof value.outerHTML === "string") {
    const mime = /^\s*<svg\b/i.test(value.outerHTML) ? "image/svg+xml" : "text/html";
    return { [mime]: value.outerHTML, "text/plain": text(value) };
  }
  if (typeof value.toSpec === "function") {
    return { "application/vnd.vegalite.v5+json": plain(value.toSpec()), "text/plain": "[chart]" };
  }
  return null;
}

function settled(made, use) {
  return typeof made?.then === "function" ? made.then(use) : use(made);
}

/** Only what JSON can say, so that nothing else of the cell's runs when it is sent. */
function plain(data) {
  const copied = JSON.parse(JSON.stringify(data ?? null));
  return typeof copied === "object" && copied !== null ? copied : { "text/plain": String(data) };
}

function imageBundle(bytes) {
  const found = IMAGES.find(([, magic]) => magic.every((byte, index) => bytes[index] === byte));
  if (!found) return null;
  return { [found[0]]: bytes.toBase64(), "text/plain": `[${found[0]}, ${bytes.length} bytes]` };
}

function dataUrlBundle(url) {
  const found = /^data:([\w/+.-]+);base64,(.*)$/s.exec(String(url));
  return found ? { [found[1]]: found[2], "text/plain": `[${found[1]}]` } : null;
}

function recordsBundle(records) {
  const table = tableOf(records, KEPT_RECORDS);
  const words = records.length > INSPECTED_RECORDS ? textTable(table) : text(records);
  return { "text/html": htmlTable(table), "text/plain": words };
}

/** Something that shows itself as these forms. */
export function displayable(data) {
  return { [DISPLAY]: () => data };
}

/** A template tag whose text is shown as that type. */
export function tagFor(mime) {
  return (strings, ...values) => {
    const whole = typeof strings === "string" ? strings : String.raw({ raw: strings }, ...values);
    return displayable({ [mime]: whole });
  };
}

/** A picture from its bytes, or from the file of that name. */
export function imageOf(source, readFile) {
  const bytes = typeof source === "string" ? readFile(source) : source;
  const data = imageBundle(bytes) ?? { "text/plain": text(bytes) };
  return displayable(data);
}
