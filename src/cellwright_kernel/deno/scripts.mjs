// Runs a whole program in place of a cell, as `deno run` would: as a module from memory, until nothing is left to do.
//
// What it says and how it ends is told by the driver; this module only knows what a program is. What was thrown and
// nobody caught ends it, which is the driver's to notice.

import { addressOf, asModule } from "./specifiers.mjs";
import { base } from "./modules.mjs";
import { nameModule } from "./stacks.mjs";
import {
  Blob,
  core,
  Error,
  Event,
  JSON,
  Map,
  Math,
  Object,
  Promise,
  setTimeout,
  URL,
  world,
} from "./natives.mjs";

const TYPES = { typescript: "application/typescript", javascript: "text/javascript" };
const CALL = /^__cellwright_script__\((\[[^]*\])\)$/;
const TURN = "await __cellwright_turn__;";
const UNFINISHED = /ERR_UNSUPPORTED_DIR_IMPORT|ERR_MODULE_NOT_FOUND/;
const EXPORTS = "module.exports";
const QUIET_TURNS = 3;
const FIRST_LOOK_MS = 1;
const LATEST_LOOK_MS = 20;

/** `{source, name, argv}` of the program that a cell is written to run, if it is (see `engine.oneshots`). */
export function scriptOf(code) {
  const found = CALL.exec(code);
  if (!found) return null;
  const [source, name, argv] = JSON.parse(found[1]);
  return { source, name, argv };
}

/**
 * Loads and runs it; settles when its last line has run. `tools` are Node's `module` as `node`, and
 * `modules`, which has to know its name. Throws what it throws.
 */
export async function load(cell, language, argv, { node, modules }) {
  const from = base();
  modules.name = cell.label;
  const { code, packages } = asModule(cell.source, from, node.builtinModules);
  surround(cell.label, argv, node, await required(packages, from, node.builtinModules));
  // Torn off while Deno has it evaluated, it would take the process along; in a turn of its own it does not. So it
  // depends on a module that waits for one, named where no line is moved by it.
  const address = inMemory(
    `${code}\nimport ${JSON.stringify(inMemory(TURN, TYPES.javascript))};`,
    TYPES[language],
  );
  nameModule(address, cell, from + cell.label);
  await import(address);
}

/** Waits until nothing is left that could still happen, as the end of a program does; `tools` are `link` and Node's `setImmediate`. */
export async function drain(tools) {
  const { link } = tools;
  const { process } = world;
  do {
    await rest(tools);
    process.emit("beforeExit", process.exitCode ?? 0);
    world.dispatchEvent(new Event("beforeunload", { cancelable: true }));
  } while (link.hasOtherWork(core));
  process.emit("exit", process.exitCode ?? 0);
  world.dispatchEvent(new Event("unload"));
}

async function rest({ link, setImmediate }) {
  // What has come to its end and is about to be told counts for nothing in between, nor does what waits in the very
  // turn of the look: only several turns with nothing are the end. Until its own turn is over, the module counts too.
  for (let wait = 0, quiet = 0; quiet < QUIET_TURNS;) {
    await new Promise((resolve) => wait ? setTimeout(resolve, wait) : setImmediate(resolve));
    const isBusy = link.hasOtherWork(core);
    quiet = isBusy ? 0 : quiet + 1;
    wait = isBusy ? Math.min(LATEST_LOOK_MS, wait * 2 || FIRST_LOOK_MS) : 0;
  }
}

/** What a program finds beyond what cells do: its arguments, and what CommonJS code takes for granted. */
function surround(name, argv, node, packages) {
  const { Deno: deno, process } = world;
  const address = base() + name;
  const path = `${deno.cwd()}/${name}`;
  define(deno, "args", Object.freeze([...argv]));
  define(deno, "mainModule", address);
  define(process, "argv", [process.argv[0], path, ...argv]);
  const native = node.createRequire(address);
  const module = { exports: {}, id: ".", filename: path, loaded: false, children: [], paths: [] };
  const require = Object.assign((id) => packages.has(id) ? packages.get(id)() : native(id), {
    resolve: native.resolve,
    cache: native.cache,
    extensions: native.extensions,
    main: module,
  });
  const given = { require, module, exports: module.exports, __filename: path, __dirname: deno.cwd() };
  for (const [own, value] of Object.entries({ ...given, ...unanswered(deno, process) })) {
    define(world, own, value);
  }
}

function inMemory(code, type = TYPES.typescript) {
  return URL.createObjectURL(new Blob([code], { type }));
}

/** Packages by name, each with what `require` gives for it: they are loaded before, since loading takes time. */
async function required(names, from, builtins) {
  const found = new Map();
  for (const name of names) {
    try {
      const loaded = await loadPackage(addressOf(name, from, builtins));
      const value = exportsOf(loaded);
      found.set(name, () => value);
    } catch (error) {
      found.set(name, () => {
        throw error;
      });
    }
  }
  return found;
}

/** What `require` gives for a module: what CommonJS code exports, or else all that a module does. */
function exportsOf(loaded) {
  if (EXPORTS in loaded) return loaded[EXPORTS];
  const own = loaded.default;
  const isOnly = Object.keys(loaded).every((name) => name === "default" || own?.[name] === loaded[name]);
  return isOnly ? own ?? loaded : loaded;
}

/** A package, or a part of one that is named without its ending, as `require` finds it and `import` does not. */
async function loadPackage(address) {
  try {
    return await import(address);
  } catch (error) {
    if (!UNFINISHED.test(error?.message)) throw error;
    return await import(`${address}.js`);
  }
}

/** Nobody can be asked: a program that asks is told so, rather than given an answer that it would believe. */
function unanswered(deno, process) {
  const refuse = (what) => () => {
    throw new Error(`${what}: nobody can be asked here. Give the program its input in its code or as a file`);
  };
  for (const way of ["read", "readSync"]) define(deno.stdin, way, refuse("standard input"));
  const refused = { configurable: true, get: refuse("standard input") };
  Object.defineProperty(deno.stdin, "readable", refused);
  Object.defineProperty(process, "stdin", refused);
  return { prompt: refuse("prompt()"), confirm: refuse("confirm()") };
}

function define(owner, name, value) {
  Object.defineProperty(owner, name, { value, writable: true, configurable: true, enumerable: false });
}
