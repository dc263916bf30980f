// Names for what ipywidgets leaves without one: a screen reader says what a slider is of, and how far something is.

const CONTROLS =
  '[role="slider"], input, select, textarea, button, [contenteditable], .progress';

export function name(place) {
  const look = () => {
    for (const widget of place.querySelectorAll(".jupyter-widgets")) {
      nameWithin(widget);
    }
    for (const tabs of place.querySelectorAll(".lm-TabBar-content")) {
      tabs.setAttribute("role", "tablist");
    }
    for (const bar of place.querySelectorAll(".progress-bar")) measure(bar);
  };
  look();
  // A bar's width is how far it is.
  const options = {
    childList: true,
    subtree: true,
    attributes: true,
    attributeFilter: ["style"],
  };
  new MutationObserver(look).observe(place, options);
}

function nameWithin(widget) {
  const label = widget.querySelector(
    ":scope > .widget-label, :scope > label, :scope > legend",
  );
  const text = label?.textContent.trim();
  for (const control of widget.querySelectorAll(CONTROLS)) {
    if (control.closest(".jupyter-widgets") !== widget) continue;
    if (
      control.hasAttribute("aria-label") || control.labels?.length ||
      control.textContent.trim()
    ) continue;
    control.setAttribute(
      "aria-label",
      [text, ownName(control)].filter(Boolean).join(" ") || "value",
    );
    if (control.isContentEditable) control.setAttribute("role", "textbox");
  }
  // What can be written in has a text, which is no name.
  for (
    const control of widget.querySelectorAll(
      "[contenteditable]:not([aria-label])",
    )
  ) {
    control.setAttribute(
      "aria-label",
      [text, "value"].filter(Boolean).join(" "),
    );
    control.setAttribute("role", "textbox");
  }
}

function ownName(control) {
  if (control.title) return control.title;
  const icon = control.querySelector('[class*="fa-"]')?.className.match(
    /fa-([\w-]+)/,
  );
  return icon ? icon[1] : "";
}

function measure(bar) {
  const whole = bar.parentElement, share = bar.style.width || bar.style.height;
  whole.setAttribute("role", "progressbar");
  whole.setAttribute("aria-valuenow", Math.round(parseFloat(share)) || 0);
}
