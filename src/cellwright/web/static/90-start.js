// Brings the page to life.

const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (isIntersecting && !target.dataset.loaded) { seen.unobserve(target); load(target); }
  }
});

/** Bring new elements to life. */
function wake(within) {
  for (const element of all("[data-load]:not([data-loaded])", within)) seen.observe(element);
  for (const without of shut(within)) near.observe(without.parentElement);
  for (const chart of all("[data-chart]:not([data-drawn])", within)) draw(chart);
  watched(within);
  for (const menu of all("#cells .menu[open]", within)) fillMenu(menu);
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
isReady = true;
const main = document.querySelector("main[data-live]");
if (main) follow(main);
// Loaded while nobody waits for it.
if (cells() && mayEdit()) (globalThis.requestIdleCallback ?? setTimeout)(() => editorLibrary());
