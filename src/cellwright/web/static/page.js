// What the page does by itself. HTML says what is wanted in attributes:
//   data-live="URL"       on <main>: parts of the page are sent again from there when they change; data-seq: from where on
//   data-load="URL"       an element's content is loaded when it is first seen, and again when a data-touched around it is touched
//   data-within           a link or a form changes what the data-load around it has loaded, instead of leaving the page
//   data-again            what was loaded is loaded again every ten seconds, while somebody looks
//   data-deed             a form is sent without leaving the page; the answer says what to show; data-sure asks first;
//                         data-once sends no second one before it; the data-closes around it is closed after it
//   data-edit             opens the .editor that it is in or belongs to; data-leave saves and closes it, data-discard closes it
//   data-row              arrow keys go to the element before or after, Enter opens its editor
//   data-zoom             a picture opens larger, or the one in the element with this id
//   data-chart            is drawn from the specification in it; data-save="png" or "svg" saves it
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

/** Of an editor that somebody writes in: what would stand in its place. */
const fresher = new WeakMap();

/** Put a part in the place of the element with its id. What a person has open, edits or looks at stays as it was. */
function place(id, html) {
  const old = document.getElementById(id);
  if (old === null) return;
  if (html === null) { old.remove(); return; }
  const fresh = made(html).firstElementChild;
  if (fresh !== null && !old.isEqualNode(fresh) && !sameOrder(old, fresh)) swap(old, fresh);
}

function swap(old, fresh) {
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  keep(old, fresh);
  old.replaceWith(fresh);
  wake(fresh);
  refocus(fresh, focused);
}

/** Whether a list says only which of its elements are where, and they are there: moving them would load their frames again. */
function sameOrder(old, fresh) {
  const order = (list) => [...list.children].map((one) => one.id).join();
  return fresh.querySelector(":scope > [data-same]") !== null && order(old) === order(fresh);
}

function made(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

/** Put parts where they belong; of a name with an @ the panels are loaded again. */
function show(parts) {
  // First what is where, then how it looks.
  const entries = Object.entries(parts).sort(([one], [other]) => (other === "cells") - (one === "cells"));
  for (const [id, html] of entries) {
    if (id.startsWith("@")) touch(id.slice(1)); else place(id, html);
  }
}

/** Carry over what the server does not know. */
function keep(old, fresh) {
  for (const same of all("[data-same]", fresh)) {
    const before = document.getElementById(same.id);
    if (before) same.replaceWith(before);
  }
  for (const before of all("[data-editing]", old)) {
    const after = fresh.querySelector(`#${CSS.escape(before.id)}`);
    if (after) { after.replaceWith(before); fresher.set(before, after); }
  }
  for (const before of all("details[id]", old)) {
    const after = fresh.querySelector(`details#${CSS.escape(before.id)}`);
    if (after) after.open = before.open;
  }
  for (const before of all("[data-load][data-loaded][id]", old)) {
    const after = fresh.querySelector(`#${CSS.escape(before.id)}`);
    if (after && after.dataset.load === before.dataset.load) after.replaceWith(before);
  }
}

/** What tells a summary, a button or a box from the others beside it. */
const said = (element) => element.getAttribute("aria-label") ?? [element.name, element.textContent].join();

function refocus(fresh, focused) {
  if (focused === null) return;
  // What was carried over lost the focus on its way.
  if (focused.isConnected) { focused.focus({ preventScroll: true }); return; }
  const home = document.getElementById(focused.closest("[id]")?.id) ?? fresh;
  const same = focused.id ? document.getElementById(focused.id) : all(focused.localName, home).find((one) => said(one) === said(focused));
  (same?.offsetParent ? same : fresh.closest("[tabindex]") ?? fresh).focus({ preventScroll: true });
}

// Live ----------------------------------------------------------------------------------------------------------------

// A button that is moved while it is pressed hears no click, and text that is being marked is no longer marked.
let isPointerDown = false;
const held = [];
const whenReleased = (work) => { if (isPointerDown) held.push(work); else work(); };

function release() {
  isPointerDown = false;
  for (const work of held.splice(0)) work();
}

addEventListener("pointerdown", () => { isPointerDown = true; }, true);
// A click comes after its pointer is up.
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => setTimeout(release), true);
addEventListener("blur", release);
addEventListener("pointermove", (event) => { if (isPointerDown && event.buttons === 0) release(); }, true);

