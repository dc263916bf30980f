// The cells that ran, as long as code of theirs may still be running: what they were, and where their code came from.

import { originOf } from "./sourcemaps.mjs";
import { Map, Math } from "./natives.mjs";

const REMEMBERED = 2000;

let lastSerial = 0;
const remembered = new Map();

/** One execution of a cell; `outputs` is where it speaks, `label` what people call it. */
export class Cell {
  serial = ++lastSerial;
  timers = new Map();
  /** What it shows and has not shown yet. */
  shows = [];
  interrupted = false;
  compiled = null;
  skipped = 0;

  constructor(source, label, outputs) {
    this.source = source;
    this.label = label;
    this.outputs = outputs;
    remembered.set(this.serial, this);
    if (remembered.size > REMEMBERED) remembered.delete(remembered.keys().next().value);
  }

  /** The name under which its code is known to V8. */
  get address() {
    return `cellwright:${this.serial}`;
  }

  /** Where a place of the running code is in the cell; lines and columns from one. */
  placeOf(line, column) {
    const within = line === 1 ? Math.max(1, column - this.skipped) : column;
    const place = this.compiled?.map ? originOf(this.compiled.map, line, within) : { line, column: within };
    if (place.line === 1 && this.compiled) place.column = Math.max(1, place.column - this.compiled.skipped);
    return place;
  }
}

/** The cell of that number among all that ran. */
export function cellOf(serial) {
  return remembered.get(serial);
}
