// Widgets: each is in a frame of its own, which hears from this page the states of widgets, and says what somebody does.
// A state comes as an element that the stream puts in the place of the one with its id.

const widgetFrames = () => all("iframe[data-widget]");
/** Of a frame the widgets that it knows. */
const known = new WeakMap();

const themeNow = () =>
  root.dataset.theme ??
    (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

/** The address of the session that a frame's widgets are of. */
const sessionOf = (frame) =>
  frame.closest("[data-load]").dataset.load.split("/cells/")[0];

const tellFrame = (frame, message) =>
  frame.contentWindow?.postMessage(message, "*");

/** Give a frame the states of some widgets and of all that they refer to. */
async function giveStates(frame, views, also = {}) {
  const query = views.map((view) => ["view", view]);
  const answer = await ask(
    `${sessionOf(frame)}/widgets?${new URLSearchParams(query)}`,
  );
  if (!answer.ok) return;
  const { models, number } = await answer.json();
  const before = known.get(frame) ??
    known.set(frame, new Set()).get(frame);
  for (const [model, state] of Object.entries(models)) {
    if (!also.view && before.has(model)) {
      tellFrame(frame, { update: model, state, number });
    }
    before.add(model);
    expectState(model);
  }
  tellFrame(frame, { models, ...also });
}

/** Have a place for the states of a widget that the stream sends. */
function expectState(model) {
  if (document.getElementById(`widget-${model}`)) return;
  const place = document.createElement("widget-state");
  place.id = `widget-${model}`;
  place.hidden = true;
  document.getElementById("widgets")?.after(place);
}

/** Hand a widget what somebody did in a frame. A kernel that runs a cell takes it after that. */
async function toWidget(frame, model, data) {
  const body = () =>
    new URLSearchParams({
      model,
      cell: frame.dataset.cell,
      data: JSON.stringify(data),
    });
  let told = null, waited = false;
  do {
    if (told?.busy) await new Promise((go) => setTimeout(go, 500));
    told = await post(`${sessionOf(frame)}/widgets`, body());
    if (told?.busy && !waited) {
      say("The kernel runs a cell: the widget hears of it after that");
    }
    waited ||= Boolean(told?.busy);
  } while (told?.busy && frame.isConnected);
  tellFrame(frame, { sent: model, number: told?.number });
  // A page without the notebook's stream asks.
  if (!document.getElementById("widgets")) {
    giveStates(frame, [frame.dataset.widget]);
  }
}

addEventListener("message", ({ data, source }) => {
  const frame = widgetFrames().find((one) => one.contentWindow === source);
  if (!frame || typeof data !== "object" || data === null) return;
  if (data.ready) {
    const also = {
      view: frame.dataset.widget,
      live: !frame.hasAttribute("data-still"),
      theme: themeNow(),
    };
    giveStates(frame, [frame.dataset.widget], also);
  }
  if (Array.isArray(data.need)) {
    giveStates(frame, data.need.map(String).slice(0, 200));
  }
  if (data.send && !frame.hasAttribute("data-still")) {
    toWidget(frame, String(data.send), data.data);
  }
});

customElements.define(
  "widget-state",
  class extends HTMLElement {
    connectedCallback() {
      if (!this.textContent) return;
      const { model, state, number } = JSON.parse(this.textContent);
      for (const frame of widgetFrames()) {
        if (known.get(frame)?.has(model)) {
          tellFrame(frame, { update: model, state, number });
        }
      }
    }
  },
);

let kernelOfWidgets = null;

customElements.define(
  "widget-kernel",
  class extends HTMLElement {
    connectedCallback() {
      const { kernel } = this.dataset;
      const isSameKernel = kernelOfWidgets === null ||
        kernelOfWidgets === kernel;
      kernelOfWidgets = kernel;
      for (const frame of widgetFrames()) {
        if (!isSameKernel) load(frame.closest("[data-load]"));
        else if (!frame.hasAttribute("data-still")) {
          giveStates(frame, [frame.dataset.widget]);
        }
      }
    }
  },
);

const retheme = () => {
  for (const frame of widgetFrames()) {
    tellFrame(frame, { theme: themeNow() });
  }
};
new MutationObserver(retheme).observe(root, {
  attributeFilter: ["data-theme"],
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", retheme);
