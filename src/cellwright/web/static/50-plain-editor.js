// The editor of a cell where no better one is loaded: Tab indents, Escape leaves it, and then Tab goes on.

const INDENT = "    ";

/** Type as a person would, so that the browser can undo it. */
function type(text) {
  document.execCommand(text ? "insertText" : "delete", false, text);
}

/** Indent where the caret is, or all lines that are marked; `back` takes the indentation from them. */
function indent(area, back) {
  const { value, selectionStart: from, selectionEnd: to } = area;
  if (!back && from === to) { type(INDENT.slice((from - value.lastIndexOf("\n", from - 1) - 1) % INDENT.length)); return; }
  const start = value.lastIndexOf("\n", from - 1) + 1;
  const lines = value.slice(start, to);
  const moved = lines.replace(back ? /^( {1,4}|\t)/gm : /^(?=.)/gm, back ? "" : INDENT);
  if (moved === lines) return;
  area.setSelectionRange(start, to);
  type(moved);
  const first = moved.indexOf("\n"), shift = (first < 0 ? moved.length : first) - (lines.includes("\n") ? lines.indexOf("\n") : lines.length);
  area.setSelectionRange(Math.max(start, from + shift), start + moved.length);
}

/** A new line begins as far in as the last one, further in after what opens a block. */
function newLine(area) {
  const line = area.value.slice(area.value.lastIndexOf("\n", area.selectionStart - 1) + 1, area.selectionStart);
  const deeper = /[:([{]\s*$/.test(line) && area.spellcheck === false;
  type("\n" + line.match(/^[ \t]*/)[0] + (deeper ? INDENT : ""));
}

/** Whether a key meant something to the plain editor. */
function plainKey(event, area) {
  if (!area.matches(".editor[data-editing] textarea") || event.ctrlKey || event.metaKey || event.altKey) return false;
  if (event.key === "Tab") indent(area, event.shiftKey);
  else if (event.key === "Enter" && !event.shiftKey) newLine(area);
  else return false;
  return true;
}
