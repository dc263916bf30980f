// What the page does by itself. HTML says what is wanted in attributes:
//   data-live="URL"       on <main>: parts of the page are sent again from there when they change; data-seq: from where on
//   data-load="URL"       an element's content is loaded when it is first seen, and again when a data-touched around it is touched
//   data-deed             a form is sent without leaving the page; the answer says what to show; data-sure asks first
//   data-edit             a coloured text gives way to the textarea after it
//   data-zoom             a picture or chart opens larger
//   data-key="x"          a key presses this button or follows this link
//   data-since="seconds"  shows how long ago that was, counting
//   data-theme-switch     light or dark
"use strict";

const root = document.documentElement;
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const stored = (name) => { try { return localStorage.getItem(name); } catch { return null; } };
if (stored("theme")) root.dataset.theme = stored("theme");

// Saying things -------------------------------------------------------------------------------------------------------

function say(text, problem = false) {
  if (!text) return;
  const line = document.createElement("p");
  line.textContent = text;
  if (problem) line.className = "problem";
  document.getElementById("says").append(line);
  setTimeout(() => line.remove(), problem ? 12000 : 4000);
}

// Parts of the page ---------------------------------------------------------------------------------------------------

/** Put a part in the place of the element with its id. What a person has open, edits or looks at stays as it was. */
function place(id, html) {
  const old = document.getElementById(id);
  if (old === null) return;
  if (html === null) { old.remove(); return; }
  const made = document.createElement("template");
  made.innerHTML = html;
  const fresh = made.content.firstElementChild;
  if (fresh === null || old.isEqualNode(fresh)) return;
  keep(old, fresh);
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  old.replaceWith(fresh);
  wake(fresh);
  if (focused && !focused.isConnected) refocus(fresh, focused);
}

/** Carry over what the server does not know. */
function keep(old, fresh) {
  for (const same of all("[data-same]", fresh)) {
    const before = document.getElementById(same.id);
    if (before) same.replaceWith(before);
  }
  for (const before of all("[data-editing]", old)) {
    const after = fresh.querySelector(`#${CSS.escape(before.id)}`);
    if (after) after.replaceWith(before);
  }
  for (const before of all("details[id]", old)) {
    const after = fresh.querySelector(`details#${CSS.escape(before.id)}`);
    if (after) after.open = before.open;
  }
  for (const before of all("[data-load][data-loaded]", old)) {
    const after = fresh.querySelector(`#${CSS.escape(before.id)}`);
    if (after && after.dataset.load === before.dataset.load) after.replaceWith(before);
  }
}

function refocus(fresh, focused) {
  const name = focused.getAttribute("aria-label");
  const same = focused.id ? document.getElementById(focused.id)
    : name && fresh.querySelector(`[aria-label="${CSS.escape(name)}"]`);
  (same || fresh).focus({ preventScroll: true });
}

// Live ----------------------------------------------------------------------------------------------------------------

function follow(main) {
  let seq = main.dataset.seq, stream = null, lost = 0;
  const link = document.getElementById("link");
  const connect = () => {
    stream = new EventSource(`${main.dataset.live}?since=${seq}`);
    stream.onopen = () => { if (lost) say("Connected again"); lost = 0; link.hidden = true; };
    stream.addEventListener("parts", (event) => {
      if (event.lastEventId) seq = event.lastEventId;
      const parts = Object.entries(JSON.parse(event.data).parts);
      // First what is where, then how it looks.
      parts.sort(([one], [other]) => (other === "cells") - (one === "cells"));
      for (const [id, html] of parts) {
        if (id.startsWith("@")) touch(id.slice(1)); else place(id, html);
      }
    });
    stream.onerror = () => { stream.close(); retry(); };
  };
  const retry = () => {
    lost += 1;
    link.textContent = "Connection lost: trying again" + (lost > 5 ? ". If it stays so, run cellwright ui" : "");
    link.hidden = false;
    // Asked before, since a stream cannot tell that somebody is no longer signed in.
    setTimeout(() => ask("/here").then(connect, retry), Math.min(500 * 2 ** Math.min(lost - 1, 4), 5000));
  };
  connect();
  addEventListener("pagehide", () => stream.close());
  addEventListener("pageshow", (event) => { if (event.persisted) connect(); });
}

