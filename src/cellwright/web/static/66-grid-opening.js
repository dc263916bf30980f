// Opens the grid of an output: at once, or when the kernel has run what it is running.
//   data-grid="URL"   a button: opens the grid of an output in place of its preview

const isRunning = () =>
  document.querySelector("#cells .state:is(.running, .queued)") !== null;

/** What open grids do once the kernel has nothing to run. */
const onceIdle = new Set();
/** The grids that are to open then, by their addresses: the page may put their outputs anew meanwhile. */
const awaited = new Set();

new MutationObserver(() => {
  if (!onceIdle.size && !awaited.size) return;
  for (const url of awaited) {
    const button = document.querySelector(`[data-grid="${CSS.escape(url)}"]`);
    if (button && isRunning()) tellOfWaiting(button);
    else if (button && awaited.delete(url)) openGrid(button);
  }
  if (isRunning()) return;
  const waiting = [...onceIdle];
  onceIdle.clear();
  for (const act of waiting) act();
}).observe(document.body, { childList: true, subtree: true });

/** Open the grid of an output. While the kernel runs a cell the preview stays, and says what it waits for. */
async function openGrid(button) {
  const output = button.closest(".output");
  button.disabled = true;
  output.querySelector(".waiting")?.remove();
  try {
    await new Grid(button, output).open();
  } catch (error) {
    if (error.isBusy && isRunning()) {
      awaited.add(button.dataset.grid);
      tellOfWaiting(button);
    } else say(error.message, true);
  } finally {
    button.disabled = false;
  }
}

function tellOfWaiting(button) {
  const form = button.closest("form");
  if (form.nextElementSibling?.matches(".waiting")) return;
  const told = made_of("p", {
    className: "notice waiting",
    textContent:
      "These are the rows that the cell showed. All rows come when the kernel has run what it is running. ",
  });
  told.setAttribute("role", "status");
  const stop = () => {
    awaited.delete(button.dataset.grid);
    told.remove();
  };
  told.append(pressed_by("Do not wait", stop));
  form.after(told);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-grid]");
  if (button) openGrid(button);
});

/** Where the page puts a cell anew around its grid, the grid stays at the row where it was. */
customElements.define(
  "cell-grid",
  class extends HTMLElement {
    connectedCallback() {
      this.moved();
    }
  },
);
