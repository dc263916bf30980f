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
  #taken;

  /** `listen` gets everything that is no answer: requests of the host, and how the line itself is. */
  constructor(listen) {
    this.#worker.onmessage = ({ data }) => data.kind === "answer" ? this.#settle(data) : listen(data);
    this.#worker.postMessage({ kind: "begin", shared: this.#shared.buffer });
  }

  /** What the inspector hands values to. */
  taker = { take: (value) => this.#taken = { value } };

  /** Speaks to the inspector at this address. */
  open(url) {
    this.#worker.postMessage({ kind: "open", url });
  }

  /** Tells the second thread that this one has heard a request. */
  noteHeard() {
    Atomics.add(this.#shared, HEARD, 1);
  }

  /** Tells it that this one has obeyed an interrupt. */
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
    const answer = await this.#ask({ kind: "evaluate", params });
    const held = answer.result?.exceptionDetails?.exception ?? answer.result?.result;
    const taken = this.#taken;
    this.#taken = undefined;
    return { ...answer, value: held?.objectId ? taken?.value : held && plainValue(held) };
  }

  #ask(request) {
    const id = ++this.#lastId;
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      this.#worker.postMessage({ ...request, id });
    });
  }

  #settle(answer) {
    const resolve = this.#waiting.get(answer.id);
    this.#waiting.delete(answer.id);
    resolve?.(answer);
  }
}

/** A value that the inspector told in words. */
function plainValue({ type, value, unserializableValue }) {
  if (unserializableValue === undefined) return type === "undefined" ? undefined : value;
  return type === "bigint" ? BigInt(unserializableValue.slice(0, -1)) : Number(unserializableValue);
}
