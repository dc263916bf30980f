// Timers that know their cell. What is thrown in them, or loops in them, ends neither the process nor other cells.

import {
  clearInterval,
  clearTimeout,
  Object,
  queueMicrotask,
  setInterval,
  setTimeout,
  world,
} from "./natives.mjs";

/** Puts timers in place that `cellNow` gives to their cells. */
export function installTimers(cellNow) {
  const make = (start, repeats) =>
    function (callback, delay, ...args) {
      const cell = cellNow();
      // A cell that was interrupted gets no more turns: that ends its loops that sleep.
      if (cell?.interrupted) return 0;
      if (typeof callback !== "function") return start(callback, delay, ...args);
      const id = start(() => {
        if (!repeats) cell?.timers.delete(id);
        // A callback that is torn off would take the event loop along; a microtask does not.
        queueMicrotask(() => callback(...args));
      }, delay);
      cell?.timers.set(id, repeats ? clearInterval : clearTimeout);
      return id;
    };
  const forget = (clear) => (id) => {
    cellNow()?.timers.delete(id);
    clear(id);
  };
  replace("setTimeout", make(setTimeout, false));
  replace("setInterval", make(setInterval, true));
  replace("clearTimeout", forget(clearTimeout));
  replace("clearInterval", forget(clearInterval));
}

/** The same for Node's `setImmediate`, which is there later. */
export function installImmediate(setImmediate, cellNow) {
  replace("setImmediate", (callback, ...args) => {
    if (cellNow()?.interrupted) return undefined;
    return setImmediate(() => queueMicrotask(() => callback(...args)));
  });
}

/** Ends all timers of a cell. */
export function endTimers(cell) {
  for (const [id, clear] of cell.timers) clear(id);
  cell.timers.clear();
}

function replace(name, value) {
  Object.defineProperty(value, "name", { value: name });
  Object.defineProperty(world, name, { value, writable: true, configurable: true, enumerable: true });
}
