// Rewrites what only a module may say, so that a cell can say it: static imports become awaited ones, exports are
// taken off, `import(…)` and `import.meta` go through the driver. Every line stays where it was.
//
// It works on tokens, before types are taken out: the compiler would take an import for superfluous that only the
// next cell uses. What the rewritten words do is in `modules`.

import { tokenize } from "./tokens.mjs";
import { Set } from "./natives.mjs";

export const IMPORT = "__cellwright_import__";
export const META = "__cellwright_meta__";

const DECLARING = new Set(
  "const let var function async class abstract enum namespace module declare interface type import".split(
    " ",
  ),
);
const MAY_MATTER = /\b(?:import|export)\b/;

/** A source whose static imports and exports are rewritten. */
export function rewriteStatic(source) {
  if (!MAY_MATTER.test(source)) return source;
  const tokens = tokenize(source);
  const edits = [];
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at];
    if (token.depth || token.type !== "word" || tokens[at - 1]?.text === ".") continue;
    if (token.text === "import") at = importEdit(source, tokens, at, edits);
    else if (token.text === "export") at = exportEdit(source, tokens, at, edits);
  }
  return applied(source, edits);
}

/** Code, already without types, whose dynamic imports and `import.meta` are rewritten. */
export function rewriteDynamic(code) {
  if (!/\bimport\b/.test(code)) return code;
  const tokens = tokenize(code);
  const edits = [];
  tokens.forEach((token, at) => {
    if (token.type !== "word" || token.text !== "import" || tokens[at - 1]?.text === ".") return;
    const [next, name] = [tokens[at + 1], tokens[at + 2]];
    if (next?.text === "(") edits.push({ start: token.start, end: token.end, text: IMPORT });
    else if (next?.text === "." && name?.text === "meta") {
      edits.push({ start: token.start, end: name.end, text: META });
    }
  });
  return applied(code, edits);
}

/** The source with parts of it replaced; edits are in order and do not overlap. */
export function applied(source, edits) {
  let result = "";
  let from = 0;
  for (const { start, end, text } of edits) {
    result += source.slice(from, start) + text;
    from = end;
  }
  return result + source.slice(from);
}

function importEdit(source, tokens, at, edits) {
  const next = tokens[at + 1];
  if (!next || next.text === "(" || next.text === ".") return at;
  if (tokens[at + 2]?.text === "=" || (next.text === "type" && tokens[at + 3]?.text === "=")) {
    return assignmentEdit(tokens, at, edits);
  }
  const from = tokens.findIndex((token, index) => index > at && token.type === "string" && token.depth === 0);
  if (from < 0) return at;
  const clause = tokens.slice(at + 1, from);
  if (!isClause(clause)) return at;
  const end = attributesEnd(tokens, from);
  const names = isTypeOnly(clause) ? null : bindings(clause);
  const call = `await ${IMPORT}(${tokens[from].text}${attributes(source, tokens, from, end)})`;
  let text = "";
  if (names && clause.length === 0) text = call;
  else if (names?.namespace) {
    text = `let ${names.namespace} = ${call}${
      names.default ? `, ${names.default} = ${names.namespace}.default` : ""
    }`;
  } else if (names) text = `let { ${names.list.join(", ")} } = ${call}`;
  replaceKeepingLines(source, tokens[at].start, tokens[end].end, text, edits);
  return end;
}

/** `import a = b.c` and `import fs = require("fs")`; with `type` it is another name for a type. */
function assignmentEdit(tokens, at, edits) {
  const isType = tokens[at + 2].text !== "=";
  edits.push({ start: tokens[at].start, end: tokens[at].end, text: isType ? "" : "let" });
  return at + 2;
}

function isClause(tokens) {
  return tokens.length === 0 || tokens.at(-1).text === "from";
}

function isTypeOnly(clause) {
  if (clause[0]?.text !== "type") return false;
  // `import type from "x"` and `import type, { a } from "x"` import something that is called `type`.
  return !(clause[1].text === "," || (clause[1].text === "from" && clause.length === 2));
}

/** The names that an import's clause binds: `{namespace, default, list}`, the list as parts of a pattern. */
function bindings(clause) {
  const names = { namespace: null, default: null, list: [] };
  let at = 0;
  if (clause[0]?.type === "word" && clause[0].text !== "from") {
    names.default = clause[0].text;
    names.list.push(`default: ${names.default}`);
    at = clause[1]?.text === "," ? 2 : 1;
  } else if (clause[0]?.text === "from" && clause.length > 1) {
    names.default = "from";
    names.list.push("default: from");
    at = 1;
  }
  if (clause[at]?.text === "*") names.namespace = clause[at + 2]?.text;
  if (clause[at]?.text === "{") names.list.push(...namedBindings(clause.slice(at + 1)));
  return names;
}

