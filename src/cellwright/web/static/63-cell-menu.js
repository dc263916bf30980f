// The menu of a cell, made when it is opened, and what the mouse does: choosing several, adding between, dragging.

const MENU = {
  "up": () => moveBy("up"),
  "down": () => moveBy("down"),
  "cut": COMMANDS.x,
  "copy": copy,
  "paste": () => paste("below"),
  "fold-source": () => fold("source"),
  "fold-outputs": () => fold("outputs"),
  "kind": () => kind(current().matches(".code") ? "markdown" : "code"),
  "format": () => format(),
  "run-above": () => change("run", { before: idOf(current()) }),
  "run-from": () => change("run", { since: idOf(current()) }),
  "delete": remove,
};

/** Format what is chosen; a source that is being written is saved first. */
async function format() {
  const list = chosen();
  for (const cell of list) {
    if (editorOf(cell).dataset.editing) await leave(editorOf(cell));
  }
  await change("edits/format", { ids: ids(list) });
}

/** What of a menu depends on the cell's language. */
function fillMenu(menu) {
  const { language } = cellOf(menu).dataset;
  const format = menu.querySelector("[data-languages]");
  format.hidden = language === "markdown";
  format.disabled = !format.dataset.languages.split(" ").includes(language);
  format.textContent = format.disabled
    ? `Format: none for ${language}`
    : "Format";
}

function fillComment(details, cell) {
  const form = details.querySelector("form"),
    area = form.querySelector("textarea");
  form.action = `${sessionUrl()}/cells/${idOf(cell)}/comments`;
  area.id = `comment-text-${idOf(cell)}`;
  area.setAttribute("aria-label", labelOf(details.firstElementChild));
}

// A menu or a form that is opened is made then, in the place of its button: each cell would carry it for nothing, and to a
// browser a details element is as much as a dozen others.

const labelOf = (element) => element.getAttribute("aria-label");

/** Of what was opened the button that stands there otherwise. */
const closed = new WeakMap();

function openInstead(button) {
  const details = document.createElement("details"),
    summary = document.createElement("summary"),
    cell = cellOf(button);
  const { opens, needs } = button.dataset;
  details.id = button.id;
  details.className = button.className;
  Object.assign(details.dataset, { opened: opens, closes: "" }, needs && { needs });
  summary.textContent = button.textContent;
  summary.setAttribute("aria-label", labelOf(button));
  const content = document.getElementById(opens).content.cloneNode(true);
  details.append(summary, content);
  closed.set(details, button);
  button.replaceWith(details);
  if (opens === "cell-menu") fillMenu(details);
  else fillComment(details, cell);
  details.open = true;
  summary.focus();
}

/** Keep what is open where the server has sent its button anew. */
function carryOpened(details, fresh) {
  const button = fresh.querySelector(`#${CSS.escape(details.id)}`);
  if (!button) return;
  closed.set(details, button);
  details.firstElementChild.setAttribute("aria-label", labelOf(button));
  button.replaceWith(details);
}

/** What is closed is its button again, unless something was written there. */
function closeOpened(details) {
  if (all("textarea", details).some((area) => area.value)) return;
  const button = closed.get(details),
    hadKeyboard = details.contains(document.activeElement);
  button.setAttribute("aria-label", labelOf(details.firstElementChild));
  details.replaceWith(button);
  if (hadKeyboard) button.focus();
}

document.addEventListener("toggle", ({ target }) => {
  if (target.matches?.("#cells details[data-opened]:not([open])")) {
    closeOpened(target);
  }
}, true);

document.addEventListener("click", (event) => {
  const opens = event.target.closest("#cells [data-opens]");
  if (opens) openInstead(opens);
  const button = event.target.closest("#cells [data-command]:not(form)");
  if (button) {
    const cell = cellOf(button);
    button.closest(".menu").open = false;
    if (!picked.has(cell.id)) unpick();
    cell.focus({ preventScroll: true });
    inOrder(MENU[button.dataset.command]);
  }
  const several = event.target.closest(".toolbar [data-command]");
  if (several) {
    several.closest(".menu").open = false;
    if (current()) inOrder(MENU[several.dataset.command]);
    else say("Choose a cell first: click its number", true);
  }
  const between = event.target.closest("[data-insert]");
  if (between) {
    const cell = cellOf(between);
    // What is typed from now on is for the new cell.
    cell.focus({ preventScroll: true });
    inOrder(async () =>
      opened(await add("below", between.dataset.insert, cell))
    );
  }
  const general = event.target.closest(".book > .tools [data-press]");
  if (general) inOrder(COMMANDS[general.dataset.press]);
  const place = event.target.closest("#cells .place");
  if (place) {
    const cell = cellOf(place);
    if (event.shiftKey && current()) {
      pick(document.getElementById(anchor) ?? current(), cell);
    } else unpick();
    goTo(cell);
  }
});

document.addEventListener("submit", (event) => {
  if (event.target.matches("#add")) {
    event.preventDefault();
    const last = allCells().at(-1);
    const what = new FormData(event.target).get("kind");
    // What is typed from now on is for the new cell.
    if (last) last.focus({ preventScroll: true });
    else document.activeElement.blur();
    inOrder(async () => opened(await add("below", what, last)));
  }
  if (!event.target.matches("#cells [data-command=add]")) return;
  event.preventDefault();
  const cell = cellOf(event.target),
    where = event.submitter.value,
    what = new FormData(event.target).get("kind");
  event.target.closest(".menu").open = false;
  inOrder(() => add(where, what, cell));
});

// Adding between two cells: one pair of buttons, which follows the mouse and the keyboard.

const inserter = made(
  `<p class="insert" data-needs="run"><button type="button" data-insert="code">+ Code</button><button type="button" data-insert="markdown">+ Text</button></p>`,
).firstElementChild;

for (const kind of ["mouseover", "focusin"]) {
  document.addEventListener(kind, (event) => {
    const cell = cellOf(event.target);
    if (
      cell && mayEdit() && inserter.parentElement !== cell &&
      !inserter.contains(document.activeElement)
    ) cell.append(inserter);
  });
}

// Dragging a cell by its number, with those that are chosen with it.

let dragged = null;

document.addEventListener("dragstart", (event) => {
  if (!event.target.matches?.("#cells .place")) return;
  const cell = cellOf(event.target);
  dragged = picked.has(cell.id) ? chosen() : [cell];
  event.dataTransfer.setData("text/plain", "");
  event.dataTransfer.effectAllowed = "move";
});

const over = (event) => (dragged ? cellOf(event.target) : null);
const isBelow = (event, cell) => {
  const { top, height } = cell.getBoundingClientRect();
  return event.clientY > top + height / 2;
};

function showDrop(cell, below) {
  for (const one of all(".drop-above, .drop-below", cells())) {
    one.classList.remove("drop-above", "drop-below");
  }
  cell?.classList.add(below ? "drop-below" : "drop-above");
}

document.addEventListener("dragover", (event) => {
  const cell = over(event);
  if (!cell) return;
  event.preventDefault();
  showDrop(cell, isBelow(event, cell));
});

document.addEventListener("drop", (event) => {
  const cell = over(event);
  if (!cell) return;
  event.preventDefault();
  const list = dragged, before = isBelow(event, cell) ? beside(cell, 1) : cell;
  inOrder(() =>
    change("edits/move", { ids: ids(list), before: before ? idOf(before) : "" })
  );
});

document.addEventListener("dragend", () => {
  dragged = null;
  if (cells()) showDrop(null);
});
