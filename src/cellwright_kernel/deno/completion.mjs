// What could follow the cursor: names, keywords, and members of live values, whose getters are not called.

import { tokenize } from "./tokens.mjs";
import { Array, ArrayBuffer, core, Number, Object, Reflect, Set, String, world } from "./natives.mjs";

const MAX_MATCHES = 200;
const MANY = 1000;
const NAME = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u;
const WORD_AT_END = /[\p{ID_Continue}$]*$/u;
const PATH_AT_END = /(?:[\p{ID_Start}$_][\p{ID_Continue}$]*|\)|\]|["'`])\s*\??\.\s*$/u;
const KEYWORDS =
  ("abstract any as async await boolean break case catch class const continue debugger declare default delete " +
    "do else enum export extends false finally for from function get if implements import in infer instanceof interface " +
    "keyof let namespace never new null number object of private protected public readonly return satisfies set static " +
    "string super switch symbol this throw true try type typeof undefined unknown using var void while with yield")
    .split(" ");

/** The reply to a question; positions count characters, not UTF-16 units. */
export async function complete(code, position, link) {
  const characters = [...code];
  const before = characters.slice(0, position).join("");
  const word = WORD_AT_END.exec(before)[0];
  const head = before.slice(0, before.length - word.length);
  const matches = PATH_AT_END.test(head)
    ? await members(head, link)
    : isProse(before)
    ? []
    : await names(link);
  const fitting = [...new Set(matches)].filter((name) => name.startsWith(word) && NAME.test(name));
  fitting.sort((one, other) => Number(one.startsWith("_")) - Number(other.startsWith("_")));
  const start = position - [...word].length;
  return {
    status: "ok",
    matches: fitting.slice(0, MAX_MATCHES),
    cursor_start: start,
    cursor_end: position,
    metadata: {},
  };
}

/** Whether the cursor stands in a string or a comment. */
function isProse(before) {
  const last = tokenize(`${before}\u0001`).at(-1);
  return last?.text !== "\u0001";
}

async function names(link) {
  const { result } = await link.call("Runtime.globalLexicalScopeNames", {});
  const globals = Object.getOwnPropertyNames(world).filter((name) => !name.startsWith("__cellwright"));
  return [...result.names.filter((name) => !name.startsWith("__cellwright")), ...globals.sort(), ...KEYWORDS];
}

/** The names that the value before the last dot has, as far as it can be had without consequences. */
async function members(head, link) {
  const expression = pathBefore(head);
  if (!expression) return [];
  const answer = await link.evaluate({ expression, throwOnSideEffect: true, silent: true, timeout: 200 });
  if (!answer.result || answer.result.exceptionDetails) return [];
  return namesOf(answer.value);
}

/** The source of the value that the cursor asks about: names, dots, calls and indices before the last dot. */
function pathBefore(head) {
  const tokens = tokenize(head);
  tokens.pop();
  const end = tokens.length - 1;
  let from = end;
  for (let at = end; at >= 0; at--) {
    const token = tokens[at];
    if (token.depth > tokens[end].depth) continue;
    const next = tokens[at + 1];
    const joins = at === end || next.text === "." || next.text === "?." || next.text === "(" ||
      next.text === "[";
    if ([".", "?.", "(", "["].includes(token.text)) continue;
    if (!joins && ![".", "?."].includes(token.text)) break;
    from = at;
    if (token.type === "word" && ![".", "?."].includes(tokens[at - 1]?.text)) break;
  }
  return from <= end && from >= 0 ? head.slice(tokens[from].start, tokens[end].end) : "";
}

function namesOf(value) {
  const found = new Set();
  for (
    let holder = value === null || value === undefined ? null : Object(value);
    holder;
    holder = Object.getPrototypeOf(holder)
  ) {
    if (core.isProxy(holder)) break;
    const isLong = (Array.isArray(holder) || ArrayBuffer.isView(holder)) && holder.length > MANY;
    for (const key of isLong ? [] : Reflect.ownKeys(holder)) {
      if (typeof key === "string") found.add(String(key));
    }
  }
  return [...found];
}