function namedBindings(tokens) {
  const found = [];
  let parts = [];
  for (const token of tokens) {
    if (token.text !== "," && token.text !== "}") {
      parts.push(token.text);
      continue;
    }
    const binding = namedBinding(parts);
    if (binding) found.push(binding);
    parts = [];
    if (token.text === "}") break;
  }
  return found;
}

function namedBinding(parts) {
  if (!parts.length) return null;
  // `type` is itself a name in `{ type }`, `{ type as a }` and `{ type as as a }`.
  const isType = parts[0] === "type" && parts.length > 1 &&
    !(parts[1] === "as" && parts.length !== 2 && parts[2] !== "as");
  if (isType && !(parts[1] === "as" && parts.length === 4)) return null;
  if (parts.length === 1) return parts[0];
  return `${parts[0]}: ${parts.at(-1)}`;
}

/** The index of the last token of an import: its specifier, its attributes or its semicolon. */
function attributesEnd(tokens, from) {
  let end = from;
  const word = tokens[from + 1];
  if ((word?.text === "with" || (word?.text === "assert" && !word.fresh)) && tokens[from + 2]?.text === "{") {
    end = tokens.findIndex((token, index) => index > from && token.text === "}" && token.depth === 0);
    if (end < 0) end = from;
  }
  return tokens[end + 1]?.text === ";" ? end + 1 : end;
}

function attributes(source, tokens, from, end) {
  const last = tokens[end].text === ";" ? end - 1 : end;
  return last > from ? `, { with: ${source.slice(tokens[from + 2].start, tokens[last].end)} }` : "";
}

function exportEdit(source, tokens, at, edits) {
  const [word, next, after] = [tokens[at], tokens[at + 1], tokens[at + 2]];
  if (!next) return at;
  if (next.text === "default") return defaultEdit(tokens, at, edits);
  if (next.text === "=") {
    edits.push({ start: word.start, end: next.end, text: " ".repeat(next.end - word.start) });
    return at + 1;
  }
  const isList = next.text === "{" || next.text === "*" || next.text === "as" ||
    (next.text === "type" && (after?.text === "{" || after?.text === "*"));
  if (isList) return listEdit(source, tokens, at, edits);
  if (DECLARING.has(next.text) || next.text === "@") {
    edits.push({ start: word.start, end: word.end, text: "      " });
  }
  return at;
}

function defaultEdit(tokens, at, edits) {
  let next = at + 2;
  while (["async", "abstract", "*"].includes(tokens[next]?.text)) next++;
  const kind = tokens[next]?.text;
  const isNamed = ["function", "class", "interface"].includes(kind) &&
    tokens[tokens[next + 1]?.text === "*" ? next + 2 : next + 1]?.type === "word" &&
    tokens[next + 1].text !== "extends";
  const isNameless = !isNamed && ["function", "class"].includes(kind);
  const [start, end] = [tokens[at].start, tokens[at + 1].end];
  edits.push({ start, end, text: isNameless ? "let __default =" : " ".repeat(end - start) });
  return at + 1;
}

/** `export { a, b }`, `export * from "x"` and the like: nothing remains but what importing does. */
function listEdit(source, tokens, at, edits) {
  let end = at + 1;
  const isType = tokens[end].text === "type";
  while (end + 1 < tokens.length && tokens[end].text !== ";" && !endsList(tokens, end)) end++;
  const isFrom = tokens.slice(at, end + 1).findLast((token) => token.depth === 0 && token.type === "string");
  const text = isFrom && !isType ? `await ${IMPORT}(${isFrom.text})` : "";
  if (tokens[end + 1]?.text === ";") end++;
  replaceKeepingLines(source, tokens[at].start, tokens[end].end, text, edits);
  return end;
}

function endsList(tokens, at) {
  const [token, next] = [tokens[at], tokens[at + 1]];
  if (token.depth) return false;
  if (token.type === "string") return next.text !== "with";
  if (token.text === "}") return next.text !== "from";
  return tokens[at - 1]?.text === "namespace";
}

function replaceKeepingLines(source, start, end, text, edits) {
  const lines = source.slice(start, end).split("\n").length - 1;
  edits.push({ start, end, text: (text ? `${text};` : "") + "\n".repeat(lines) });
}
