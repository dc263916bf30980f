// Follows the stream that sends parts of the page when they change.

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
