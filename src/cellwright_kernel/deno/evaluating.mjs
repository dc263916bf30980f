// Runs one cell: compiles it, has V8 evaluate it in REPL mode, and tells what came of it.

import { CellSyntaxError, compile } from "./compiling.mjs";
import { redeclared } from "./declarations.mjs";
import { describe, describeSyntax } from "./errors.mjs";
import { bundle, isShown } from "./display.mjs";
import { Object, Promise, world } from "./natives.mjs";

// The cell goes on in a turn of its own: inside of the inspector's own call nothing could tear it off.
const OPENING = '"use strict";await __cellwright_turn__;';
const TAKEN = /^SyntaxError: Identifier '(.+)' has already been declared/;
const COLLECTED = "Promise was collected";
const MAX_REDECLARED = 100;

/**
 * What came of a cell: `{error}` (see `errors`), or `{data, value}` of its last expression, without `data` where
 * there is nothing to show.
 */
export async function evaluate(cell, language, tools) {
  try {
    cell.compiled = await compile(cell.source, language, tools);
  } catch (error) {
    if (!(error instanceof CellSyntaxError)) throw error;
    return { error: describeSyntax(error, cell) };
  }
  const answer = await run(cell, tools);
  // Nobody waits for it any more, and its value may take for ever to show.
  if (cell.interrupted) return {};
  if (answer.error) return { error: lost(answer.error) };
  const { exceptionDetails } = answer.result;
  if (exceptionDetails) return { error: failure(exceptionDetails, answer.value, cell) };
  await Promise.all(cell.shows);
  if (cell.interrupted) return {};
  const { value } = answer;
  return isShown(value) ? { value, data: await bundle(value) } : { value };
}

/** Evaluates the code, and where a name is taken, again with that name declared as it was before. */
async function run(cell, { link, sent }) {
  let { code } = cell.compiled;
  let before = "";
  for (let tries = 0;; tries++) {
    cell.skipped = OPENING.length + before.length;
    const expression = `${OPENING}${before}${code}\n//# sourceURL=${cell.address}`;
    const evaluated = link.evaluate({ expression, replMode: true, awaitPromise: true });
    // What was said so far leaves while the inspector reads: the cell begins a turn later.
    sent();
    const answer = await evaluated;
    const name = TAKEN.exec(answer.result?.exceptionDetails?.exception?.description ?? "")?.[1];
    if (name === undefined || tries === MAX_REDECLARED) {
      await unite(cell.compiled.classes, link);
      return answer;
    }
    const { result } = await link.call("Runtime.globalLexicalScopeNames", {});
    const wasLexical = result.names.includes(name);
    const changed = wasLexical || Object.hasOwn(world, name) ? redeclared(code, name, wasLexical) : { code };
    // It is declared twice in this very cell.
    if (changed.code === code) return answer;
    code = changed.code;
    before += changed.before;
  }
}

/** Decorated classes get the name that the cell gave them. */
async function unite(classes, link) {
  for (const { name, decorated } of classes) {
    await link.call("Runtime.evaluate", { expression: `${name} = ${decorated}; void 0`, silent: true });
  }
}

function failure(details, thrown, cell) {
  const described = describe(thrown);
  if (described.place || described.ename !== "SyntaxError" || details.scriptId === undefined) {
    return described;
  }
  // V8 found it while it read the cell: the error has no stack of its own.
  const place = cell.placeOf(details.lineNumber + 1, details.columnNumber + 1);
  return describeSyntax({ message: thrown.message, ...place }, cell);
}

function lost(error) {
  if (error.message !== COLLECTED) {
    return {
      ename: "InspectorError",
      evalue: error.message,
      traceback: [`The cell could not be run: ${error.message}`],
    };
  }
  const evalue = "the cell awaits a promise that nothing can settle any more";
  return { ename: "NeverSettled", evalue, traceback: [`NeverSettled: ${evalue}`] };
}
