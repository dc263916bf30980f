// Makes of a script a module that can be loaded from memory: what it imports is named as seen from its directory, and
// packages by the scheme that Deno knows them by. Every line stays where it was. Loads nothing.

import { applied, IMPORT, META } from "./imports.mjs";
import { tokenize } from "./tokens.mjs";
import { JSON, Map, Set, URL } from "./natives.mjs";

const RELATIVE = /^\.{0,2}\//;
const SCHEME = /^[a-zA-Z][\w+.-]*:/;
const MAY_MATTER = /\b(?:import|export|require)\b/;

/**
 * `{code, packages}` of a script in the directory `base` (an address that ends with a slash): `packages` are those
 * that it asks `require` for by name. `builtins` are Node's own modules.
 */
export function asModule(source, base, builtins) {
  if (!MAY_MATTER.test(source)) return { code: source, packages: [] };
  const tokens = tokenize(source);
  const edits = new Map();
  const packages = new Set();
  tokens.forEach((token, at) => {
    if (token.type !== "word" || tokens[at - 1]?.text === ".") return;
    if (token.text === "require") noteRequired(tokens, at, builtins, packages);
    else if (token.text === "import") importEdit(tokens, at, edits);
    else if (token.text === "export" && !token.depth) exportEdit(tokens, at, edits);
  });
  const inOrder = [...edits.values()].sort((one, other) => one.start - other.start);
  const told = inOrder.map((edit) => edit.specifier === undefined ? edit : renamed(edit, base, builtins));
  return { code: applied(source, told), packages: [...packages] };
}

/** The address of what a script calls by this name. */
export function addressOf(name, base, builtins) {
  if (RELATIVE.test(name)) return new URL(name, base).href;
  if (SCHEME.test(name)) return name;
  return builtins.includes(name) ? `node:${name}` : `npm:${name}`;
}

function renamed({ start, end, specifier }, base, builtins) {
  return { start, end, text: JSON.stringify(addressOf(specifier, base, builtins)) };
}

function importEdit(tokens, at, edits) {
  const [word, next, after] = [tokens[at], tokens[at + 1], tokens[at + 2]];
  if (next?.text === "(") {
    const isPlain = after?.type === "string" && [")", ","].includes(tokens[at + 3]?.text);
    if (isPlain) addSpecifier(after, edits);
    else edits.set(at, { start: word.start, end: word.end, text: IMPORT });
  } else if (next?.text === "." && after?.text === "meta") {
    edits.set(at, { start: word.start, end: after.end, text: META });
  } else if (after?.text === "=") {
    edits.set(at, { start: word.start, end: word.end, text: "const" });
  } else if (!word.depth) addSpecifier(fromClause(tokens, at), edits);
}

function exportEdit(tokens, at, edits) {
  const next = tokens[at + 1]?.text === "type" ? tokens[at + 2] : tokens[at + 1];
  if (next?.text === "*" || next?.text === "{") addSpecifier(fromClause(tokens, at), edits);
}

/** The name of the module in `import … from "name"`, `import "name"` or `export … from "name"`. */
function fromClause(tokens, at) {
  const found = tokens.findIndex((token, index) =>
    index > at && !token.depth && (token.type === "string" || token.text === ";")
  );
  const before = tokens[found - 1];
  return before?.text === "from" || found === at + 1 ? tokens[found] : undefined;
}

function addSpecifier(token, edits) {
  const specifier = token?.type === "string" ? literal(token.text) : null;
  if (specifier !== null) edits.set(token, { start: token.start, end: token.end, specifier });
}

function noteRequired(tokens, at, builtins, packages) {
  const [paren, name, close] = tokens.slice(at + 1, at + 4);
  if (paren?.text !== "(" || name?.type !== "string" || close?.text !== ")") return;
  const required = literal(name.text);
  if (required === null || RELATIVE.test(required) || SCHEME.test(required)) return;
  if (!builtins.includes(required)) packages.add(required);
}

/** What a string literal says, where it says it without escapes. */
function literal(text) {
  return text.includes("\\") || text[0] === "`" ? null : text.slice(1, -1);
}
