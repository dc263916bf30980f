// Puts parts of the page in place, and carries over what a person has open or writes.

/** Of an editor that somebody writes in: what would stand in its place. */
const fresher = new WeakMap();

/** Put a part in the place of the element with its id. What a person has open, edits or looks at stays as it was. */
function place(id, html) {
  const old = document.getElementById(id);
  if (old === null) return;
  if (html === null) {
    rescue(old);
    old.remove();
    return;
  }
  const fresh = made(html).firstElementChild;
  if (fresh !== null) openSameFrames(old, fresh);
  if (fresh !== null && !isSame(old, fresh) && !sameOrder(old, fresh)) {
    swap(old, fresh);
  }
}

function swap(old, fresh) {
  if (swapAround(old, fresh) || swapAroundFrames(old, fresh)) return;
  if (old.id === "cells") {
    for (
      const cell of old.children
    ) if (!fresh.querySelector(`#${CSS.escape(cell.id)}`)) rescue(cell);
  }
  const focused = old.contains(document.activeElement)
    ? document.activeElement
    : null;
  keep(old, fresh);
  old.replaceWith(fresh);
  wake(fresh);
  refocus(fresh, focused);
}

/** Of a cell that somebody writes in all but what is written: an editor that is moved loses its keyboard for a moment. */
function swapAround(old, fresh) {
  const writing = old.matches("article.cell") &&
    old.querySelector(":scope > form > .editor[data-editing]");
  const after = writing && fresh.querySelector(`#${CSS.escape(writing.id)}`);
  if (!after) return false;
  const [form, place] = [writing.parentElement, after.parentElement];
  const focused = document.activeElement;
  fresher.set(writing, after);
  place.replaceWith(place.cloneNode());
  keep(old, fresh);
  for (const { name, value } of fresh.attributes) old.setAttribute(name, value);
  const parts = [...fresh.childNodes],
    split = parts.findIndex((part) => part.id === form.id);
  form.setAttribute("action", parts[split].getAttribute("action"));
  for (const part of [...old.childNodes]) if (part !== form) part.remove();
  form.before(...parts.slice(0, split));
  form.after(...parts.slice(split + 1));
  wake(old);
  if (document.activeElement !== focused) refocus(old, focused);
  return true;
}

/** Whether a list says only which of its elements are where, and they are there: moving them would load their frames again. */
function sameOrder(old, fresh) {
  const order = (list) => [...list.children].map((one) => one.id).join();
  return fresh.querySelector(":scope > [data-same]") !== null &&
    order(old) === order(fresh);
}

function made(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  // What is for browsers without scripts is text here, as it is on a page that was loaded.
  for (const without of all("noscript", template.content)) without.textContent = without.innerHTML;
  return template.content;
}

/** Put parts where they belong; of a name with an @ the panels are loaded again. */
function show(parts) {
  // First what is where, then how it looks.
  const entries = Object.entries(parts).sort(([one], [other]) =>
    (other === "cells") - (one === "cells")
  );
  for (const [id, html] of entries) {
    if (id.startsWith("@")) touch(id.slice(1));
    else place(id, html);
  }
  renumber();
}

/** Carry over what the server does not know. */
function keep(old, fresh) {
  for (const same of all("[data-same]", fresh)) {
    const before = document.getElementById(same.id);
    if (before) same.replaceWith(before);
  }
  for (const before of all("[data-editing]", old)) {
    const after = fresh.querySelector(`#${CSS.escape(before.id)}`);
    if (after) {
      after.replaceWith(before);
      fresher.set(before, after);
    }
  }
  for (const before of all("details[data-opened]", old)) carryOpened(before, fresh);
  for (const before of all("details[id]", old)) {
    const after = fresh.querySelector(`details#${CSS.escape(before.id)}`);
    if (after) after.open = before.open;
  }
  for (const before of all("[data-load][data-loaded][id]", old)) {
    const after = fresh.querySelector(`#${CSS.escape(before.id)}`);
    if (after && after.dataset.load === before.dataset.load) {
      after.replaceWith(before);
    }
  }
}

/** What tells a summary, a button or a box from the others beside it. */
const said = (element) =>
  element.getAttribute("aria-label") ??
    [element.name, element.textContent].join();

function refocus(fresh, focused) {
  if (focused === null) return;
  // What was carried over lost the focus on its way.
  if (focused.isConnected) {
    focused.focus({ preventScroll: true });
    return;
  }
  const home = document.getElementById(focused.closest("[id]")?.id) ?? fresh;
  const same = focused.id
    ? document.getElementById(focused.id)
    : all(focused.localName, home).find((one) => said(one) === said(focused));
  (same?.offsetParent ? same : fresh.closest("[tabindex]") ?? fresh).focus({
    preventScroll: true,
  });
}
