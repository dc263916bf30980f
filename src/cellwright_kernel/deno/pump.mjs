// The driver's second thread. It reads what the host says and speaks to the inspector, so that both go on while a
// cell keeps the first thread busy. It runs no cell and decides nothing but when a cell has to be torn off.
//
// Cells are evaluated over the inspector's socket rather than by a session inside of the process, because V8 answers
// for a promise that was collected while it collects, when no JavaScript may run: a session would end the process.
// The loop by which the first thread takes a worker's messages may be forgotten when a cell is torn off. So messages
// are numbered, and after the first tear they go over the inspector as well, which nothing can make forget.

import { openInspector } from "./inspectors.mjs";

const GRACE_MS = 50;
const STARVED_MS = 1000;
const STEP_MS = 2;
const MAX_TRIES = 20;
const TAKER = "__cellwright_taker__";
const HEAR = "function (message, value) { this.hear(message, value); }";

// Places in the memory that both threads see: the last message that the first one took up, whether the line to the
// inspector is closed, whether a cell is running, whether something was torn off, whether a program is
// over that the first thread must not go on with (2: the process is to end).
const HEARD = 0;
const CLOSED = 1;
const RUNNING = 2;
const TORN = 3;
const OVER = 4;

// The same of questions: whether the first thread waits for an answer, and how many bytes that has.
const STATE = 0;
const LENGTH = 1;
const ANSWER_AT = 8;
const WAITING = 1;
const ANSWERED = 2;
const WITHDRAWN = 3;
const bytesOfOwn = new Uint8Array(1 << 16);

let shared;
/** Where the first thread waits for an answer to a question, and the answer's bytes. */
let asked;
let answerBytes;
let begun = false;
let tearing = false;
/** Whether a cell was left to itself by an interrupt, so that it may still loop when its turn comes. */
let wary = false;
const held = [];
/** What the first thread was told and may not have taken up. */
let unheard = [];
let lastNumber = 0;
let scripts = null;
const inspector = Promise.withResolvers();
/** Settles when the first thread is prepared. */
const prepared = Promise.withResolvers();
/** What the inspector hands messages to, in its own words. */
const taker = inspector.promise.then(async () => {
  const answered = await call("Runtime.evaluate", { expression: TAKER });
  return answered.result.result.objectId;
});
/** Settles when the first thread can be told something, by either way: it hides its taker as soon as it is. */
const ready = Promise.all([prepared.promise, taker]);

self.onmessage = ({ data }) => {
  if (data.kind === "begin") {
    shared = new Int32Array(data.shared);
    asked = new Int32Array(data.asked, 0, 2);
    answerBytes = new Uint8Array(data.asked, ANSWER_AT);
    read();
  } else if (data.kind === "open") open(data.url);
  else if (data.kind === "ready") prepared.resolve();
  else if (data.kind === "close") close();
  else answer(data);
};

async function open(url) {
  try {
    const opened = await openInspector(url, notice);
    opened.closed.promise.then(closed);
    inspector.resolve(opened);
  } catch (error) {
    self.postMessage({ kind: "unopened", problem: error.message });
  }
}

/** The process would wait for the line before it ends. */
async function close() {
  (await inspector.promise).close();
}

function closed() {
  Atomics.store(shared, CLOSED, 1);
  Atomics.notify(shared, CLOSED);
}

function notice({ method, params }) {
  if (method === "Debugger.scriptParsed") scripts?.push(params);
  // Only `pauseOff` has it pause, and pauses to end what runs.
  else if (method === "Debugger.paused") call("Debugger.resume", { terminateOnResume: true });
}

async function call(method, params) {
  return await (await inspector.promise).call(method, params);
}

/** Tells the first thread something; the number by which it says that it took it up. */
function tell(message) {
  const numbered = { ...message, number: ++lastNumber };
  ready.then(() => {
    unheard = unheard.filter(({ number }) => !isHeard(number));
    unheard.push(numbered);
    if (Atomics.load(shared, TORN)) hand(numbered);
    else self.postMessage(numbered);
  });
  return lastNumber;
}

function isHeard(number) {
  return Atomics.load(shared, HEARD) >= number;
}

/** Tells it over the inspector, which can hand it a value that it holds under an id as well. */
async function hand(message, objectId) {
  const value = objectId ? { objectId } : {};
  const handed = [{ value: message }, value];
  const handing = { functionDeclaration: HEAR, objectId: await taker, arguments: handed, silent: true };
  await call("Runtime.callFunctionOn", handing);
}

/** Answers one request of the first thread; `kind` is how, `id` is whose. */
async function answer({ kind, id, ...request }) {
  const answered = kind === "emitted" ? await emitted(request) : await call(request.method, request.params);
  const { result, error } = answered;
  const held = result?.exceptionDetails?.exception ?? result?.result;
  const message = { kind: "answer", id, result, error };
  if (!held?.objectId) return void tell(message);
  await hand(message, held.objectId);
  call("Runtime.releaseObject", { objectId: held.objectId });
}

