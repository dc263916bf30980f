// What a cell's imports do: find the module as seen from the working directory, and load it anew when it changed.

import { Deno, encodeURIComponent, Map, String, Symbol, URL } from "./natives.mjs";

const RELATIVE = /^\.{0,2}\//;
const SCHEME = /^[a-zA-Z][\w+.-]*:/;
const NOT_FOUND = /not a dependency|Relative import path/;

export class Modules {
  /** What `import.meta` calls the file that is run. */
  name = "cell.ts";
  #node;
  #versions = new Map();

  /** `node` is Node's `module`, which knows its built-in modules and packages below `node_modules`. */
  constructor(node) {
    this.#node = node;
  }

  /** Loads a module for a cell. */
  load = async (specifier, options) => {
    const name = String(specifier);
    return await this.#load(
      name,
      options ?? (name.endsWith(".json") ? { with: { type: "json" } } : undefined),
    );
  };

  /** What `import.meta` is in a cell. */
  get meta() {
    const directory = Deno.cwd();
    return {
      url: base() + this.name,
      dirname: directory,
      filename: `${directory}/${this.name}`,
      main: true,
      resolve: (specifier) => new URL(specifier, base()).href,
    };
  }

  /** Node's `require`, as seen from the working directory. */
  get require() {
    return this.#node.createRequire(`${base()}cell.js`);
  }

  #load(name, options) {
    if (RELATIVE.test(name)) return import(this.#current(new URL(name, base())), options);
    if (name.startsWith("file:")) return import(this.#current(new URL(name)), options);
    if (SCHEME.test(name)) return import(name, options);
    if (this.#node.builtinModules.includes(name)) return import(`node:${name}`, options);
    return this.#loadBare(name, options);
  }

  async #loadBare(name, options) {
    try {
      return await import(name, options);
    } catch (error) {
      if (!NOT_FOUND.test(error?.message)) throw error;
      return this.#required(name) ?? await import(`npm:${name}`, options);
    }
  }

  /** A package below `node_modules`, which Node's own way finds and Deno's does not, seen from the driver. */
  #required(name) {
    const { require } = this;
    try {
      require.resolve(name);
    } catch {
      return undefined;
    }
    const loaded = require(name);
    return loaded?.[Symbol.toStringTag] === "Module" ? loaded : { ...loaded, default: loaded };
  }

  /** The address of a file, with its age where it is not what it was when it was first loaded. */
  #current(url) {
    const changed = changeOf(url);
    const first = this.#versions.get(url.href) ?? changed;
    this.#versions.set(url.href, first);
    if (changed !== first && !url.search) url.search = `?changed=${changed}`;
    return url.href;
  }
}

/** The address of the working directory. */
export function base() {
  return `file://${Deno.cwd().split("/").map(encodeURIComponent).join("/")}/`;
}

function changeOf(url) {
  try {
    return Deno.statSync(url).mtime?.getTime();
  } catch {
    return undefined;
  }
}
