// Puts parts of the page in place around frames that are in use: a frame that is moved loads again, and forgets.

/** What of an element holds a frame that the fresh one has, too. */
function staysIn(old, fresh) {
  return all("[data-load][data-loaded][id]", old).filter((before) => {
    const after = fresh.querySelector(`#${CSS.escape(before.id)}`);
    return before.querySelector("iframe") &&
      after?.dataset.load === before.dataset.load;
  });
}

/** Make an element what the fresh one is, but for what holds such frames; whether there is any. */
function swapAroundFrames(old, fresh) {
  const staying = staysIn(old, fresh);
  if (!staying.length) return false;
  const focused = old.contains(document.activeElement)
    ? document.activeElement
    : null;
  // What stays is not to be carried over, which would move it.
  for (const { id } of staying) {
    fresh.querySelector(`#${CSS.escape(id)}`).removeAttribute("data-load");
  }
  keep(old, fresh);
  become(old, fresh, staying.map(({ id }) => id));
  wake(old);
  if (focused && !focused.isConnected) refocus(old, focused);
  return true;
}

function become(old, fresh, staying) {
  const holds = (element) =>
    staying.find((id) =>
      element.id === id || element.querySelector?.(`#${CSS.escape(id)}`)
    );
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) old.setAttribute(name, value);
  const stays = [...old.children].filter(holds);
  for (const child of [...old.childNodes]) {
    if (!stays.includes(child)) child.remove();
  }
  for (const child of [...fresh.childNodes]) {
    const same = stays[0] && holds(child);
    if (!same || holds(stays[0]) !== same) {
      old.insertBefore(child, stays[0] ?? null);
    } else if (stays[0].id === same) {
      stays.shift();
    } else {
      become(stays.shift(), child, staying);
    }
  }
  // In another order than before: what no longer has its place goes.
  for (const left of stays) left.remove();
}
