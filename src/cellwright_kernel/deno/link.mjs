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

export class Link {
  #worker = new Worker(new URL("./pump.mjs", import.meta.url), { type: "module", name: "cellwright" });
  #heard = new Int32Array(new SharedArrayBuffer(12));
  #waiting = new Map();
  #lastId = 0;
  #taken;

  /** `listen` gets everything that is no answer: requests of the host, and how the line itself is. */
  constructor(listen) {
    this.#worker.onmessage = ({ data }) => data.kind === "answer" ? this.#settle(data) : listen(data);
    this.#worker.postMessage({ kind: "begin", shared: this.#heard.buffer });
  }

  /** What the inspector hands values to. */
  taker = { take: (value) => this.#taken = { value } };

  /** Speaks to the inspector at this address. */
  open(url) {
    this.#worker.postMessage({ kind: "open", url });
  }

  /** Tells the second thread that this one has heard an interrupt, and, `isDone`, that it has obeyed it. */
  acknowledge(isDone = false) {
    Atomics.add(this.#heard, isDone ? 1 : 0, 1);
  }

  /** Waits, without going on with anything else, until the inspector's socket is closed. */
  close() {
    this.#worker.postMessage({ kind: "close" });
    Atomics.wait(this.#heard, 2, 0, CLOSING_MS);
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
