// Tells errors in the words of whoever wrote the cell: its own lines, and no frame of the driver's.

import { unhoisted } from "./declarations.mjs";
import { named, placeOf } from "./stacks.mjs";
import { Array, Error, inspect, Math, Set, String } from "./natives.mjs";

const FRAME = /^\s+at /;
const MAX_CAUSES = 5;
const MAX_LINE = 200;
// Deno speaks to whoever started it, and that is nobody who reads this.
const FLAG_ADVICE = /, run again with the --allow-[\w-]+ flag/;
const NOT_CACHED = /^[^]*npm package not found in cache: "([^"]+)"[^]*$/;
const INSTALL =
  'The npm package "$1" is not installed here. package_install(["npm:$1"]) installs it, if it is approved';

// A program is given its packages with the call that runs it.
const INSTALL_CALL = /package_install\((\[[^\]]*\])\)/;

/** `{ename, evalue, traceback}` of anything that was thrown, and its `place` in a cell where there is one. */
export function describe(thrown) {
  if (!isError(thrown)) {
    const evalue = typeof thrown === "string" ? thrown : shown(thrown);
    return { ename: "Uncaught", evalue, traceback: [`Uncaught ${evalue}`], place: null };
  }
  const ename = String(read(thrown, "name") ?? "Error");
  const evalue = messageOf(thrown);
  const traceback = told(thrown, new Set());
  // Known once the stack was read.
  const place = placeOf(thrown);
  if (place) traceback.push("", ...excerpt(place));
  return { ename, evalue, traceback, place };
}

/** A cell that could not be compiled; the place is the compiler's. */
export function describeSyntax(error, cell) {
  const lines = cell.source.split("\n");
  // What is missing at the end is missing from the cell's last line, not from what the driver wrote below.
  const place = error.line > lines.length
    ? { cell, line: lines.length, column: lines.at(-1).length + 1 }
    : { cell, line: error.line, column: error.column };
  const evalue = error.message;
  return {
    ename: "SyntaxError",
    evalue,
    traceback: [`SyntaxError: ${evalue}`, "", ...excerpt(place)],
    place,
  };
}

export function isError(value) {
  return value instanceof Error ||
    (typeof value === "object" && value !== null && typeof read(value, "stack") === "string");
}

/** What is printed where nobody caught an error: the same, as one text. */
export function uncaught({ traceback }, inPromise) {
  return `Uncaught ${inPromise ? "(in promise) " : ""}${traceback.join("\n").replace(/^Uncaught /, "")}\n`;
}

/** What is printed where a program ended with what it threw, as Deno itself does. */
export function crash(thrown, inPromise) {
  const way = inPromise ? "(in promise) " : "";
  if (!isError(thrown)) return `error: Uncaught ${way}${shown(thrown)}\n`;
  const [head, ...below] = told(thrown, new Set());
  const place = placeOf(thrown);
  const marked = place ? excerpt(place).slice(1).map((line) => line.slice(2)) : [];
  const lines = [`error: Uncaught ${way}${head}`, ...marked, ...below.filter((line) => !head.includes(line))];
  return named(lines.join("\n")).replace(INSTALL_CALL, "packages=$1") + "\n";
}

/** The error's lines, and below them those of what caused it. */
function told(error, seen) {
  seen.add(error);
  const lines = stackLines(error);
  if (seen.size > MAX_CAUSES) return lines;
  const inner = read(error, "errors");
  if (Array.isArray(inner)) {
    inner.slice(0, MAX_CAUSES).forEach((one, index) => lines.push(`  [${index}] ${below(one, seen)}`));
    if (inner.length > MAX_CAUSES) lines.push(`  … ${inner.length - MAX_CAUSES} more errors`);
  }
  const cause = read(error, "cause");
  if (cause !== undefined) lines.push(`Caused by: ${below(cause, seen)}`);
  return lines;
}

function below(value, seen) {
  if (seen.has(value)) return "[Circular]";
  return isError(value) ? told(value, seen).join("\n") : shown(value);
}

function stackLines(error) {
  const name = String(read(error, "name") ?? "Error");
  const message = messageOf(error);
  const frames = String(read(error, "stack") ?? "").split("\n").filter((line) => FRAME.test(line));
  return [message ? `${name}: ${message}` : name, ...frames.map(unhoisted)];
}

/** The line of the cell, with a mark below the column. */
function excerpt({ cell, line, column }) {
  const text = cell.source.split("\n")[line - 1] ?? "";
  const head = `${cell.label}, line ${line}, column ${column}:`;
  if (text.length > MAX_LINE) return [head, `  ${text.slice(Math.max(0, column - 40), column + 60)}`];
  return [head, `  ${text}`, `  ${text.slice(0, column - 1).replace(/[^\t]/g, " ")}^`];
}

function messageOf(error) {
  return String(read(error, "message") ?? "").replace(FLAG_ADVICE, "").replace(NOT_CACHED, INSTALL);
}

/** A property of a foreign object, whose getter may throw. */
function read(value, key) {
  try {
    return value[key];
  } catch {
    return undefined;
  }
}

function shown(value) {
  try {
    return inspect(value, { colors: false });
  } catch (error) {
    return `[cannot be shown: ${read(error, "message")}]`;
  }
}
