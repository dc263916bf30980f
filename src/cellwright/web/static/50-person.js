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
  if (wanted && !event.target.closest("a, summary") && getSelection().isCollapsed) {
    inOrder(() => edit(cellOf(wanted), wanted.matches("button") ? null : { x: event.clientX, y: event.clientY }));
  }
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
  if (event.target.matches("textarea[id], input[id]") && !event.target.closest(".editor")) event.target.dataset.editing = "yes";
});

document.addEventListener("change", (event) => {
  if (event.target.matches("form[data-within] select")) event.target.form.requestSubmit();
});

document.addEventListener("keydown", (event) => {
  const { target } = event;
  if (plainKey(event, target)) { event.preventDefault(); return; }
  if (event.key === "Enter" && (event.shiftKey || event.ctrlKey) && target.matches("form[data-deed] textarea")) {
    event.preventDefault();
    target.form.requestSubmit();
  }
  if (event.ctrlKey || event.metaKey || event.altKey || target.matches("input, textarea, select, [contenteditable]")) return;
  const wanted = all(`[data-key="${CSS.escape(event.key)}"]`).find((one) => one.offsetParent !== null);
  if (wanted) { event.preventDefault(); wanted.click(); }
});

document.addEventListener("toggle", (event) => {
  if (event.target.open) for (const content of all("[data-load]:not([data-loaded])", event.target)) load(content);
}, true);
