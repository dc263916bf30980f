// Cells that have a file name, as files below the working directory, so that other cells can import them.

import { Deno, Object } from "./natives.mjs";

/** Writes each text to its file, where it is not there already. What cannot be written is left out. */
export function writeNamed(files) {
  for (const [name, text] of Object.entries(files)) {
    if (name.startsWith("/") || name.split("/").includes("..")) continue;
    try {
      write(name, text);
    } catch (error) {
      // Whoever imports it gets an error that names it.
      if (
        !(error instanceof Deno.errors.PermissionDenied || error.code ||
          error instanceof Deno.errors.NotCapable)
      ) throw error;
    }
  }
}

function write(path, text) {
  // Read first: a file that is right keeps its time, and what was imported from it is not imported again.
  if (textOf(path) === text) return;
  const directory = path.split("/").slice(0, -1).join("/");
  if (directory) Deno.mkdirSync(directory, { recursive: true });
  Deno.writeTextFileSync(`${path}.part`, text);
  Deno.renameSync(`${path}.part`, path);
}

function textOf(path) {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}
