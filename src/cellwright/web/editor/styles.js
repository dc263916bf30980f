// CodeMirror's styles as sheets that the document adopts: the page's policy lets no <style> element in.

import { StyleModule } from "style-mod";

const adopted = new Set();

StyleModule.mount = (root, modules) => {
  for (const module of [modules].flat()) {
    if (adopted.has(module)) continue;
    adopted.add(module);
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(module.getRules());
    // The last modules have the last word, as they have in CodeMirror's own element.
    root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet];
  }
};
