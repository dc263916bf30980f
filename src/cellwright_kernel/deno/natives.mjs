// The globals that the driver uses, taken before any cell runs.
//
// A cell may declare `const Map = …` or `let location = …`, and that shadows the global for everybody in this realm,
// the driver's own modules included. So no other module here touches a global by its bare name: it imports it from
// this one, which nobody can shadow any more.

const world = globalThis;

export const {
  AggregateError,
  Array,
  ArrayBuffer,
  Atomics,
  BigInt,
  Blob,
  Boolean,
  DataView,
  Date,
  Deno,
  Error,
  Event,
  Function,
  Int32Array,
  JSON,
  Map,
  Math,
  Number,
  Object,
  Promise,
  Reflect,
  RegExp,
  Set,
  SharedArrayBuffer,
  String,
  Symbol,
  SyntaxError,
  TextDecoder,
  TextEncoder,
  TypeError,
  URL,
  Uint8Array,
  WeakMap,
  WeakSet,
  Worker,
  addEventListener,
  atob,
  btoa,
  clearInterval,
  clearTimeout,
  decodeURIComponent,
  encodeURIComponent,
  parseInt,
  performance,
  queueMicrotask,
  setInterval,
  setTimeout,
} = world;

export { world };

/** Deno's own parts that have no public name: its console, and variables that follow a chain of awaits. */
export const { Console, core } = Deno[Deno.internal];
export const { inspect } = Deno;