/** The last event that the stream has told of. */
let heard = 0;

function follow(main) {
  let stream = null, lost = 0;
  heard = Number(main.dataset.seq);
  const link = document.getElementById("link");
  const connect = () => {
    stream = new EventSource(`${main.dataset.live}?since=${heard}&${main.dataset.query || ""}`);
    stream.onopen = () => {
      if (lost) say("Connected again");
      lost = 0;
      link.hidden = true;
      all("[data-failed]").forEach(load);
    };
    stream.addEventListener("parts", (event) => whenReleased(() => {
      if (event.lastEventId) heard = Number(event.lastEventId);
      show(JSON.parse(event.data).parts);
    }));
    stream.onerror = () => { stream.close(); retry(); };
  };
  const retry = () => {
    lost += 1;
    link.textContent = "Connection lost: trying again" + (lost > 5 ? ". If it stays so, run cellwright ui" : "");
    link.hidden = false;
    setTimeout(() => look().then(connect, retry), Math.min(500 * 2 ** Math.min(lost - 1, 4), 5000));
  };
  // Asked before, since a stream cannot tell that somebody is no longer signed in, or that what they look at is gone.
  const look = async () => {
    await ask("/here");
    if (lost < 3 || (await ask(location.href, { method: "HEAD" })).status !== 404) return;
    link.textContent = "This is no longer here";
    await new Promise(() => {});
  };
  connect();
  addEventListener("pagehide", () => stream.close());
  addEventListener("pageshow", (event) => { if (event.persisted) connect(); });
}

