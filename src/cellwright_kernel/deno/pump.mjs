// The driver's second thread. It reads what the host says and speaks to the inspector, so that both go on while a
// cell keeps the first thread busy. It runs no cell and decides nothing but when a cell has to be torn off.
//
// Cells are evaluated over the inspector's socket rather than by a session inside of the process, because V8 answers
// for a promise that was collected while it collects, when no JavaScript may run: a session would end the process.
// And the first thread is told everything over that socket, because the loop that takes messages from a worker is
// itself forgotten when a cell is torn off at the wrong moment.

const GRACE_MS = 50;
const STEP_MS = 2;
const TAKER = "__cellwright_taker__";
const HEAR = "function (message, value) { this.hear(message, value); }";

// Places in the memory that both threads see: how many requests the first one heard, how many interrupts it obeyed,
// whether the socket is closed, and whether a cell is running.
const HEARD = 0;
const OBEYED = 1;
const CLOSED = 2;
const RUNNING = 3;

let shared;
let begun = false;
let tearing = false;
/** Whether a cell was left to itself by an interrupt, so that it may still loop when its turn comes. */
let wary = false;
const held = [];
let lastId = 0;
let scripts = null;
const waiting = new Map();
const socket = Promise.withResolvers();
/** Settles when the first thread can be told something. */
const ready = Promise.withResolvers();
const taker = socket.promise.then(async () => {
  const answered = await call("Runtime.evaluate", { expression: TAKER });
  return answered.result.result.objectId;
});

self.onmessage = ({ data }) => {
  if (data.kind === "begin") {
    shared = new Int32Array(data.shared);
    read();
  } else if (data.kind === "open") open(data.url);
  else if (data.kind === "ready") ready.resolve();
  else if (data.kind === "close") close();
  else answer(data);
};

function open(url) {
  const opening = new WebSocket(url);
  opening.onopen = () => socket.resolve(opening);
  opening.onerror = (event) => self.postMessage({ kind: "unopened", problem: event.message });
  opening.onmessage = ({ data }) => hear(JSON.parse(data));
  opening.onclose = closed;
}

/** The process would wait for the socket before it ends. */
async function close() {
  (await socket.promise).close();
}

function closed() {
  Atomics.store(shared, CLOSED, 1);
  Atomics.notify(shared, CLOSED);
}

function hear(message) {
  if (message.method === "Debugger.scriptParsed") scripts?.push(message.params);
  const settle = waiting.get(message.id);
  waiting.delete(message.id);
  settle?.(message);
}

async function call(method, params = {}) {
  const line = await socket.promise;
  const id = ++lastId;
  return await new Promise((resolve) => {
    waiting.set(id, resolve);
    line.send(JSON.stringify({ id, method, params }));
  });
}

/** Tells the first thread something, and hands it the value that the inspector holds under an id. */
async function tell(message, objectId) {
  await ready.promise;
  const value = objectId ? { objectId } : {};
  const handing = {
    functionDeclaration: HEAR,
    objectId: await taker,
    arguments: [{ value: message }, value],
    silent: true,
  };
  await call("Runtime.callFunctionOn", handing);
}

/** Answers one request of the first thread; `kind` is how, `id` is whose. */
async function answer({ kind, id, ...request }) {
  const answered = kind === "emitted" ? await emitted(request) : await call(request.method, request.params);
  const { result, error } = answered;
  const held = result?.exceptionDetails?.exception ?? result?.result;
  await tell({ kind: "answer", id, result, error }, held?.objectId);
  if (held?.objectId) call("Runtime.releaseObject", { objectId: held.objectId });
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
  let rest = "";
  for await (const text of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    for (const line of lines) take(line);
  }
  const before = Atomics.load(shared, HEARD);
  await tearOff(tell({ kind: "end" }), before, true);
}

function take(line) {
  if (!line.trim()) return;
  if (tearing) return void held.push(line);
  const before = Atomics.load(shared, HEARD);
  let request;
  try {
    request = JSON.parse(line);
  } catch (error) {
    tell({ kind: "unreadable", problem: error.message });
    return;
  }
  if ("token" in request && !begun) begin(request);
  const told = tell({ kind: "request", request });
  if (["interrupt_request", "shutdown_request"].includes(request.kind)) tearOff(told, before, true);
  else if (wary && !Atomics.load(shared, RUNNING)) tearOff(told, before, false);
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
async function tearOff(told, before, isUrgent) {
  tearing = true;
  // A thread that computes is told all the same, in between; one that does not even run has to be waited for.
  await told;
  const isHeard = await within(GRACE_MS, () => Atomics.load(shared, HEARD) !== before);
  if (isHeard) wary ||= isUrgent;
  else await terminate(isUrgent);
  tearing = false;
  for (const line of held.splice(0)) take(line);
}

async function terminate(isUrgent) {
  const before = Atomics.load(shared, OBEYED);
  let ended = false;
  call("Runtime.terminateExecution").then(() => ended = true);
  // It may have come back just now: then something harmless has to be torn off, or the next cell would be.
  if (!await within(GRACE_MS, () => ended)) await call("Runtime.evaluate", { expression: "0" });
  // What was torn off may have been the hearing itself.
  if (!isUrgent || await within(GRACE_MS, () => Atomics.load(shared, OBEYED) !== before)) return;
  await tell({ kind: "interrupt" });
}

/** Whether something comes true before the time is over. */
async function within(limit, isTrue) {
  for (let waited = 0; waited < limit && !isTrue(); waited += STEP_MS) {
    await new Promise((resolve) => setTimeout(resolve, STEP_MS));
  }
  return isTrue();
}
