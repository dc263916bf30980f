// What a person does with cells: each is a step, and steps are taken in order. A key that is pressed while one is under
// way waits for it, and means then what it would have meant: nothing that is typed is lost or goes elsewhere.

let chain = Promise.resolve(), underWay = 0, failures = 0;

/** The server would not do it, and has said why. */
class Refused extends Error {}

/** Do something once all that was begun before is done. What was to follow a step that failed is dropped. */
function inOrder(step) {
  const known = failures;
  underWay += 1;
  chain = chain.then(() => (known === failures ? step() : null)).catch((error) => { failures += 1; if (!(error instanceof Refused)) console.error(error); }).finally(() => { underWay -= 1; });
  return chain;
}

// Which cells are meant -----------------------------------------------------------------------------------------------

/** The cell that the keyboard is at, or was last. */
let lastCell = null;
/** Cells that are chosen beside it, from `anchor` on. */
let picked = new Set(), anchor = null;

const allCells = () => [...cells().children].filter((cell) => cell.matches("article.cell"));
const current = () => cellOf(document.activeElement) ?? document.getElementById(lastCell);

function chosen() {
  const found = allCells().filter((cell) => picked.has(cell.id));
  const here = current();
  return found.length ? found : here ? [here] : [];
}

/** Of a run of cells the source of those in between is chosen, too. */
function pick(from, to) {
  const order = allCells(), [one, other] = [order.indexOf(from), order.indexOf(to)];
  anchor = from.id;
  picked = new Set(order.slice(Math.min(one, other), Math.max(one, other) + 1).map((cell) => cell.id));
  showPicked();
}

function unpick() { picked = new Set(); anchor = null; showPicked(); }

function showPicked() {
  for (const cell of allCells()) cell.classList.toggle("picked", picked.has(cell.id));
}

function goTo(cell) {
  if (!cell) return;
  cell.focus();
  cell.scrollIntoView({ block: "nearest" });
}

const beside = (cell, step) => { const order = allCells(); return cell ? order[order.indexOf(cell) + step] : order[step > 0 ? 0 : order.length - 1]; };

/** Places are said anew when cells came, went or moved: the server sends only the order. */
function renumber() {
  if (!cells()) return;
  allCells().forEach((cell, index) => {
    const place = cell.querySelector(":scope > header > .place"), told = String(index + 1);
    if (place.textContent === told) return;
    place.textContent = told;
    for (const one of [cell, ...all("[aria-label], [data-label]", cell)]) {
      for (const name of ["aria-label", "data-label"]) {
        const label = one.getAttribute(name);
        if (label) one.setAttribute(name, label.replace(/\b(cell) \d+/i, `$1 ${told}`));
      }
    }
  });
  showPicked();
}

// Steps ---------------------------------------------------------------------------------------------------------------

const ids = (list) => list.map(idOf).join(" ");

/** Have the server do something with cells; what it answers is shown. */
async function change(what, data = {}) {
  const told = await post(`${sessionUrl()}/${what}`, new URLSearchParams(data));
  if (told === null || told.error) throw new Refused(what);
  return told;
}

async function run(cell) {
  const editor = editorOf(cell);
  if (editor.dataset.editing) return send(editor.parentElement);
  if (cell.matches(".code")) await post(`${sessionUrl()}/cells/${idOf(cell)}/run`, new URLSearchParams());
}

/** Add a cell beside the current one, or at the end. */
function add(where, kind = "code", to = current()) {
  return change("cells", to ? { kind, where, beside: idOf(to) } : { kind });
}

const opened = (made) => edit(document.getElementById(made.go.slice(1)));

/** Run what is chosen; the keyboard goes on to the next cell, which is made where there is none. */
async function runOn(from) {
  const list = picked.size ? chosen() : [from], last = list.at(-1), next = beside(last, 1);
  goTo(next ?? last);
  unpick();
  for (const cell of list) await run(cell);
  if (!next) await opened(await add("below", "code", last));
}

async function runChosen(from) {
  for (const cell of picked.size ? chosen() : [from]) await run(cell);
}

async function runAndAdd(from) {
  await run(from);
  await opened(await add("below", "code", from));
}

const COPIED = "cellwright-cells";

async function copy() {
  const told = await change("edits/copy", { ids: ids(chosen()) });
  try { localStorage.setItem(COPIED, told.cells); } catch { say("The browser has no room to keep this", true); throw new Refused("copy"); }
  say(told.count === 1 ? "Copied a cell" : `Copied ${told.count} cells`);
}

function paste(where) {
  const held = stored(COPIED), here = current();
  if (!held) { say("No cell was copied"); return null; }
  return change("edits/paste", here ? { cells: held, where, beside: idOf(here) } : { cells: held });
}

