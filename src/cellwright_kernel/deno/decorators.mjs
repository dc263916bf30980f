// Takes decorators out of a cell's code. V8 does not know them yet, and Deno compiles them for modules only: so the
// cell becomes the body of a function in a module that is loaded and never called, and that function's text is the
// compiled cell.

import { decodeMap } from "./sourcemaps.mjs";
import { encodeURIComponent, Math, Object, Set, world } from "./natives.mjs";

const OPENING = "export default async function () {";
const PEEK = "__cellwright_peek__";
const INLINE = /base64,([\w+/=]+)$/;
const DECORATED = /\bclass\s+([\w$]+)[^{]*\{\s*static\s*\{\s*\(\{[^}]*?\bc: \[\s*([\w$]+),/g;

/**
 * `{code, map, classes}` of a source; a decorated class is known to the cell by another name than to the next cell,
 * so `classes` tells both. `emitted(url)` finds the code and the map's address of a module that was loaded.
 */
export async function withoutDecorators(source, emitted) {
  const url = `data:application/typescript,${
    encodeURIComponent(`${OPENING}${source}\n}\nexport const ${PEEK} = (name) => eval(name);`)
  }`;
  const module = await import(url);
  const text = `${module.default}`;
  const code = text.slice(text.indexOf("{") + 1, text.lastIndexOf("}"));
  keepRuntime(code, module[PEEK]);
  const classes = [...code.matchAll(DECORATED)].map(([, name, decorated]) => ({ name, decorated }));
  return { code, classes, map: mapOf(await emitted(url), text) };
}

/** What the compiled code calls lives in that module; it becomes global under the names it has there. */
function keepRuntime(code, peek) {
  for (const name of new Set(code.match(/\b_(?:apply_decs|ts_|_)[\w$]*/g))) {
    const value = found(peek, name);
    if (typeof value === "function") {
      Object.defineProperty(world, name, { value, writable: true, configurable: true });
    }
  }
}

function found(peek, name) {
  try {
    return peek(name);
  } catch {
    return undefined;
  }
}

/** The module's map, cut to the function's lines. */
function mapOf(module, text) {
  const base64 = INLINE.exec(module?.sourceMapURL ?? "")?.[1];
  if (!base64) return null;
  const from = module.source.slice(0, module.source.indexOf(text)).split("\n").length - 1;
  return decodeMap(base64).slice(from).map((segments) =>
    segments.map((
      [generated, line, column],
    ) => [generated, line, line ? column : Math.max(0, column - OPENING.length)])
  );
}
