// What a cell finds around it: its console, its standard streams, questions to whoever is there, rich display, and
// the values of other languages. Everything that is said leads to the cell that says it.

import { bundle, DISPLAY, displayable, imageOf, quietly, tagFor, text } from "./display.mjs";
import { installTimers } from "./timers.mjs";
import { values } from "./values.mjs";
import { Console, Deno, Object, Promise, String, TextDecoder, world } from "./natives.mjs";

const WARNING_LEVEL = 2;
/** What the host puts before the reason why nobody answers. */
const UNANSWERED = "\x04";

/** Puts all of it in place. `stage` knows the cell of now (`cell`) and how to end the process (`exit`). */
export function install(stage) {
  const write = (name, words) => stage.cell()?.outputs.write(name, words);
  installConsole(write, stage);
  installStreams(write);
  installQuestions(write, stage);
  installDisplay(stage);
  installTimers(stage.cell);
  installExits(stage);
}

function installConsole(write, stage) {
  const console = new Console((words, level) => write(level < WARNING_LEVEL ? "stdout" : "stderr", words));
  console.clear = () => stage.cell()?.outputs.publish("clear_output", { wait: false });
  define("console", console);
}

function installStreams(write) {
  for (const name of ["stdout", "stderr"]) {
    const decoder = new TextDecoder();
    const writeSync = (bytes) => {
      write(name, decoder.decode(bytes, { stream: true }));
      return bytes.length;
    };
    const sink = () => new world.WritableStream({ write: writeSync });
    assign(Deno[name], { writeSync, write: (bytes) => Promise.resolve(writeSync(bytes)) });
    Object.defineProperty(Deno[name], "writable", { get: sink, configurable: true });
  }
  // The driver's second thread reads it, and a cell would take its words away.
  assign(Deno.stdin, { readSync: () => null, read: () => Promise.resolve(null) });
  Object.defineProperty(Deno.stdin, "readable", {
    get: () => new world.ReadableStream({ start: (controller) => controller.close() }),
    configurable: true,
  });
}

/** `process`, whose streams Node makes when they are first asked for. */
export function installNodeStreams(process, stage) {
  for (const name of ["stdout", "stderr"]) {
    let stream;
    const make = () => {
      const { Writable } = process.getBuiltinModule("node:stream");
      const write = (chunk, _, done) => {
        stage.cell()?.outputs.write(name, String(chunk));
        done();
      };
      return Object.assign(new Writable({ write, decodeStrings: false }), {
        isTTY: false,
        fd: name === "stdout" ? 1 : 2,
      });
    };
    Object.defineProperty(process, name, { get: () => stream ??= make(), configurable: true });
  }
  process.reallyExit = stage.exit;
}

function installQuestions(write, stage) {
  const asked = (what, question, read, otherwise) => (message = "", ...more) => {
    const answer = stage.ask(question(String(message)));
    if (answer !== null && !answer.startsWith(UNANSWERED)) return read(answer, ...more);
    // By itself it is the end of input, as in a terminal.
    if (answer === UNANSWERED) return otherwise;
    const reason = answer?.slice(UNANSWERED.length) || "nobody can be asked here";
    const shown = message ? `"${message}"` : "";
    write("stderr", `${what}(${shown}): ${reason}, the answer is ${otherwise}\n`);
    return otherwise;
  };
  // Deno's own take an empty line for the default.
  define(
    "prompt",
    asked("prompt", (message) => `${message} `, (answer, usual = null) => answer || usual, null),
  );
  define(
    "confirm",
    asked("confirm", (message) => `${message} [y/N] `, (answer) => /^y/i.test(answer), false),
  );
  define("alert", (message = "") => write("stderr", `${message}\n`));
}

function installDisplay(stage) {
  const broadcast = (kind, content) => Promise.resolve(stage.cell()?.outputs.publish(kind, content));
  const display = (value, options = {}) => {
    const cell = stage.cell();
    const show = (data) => {
      const transient = options.display_id ? { display_id: options.display_id } : {};
      cell?.outputs.publish(options.update ? "update_display_data" : "display_data", {
        data,
        metadata: {},
        transient,
      });
    };
    const data = options.raw ? value : bundle(value);
    if (typeof data.then !== "function") return quietly(Promise.resolve(show(data)));
    const shown = data.then(show);
    // The cell ends after what it shows, also where it does not wait for it.
    cell?.shows.push(shown);
    return quietly(shown);
  };
  const ways = {
    html: tagFor("text/html"),
    md: tagFor("text/markdown"),
    svg: tagFor("image/svg+xml"),
    image: (source) => imageOf(source, (path) => Deno.readFileSync(path)),
    json: (value) => displayable({ "application/json": value, "text/plain": text(value) }),
    vega: (spec) => displayable({ "application/vnd.vegalite.v5+json": spec, "text/plain": "[chart]" }),
  };
  const format = async (value) => await bundle(value);
  const jupyter = { ...ways, $display: DISPLAY, display, broadcast, format, displayable };
  replaceDeno({ jupyter, exit: (code) => stage.exit(code ?? Deno.exitCode ?? 0) });
  define("display", display);
  for (const name of ["html", "md", "svg"]) define(name, ways[name]);
  define("cellwright", Object.freeze({ ...values, display, ...ways }));
}

function installExits(stage) {
  define("close", () => stage.exit(0));
}

/** Deno with some of its members replaced, of which the original lets go of none. */
function replaceDeno(members) {
  const copied = Object.getOwnPropertyDescriptors(Deno);
  for (const [name, value] of Object.entries(members)) {
    copied[name] = { value, writable: true, configurable: true, enumerable: true };
  }
  define("Deno", Object.create(Object.getPrototypeOf(Deno), copied));
}

function define(name, value) {
  Object.defineProperty(world, name, { value, writable: true, configurable: true, enumerable: false });
}

function assign(target, methods) {
  for (const [name, value] of Object.entries(methods)) {
    Object.defineProperty(target, name, { value, writable: true, configurable: true });
  }
}
