// Makes of a cell what V8's REPL mode runs: types out, imports awaited, lines where they were.
//
// Types are blanked out where that is enough; enums, namespaces and the like need a transformation, which comes with
// a map back to the cell's lines. Decorators, which V8 does not know, are compiled by Deno as a module that is never
// run. It evaluates nothing.

import { freed } from "./declarations.mjs";
import { rewriteDynamic, rewriteStatic } from "./imports.mjs";
import { splitInlineMap } from "./sourcemaps.mjs";
import { tokenize } from "./tokens.mjs";
import { withoutDecorators } from "./decorators.mjs";
import { Number, SyntaxError } from "./natives.mjs";

const POSITION = /\n {4}at file:\/\/\/stripTypeScriptTypes\.ts:(\d+):(\d+)\s*$/;
const EXCERPT = /\n +\|\n[^]*$/;

/** A cell that cannot be compiled: `message`, and `line` and `column` from one. */
export class CellSyntaxError extends SyntaxError {
  name = "SyntaxError";

  constructor(message, line, column) {
    super(message);
    this.line = line;
    this.column = column;
  }
}

/**
 * `{code, map, skipped, classes}` of a cell: `map` leads back to its lines where they moved, `skipped` is how much
 * stands before it on its first line, `classes` are pairs of names to be made one after it ran.
 *
 * `tools` are `strip` (Node's `stripTypeScriptTypes`) and `emitted` (see `decorators`). Throws CellSyntaxError.
 */
export async function compile(source, language, tools) {
  if (mayBeObject(source)) {
    try {
      tools.strip(`(${rewriteDynamic(source)}\n)`);
      return { ...await compileAs(`(${source}\n)`, language, tools), skipped: 1 };
    } catch {
      // It is a block after all.
    }
  }
  return await compileAs(source, language, tools);
}

async function compileAs(source, language, tools) {
  const rewritten = rewriteStatic(source);
  let compiled = { code: rewritten, map: null };
  if (rewritten.includes("@") && tokenize(rewritten).some((token) => token.text === "@")) {
    transformed(rewritten, source, tools.strip);
    compiled = await withoutDecorators(rewritten, tools.emitted);
  } else if (language !== "javascript") {
    compiled = withoutTypes(rewritten, source, tools.strip);
  }
  return { classes: [], skipped: 0, ...compiled, code: freed(rewriteDynamic(compiled.code)) };
}

/** Whether the cell could be one object literal, which REPLs take for an expression. */
function mayBeObject(source) {
  if (!/^\s*(?:\{|\/[/*])/.test(source)) return false;
  const tokens = tokenize(source);
  if (tokens[0]?.text !== "{") return false;
  return tokens.findIndex((token) => token.text === "}" && token.depth === 0) === tokens.length - 1;
}

function withoutTypes(rewritten, source, strip) {
  try {
    return { code: strip(rewritten), map: null };
  } catch {
    // Blanking out is not enough, or it is no TypeScript: only the transformation says which, and where.
    return splitInlineMap(transformed(rewritten, source, strip));
  }
}

function transformed(rewritten, source, strip) {
  try {
    return strip(rewritten, { mode: "transform", sourceMap: true });
  } catch (error) {
    throw located(error, rewritten, source);
  }
}

/** The compiler's error as one that knows its place in the cell. */
function located(error, rewritten, source) {
  const message = `${error.message}`;
  const found = POSITION.exec(message);
  const words = message.replace(POSITION, "").replace(EXCERPT, "").replace(/^SyntaxError: /, "");
  if (!found) return new CellSyntaxError(words, 1, 1);
  const [line, column] = [Number(found[1]), Number(found[2])];
  // A line that was rewritten has its words elsewhere.
  const moved = rewritten.split("\n")[line - 1] !== source.split("\n")[line - 1];
  return new CellSyntaxError(words, line, moved ? 1 : column);
}
