// Loads content into the page, and sends forms.

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
  element.scrollTop = 0;
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
  closeEditor(editor);
  if (now) swap(editor, now); else text.value = text.defaultValue;
}

/** Send something and show what comes of it; what the server answered, or nothing where it could not be reached. */
async function post(url, body) {
  try {
    const answer = await ask(url, { method: "POST", body });
    const told = await answer.json();
    if (!answer.ok) told.error ??= "It was refused";
    take(told);
    return told;
  } catch {
    say("It could not be sent: there is no connection", true);
    return null;
  }
}

function take(told, settled = () => {}) {
  if (told.error) say([told.error, told.hint].filter(Boolean).join("\n"), true);
  say(told.say);
  // An answer may come later than what the stream has told since.
  if (told.upto == null || told.upto >= heard) show(told.parts ?? {});
  settled();
  if (told.go?.startsWith("#")) document.getElementById(told.go.slice(1))?.focus();
  else if (told.go) location.assign(told.go);
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
    if (!answer.ok) told.error ??= "It was refused";
    if (!told.error) document.getElementById(form.closest(".menu, [data-closes]")?.id)?.removeAttribute("open");
    take(told, () => { if (!told.error) for (const [editor, sent] of edited) settle(editor, sent); });
  } catch {
    say("It could not be sent: there is no connection", true);
  } finally {
    if (button) button.disabled = false;
    delete form.dataset.sending;
  }
}
