// Names for what ipywidgets leaves without one: a screen reader says what a slider is of.

const SELECTORS =
  '[role="slider"], input, select, textarea, [contenteditable], [role="progressbar"], .progress';

export function name(place) {
  const look = () => {
    for (const widget of place.querySelectorAll(".jupyter-widgets")) {
      nameWithin(widget);
    }
    for (const tabs of place.querySelectorAll(".lm-TabBar-content")) {
      tabs.setAttribute("role", "tablist");
    }
  };
  look();
  new MutationObserver(look).observe(place, { childList: true, subtree: true });
}

function nameWithin(widget) {
  const label = widget.querySelector(":scope > .widget-label, :scope > label");
  const text = label?.textContent.trim();
  for (const control of widget.querySelectorAll(SELECTORS)) {
    if (control.closest(".jupyter-widgets") !== widget) continue;
    if (control.hasAttribute("aria-label") || control.labels?.length) continue;
    const kind = control.isContentEditable ? "value" : "";
    control.setAttribute(
      "aria-label",
      [text, kind].filter(Boolean).join(" ") || control.title || "value",
    );
    if (control.isContentEditable) control.setAttribute("role", "textbox");
  }
}
