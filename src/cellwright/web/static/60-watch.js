// Shows others at work: who somebody is, where they are, what changed since somebody looked, what needs a person.

const myself = document.body.dataset.me;
const watching = document.getElementById("watch");
const kept = (name, value) => { try { localStorage.setItem(name, value); } catch { /* it lasts until the page is left */ } };

/** Take in what was put on the page: called with everything new. */
function watched(within) {
  if (watching === null) return;
  for (const name of all("[data-who]", within)) if (name.dataset.who === myself) nameMyself(name);
  for (const other of all("[data-not]", within)) other.hidden = other.dataset.not === myself;
  const cells = within.matches?.(".cell") ? [within] : all(".cell", within);
  for (const cell of cells) lookAt(cell);
  for (const need of all("[data-need]", within)) notify(need);
  if (isFollowing) requestAnimationFrame(scrollToWork);
  requestAnimationFrame(tally);
}

function nameMyself(name) {
  name.textContent = "you";
  const doing = name.parentElement.querySelector(".doing");
  if (doing) doing.textContent = doing.textContent.replace(/^is /, "are ").replace(/^waits /, "wait ");
}

// What changed since somebody looked ----------------------------------------------------------------------------------

const lookedKey = watching && `looked ${watching.dataset.session} ${myself}`;
/** The revision of each cell that was looked at here last; null before the first visit. */
let looked = watching && JSON.parse(stored(lookedKey) || "null");
const isFirstVisit = looked === null;
looked ??= {};

/** The cell that changed last by somebody else. */
let latest = null, latestAt = 0;
let keeping = 0;

function lookAt(cell) {
  const { revision, changedBy, changedAt } = cell.dataset, id = cell.id;
  if (revision === undefined || looked[id] === revision) { markCell(cell, ""); return; }
  if (changedBy === myself || (isFirstVisit && !isReady)) { haveSeen(cell); return; }
  // Cells that changed together come in any order.
  if (Number(changedAt) >= latestAt) { latest = id; latestAt = Number(changedAt); }
  markCell(cell, id in looked ? "changed" : "new");
  inView.observe(cell);
}

function markCell(cell, kind) {
  cell.querySelector(":scope > header > .news")?.remove();
  if (!kind) return;
  const news = Object.assign(document.createElement("span"), { className: "news", textContent: kind, title: `${kind} since you looked` });
  news.dataset.news = kind;
  cell.querySelector(":scope > header").prepend(news);
}

/** Whether an element is as the server sent it before, but for a mark that was put on it here. */
function isSame(old, fresh) {
  const news = old.querySelector(":scope > header > .news");
  news?.remove();
  const same = old.isEqualNode(fresh);
  if (same && news) old.querySelector(":scope > header").prepend(news);
  return same;
}

function haveSeen(cell) {
  looked[cell.id] = cell.dataset.revision;
  markCell(cell, "");
  clearTimeout(keeping);
  keeping = setTimeout(keepLooked, 200);
}

function keepLooked() {
  const there = Object.entries(looked).filter(([id]) => document.getElementById(id));
  kept(lookedKey, JSON.stringify(Object.fromEntries(there)));
}

const SEEN_MS = 1000;

/** A cell was seen that was in view for a moment, in a window that somebody looks at. */
const inView = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) if (isIntersecting) setTimeout(sawCell, SEEN_MS, target);
}, { threshold: 0, rootMargin: "-15% 0px -15% 0px" });

function sawCell(cell) {
  if (!cell.isConnected) { inView.unobserve(cell); return; }
  const { top, bottom } = cell.getBoundingClientRect();
  if (document.hidden || bottom < 0 || top > innerHeight) return;
  inView.unobserve(cell);
  haveSeen(cell);
  tally();
}

document.addEventListener("visibilitychange", () => { for (const news of all(".news")) inView.observe(news.closest(".cell")); });

const below = document.getElementById("below");
const newBelow = () => all(".news[data-news=new]").map((news) => news.closest(".cell")).filter((cell) => cell.getBoundingClientRect().top > innerHeight);

