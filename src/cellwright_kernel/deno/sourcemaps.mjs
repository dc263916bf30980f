// Leads from a place in compiled code back to the place in the cell that it was made from. Reads maps, makes none.

import { atob, Boolean, JSON, TextDecoder, Uint8Array } from "./natives.mjs";

const INLINE = /\n?\/\/# sourceMappingURL=data:application\/json;(?:charset=utf-8;)?base64,([\w+/=]+)\s*$/;
const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** The code without its inline map, and that map (none where there is none). */
export function splitInlineMap(code) {
  const found = INLINE.exec(code);
  if (!found) return { code, map: null };
  return { code: code.slice(0, found.index) + "\n", map: decodeMap(found[1]) };
}

/** A map from base64: for every line of the code, its `[column, source line, source column]`, all from zero. */
export function decodeMap(base64) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const { mappings } = JSON.parse(new TextDecoder().decode(bytes));
  let line = 0;
  let column = 0;
  return mappings.split(";").map((group) => {
    let generated = 0;
    return group.split(",").filter(Boolean).map(numbers).flatMap((fields) => {
      generated += fields[0];
      if (fields.length < 4) return [];
      line += fields[2];
      column += fields[3];
      return [[generated, line, column]];
    });
  });
}

/** Where in the source a place of the code comes from; lines and columns from one. */
export function originOf(map, line, column) {
  const segments = map[line - 1] ?? [];
  let best = segments[0];
  for (const segment of segments) {
    if (segment[0] > column - 1) break;
    best = segment;
  }
  if (best) return { line: best[1] + 1, column: best[2] + 1 };
  for (let above = line - 2; above >= 0; above--) {
    const last = map[above]?.at(-1);
    if (last) return { line: last[1] + 1, column: last[2] + 1 };
  }
  return { line, column };
}

function numbers(text) {
  const found = [];
  let value = 0;
  let shift = 0;
  for (const character of text) {
    const digit = DIGITS.indexOf(character);
    value += (digit & 31) << shift;
    shift += 5;
    if (digit & 32) continue;
    found.push(value & 1 ? -(value >> 1) : value >> 1);
    value = shift = 0;
  }
  return found;
}
