// Opens and closes the editor of a cell. The text stands in a text area in any case; CodeMirror, where it was built, is
// put over it. It is loaded once, for who may edit.

const cells = () => document.getElementById("cells");
const cellOf = (element) => element?.closest?.("article.cell") ?? null;
const idOf = (cell) => cell.id.slice("cell-".length);
const editorOf = (cell) => cell.querySelector(":scope > form > .editor");
const mayEdit = () => document.body.dataset.role !== "view";

/** Of a text area the CodeMirror over it. */
const rich = new WeakMap();
let library = null;

function editorLibrary() {
  const url = document.body.dataset.editor;
  library ??= url ? import(url).catch(() => null) : Promise.resolve(null);
  return library;
}

/** What the editor asks the server about the text as it is being written. */
async function consult(cell, what, data) {
  try {
    const answer = await ask(`${sessionUrl()}/cells/${idOf(cell)}/${what}`, { method: "POST", body: new URLSearchParams(data) });
    return answer.ok ? await answer.json() : null;
  } catch { return null; }
}

const sessionUrl = () => document.getElementById("main").dataset.live.replace(/\/live$/, "");

function editorOptions(cell, area, at) {
  const code = (source, cursor) => ({ source, cursor });
  return {
    at, language: cell.dataset.language, label: area.getAttribute("aria-label"),
    complete: async (text, cursor, isAsked) => {
      const told = await consult(cell, "complete", code(text, cursor));
      if (isAsked) say(told?.why, true);
      return told && { ...told, matches: told.matches.map((text) => ({ text })) };
    },
    inspect: async (text, cursor) => (await consult(cell, "inspect", code(text, cursor)))?.text,
    lint: async (source) => (await consult(cell, "names", { source }))?.names,
  };
}

/** Have an editor written in: its text area, and below it what may be done with what is written. Most cells never need it. */
function beginWriting(editor) {
  if (editor.dataset.editing) return;
  editor.dataset.editing = "yes";
  const parts = document.getElementById("writing").content.cloneNode(true);
  const cell = cellOf(editor), id = idOf(cell), at = `${sessionUrl()}/cells/${id}`, { source } = editor.dataset;
  const area = parts.querySelector("textarea");
  area.id = `source-${id}`;
  area.defaultValue = source;
  area.rows = Math.min(Math.max(source.split("\n").length + 1, 3), 40);
  area.spellcheck = cell.matches(".markdown");
  area.setAttribute("aria-label", `Source of cell ${allCells().indexOf(cell) + 1}`);
  parts.querySelector("[data-leave]").setAttribute("formaction", `${at}/edit`);
  parts.querySelector("[data-discard]").setAttribute("formaction", `${at}/again`);
  parts.querySelector(".clashes").id = `clash-${id}`;
  editor.append(parts);
}

/** The source of a cell, as it is being written where it is. */
const sourceOf = (cell) => written(editorOf(cell))?.value ?? editorOf(cell).dataset.source;

/** Open the editor of a cell and put the caret into it: where the mouse was, else at the end. */
async function edit(wanted, at) {
  if (!mayEdit() || !wanted) return;
  await unfoldSource(wanted);
  // What stands there now; it may have been sent anew since.
  const cell = document.getElementById(wanted.id);
  if (!cell) return;
  const editor = editorOf(cell);
  beginWriting(editor);
  const area = written(editor);
  if (!rich.has(area) && document.body.dataset.editor) {
    const options = editorOptions(cell, area, at);
    editor.dataset.rich = "yes";
    area.dataset.label = options.label;
    area.removeAttribute("aria-label");
    const made = await editorLibrary();
    if (made) rich.set(area, await made.mount(area, options)); else showArea(editor, area);
  }
  (rich.get(area) ?? area).focus();
}

/** Have the text area itself edited. */
function showArea(editor, area) {
  delete editor.dataset.rich;
  if (area.dataset.label) area.setAttribute("aria-label", area.dataset.label);
}

/** Leave the cell as it is read. */
function closeEditor(editor) {
  delete editor.dataset.editing;
  if (!editor.matches(".editor")) return;
  delete editor.dataset.rich;
  // The button that was pressed has the keyboard, which the cell gets.
  if (editor.contains(document.activeElement)) cellOf(editor).focus({ preventScroll: true });
  const area = written(editor);
  rich.get(area)?.destroy();
  rich.delete(area);
  for (const part of all(":scope > :is(textarea, .writing, [id^=clash-])", editor)) part.remove();
}

/** Whether the editor has a list, a panel or documentation open, which Escape closes first. */
const hasSomethingOpen = (editor) => editor.dataset.rich && document.querySelector(".cm-tooltip-autocomplete, .cm-about, .editor[data-rich] .cm-panel") !== null;

/** Save what was written, and leave the editor. */
function leave(editor) {
  const area = written(editor), changed = area.value !== area.defaultValue;
  return send(area.form, editor.querySelector(changed ? "[data-leave]" : "[data-discard]"));
}
