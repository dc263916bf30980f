// The first thread's lines to `pump` and to the inspector.
//
// The inspector is asked directly as long as nothing was torn off, since what goes through `pump` crosses two threads
// more. But a tear may make this thread forget that it was reading: after the first, `pump` asks for it.

import { openInspector } from "./inspectors.mjs";
import {
  Atomics,
  BigInt,
  Int32Array,
  Map,
  Number,
  Object,
  Promise,
  SharedArrayBuffer,
  TextDecoder,
  Uint8Array,
  URL,
  Worker,
} from "./natives.mjs";

const CLOSING_MS = 1000;
// As in `pump`.
const HEARD = 0;
const CLOSED = 1;
const RUNNING = 2;
const TORN = 3;
const OVER = 4;
const STATE = 0;
const LENGTH = 1;
const ANSWER_AT = 8;
const WAITING = 1;
const ANSWERED = 2;
const END_OF_INPUT = "\x04";
const ANSWER_BYTES = 1 << 16;
// Deno's own way to count a worker out of what a process waits for, which Node's workers have by name.
const [HOLD] = Object.getOwnPropertySymbols(Worker.prototype);
const TAKE = "function (id, value) { this.take(id, value); }";

export class Link {
  #worker = new Worker(new URL("./pump.mjs", import.meta.url), { type: "module", name: "cellwright" });
  #shared = new Int32Array(new SharedArrayBuffer(20));
  #asked = new Int32Array(new SharedArrayBuffer(ANSWER_AT + ANSWER_BYTES));
  #waiting = new Map();
  #lastId = 0;
  /** The number of the last message that was taken up. */
  #last = 0;
  #listen;
  #inbox = [];
  #schedule = null;
  #direct = null;
  #directTaker = null;
  #taken = new Map();

  /** `listen` gets everything that is no answer: requests of the host, and how the line itself is. */
  constructor(listen) {
    this.#listen = listen;
    this.#worker.onmessage = ({ data }) => this.#take(data);
    this.#worker.postMessage({ kind: "begin", shared: this.#shared.buffer, asked: this.#asked.buffer });
  }

  /** What the inspector hands messages to, maybe in the middle of a cell that computes: they wait for a turn. */
  taker = {
    hear: (message, value) => {
      this.#inbox.push({ message, value });
      this.#schedule(() => this.#drain());
    },
    take: (id, value) => this.#taken.set(id, value),
  };

  /** Asks the inspector at this address directly from now on; `taker` is where it finds ours. */
  async connect(url, taker) {
    const direct = await openInspector(url);
    const { result } = await direct.call("Runtime.evaluate", { expression: taker });
    this.#directTaker = result.result.objectId;
    this.#direct = direct;
  }

  /** From now on messages are passed on, in turns that `schedule` gives. */
  listen(schedule) {
    this.#schedule = schedule;
    this.#worker.postMessage({ kind: "ready" });
  }

  /** Speaks to the inspector at this address. */
  open(url) {
    this.#worker.postMessage({ kind: "open", url });
  }

  /** Tells the second thread whether a cell is running. */
  noteRunning(isRunning) {
    Atomics.store(this.#shared, RUNNING, isRunning ? 1 : 0);
  }

  /** Whether anything is under way that is not the driver's own; asked in a turn of the driver's. */
  hasOtherWork(core) {
    this.#hold(false);
    try {
      return core.eventLoopHasMoreWork();
    } finally {
      // Before anybody could take the process to be idle.
      this.#hold(true);
    }
  }

  #hold(isHeld) {
    this.#worker[HOLD](isHeld);
    this.#direct?.hold(isHeld);
  }

  /** Tells the second thread that this one is about to `sleep`. */
  noteOver() {
    Atomics.store(this.#shared, OVER, 1);
  }

  /** Waits, without going on with anything else, until the host wants the process to end. */
  sleep() {
    Atomics.wait(this.#shared, OVER, 1);
  }

  /** `send`s a question and waits, without going on with anything else, for the answer; its end where nobody waits any more. */
  ask(send) {
    Atomics.store(this.#asked, STATE, WAITING);
    send();
    Atomics.wait(this.#asked, STATE, WAITING);
    if (Atomics.load(this.#asked, STATE) !== ANSWERED) return END_OF_INPUT;
    // A decoder does not read memory that is shared.
    const bytes = new Uint8Array(Atomics.load(this.#asked, LENGTH));
    bytes.set(new Uint8Array(this.#asked.buffer, ANSWER_AT, bytes.length));
    return new TextDecoder().decode(bytes);
  }

  /** Waits, without going on with anything else, until the inspector's socket is closed. */
  close() {
    this.#direct?.close();
    this.#worker.postMessage({ kind: "close" });
    Atomics.wait(this.#shared, CLOSED, 0, CLOSING_MS);
  }

  /** The inspector's answer, and with it, where it names an object, that object itself. */
  call(method, params) {
    if (this.#direct && !Atomics.load(this.#shared, TORN)) return this.#callDirectly(method, params);
    return this.#ask({ kind: "call", method, params });
  }

  async #callDirectly(method, params) {
    const { result, error } = await this.#direct.call(method, params);
    const objectId = heldIn(result)?.objectId;
    if (!objectId) return { result, error };
    const id = ++this.#lastId;
    const handed = [{ value: id }, { objectId }];
    const handing = {
      functionDeclaration: TAKE,
      objectId: this.#directTaker,
      arguments: handed,
      silent: true,
    };
    await this.#direct.call("Runtime.callFunctionOn", handing);
    this.#direct.call("Runtime.releaseObject", { objectId });
    const value = this.#taken.get(id);
    this.#taken.delete(id);
    return { result, error, value };
  }

  emitted(url) {
    return this.#ask({ kind: "emitted", url }).then((answer) => answer.result);
  }

  /** The inspector's answer to `Runtime.evaluate`, and in `value` the live value or error itself. */
  async evaluate(params) {
    const answer = await this.call("Runtime.evaluate", params);
    const held = heldIn(answer.result);
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

/** What an answer is about: what was thrown, or else what came of it. */
function heldIn(result) {
  return result?.exceptionDetails?.exception ?? result?.result;
}

/** A value that the inspector told in words. */
function plainValue({ type, value, unserializableValue }) {
  if (unserializableValue === undefined) return type === "undefined" ? undefined : value;
  return type === "bigint" ? BigInt(unserializableValue.slice(0, -1)) : Number(unserializableValue);
}
