// Writes the driver's messages: one line each, after a token that no cell knows.

import { Deno, JSON, TextEncoder } from "./natives.mjs";

const encoder = new TextEncoder();
const stdout = Deno.stdout;
const writeSync = stdout.writeSync.bind(stdout);
const stringify = JSON.stringify;
// Pairs of surrogates are written as they are: what is escaped stands alone, and nobody else could read it.
const LONE = /(?<!\\)((?:\\\\)*)\\u(d[89a-f][\da-f]{2})/g;

export class Wire {
  #token = "";
  #gathers = false;
  #gathered = "";

  set token(token) {
    this.#token = token;
  }

  /** Keeps what follows until `send`, so that it leaves in one piece. */
  gather() {
    this.#gathers = true;
  }

  send() {
    this.#gathers = false;
    if (!this.#gathered) return;
    const bytes = encoder.encode(this.#gathered);
    this.#gathered = "";
    writeAll(bytes);
  }

  emit(channel, kind, parent, content, metadata = {}) {
    let line = stringify({ channel, kind, parent, content, metadata });
    if (line.includes("\\ud")) line = line.replace(LONE, "$1\\\\u$2");
    this.#gathered += `${this.#token}${line}\n`;
    if (!this.#gathers) this.send();
  }
}

function writeAll(bytes) {
  for (let from = 0; from < bytes.length;) from += writeSync(from ? bytes.subarray(from) : bytes);
}

const stderr = Deno.stderr;
const complain = stderr.writeSync.bind(stderr);

/** Says something that reaches the host even if nothing else does any more. */
export function lastWords(text) {
  complain(encoder.encode(`${text}\n`));
}