/** Cells that were deleted here, or whose text was kept. */
const deleted = new Set();

async function remove() {
  const list = chosen();
  if (!list.length) return;
  for (const cell of list) deleted.add(cell.id);
  unpick();
  await change("edits/delete", { ids: ids(list) });
}

/** What a person was writing in a cell that somebody else deleted becomes a cell of its own. */
function rescue(cell) {
  const editor = cell.querySelector(":scope > form > .editor[data-editing]"), area = editor && written(editor);
  if (!area || area.value === area.defaultValue || deleted.has(cell.id)) return;
  deleted.add(cell.id);
  const above = cell.previousElementSibling, source = area.value, kind = cell.dataset.language;
  say("Somebody deleted the cell that you were writing in. What you wrote is in a new one", true);
  inOrder(() => change("cells", { source, kind, ...(above ? { beside: idOf(above), where: "below" } : {}) }));
}

function extend(step) {
  const here = current(), next = beside(here, step);
  if (!here || !next) return;
  const from = document.getElementById(anchor) ?? here;
  goTo(next);
  pick(from, next);
}

async function split(cell) {
  const area = written(editorOf(cell)), view = rich.get(area);
  const at = view ? (await editorLibrary()).caret(view) : [...area.value.slice(0, area.selectionStart)].length;
  await leave(editorOf(cell));
  await change("edits/split", { ids: idOf(cell), at });
}

/** Unfold a source that is to be written in. */
async function unfoldSource(cell) {
  if (cell.matches(".source-folded")) await change("edits/fold", { ids: idOf(cell), part: "source" });
}

async function saveAll() {
  for (const editor of all("#cells .editor[data-editing]")) await send(written(editor).form, editor.querySelector("[data-leave]"));
  await change("save");
}

async function restart() {
  if (!confirm("Restart the kernel? All variables are lost.")) return;
  await change("restart");
}

const kind = (name) => change("edits/kind", { ids: ids(chosen()), kind: name });
const fold = (part) => change("edits/fold", { ids: ids(chosen()), part });
const moveBy = (where) => change("edits/move", { ids: ids(chosen()), where });
const walk = (step) => { unpick(); goTo(beside(current(), step)); };
const withCurrent = (act) => () => { const here = current(); return here ? act(here) : null; };

/** What a key means while no editor has the keyboard. */
const COMMANDS = {
  "Enter": withCurrent((here) => { unpick(); return edit(here); }),
  "Shift+Enter": withCurrent(runOn), "Ctrl+Enter": withCurrent(runChosen), "Alt+Enter": withCurrent(runAndAdd),
  "ArrowDown": () => walk(1), "j": () => walk(1), "ArrowUp": () => walk(-1), "k": () => walk(-1),
  "Shift+ArrowDown": () => extend(1), "J": () => extend(1), "Shift+ArrowUp": () => extend(-1), "K": () => extend(-1),
  "Ctrl+a": () => { const order = allCells(); if (order.length) pick(order[0], order.at(-1)); },
  "Escape": () => unpick(),
  "a": () => add("above"), "b": () => add("below"),
  "m": () => kind("markdown"), "y": () => kind("code"),
  "d d": remove, "z": () => change("edits/undo"), "Z": () => change("edits/redo"),
  "x": async () => { await copy(); await remove(); }, "c": copy, "v": () => paste("below"), "V": () => paste("above"),
  "M": async () => { const list = chosen(); unpick(); await change("edits/merge", { ids: ids(list) }); },
  "Ctrl+Shift+ArrowUp": () => moveBy("up"), "Ctrl+Shift+ArrowDown": () => moveBy("down"),
  "o": () => fold("outputs"), "h": () => fold("source"),
  "s": saveAll, "Ctrl+s": saveAll,
  "i i": () => change("stop"), "0 0": restart,
  "f": () => openFind(), "Ctrl+f": () => openFind(), "F": () => openFind(),
  "?": () => document.getElementById("keys").showModal(),
};

/** What a key means in an editor; true for those after which the keyboard is no longer in it. */
const IN_EDITOR = {
  "Shift+Enter": [true, runOn], "Ctrl+Enter": [true, runChosen], "Alt+Enter": [true, runAndAdd],
  "Escape": [true, (cell) => leave(editorOf(cell))], "Ctrl+m": [true, (cell) => leave(editorOf(cell))],
  "Ctrl+s": [false, saveAll], "Ctrl+Shift+-": [true, split], "Ctrl+Shift+_": [true, split],
};

/** Commands that only change what is looked at, for who may not edit. */
const LOOKING = new Set(["ArrowDown", "j", "ArrowUp", "k", "Shift+ArrowDown", "J", "Shift+ArrowUp", "K", "Ctrl+a", "Escape", "c", "f", "Ctrl+f", "?"]);