/** The code of a loaded module and the address of its map. */
async function emitted({ url }) {
  scripts = [];
  await call("Debugger.enable");
  const script = scripts.findLast((script) => script.url === url);
  const answered = script ? await call("Debugger.getScriptSource", { scriptId: script.scriptId }) : {};
  await call("Debugger.disable");
  scripts = null;
  return { result: { source: answered.result?.scriptSource ?? "", sourceMapURL: script?.sourceMapURL } };
}

async function read() {
  const buffer = new Uint8Array(1 << 16);
  const decoder = new TextDecoder();
  let rest = "";
  for (let size; (size = await Deno.stdin.read(buffer)) !== null;) {
    const lines = (rest + decoder.decode(buffer.subarray(0, size), { stream: true })).split("\n");
    rest = lines.pop();
    for (const line of lines) take(line);
  }
  withdraw();
  if (!wake()) await tearOff(tell({ kind: "end" }), true);
}

function take(line) {
  if (!line.trim()) return;
  if (tearing) return void held.push(line);
  let request;
  try {
    request = JSON.parse(line);
  } catch (error) {
    tell({ kind: "unreadable", problem: error.message });
    return;
  }
  if ("token" in request && !begun) begin(request);
  if (request.kind === "input_reply") return void pass(request.content.value);
  if (request.kind === "shutdown_request" && wake()) return;
  const number = tell({ kind: "request", request });
  if (["interrupt_request", "shutdown_request"].includes(request.kind)) {
    withdraw();
    tearOff(number, true);
  } else if (wary && !Atomics.load(shared, RUNNING)) tearOff(number, false);
}

/** Hands the first thread the answer that it waits for. */
function pass(answer) {
  const { written } = new TextEncoder().encodeInto(String(answer), bytesOfOwn);
  // A decoder does not read memory that is shared, nor does an encoder write it.
  answerBytes.set(bytesOfOwn.subarray(0, written));
  Atomics.store(asked, LENGTH, written);
  settle(ANSWERED);
}

/** Lets it go on without an answer. */
function withdraw() {
  settle(WITHDRAWN);
}

function settle(state) {
  if (Atomics.compareExchange(asked, STATE, WAITING, state) === WAITING) Atomics.notify(asked, STATE);
}

/** Lets a thread end that sleeps because its program is over; whether it does. */
function wake() {
  const sleeps = Atomics.compareExchange(shared, OVER, 1, 2) === 1;
  if (sleeps) Atomics.notify(shared, OVER);
  return sleeps;
}

/** The first line tells where the inspector is, or the first thread has to. */
function begin({ inspector }) {
  begun = true;
  if (inspector) open(inspector);
  else self.postMessage({ kind: "unaddressed" });
}

/**
 * Ends what the first thread runs, if it does not come back by itself to take up what it was told. Until that is over
 * it is told nothing new, which might be torn off in place of the cell.
 */
async function tearOff(number, isInterrupt) {
  tearing = true;
  await ready;
  // A thread that computes answers all the same, in between; one that does not even run has to be waited for.
  await answered("Runtime.evaluate", { expression: "0" }, STARVED_MS);
  if (await within(GRACE_MS, () => isHeard(number))) wary ||= isInterrupt;
  else await terminate(number);
  tearing = false;
  for (const line of held.splice(0)) take(line);
}

async function terminate(number) {
  // Before it happens: what is asked afterwards must not go a way that it destroys.
  Atomics.store(shared, TORN, 1);
  // The thread may have come back just now: then something harmless has to be torn off, or the next cell would be.
  if (!await answered("Runtime.terminateExecution")) await answered("Runtime.evaluate", { expression: "0" });
  for (let tries = 0; tries < MAX_TRIES && !isHeard(number); tries++) {
    // What was torn off may have been the taking up itself.
    for (const message of unheard) hand(message);
    if (!await within(GRACE_MS, () => isHeard(number))) await pauseOff();
  }
}

/**
 * Ends what runs by pausing it: native code of Deno's, between a cell's and what it calls back, may swallow that it
 * was torn off, and V8 then takes itself to be at it still.
 */
async function pauseOff() {
  await answered("Debugger.enable");
  await answered("Debugger.pause");
  await within(GRACE_MS, () => false);
  await answered("Debugger.disable");
}

/** Whether the inspector answers before long: what it does for one that is torn off has no answer. */
async function answered(method, params, limit = GRACE_MS) {
  let isAnswered = false;
  call(method, params).then(() => isAnswered = true);
  return await within(limit, () => isAnswered);
}

/** Whether something comes true before the time is over. */
async function within(limit, isTrue) {
  for (let waited = 0; waited < limit && !isTrue(); waited += STEP_MS) {
    await new Promise((resolve) => setTimeout(resolve, STEP_MS));
  }
  return isTrue();
}
