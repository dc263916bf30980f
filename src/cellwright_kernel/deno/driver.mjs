// Runs TypeScript and JavaScript cells in one Deno process. The host speaks Jupyter messages over its standard
// streams, one line of JSON each; see `pump` for how they arrive and `wire` for how they leave.
//
// Nothing here waits in a long chain of promises: when a cell is torn off, V8 forgets whatever was about to go on. So
// the request of now is a variable, and whoever ends it, its own code or an interrupt, begins the next.

import { Cell } from "./cells.mjs";
import { crash, describe, uncaught } from "./errors.mjs";
import { evaluate } from "./evaluating.mjs";
import { Link } from "./link.mjs";
import { Modules } from "./modules.mjs";
import { writeNamed } from "./namedcells.mjs";
import { Outputs } from "./outputs.mjs";
import * as questions from "./questions.mjs";
import { drain, load, scriptOf } from "./scripts.mjs";
import { installStacks } from "./stacks.mjs";
import { install, installNodeStreams } from "./surroundings.mjs";
import { endTimers, installImmediate } from "./timers.mjs";
import { lastWords, Wire } from "./wire.mjs";
import {
  addEventListener,
  Boolean,
  core,
  Deno,
  inspect,
  Map,
  Object,
  Promise,
  queueMicrotask,
  TypeError,
  URL,
  world,
} from "./natives.mjs";

const KEPT_RESULTS = 50;
const TAKER = "__cellwright_taker__";
const realExit = Deno.exit;
const wire = new Wire();
const context = new core.AsyncVariable();
const results = new Map();
const queue = [];
let limits = { maxBytes: 1_000_000, maxMessages: 1000 };
let tools = null;
let settings = null;
/** The request of now: `{request, cell, over, isScript}`. */
let current = null;
let lastCell = null;
let count = 0;

const link = new Link(hear);
const stage = { cell: () => context.get() ?? current?.cell ?? lastCell, exit, ask };

const ANSWERS = {
  kernel_info_request: () => questions.kernelInfo(),
  complete_request: (content) => questions.completions(content, link),
  inspect_request: (content) => questions.about(content, link),
  cellwright_data_request: (content) => questions.data(content, link, results),
  cellwright_inspect_request: () => questions.namespace(link),
  cellwright_adopt_request: (content) => adopt(content),
  cellwright_layers_request: () => ({ status: "ok", pid: Deno.pid }),
  interrupt_request: () => ({ status: "ok" }),
  shutdown_request: (content) => ({ status: "ok", restart: Boolean(content.restart) }),
};

/** What the second thread says. */
function hear({ kind, request, problem }) {
  if (kind === "request") accept(request);
  else if (kind === "unaddressed") import("node:inspector").then(({ url }) => link.open(url()));
  else if (kind === "end") leave(0);
  else lastWords(`The driver's line to the ${kind === "unreadable" ? "host" : "inspector"}: ${problem}`);
}

function accept(request) {
  if ("token" in request) return void (settings ?? begin(request));
  const entry = { request, cell: null, over: false };
  if (request.channel !== "control") {
    queue.push(entry);
    return advance();
  }
  const isLast = request.kind === "shutdown_request";
  answer(entry).then(() => isLast ? leave(0) : undefined);
  if (request.kind === "interrupt_request" && current) interrupt(current);
}

/** The first line: who we are to be. Nothing runs before the inspector is out of reach. */
async function begin(given) {
  wire.token = given.token;
  adopt(given);
  try {
    await link.connect(given.inspector ?? (await import("node:inspector")).url(), TAKER);
  } finally {
    revokeInspector(given.inspector);
    settings = given;
    advance();
  }
}

function adopt({ max_bytes: maxBytes, max_messages: maxMessages, cwd, environment }) {
  limits = { maxBytes: maxBytes ?? limits.maxBytes, maxMessages: maxMessages ?? limits.maxMessages };
  if (cwd && cwd !== Deno.cwd()) Deno.chdir(cwd);
  for (const [name, value] of Object.entries(environment ?? {})) Deno.env.set(name, value);
  return { status: "ok", pid: Deno.pid };
}

