// How code looks: colours are the page's own, so that light, dark and high contrast are settled in one place.

import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: "var(--keyword)" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: "var(--string)" },
  { tag: [tags.comment, tags.meta], color: "var(--comment)", fontStyle: "italic" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--literal)" },
  { tag: [tags.function(tags.variableName), tags.function(tags.propertyName), tags.standard(tags.name)], color: "var(--call)" },
  { tag: [tags.className, tags.typeName, tags.namespace, tags.tagName], color: "var(--kind)" },
  { tag: tags.heading, color: "var(--kind)", fontWeight: "700" },
  { tag: tags.emphasis, fontStyle: "italic" },
  { tag: tags.strong, fontWeight: "700" },
  { tag: [tags.link, tags.url], color: "var(--literal)" },
]);

const frame = EditorView.theme({
  "&": { color: "var(--ink)", fontSize: ".87rem" },
  "&.cm-editor": { backgroundColor: "var(--paper)", border: "1px solid var(--accent)", borderRadius: ".4rem" },
  "&.cm-editor.cm-focused": { outline: "1px solid var(--accent)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5", maxHeight: "80vh" },
  ".cm-content": { caretColor: "var(--ink)", padding: ".35rem 0", minHeight: "2.2rem" },
  ".cm-cursor": { borderLeftColor: "var(--ink)", borderLeftWidth: "2px" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { background: "var(--mark)" },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "var(--busy-wash)", outline: "1px solid var(--busy)" },
  ".cm-nonmatchingBracket, &.cm-focused .cm-nonmatchingBracket": { backgroundColor: "var(--bad-wash)" },
  ".cm-selectionMatch": { backgroundColor: "var(--wash)" },
  ".cm-searchMatch": { backgroundColor: "var(--mark)", outline: "1px solid var(--warn)" },
  ".cm-tooltip": { backgroundColor: "var(--sheet)", color: "var(--ink)", border: "1px solid var(--line)", borderRadius: ".4rem", zIndex: "7" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "14rem" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { background: "var(--accent)", color: "var(--accent-ink)" },
  ".cm-completionDetail": { color: "inherit", opacity: ".8" },
  ".cm-about": { maxWidth: "min(46rem, 92vw)", maxHeight: "20rem", overflow: "auto", padding: ".4rem .6rem", whiteSpace: "pre-wrap", fontFamily: "var(--mono)", fontSize: ".82rem" },
  ".cm-panels": { backgroundColor: "var(--wash)", color: "var(--ink)" },
  ".cm-panel.cm-search": { fontFamily: "var(--sans)", padding: ".4rem 2rem .4rem .5rem" },
  ".cm-textfield": { backgroundColor: "var(--sheet)", color: "var(--ink)", border: "1px solid var(--line)" },
  ".cm-button": { backgroundImage: "none", backgroundColor: "var(--sheet)", color: "var(--ink)", border: "1px solid var(--line)" },
  ".cm-tooltip-lint": { fontFamily: "var(--sans)" },
  ".cm-diagnostic-hint": { borderLeft: "3px solid var(--warn)" },
  ".cm-lintRange-hint": { backgroundImage: "none", borderBottom: "2px dotted var(--warn)" },
});

export const looks = [syntaxHighlighting(colours), frame];
