// The stack of an error, told in places of cells. Deno tells code that it did not load itself only as anonymous.

import { cellOf } from "./cells.mjs";
import { Boolean, Error, Number, parseInt, String, URL, WeakMap } from "./natives.mjs";

const HERE = new URL(".", import.meta.url).href;
const DIRECTORY = new URL(".", import.meta.url).pathname;
const PLACE = /cellwright:(\d+):(\d+):(\d+)/;
const INNER = /(?:^|\()(?:async )?(?:ext|node):|^(?:async )?<anonymous>$/;
const places = new WeakMap();
/** The program that was loaded from memory, if there is one: `{address, cell, shownAs}`. */
let program = null;

/** Has V8 ask this module for the text of every stack. */
export function installStacks() {
  Error.prepareStackTrace = (error, sites) => {
    const frames = sites.map((site) => String(site)).filter(isForeign);
    const found = frames.map(placeIn).find(Boolean);
    if (found) places.set(error, found);
    return [headOf(error), ...frames.map((frame) => `    at ${withPlace(frame)}`)].join("\n");
  };
}

/** Where in which cell an error was made: `{cell, line, column}`, or nothing. */
export function placeOf(error) {
  return places.get(error) ?? null;
}

/** Tells places in a module that was loaded from memory as those of a cell, under the name of a file. */
export function nameModule(address, cell, shownAs) {
  program = { address, cell, shownAs };
}

/** A text that may tell an address in memory, with the name instead. */
export function named(text) {
  return program ? text.replaceAll(program.address, program.shownAs) : text;
}

/** Whether a frame is somebody else's than the driver's and Deno's. */
function isForeign(frame) {
  return !frame.includes(HERE) && !frame.includes(DIRECTORY) && !INNER.test(frame);
}

function placeIn(frame) {
  if (program && frame.includes(program.address)) {
    const [line, column] = frame.slice(frame.indexOf(program.address) + program.address.length + 1).split(
      ":",
    );
    return { cell: program.cell, line: parseInt(line), column: parseInt(column) };
  }
  const found = PLACE.exec(frame);
  const cell = found && cellOf(Number(found[1]));
  return cell ? { cell, ...cell.placeOf(Number(found[2]), Number(found[3])) } : null;
}

function withPlace(frame) {
  if (program && frame.includes(program.address)) return named(frame);
  const place = placeIn(frame);
  return place ? frame.replace(PLACE, () => `${place.cell.label}:${place.line}:${place.column}`) : frame;
}

function headOf(error) {
  try {
    // What `Error.captureStackTrace` was given may be any object.
    return error instanceof Error ? String(error) : Error.prototype.toString.call(error);
  } catch {
    return "Error";
  }
}