/** Say how many new cells there are below what is in view. */
function tally() {
  const count = newBelow().length;
  below.hidden = count === 0;
  if (count) below.textContent = `${count} new cell${count === 1 ? "" : "s"} ↓`;
}

// Following -----------------------------------------------------------------------------------------------------------

let isFollowing = false, isReady = false;
const followButton = document.getElementById("follow");

function setFollowing(wanted) {
  isFollowing = wanted;
  followButton.setAttribute("aria-pressed", String(wanted));
  if (wanted) scrollToWork();
}

function scrollToWork() {
  const cell = all("#cells .state.running").at(-1)?.closest(".cell") ?? document.getElementById(latest);
  if (!cell || document.activeElement.closest("[data-editing]")) return;
  // Of one that is taller than the window its end: there it grows.
  cell.scrollIntoView({ block: cell.offsetHeight > innerHeight * 0.7 ? "end" : "nearest" });
}

function scrolledByHand() {
  if (!isFollowing) return;
  setFollowing(false);
  say("You scrolled: no longer following");
}

const SCROLLS = new Set(["PageUp", "PageDown", "Home", "End", "ArrowUp", "ArrowDown", " "]);

function watch() {
  followButton.hidden = false;
  followButton.addEventListener("click", () => setFollowing(!isFollowing));
  below.addEventListener("click", () => {
    const [cell] = newBelow();
    cell?.scrollIntoView({ block: "center" });
    cell?.focus({ preventScroll: true });
  });
  addEventListener("wheel", scrolledByHand, { passive: true });
  addEventListener("touchmove", scrolledByHand, { passive: true });
  addEventListener("pointerdown", (event) => { if (event.clientX >= root.clientWidth) scrolledByHand(); });
  addEventListener("keydown", (event) => { if (SCROLLS.has(event.key) && !event.target.closest("button, input, textarea, select, [contenteditable]")) scrolledByHand(); });
  addEventListener("scroll", () => requestAnimationFrame(tally), { passive: true });
  document.addEventListener("focusin", (event) => tellWriting(event.target.closest("#cells .editor[data-editing]")?.closest(".cell")));
  document.addEventListener("focusout", () => tellWriting(null));
  offerNotifications();
}

// Telling the others where one writes ---------------------------------------------------------------------------------

let writingIn = "", toldWriting = "", tellingWriting = 0;

function tellWriting(cell) {
  writingIn = cell?.id.replace(/^cell-/, "") ?? "";
  clearTimeout(tellingWriting);
  // Whoever goes from one field to the next of a cell has not left it.
  tellingWriting = setTimeout(() => {
    if (writingIn === toldWriting) return;
    toldWriting = writingIn;
    const body = new URLSearchParams({ cell: writingIn });
    ask(`/sessions/${watching.dataset.session}/writes`, { method: "POST", body }).catch(() => { toldWriting = ""; });
  }, 250);
}

// What needs a person -------------------------------------------------------------------------------------------------

function offerNotifications() {
  const button = document.getElementById("notify");
  button.hidden = !("Notification" in window) || Notification.permission !== "default" || stored("notify") !== null;
  button.addEventListener("click", async () => {
    button.hidden = true;
    kept("notify", await Notification.requestPermission());
  });
}

function notify(need) {
  const about = `need ${watching.dataset.session} ${need.dataset.need}`;
  if (need.dataset.for && need.dataset.for !== myself) { need.removeAttribute("role"); return; }
  if (sessionStorage.getItem(about) || !("Notification" in window) || Notification.permission !== "granted") return;
  if (document.hasFocus() && !document.hidden) return;
  sessionStorage.setItem(about, "told");
  const notice = new Notification(document.title, { body: need.textContent.trim(), tag: about });
  notice.onclick = () => { window.focus(); location.hash = need.dataset.at ?? need.querySelector("a").getAttribute("href"); };
}

if (watching) watch();
