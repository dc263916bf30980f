// Jupyter's keys: which key was pressed where, and those that wait for a step that is under way.

const MODIFIERS = new Set(["Shift", "Control", "Alt", "Meta", "AltGraph", "CapsLock"]);

function keyName({ key, ctrlKey, metaKey, altKey, shiftKey }) {
  const withShift = shiftKey && (key.length > 1 || ctrlKey || metaKey);
  return `${ctrlKey || metaKey ? "Ctrl+" : ""}${altKey ? "Alt+" : ""}${withShift ? "Shift+" : ""}${withShift && key.length === 1 ? key.toLowerCase() : key}`;
}

/** The first of two keys that mean something together, and when it was pressed. */
let firstKey = null;

/** The command of a key, if it has one now. */
function commandOf(name) {
  const both = firstKey && Date.now() - firstKey.at < 1500 ? `${firstKey.name} ${name}` : null;
  firstKey = null;
  if (both && COMMANDS[both]) return mayEdit() ? COMMANDS[both] : null;
  if (COMMANDS[name]) return mayEdit() || LOOKING.has(name) ? COMMANDS[name] : null;
  if (`${name} ${name}` in COMMANDS) firstKey = { name, at: Date.now() };
  return null;
}

/** Whether a key on this element is about cells: not in a field, a panel or a dialog, nor one that presses a button. */
function isAboutCells(target, name) {
  if (!cells() || document.querySelector("dialog[open]")) return false;
  // A table or a chart that a cell shows has keys of its own.
  if (target.matches("input, textarea, select, [contenteditable]") || target.closest(".outputs, .menu[open] > div")) return false;
  if (target.matches("button, summary, a") && /^(Enter|Escape| |Shift\+Enter|Arrow)/.test(name)) return false;
  return target === document.body || target.closest("#cells, .book") !== null;
}

/** In an editor most keys are its own. */
function editorStep(name, editor) {
  const found = IN_EDITOR[name];
  if (!found || (name === "Escape" && hasSomethingOpen(editor))) return null;
  const cell = cellOf(editor);
  // What is typed from now on is for the cell, and waits.
  if (found[0]) cell.focus({ preventScroll: true });
  return () => found[1](cell);
}

/** A key that waited: in an editor that has opened meanwhile it is typed. */
async function replay(event) {
  const target = document.activeElement, editor = target.closest(".editor[data-editing]"), name = keyName(event);
  if (!editor) return isAboutCells(target, name) ? commandOf(name)?.() : null;
  const step = editorStep(name, editor);
  if (step) return step();
  const { key, code, ctrlKey, metaKey, altKey, shiftKey } = event;
  const again = new KeyboardEvent("keydown", { key, code, keyCode: event.keyCode, ctrlKey, metaKey, altKey, shiftKey, bubbles: true, cancelable: true });
  if (!target.dispatchEvent(again) || ctrlKey || metaKey || key.length > 1) return null;
  const view = rich.get(written(editor));
  return view ? (await editorLibrary()).type(view, key) : type(key);
}

/** Whether a key that is under way opens an editor: then Tab is for that. */
let isOpening = false;

document.addEventListener("keydown", (event) => {
  if (!event.isTrusted || !cells() || event.isComposing || MODIFIERS.has(event.key)) return;
  const name = keyName(event), editor = event.target.closest?.(".editor[data-editing]");
  isOpening = (underWay > 0 && isOpening) || /Enter$/.test(name);
  const own = editor?.contains(event.target) && event.target.matches("textarea, .cm-content");
  if (own) {
    const step = editorStep(name, editor);
    if (!step) return;
    swallow(event);
    inOrder(step);
  } else if (isAboutCells(event.target, name)) {
    if (underWay) {
      // What belongs to the browser goes on to it.
      const isBrowsers = (event.ctrlKey || event.metaKey) && event.key.length === 1 && !COMMANDS[name] && !IN_EDITOR[name];
      if ((event.key === "Tab" && !isOpening) || isBrowsers) return;
      swallow(event);
      inOrder(() => replay(event));
      return;
    }
    const isFirst = firstKey === null, step = commandOf(name);
    if (step) { swallow(event); inOrder(step); } else if (isFirst && firstKey) swallow(event);
  }
}, true);

function swallow(event) {
  event.preventDefault();
  event.stopPropagation();
}

document.addEventListener("focusin", (event) => {
  const cell = cellOf(event.target);
  if (cell) lastCell = cell.id;
});
