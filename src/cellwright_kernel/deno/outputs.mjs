// What one cell says, on its way out: capped by its account (see `budget`), gathered where it comes in floods.

import { Budget, byteLength, grouped } from "./budget.mjs";
import { Array, Math, Object, performance, setTimeout, String } from "./natives.mjs";

const GATHERED = 8192;
const BURST = 20;
const REFILL_MS = 5;
const LATEST_MS = 20;
const ERROR_PART = 10;
const MIN_ERROR = 2000;

export class Outputs {
  #wire;
  #parent;
  #budget;
  #name = "stdout";
  #pieces = [];
  #size = 0;
  #allowance = BURST;
  #last = performance.now();
  #scheduled = false;

  constructor(wire, parent, limits) {
    this.#wire = wire;
    this.#parent = parent;
    this.#budget = new Budget(limits);
  }

  /**
   * Writes text to a stream. A few writes leave at once, since nothing can be sent any more once the cell computes;
   * of many, what comes close together leaves together.
   */
  write(name, text) {
    if (!text) return;
    if (name !== this.#name) this.flush();
    this.#name = name;
    this.#pieces.push(text);
    this.#size += text.length;
    const now = performance.now();
    this.#allowance = Math.min(BURST, this.#allowance + (now - this.#last) / REFILL_MS);
    this.#last = now;
    if (this.#allowance >= 1 || this.#size >= GATHERED || this.#budget.closed) this.flush();
    else if (!this.#scheduled) {
      this.#scheduled = true;
      setTimeout(() => this.flush(), LATEST_MS);
    }
  }

  flush() {
    this.#scheduled = false;
    if (!this.#pieces.length) return;
    const [text, writes] = [this.#pieces.join(""), this.#pieces.length];
    this.#pieces = [];
    this.#size = 0;
    this.#allowance = Math.max(0, this.#allowance - 1);
    const passed = this.#budget.admitText(this.#name, text, writes);
    if (passed) this.#stream(this.#name, passed);
  }

  /** Sends a display, a result or another message that is not text, as far as there is room. */
  publish(kind, content) {
    this.flush();
    let size = contentSize(content);
    const budget = this.#budget;
    if (size > budget.capacity && content.data) {
      content = withoutLarge(content, budget);
      budget.drop(size - contentSize(content));
      size = contentSize(content);
    }
    const send = () => this.#wire.emit("iopub", kind, this.#parent, content);
    if (budget.admitMessage(size)) send();
    else if (budget.closed || size > budget.capacity) budget.drop(size);
    else budget.hold(send, size);
  }

  /** Sends an error, after all that waited. */
  fail(error) {
    this.#release();
    this.#wire.emit("iopub", "error", this.#parent, this.bounded(error));
  }

  /** An error's content, cut to what a message may hold. */
  bounded({ ename, evalue, traceback }) {
    const limit = Math.max(MIN_ERROR, Math.floor(this.#budget.limits.maxBytes / ERROR_PART));
    const text = middleCut(traceback.join("\n"), limit);
    return { ename: middleCut(ename, 200), evalue: middleCut(evalue, limit), traceback: text.split("\n") };
  }

  /** Sends what waited and returns the account; what comes later is late. */
  close() {
    this.#release();
    const report = this.#budget.report();
    this.#budget.closed = true;
    return report;
  }

  #release() {
    this.flush();
    const { stream, marker, held } = this.#budget.release();
    if (marker) this.#stream(stream, marker);
    for (const item of held) item.send ? item.send() : this.#stream(item.name, item.text);
  }

  #stream(name, text) {
    this.#wire.emit("iopub", "stream", this.#parent, { name, text });
  }
}

/** Roughly what a content takes on the wire: the length of its strings. */
function contentSize(content) {
  if (typeof content === "string") return byteLength(content);
  if (typeof content !== "object" || content === null) return 8;
  const values = Array.isArray(content) ? content : Object.values(content);
  return values.reduce((size, value) => size + contentSize(value) + 4, 0);
}

/** The same display in the forms of it that are small enough, or else a line that says what is missing. */
function withoutLarge(content, budget) {
  const sizes = Object.entries(content.data).map(([mime, value]) => [mime, contentSize(value)]);
  sizes.sort((one, other) => one[1] - other[1]);
  let room = budget.capacity;
  const data = {};
  for (const [mime, size] of sizes) {
    room -= size + 8;
    if (room > 0) data[mime] = content.data[mime];
  }
  if (!Object.keys(data).length) {
    const forms = sizes.map(([mime, size]) => `${mime} of ${grouped(size)} bytes`).join(", ");
    const limit = `max_output_bytes=${grouped(budget.limits.maxBytes)}`;
    data["text/plain"] = `[cellwright: display dropped (${forms}); limit ${limit}]`;
  }
  return { ...content, data };
}

function middleCut(text, limit) {
  text = String(text);
  if (text.length <= limit) return text;
  const half = Math.floor(limit / 2);
  const dropped = grouped(text.length - 2 * half);
  return `${text.slice(0, half)}\n[cellwright: ${dropped} characters dropped here]\n${text.slice(-half)}`;
}