function touch(name) {
  for (const element of all(`[data-touched~="${CSS.escape(name)}"]`)) {
    for (const content of all("[data-load]", element)) {
      if (!content.dataset.loaded) continue;
      if (content.closest("details:not([open])")) delete content.dataset.loaded; else load(content);
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

const loaded = new WeakMap();

function fill(element, html) {
  const fresh = made(html);
  const focused = element.contains(document.activeElement) ? document.activeElement : null;
  keep(element, fresh);
  element.replaceChildren(fresh);
  wake(element);
  refocus(element, focused);
}

/** Show something else of what an element has loaded. */
function turn(inside, url) {
  const element = inside.closest("[data-load]");
  element.dataset.at = url;
  load(element);
}

async function load(element) {
  element.dataset.loaded = "yes";
  // One at a time: of two answers the later one need not be the newer.
  if (element.hasAttribute("aria-busy")) { element.dataset.behind = "yes"; return; }
  element.setAttribute("aria-busy", "true");
  try {
    const answer = await ask(element.dataset.at ?? element.dataset.load);
    if (!answer.ok) throw new Error(`It could not be loaded (${answer.status})`);
    const html = await answer.text();
    if (loaded.get(element) !== html) fill(element, html);
    loaded.set(element, html);
    delete element.dataset.failed;
  } catch (error) {
    loaded.delete(element);
    element.dataset.failed = "yes";
    if (element.querySelector("[data-editing]")) say(error.message, true); else element.textContent = error.message;
  } finally {
    element.removeAttribute("aria-busy");
    if (element.dataset.behind) { delete element.dataset.behind; load(element); }
  }
}

const written = (editor) => (editor.matches(".editor") ? editor.querySelector("textarea") : editor);

/** What was sent is saved, and shown as it is now. Letters typed since then stay, and are a change of what was saved. */
function settle(editor, sent) {
  const now = fresher.get(editor), text = written(editor);
  if (text.value !== sent) {
    const version = now?.querySelector("[name=version]");
    if (version) editor.querySelector("[name=version]").value = version.value;
    text.defaultValue = sent;
    return;
  }
  delete editor.dataset.editing;
  if (now) swap(editor, now); else text.value = text.defaultValue;
}

async function send(form, button) {
  if (form.dataset.sending || (form.dataset.sure && !confirm(form.dataset.sure))) return;
  const data = new URLSearchParams(new FormData(form, button));
  // Until the answer is there the stream may have put another form in this one's place, with the same editors in it.
  const edited = all("[data-editing]", form).map((editor) => [editor, written(editor).value]);
  if (button) button.disabled = true;
  if (form.hasAttribute("data-once")) form.dataset.sending = "yes";
  try {
    const answer = await ask(button?.formAction && button.hasAttribute("formaction") ? button.formAction : form.action, { method: "POST", body: data });
    const told = await answer.json();
    const refused = !answer.ok || told.error;
    if (refused) say([told.error, told.hint].filter(Boolean).join("\n"), true);
    say(told.say);
    if (!refused) document.getElementById(form.closest(".menu, [data-closes]")?.id)?.removeAttribute("open");
    // An answer may come later than what the stream has told since.
    if (told.upto == null || told.upto >= heard) show(told.parts ?? {});
    if (!refused) for (const [editor, sent] of edited) settle(editor, sent);
    if (told.go?.startsWith("#")) document.getElementById(told.go.slice(1))?.focus();
    else if (told.go) location.assign(told.go);
  } catch {
    say("It could not be sent: there is no connection", true);
  } finally {
    if (button) button.disabled = false;
    delete form.dataset.sending;
  }
}

// Charts --------------------------------------------------------------------------------------------------------------

let drawer = null;
const isDark = () => getComputedStyle(root).colorScheme === "dark";

async function draw(chart) {
  chart.dataset.drawn = "no";
  drawer ??= new Promise((done, failed) => {
    document.head.append(Object.assign(document.createElement("script"), { src: document.body.dataset.vega, onload: done, onerror: failed }));
  });
  try {
    await drawer.catch((error) => { drawer = null; throw error; });
    const spec = JSON.parse(chart.querySelector("script").textContent);
    if (isDark() && chart.dataset.dark) spec.config = JSON.parse(chart.dataset.dark);
    // What the policy of the page forbids, Vega is told not to do: style sheets of its own, compiled expressions, fetching.
    const loader = { load: () => Promise.reject(new Error("Nothing is fetched")), sanitize: () => Promise.reject(new Error("Nothing is linked")) };
    const options = { actions: false, renderer: "svg", ast: true, defaultStyle: false, loader, tooltip: { disableDefaultStyle: true } };
    chart.view = (await vegaEmbed(chart.querySelector("[data-stage]"), spec, options)).view;
    chart.dataset.drawn = "yes";
  } catch { /* its picture stays */ }
}

async function save(chart, kind) {
  const href = await chart.view.toImageURL(kind, 2);
  Object.assign(document.createElement("a"), { href, download: `chart.${kind}` }).click();
}

// What a person does --------------------------------------------------------------------------------------------------

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
  if (pressed(event, event.target)) { event.preventDefault(); return; }
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
  for (const chart of all("[data-chart]:not([data-drawn])", within)) draw(chart);
  count(within);
}

function count(within) {
  for (const clock of all("[data-since]", within)) clock.textContent = `${Math.max(0, Date.now() / 1000 - clock.dataset.since).toFixed(0)} s`;
}

setInterval(() => count(document), 1000);

setInterval(() => {
  // Without a connection what was loaded last is better than nothing.
  if (document.hidden || !document.getElementById("link").hidden) return;
  for (const content of all("[data-again][data-loaded]")) load(content);
}, 10000);

/** An address may name something that is folded away. */
function unfold() {
  const named = document.getElementById(location.hash.slice(1));
  if (named?.matches("details")) named.open = true;
}

addEventListener("hashchange", unfold);
unfold();
wake(document);
const main = document.querySelector("main[data-live]");
if (main) follow(main);