function advance() {
  if (current || !tools || !settings || !queue.length) return;
  current = queue.shift();
  if (current.request.kind === "execute_request") execute(current);
  else answer(current);
}

function busy({ request }) {
  wire.emit("iopub", "status", request.id, { execution_state: "busy" });
}

/** Ends a request, once, and begins the next. */
function finish(entry, content, metadata) {
  if (entry.over) return;
  entry.over = true;
  const { channel, kind, id } = entry.request;
  wire.emit(channel, kind.replace(/_request$/, "_reply"), id, content, metadata);
  wire.emit("iopub", "status", id, { execution_state: "idle" });
  wire.send();
  if (entry !== current) return;
  current = null;
  link.noteRunning(false);
  advance();
}

async function answer(entry) {
  busy(entry);
  const { kind, content } = entry.request;
  try {
    const reply = ANSWERS[kind] ?? (() => {
      throw new TypeError(`there is no request '${kind}'`);
    });
    finish(entry, await reply(content ?? {}));
  } catch (error) {
    const { ename, evalue, traceback } = describe(error);
    finish(entry, { status: "error", ename, evalue, traceback });
  }
}

function execute(entry) {
  link.noteRunning(true);
  wire.gather();
  busy(entry);
  const { request } = entry;
  const { code, silent, store_history: keeps = true, language, filename, files } = request.content;
  const script = scriptOf(code);
  const counts = keeps && !silent;
  if (counts) count++;
  const outputs = new Outputs(wire, request.id, limits);
  const label = script?.name ?? filename ?? (counts ? `cell ${count}` : "code");
  entry.cell = lastCell = new Cell(script?.source ?? code, label, outputs);
  context.enter(entry.cell);
  if (!silent) wire.emit("iopub", "execute_input", request.id, { code, execution_count: count });
  if (files) writeNamed(files);
  if (script) return runScript(entry, language ?? "typescript", script.argv);
  evaluate(entry.cell, language ?? "typescript", tools).then(
    (outcome) => conclude(entry, outcome),
    (error) => conclude(entry, { error: describe(error) }),
  );
}

/** Runs a whole program, of which this process is the only run. */
function runScript(entry, language, argv) {
  entry.isScript = true;
  wire.send();
  load(entry.cell, language, argv, tools).then(() => drain(tools)).then(
    () => endScript(entry, world.Deno.exitCode ?? 0),
    (error) => fail(entry, error, true),
  );
}

/** Ends a program with what it threw. */
function fail(entry, thrown, inPromise) {
  entry.cell.outputs.write("stderr", crash(thrown, inPromise));
  exit(1);
}

function endScript(entry, code) {
  if (entry.over) return;
  const report = { ...entry.cell.outputs.close(), exit_code: code };
  const about = { status: "ok", user_expressions: {}, payload: [], execution_count: count };
  finish(entry, about, { cellwright: report });
}

/** Tells what came of a cell. */
function conclude(entry, { error, data, value }) {
  if (entry.over) return;
  const { silent, store_history: keeps = true } = entry.request.content;
  const { outputs } = entry.cell;
  wire.gather();
  if (error) outputs.fail(error);
  else if (data && !silent) outputs.publish("execute_result", { data, metadata: {}, execution_count: count });
  if (!error && data && keeps && !silent) keepResult(value);
  const report = outputs.close();
  if (error?.place) {
    report.place = { cell: error.place.cell.label, line: error.place.line, column: error.place.column };
  }
  const about = error
    ? { status: "error", ...outputs.bounded(error) }
    : { status: "ok", user_expressions: {}, payload: [] };
  finish(entry, { ...about, execution_count: count }, { cellwright: report });
}

