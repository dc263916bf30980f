// Makes names that one cell declared free for the next to declare again, in whatever way.
//
// V8's REPL mode lets `let` follow `let` or `class`, and `const` follow `const`, but no kind follow another: a cell
// whose `const` was edited into a `let` would need a new kernel. So a cell's outermost `const` is declared as `let`
// (assigning to it in plain sight is still refused), and where a `var` or function stands in the way of a `let`,
// or the other way round, the new one takes the old one's kind. Works on code without types.

import { tokenize } from "./tokens.mjs";
import { applied } from "./imports.mjs";
import { Set } from "./natives.mjs";

export const CONSTANT = "__cellwright_constant__";
const HOISTED = "__cellwright_hoisted_";
const ASSIGNING = /^(?:\*\*|<<|>>>?|&&|\|\||\?\?|[-+*/%&|^])?=(?![=>])/;

/** The code with its outermost constants as `let`. */
export function freed(code) {
  if (!code.includes("const")) return code;
  const tokens = tokenize(code);
  const edits = [];
  const constants = new Set();
  tokens.forEach((token, at) => {
    if (token.depth || token.type !== "word" || tokens[at - 1]?.text === ".") return;
    if (token.text === "const") {
      edits.push({ start: token.start, end: token.end, text: "let  " });
      if (tokens[at + 1]?.type === "word") constants.add(tokens[at + 1].text);
    } else if (constants.has(token.text) && isAssigned(code, tokens, at)) {
      edits.push({ start: token.start, end: token.start, text: `${CONSTANT}();` });
    }
  });
  return applied(code, edits);
}

/** Whether a statement that begins with this name assigns to it. Nothing can shadow a name out here. */
function isAssigned(code, tokens, at) {
  const before = tokens[at - 1];
  const begins = !before || before.text === ";" ||
    (tokens[at].fresh && before.text !== "," && before.text !== "let");
  const next = tokens[at + 1];
  return begins && next && (/^(?:\+\+|--)$/.test(next.text) || ASSIGNING.test(code.slice(next.start)));
}

/**
 * The code with one name declared the other way: as a global where it was one before, as a `let` where it was that.
 * `before` is what has to run ahead of it all, on the first line.
 */
export function redeclared(code, name, wasLexical) {
  const tokens = tokenize(code);
  const edits = [];
  let before = "";
  tokens.forEach((token, at) => {
    if (token.depth || token.type !== "word") return;
    if (["let", "const", "var"].includes(token.text) && declares(tokens, at, name)) {
      edits.push({ start: token.start, end: token.end, text: wasLexical ? "let" : "var" });
    } else if (token.text === "class" && tokens[at + 1]?.text === name && !wasLexical) {
      edits.push({ start: token.start, end: token.end, text: `var ${name} = class` });
    } else if (token.text === "function" && wasLexical) {
      const named = tokens[at + 1]?.text === "*" ? tokens[at + 2] : tokens[at + 1];
      if (named?.text !== name) return;
      edits.push({ start: named.start, end: named.end, text: HOISTED + name });
      before = `let ${name} = ${HOISTED}${name};`;
    }
  });
  return { code: applied(code, edits), before };
}

/** A function's name as the cell has it. */
export function unhoisted(name) {
  return name.replaceAll(HOISTED, "");
}

function declares(tokens, at, name) {
  for (let index = at + 1; index < tokens.length; index++) {
    const token = tokens[index];
    if (
      token.depth === 0 &&
      (token.text === ";" || (token.fresh && index > at + 1 && tokens[index - 1].text !== ","))
    ) {
      return token.text === name && tokens[index - 1].text === ",";
    }
    if (token.text === name && tokens[index - 1].text !== "." && tokens[index + 1]?.text !== ":") return true;
  }
  return false;
}
