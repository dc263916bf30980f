// Cuts JavaScript and TypeScript into tokens, well enough to know what is code and what is text.
//
// Strings, templates, comments and regular expressions are told apart from code, and every token knows how deep in
// brackets it stands. It builds no tree and checks no grammar: the compiler does that.

import { Boolean, Set } from "./natives.mjs";

const WORD = /[\p{ID_Start}$_#\\][\p{ID_Continue}$\u200c\u200d\\{}]*/uy;
const PLAIN_WORD = /[A-Za-z_$#][\w$]*/y;
const NUMBER = /(?:0[xXbBoO][\da-fA-F_]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?)n?/y;
const SPACE = /[\s\ufeff]+/y;
const LINE_COMMENT = /(?:\/\/|#!)[^\n\r\u2028\u2029]*/y;
const BLOCK_COMMENT = /\/\*[^]*?(?:\*\/|$)/y;
const STRING = /"(?:[^"\\\n]|\\[^])*(?:"|$)?|'(?:[^'\\\n]|\\[^])*(?:'|$)?/y;
const REGEX = /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[\w$]*/y;
const TEMPLATE_TEXT = /(?:[^`\\$]|\\[^]|\$(?!\{))*/y;
const PUNCTUATION = /=>|\.\.\.|\?\.(?!\d)|\+\+|--|[^]/uy;

const BEFORE_OPERAND = new Set(
  ("return typeof instanceof in of new delete void throw case do else await yield default extends").split(
    " ",
  ),
);
const PAREN_KEYWORDS = new Set(["if", "while", "for", "with"]);
const CLOSING = { "(": ")", "[": "]", "{": "}", "${": "}" };

/**
 * All tokens of a source: `{type, text, start, end, depth, fresh}`, where `fresh` says that it begins a line.
 * A template is told as its pieces of text, with the tokens of its placeholders between them, one level deeper.
 */
export function tokenize(source) {
  const state = { source, at: 0, tokens: [], open: [], fresh: true };
  while (state.at < source.length) step(state);
  return state.tokens;
}

function step(state) {
  const { source, at } = state;
  const character = source[at];
  if (skipBlank(state, character)) return;
  if (character === '"' || character === "'") return push(state, "string", match(STRING, source, at));
  if (character === "`") return readTemplate(state, at + 1);
  if (character === "}" && state.open.at(-1)?.text === "${") return closePlaceholder(state);
  if (character === "/" && operandMayFollow(state.tokens.at(-1))) {
    const regex = match(REGEX, source, at);
    if (regex) return push(state, "regex", regex);
  }
  if (/\d/.test(character) || (character === "." && /\d/.test(source[at + 1] ?? ""))) {
    return push(state, "number", match(NUMBER, source, at));
  }
  const word = match(PLAIN_WORD, source, at);
  // Most names are plain ASCII, for which the cheap pattern does unless something else goes on behind it.
  const whole = word && !/[\\\u0080-\uffff]/.test(source[at + word.length] ?? "")
    ? word
    : match(WORD, source, at);
  if (whole) return push(state, "word", whole);
  readPunctuation(state, match(PUNCTUATION, source, at));
}

function skipBlank(state, character) {
  const { source, at } = state;
  let blank = match(SPACE, source, at);
  if (!blank && (character === "/" || (character === "#" && at === 0))) {
    blank = match(LINE_COMMENT, source, at) || match(BLOCK_COMMENT, source, at);
  }
  if (!blank) return false;
  state.fresh ||= /[\n\r\u2028\u2029]/.test(blank);
  state.at += blank.length;
  return true;
}

function push(state, type, text, extra) {
  const token = {
    type,
    text,
    start: state.at,
    end: state.at + text.length,
    depth: state.open.length,
    fresh: state.fresh,
  };
  state.tokens.push(extra ? { ...token, ...extra } : token);
  state.at = token.end;
  state.fresh = false;
}

function readPunctuation(state, text) {
  if (text in CLOSING) {
    const before = state.tokens.at(-1);
    const opening = {
      text,
      afterKeyword: text === "(" && PAREN_KEYWORDS.has(before?.text),
      value: operandMayFollow(before),
    };
    push(state, "punctuation", text);
    // A brace where a statement may begin opens a block; after `)` it opens a body.
    opening.value &&= text !== "{" || !beginsStatement(before);
    state.open.push(opening);
    return;
  }
  let ends = true;
  if (text === ")" || text === "]" || text === "}") {
    const opening = state.open.at(-1);
    if (opening && CLOSING[opening.text] === text) state.open.pop();
    ends = text === "]" || (text === ")" ? !opening?.afterKeyword : Boolean(opening?.value));
  } else if (text === "++" || text === "--") {
    ends = !operandMayFollow(state.tokens.at(-1));
  } else {
    ends = false;
  }
  push(state, "punctuation", text, { ends });
}

function readTemplate(state, from) {
  const text = match(TEMPLATE_TEXT, state.source, from);
  const end = from + text.length;
  const opens = state.source.startsWith("${", end);
  push(state, "template", state.source.slice(state.at, opens ? end + 2 : end + 1), { ends: !opens });
  if (opens) state.open.push({ text: "${" });
}

function closePlaceholder(state) {
  state.open.pop();
  readTemplate(state, state.at + 1);
}

/** Whether a slash after this token begins a regular expression rather than a division. */
function operandMayFollow(token) {
  if (!token) return true;
  if (token.type === "word") return BEFORE_OPERAND.has(token.text);
  if (token.type === "punctuation" || token.type === "template") return !token.ends;
  return false;
}

function beginsStatement(before) {
  return !before || [";", "{", "}", "=>", ")", ":"].includes(before.text) ||
    ["else", "do"].includes(before.text);
}

function match(pattern, source, at) {
  pattern.lastIndex = at;
  return pattern.exec(source)?.[0] ?? "";
}