function keepResult(value) {
  results.set(count, value);
  if (results.size > KEPT_RESULTS) results.delete(results.keys().next().value);
}

function interrupt(entry) {
  const evalue = "the cell was interrupted";
  const error = { ename: "KeyboardInterrupt", evalue, traceback: [`KeyboardInterrupt: ${evalue}`] };
  if (!entry.cell) return finish(entry, { status: "error", ...error });
  entry.cell.interrupted = true;
  endTimers(entry.cell);
  conclude(entry, { error });
}

/** What nobody caught: told where it came from, and the process goes on. */
function report(event, thrown, inPromise) {
  if (current?.isScript) return decide(event, current, thrown, inPromise);
  event.preventDefault();
  const error = describe(thrown);
  const cell = error.place?.cell ?? stage.cell();
  if (!cell) return lastWords(uncaught(error, inPromise));
  cell.outputs.write("stderr", uncaught(error, inPromise));
}

/** Ends a program with what it did not catch, unless another listener of its own says that it is fine. */
function decide(event, entry, thrown, inPromise) {
  if (world.process.listenerCount(inPromise ? "unhandledRejection" : "uncaughtException")) return;
  let isTaken = false;
  event.preventDefault();
  Object.defineProperty(event, "preventDefault", { value: () => void (isTaken = true) });
  queueMicrotask(() => isTaken || fail(entry, thrown, inPromise));
}

/** What a person answers to a cell of now; null where nobody can be asked. */
function ask(question) {
  const entry = current;
  if (!entry?.cell || entry.isScript || !entry.request.content.allow_stdin) return null;
  entry.cell.outputs.flush();
  return link.ask(() => {
    wire.emit("stdin", "input_request", entry.request.id, { prompt: question, password: false });
    wire.send();
  });
}

function exit(code) {
  const entry = current;
  if (entry?.isScript) {
    // Before the host hears of it, and wants the process to end.
    link.noteOver();
    endScript(entry, code);
    // What stands below the call must not run; but the process has its files, and they are to be saved.
    link.sleep();
    return leave(code);
  }
  stage.cell()?.outputs.flush();
  lastWords(`Deno.exit(${inspect(code)}) was called`);
  leave(code);
}

function leave(code) {
  link.close();
  realExit(code);
}

/** The inspector is the driver's: cells get neither its address nor a way to ask for it. */
function revokeInspector(address) {
  delete world[TAKER];
  if (address) Deno.permissions.revokeSync({ name: "net", host: new URL(address).host });
  Deno.permissions.revokeSync({ name: "sys", kind: "inspector" });
}

function hide(name, property) {
  Object.defineProperty(world, name, { configurable: false, enumerable: false, ...property });
}

async function prepare() {
  hide(TAKER, { value: link.taker, configurable: true });
  install(stage);
  installStacks();
  addEventListener("error", (event) => report(event, event.error, false));
  addEventListener("unhandledrejection", (event) => report(event, event.reason, true));
  const node = await import("node:module");
  const modules = new Modules(node);
  const { setImmediate, process } = world;
  installNodeStreams(process, stage);
  installImmediate(setImmediate, stage.cell);
  hide("__cellwright_import__", { value: modules.load });
  hide("__cellwright_meta__", { get: () => modules.meta });
  hide("__cellwright_constant__", {
    value: () => {
      throw new TypeError("Assignment to constant variable.");
    },
  });
  Object.defineProperty(world, "require", {
    get: () => modules.require,
    configurable: true,
    enumerable: false,
  });
  hide("__cellwright_turn__", {
    get: () => {
      context.enter(current?.cell);
      return new Promise((resolve) => setImmediate(resolve));
    },
  });
  questions.noteInborn();
  tools = {
    link,
    node,
    modules,
    setImmediate,
    sent: () => wire.send(),
    strip: node.stripTypeScriptTypes,
    emitted: (url) => link.emitted(url),
  };
  link.listen(setImmediate);
}

await prepare();
