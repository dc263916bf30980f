// R, which has no grammar of its own: a mode of CodeMirror 5.

import { LanguageSupport, StreamLanguage } from "@codemirror/language";
import { r as mode } from "@codemirror/legacy-modes/mode/r";

export const r = () => new LanguageSupport(StreamLanguage.define(mode));
