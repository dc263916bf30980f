// What a person does with mouse and keyboard.

document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-deed], [data-within]")) return;
  event.preventDefault();
  if (event.target.matches("[data-deed]")) send(event.target, event.submitter);
  else turn(event.target, `${event.target.action}?${new URLSearchParams(new FormData(event.target))}`);
});

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-theme-switch]")) {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* it lasts until the page is left */ }
    for (const chart of all("[data-chart][data-dark]")) draw(chart);
  }
  for (const menu of all(".menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  const within = event.target.closest("a[data-within]");
  if (within) { event.preventDefault(); turn(within, within.href); }
  const wanted = event.target.closest("[data-edit]");
  if (wanted && !event.target.closest("a, summary") && getSelection().isCollapsed) edit(wanted);
  const saved = event.target.closest("[data-save]");
  if (saved) save(saved.closest("[data-chart]"), saved.dataset.save);
  const zoomed = event.target.closest("[data-zoom]");
  if (zoomed) {
    const dialog = document.getElementById("zoom");
    const shown = (document.getElementById(zoomed.dataset.zoom) ?? zoomed).querySelector("img, svg");
    if (shown) { dialog.querySelector("div").replaceChildren(shown.cloneNode(true)); dialog.showModal(); }
  }
});

document.addEventListener("input", (event) => {
  if (event.target.matches("textarea[id], input[id]")) (event.target.closest(".editor") ?? event.target).dataset.editing = "yes";
});

document.addEventListener("change", (event) => {
  if (event.target.matches("form[data-within] select")) event.target.form.requestSubmit();
});

function edit(inside) {
  if (document.body.dataset.role === "view") return;
  const editor = inside.closest("[data-row]").querySelector(".editor");
  editor.dataset.editing = "yes";
  editor.querySelector("textarea").focus();
}

/** Keys that mean something where they are pressed; whether this was one. */
function pressed(event, target) {
  const editor = target.closest(".editor[data-editing]"), row = target.matches("[data-row]") ? target : null;
  if (editor && event.key === "Escape") {
    const changed = target.value !== target.defaultValue;
    target.form.requestSubmit(editor.querySelector(changed ? "[data-leave]" : "[data-discard]"));
    editor.closest("[data-row]").focus();
  } else if (event.key === "Enter" && (event.shiftKey || event.ctrlKey) && target.matches("form[data-deed] textarea")) {
    target.form.requestSubmit();
    if (event.shiftKey) target.closest("[data-row]")?.nextElementSibling?.focus();
  } else if (row && event.key === "Enter") edit(row);
  else if (row && event.key === "ArrowDown") row.nextElementSibling?.focus();
  else if (row && event.key === "ArrowUp") row.previousElementSibling?.focus();
  else return false;
  return true;
}

document.addEventListener("keydown", (event) => {
  if (pressed(event, event.target) || plainKey(event, event.target)) { event.preventDefault(); return; }
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
  const wanted = all(`[data-key="${CSS.escape(event.key)}"]`).find((one) => one.offsetParent !== null);
  if (wanted) { event.preventDefault(); wanted.click(); }
});

document.addEventListener("toggle", (event) => {
  if (event.target.open) for (const content of all("[data-load]:not([data-loaded])", event.target)) load(content);
}, true);
