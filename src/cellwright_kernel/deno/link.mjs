// The first thread's end of the line to `pump`: asks the inspector, and passes on what the host says.

import {
  Atomics,
  BigInt,
  Int32Array,
  Map,
  Number,
  Promise,
  SharedArrayBuffer,
  URL,
  Worker,
} from "./natives.mjs";

const CLOSING_MS = 1000;
// As in `pump`.
const HEARD = 0;
const OBEYED = 1;
const CLOSED = 2;
const RUNNING = 3;

export class Link {
  #worker = new Worker(new URL("./pump.mjs", import.meta.url), { type: "module", name: "cellwright" });
  #shared = new Int32Array(new SharedArrayBuffer(16));
  #waiting = new Map();
  #lastId = 0;
  /** The number of the last message that was taken up. */
  #last = 0;
  #listen;
  #inbox = [];
  #schedule = null;

  /** `listen` gets everything that is no answer: requests of the host, and how the line itself is. */
  constructor(listen) {
    this.#listen = listen;
    this.#worker.onmessage = ({ data }) => this.#take(data);
    this.#worker.postMessage({ kind: "begin", shared: this.#shared.buffer });
  }

  /** What the inspector hands messages to, maybe in the middle of a cell that computes: they wait for a turn. */
  taker = {
    hear: (message, value) => {
      this.#inbox.push({ message, value });
      this.#schedule(() => this.#drain());
    },
  };

  /** From now on messages are passed on, in turns that `schedule` gives. */
  listen(schedule) {
    this.#schedule = schedule;
    this.#worker.postMessage({ kind: "ready" });
  }

  /** Speaks to the inspector at this address. */
  open(url) {
    this.#worker.postMessage({ kind: "open", url });
  }

  /** Tells the second thread that this one has obeyed an interrupt. */
  noteObeyed() {
    Atomics.add(this.#shared, OBEYED, 1);
  }

  /** Tells it whether a cell is running. */
  noteRunning(isRunning) {
    Atomics.store(this.#shared, RUNNING, isRunning ? 1 : 0);
  }

  /** Waits, without going on with anything else, until the inspector's socket is closed. */
  close() {
    this.#worker.postMessage({ kind: "close" });
    Atomics.wait(this.#shared, CLOSED, 0, CLOSING_MS);
  }

  call(method, params) {
    return this.#ask({ kind: "call", method, params });
  }

  emitted(url) {
    return this.#ask({ kind: "emitted", url }).then((answer) => answer.result);
  }

  /** The inspector's answer to `Runtime.evaluate`, and in `value` the live value or error itself. */
  async evaluate(params) {
    const answer = await this.call("Runtime.evaluate", params);
    const held = answer.result?.exceptionDetails?.exception ?? answer.result?.result;
    return held && !held.objectId ? { ...answer, value: plainValue(held) } : answer;
  }

  #ask(request) {
    const id = ++this.#lastId;
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      this.#worker.postMessage({ ...request, id });
    });
  }

  #drain() {
    while (this.#inbox.length) {
      const { message, value } = this.#inbox.shift();
      this.#take(message, value);
    }
  }

  #take(message, value) {
    const { kind, number } = message;
    // It came the other way already.
    if (number && number <= this.#last) return;
    if (kind === "answer") this.#settle(message, value);
    else this.#listen(message);
    if (!number) return;
    // Only now: what is torn off together with a cell was not taken up.
    this.#last = number;
    Atomics.store(this.#shared, HEARD, number);
  }

  #settle({ id, result, error }, value) {
    const resolve = this.#waiting.get(id);
    this.#waiting.delete(id);
    resolve?.({ result, error, value });
  }
}

/** A value that the inspector told in words. */
function plainValue({ type, value, unserializableValue }) {
  if (unserializableValue === undefined) return type === "undefined" ? undefined : value;
  return type === "bigint" ? BigInt(unserializableValue.slice(0, -1)) : Number(unserializableValue);
}
