// Values that cells of different languages pass to each other by name: files below `.cellwright/values`.

import { isRecords, recordsOf, tableOf } from "./tables.mjs";
import { plainOf } from "./plainness.mjs";
import { Deno, Error, JSON, Object, RegExp, TypeError } from "./natives.mjs";

const DIRECTORY = ".cellwright/values";
const NAME = /^[\p{ID_Start}_][\p{ID_Continue}]*$/u;
const VERSION = 1;
const isName = RegExp.prototype.test.bind(NAME);

export const values = {
  /** Keeps a value under a name for cells of any language. */
  put(name, value) {
    const path = pathOf(name);
    const held = isRecords(value)
      ? { kind: "table", table: tableOf(value) }
      : { kind: "value", value: plain(name, value) };
    Deno.mkdirSync(DIRECTORY, { recursive: true });
    Deno.writeTextFileSync(`${path}.part`, JSON.stringify({ version: VERSION, ...held }));
    Deno.renameSync(`${path}.part`, path);
  },

  /** The value of that name; a table comes as an array of records. */
  // deno-lint-ignore require-await -- a promise by contract: some day a value may come from elsewhere
  async get(name) {
    const held = JSON.parse(readText(name, pathOf(name)));
    if (held.version !== VERSION) {
      throw new Error(`'${name}' was written by a newer release (version ${held.version})`);
    }
    return held.kind === "table" ? recordsOf(held.table) : held.value;
  },

  /** The names that have a value, in order. */
  names() {
    try {
      const files = [...Deno.readDirSync(DIRECTORY)].map((entry) => entry.name);
      return files.filter((file) => file.endsWith(".json")).map((file) => file.slice(0, -5)).filter(isName)
        .sort();
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return [];
      throw error;
    }
  },
};

function pathOf(name) {
  if (typeof name !== "string" || !isName(name)) {
    throw new TypeError(`A value's name is an identifier, not ${JSON.stringify(name)}`);
  }
  return `${DIRECTORY}/${name}.json`;
}

function plain(name, value) {
  if (value === undefined) {
    throw new TypeError(`'${name}' would be undefined, which has no form in JSON; put null`);
  }
  try {
    return plainOf(value);
  } catch (error) {
    throw new TypeError(error.message); // from here: the depth of the value would hide the cell's line
  }
}

function readText(name, path) {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    const known = values.names();
    const hint = known.length ? `there are ${known.join(", ")}` : "nothing was put yet";
    throw new Error(`No value is called '${name}'; ${hint}`);
  }
}

Object.freeze(values);
