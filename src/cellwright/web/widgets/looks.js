// How widgets look: ipywidgets' own sheets, in the page's colours.

import base from "@jupyter-widgets/controls/css/widgets-base.css" with {
  type: "text",
};
import lumino from "@jupyter-widgets/controls/css/lumino.css" with {
  type: "text",
};
import sliders from "@jupyter-widgets/controls/css/nouislider.css" with {
  type: "text",
};
import own from "./looks.css" with { type: "text" };

export function dress() {
  document.adoptedStyleSheets = [lumino, sliders, base, own].map((css) => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(css.replace(/@import[^;]*;/g, ""));
    return sheet;
  });
}
