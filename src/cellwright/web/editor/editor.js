// The editor of one cell: CodeMirror over the cell's text area, which keeps the text that is sent.
//
// What it asks the server (completion, documentation, names that nothing defines) it asks through the functions that
// `mount` is given; how cells are run, saved and left is the page's business.

import "./styles.js";
import { acceptCompletion, autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, completionStatus, startCompletion } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentLess, indentMore } from "@codemirror/commands";
import { bracketMatching, indentOnInput, indentUnit } from "@codemirror/language";
import { linter } from "@codemirror/lint";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { EditorState, Prec, StateEffect, StateField } from "@codemirror/state";
import { drawSelection, dropCursor, EditorView, keymap, rectangularSelection, showTooltip, tooltips } from "@codemirror/view";
import { looks } from "./looks.js";

// Only the language of a cell that is edited is loaded.
const LANGUAGES = {
  python: async () => (await import("@codemirror/lang-python")).python(),
  sql: async () => { const { sql, PostgreSQL } = await import("@codemirror/lang-sql"); return sql({ dialect: PostgreSQL }); },
  typescript: async () => (await import("@codemirror/lang-javascript")).javascript({ typescript: true }),
  javascript: async () => (await import("@codemirror/lang-javascript")).javascript(),
  markdown: async () => (await import("@codemirror/lang-markdown")).markdown(),
  r: async () => (await import("./r.js")).r(),
};

/** Positions are counted in letters there and in halves of letters here. */
const letters = (text, halves) => [...text.slice(0, halves)].length;
const halves = (text, count) => [...text].slice(0, count).join("").length;

/** What could stand at the caret, as the kernel knows it. */
function completing(ask) {
  return async (context) => {
    const before = context.state.sliceDoc(Math.max(0, context.pos - 80), context.pos);
    if (!context.explicit && !/([\p{L}_][\p{L}\p{N}_]+|[\p{L}\p{N}_\])]\.)$/u.test(before)) return null;
    const text = context.state.doc.toString();
    const told = await ask(text, letters(text, context.pos), context.explicit);
    if (context.aborted || !told?.matches.length) return null;
    return {
      from: halves(text, told.start),
      options: told.matches.map(({ text: label, type }) => ({ label, type })),
      validFor: /^[\p{L}\p{N}_]*$/u,
    };
  };
}

const about = StateEffect.define();

/** The documentation that stands at the caret until something is written or Escape is pressed. */
const documentation = StateField.define({
  create: () => null,
  update: (shown, change) => {
    for (const effect of change.effects) if (effect.is(about)) return effect.value;
    return change.docChanged || change.selection ? null : shown;
  },
  provide: (field) => showTooltip.from(field),
});

function documenting(ask) {
  return (view) => {
    const { head, empty } = view.state.selection.main, line = view.state.doc.lineAt(head);
    if (!empty || !view.state.sliceDoc(line.from, head).trim()) return false;
    const text = view.state.doc.toString();
    ask(text, letters(text, head)).then((told) => {
      if (!told || view.state.doc.toString() !== text) return;
      const create = () => ({ dom: Object.assign(document.createElement("div"), { className: "cm-about", textContent: told, tabIndex: 0 }) });
      view.dispatch({ effects: about.of({ pos: head, above: true, create }) });
    });
    return true;
  };
}

function closeDocumentation(view) {
  if (view.state.field(documentation) === null) return false;
  view.dispatch({ effects: about.of(null) });
  return true;
}

/** Tab completes after a word, and indents elsewhere. */
function tab(view) {
  if (completionStatus(view.state) === "active") return acceptCompletion(view);
  const { head, empty } = view.state.selection.main;
  if (empty && /[\p{L}\p{N}_.)\]"'%/]$/u.test(view.state.sliceDoc(Math.max(0, head - 1), head))) return startCompletion(view);
  if (!empty) return indentMore(view);
  const column = head - view.state.doc.lineAt(head).from;
  view.dispatch(view.state.replaceSelection(" ".repeat(4 - (column % 4))), { userEvent: "input.indent" });
  return true;
}

/** Names that no cell defines, underlined as a hint. */
function linting(ask) {
  return linter(async (view) => {
    const text = view.state.doc.toString();
    return (await ask(text) ?? []).map(({ start, end, message }) => ({ from: halves(text, start), to: halves(text, end), severity: "hint", message }));
  }, { delay: 500 });
}

/** Put an editor over a text area; the text goes on to stand there, too. */
export async function mount(area, { language, label, complete, inspect, lint, at }) {
  const known = await LANGUAGES[language]?.();
  const keys = [
    { key: "Tab", run: tab, shift: (view) => documenting(inspect)(view) || indentLess(view) },
    { key: "Escape", run: closeDocumentation },
  ];
  const prose = language === "markdown";
  const state = EditorState.create({
    doc: area.value,
    extensions: [
      Prec.highest(keymap.of(keys)),
      history(), drawSelection(), dropCursor(), indentOnInput(), bracketMatching(), rectangularSelection(), highlightSelectionMatches(),
      EditorState.allowMultipleSelections.of(true), EditorState.tabSize.of(4), indentUnit.of("    "),
      search({ top: true }), tooltips({ parent: document.querySelector("main") }), documentation,
      prose ? EditorView.lineWrapping : [closeBrackets(), autocompletion({ override: [completing(complete)] }), linting(lint)],
      keymap.of([...closeBracketsKeymap, ...completionKeymap, ...defaultKeymap, ...searchKeymap, ...historyKeymap]),
      EditorView.contentAttributes.of({ "aria-label": label, spellcheck: String(prose) }),
      EditorView.updateListener.of((update) => {
        if (!update.docChanged) return;
        area.value = update.state.doc.toString();
        area.dispatchEvent(new Event("input", { bubbles: true }));
      }),
      known ?? [], looks,
    ],
  });
  const view = new EditorView({ state });
  area.after(view.dom);
  view.focus();
  const caret = at ? view.posAtCoords(at, false) : view.state.doc.length;
  view.dispatch({ selection: { anchor: caret }, scrollIntoView: true });
  return view;
}

/** Write text where the caret is, as if it had been typed. */
export function type(view, text) {
  const { from, to } = view.state.selection.main;
  const insert = () => view.state.update(view.state.replaceSelection(text), { userEvent: "input.type", scrollIntoView: true });
  if (view.state.facet(EditorView.inputHandler).some((handle) => handle(view, from, to, text, insert))) return;
  view.dispatch(insert());
}

/** Where the caret is, in letters. */
export const caret = (view) => letters(view.state.doc.toString(), view.state.selection.main.head);