function touch(name) {
  for (const element of all(`[data-touched~="${CSS.escape(name)}"]`)) {
    for (const content of all("[data-load]", element)) {
      if (element.open === false) delete content.dataset.loaded; else load(content);
    }
  }
}

// Loading and doing ---------------------------------------------------------------------------------------------------

async function ask(url, options = {}) {
  const csrf = document.querySelector("meta[name=csrf]").content;
  const answer = await fetch(url, { ...options, headers: { "x-cellwright-page": csrf } });
  if (answer.redirected && new URL(answer.url).pathname === "/enter") location.assign(`/enter?next=${encodeURIComponent(location.pathname + location.search)}`);
  return answer;
}

async function load(element) {
  element.dataset.loaded = "yes";
  element.setAttribute("aria-busy", "true");
  try {
    const answer = await ask(element.dataset.load);
    if (!answer.ok) throw new Error(`It could not be loaded (${answer.status})`);
    const html = await answer.text();
    if (element.innerHTML !== html) { element.innerHTML = html; wake(element); }
  } catch (error) {
    element.textContent = error.message;
  } finally {
    element.removeAttribute("aria-busy");
  }
}

async function send(form, button) {
  if (form.dataset.sure && !confirm(form.dataset.sure)) return;
  const data = new URLSearchParams(new FormData(form, button));
  if (button) button.disabled = true;
  try {
    const answer = await ask(button?.formAction && button.hasAttribute("formaction") ? button.formAction : form.action, { method: "POST", body: data });
    const told = await answer.json();
    if (!answer.ok) { say([told.error, told.hint].filter(Boolean).join("\n"), true); return; }
    for (const editor of all("[data-editing]", form)) delete editor.dataset.editing;
    say(told.say);
    for (const [id, html] of Object.entries(told.parts)) place(id, html);
    if (told.go) location.assign(told.go);
  } catch {
    say("It could not be sent: there is no connection", true);
  } finally {
    if (button) button.disabled = false;
  }
}

// What a person does --------------------------------------------------------------------------------------------------

document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-deed]")) return;
  event.preventDefault();
  send(event.target, event.submitter);
});

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-theme-switch]")) {
    const dark = getComputedStyle(root).colorScheme === "dark";
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* it lasts until the page is left */ }
  }
  const zoomed = event.target.closest("[data-zoom]");
  if (zoomed) {
    const dialog = document.getElementById("zoom");
    dialog.querySelector("div").replaceChildren(zoomed.querySelector("img, svg, canvas").cloneNode(true));
    dialog.showModal();
  }
});

document.addEventListener("input", (event) => {
  if (event.target.matches("textarea[id]")) event.target.dataset.editing = "yes";
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.shiftKey || event.ctrlKey) && event.target.matches("form[data-deed] textarea")) {
    event.preventDefault();
    event.target.form.requestSubmit();
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
  const wanted = all(`[data-key="${CSS.escape(event.key)}"]`).find((one) => one.offsetParent !== null);
  if (wanted) { event.preventDefault(); wanted.click(); }
});

document.addEventListener("toggle", (event) => {
  if (event.target.open) for (const content of all("[data-load]:not([data-loaded])", event.target)) load(content);
}, true);

const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (isIntersecting && !target.dataset.loaded) { seen.unobserve(target); load(target); }
  }
});

/** Bring new elements to life. */
function wake(within) {
  for (const element of all("[data-load]:not([data-loaded])", within)) seen.observe(element);
}

setInterval(() => {
  for (const clock of all("[data-since]")) clock.textContent = `${Math.max(0, Date.now() / 1000 - clock.dataset.since).toFixed(0)} s`;
}, 1000);

wake(document);
const main = document.querySelector("main[data-live]");
if (main) follow(main);
