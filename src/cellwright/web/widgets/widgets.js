// Shows one widget in a frame of its own, which has no way to the page but messages. The page gives it the states of
// widgets and what changes of them; it says what somebody does, and how high it is.

import * as base from "@jupyter-widgets/base";
import * as controls from "@jupyter-widgets/controls";
import { ManagerBase } from "@jupyter-widgets/base-manager";
import { MessageLoop } from "@lumino/messaging";
import { Widget } from "@lumino/widgets";
import { fromText } from "./buffers.js";
import { Comm } from "./comm.js";
import { dress } from "./looks.js";
import { name } from "./names.js";
import { OutputModel, OutputView } from "./output.js";

const MODULES = {
  "@jupyter-widgets/base": base,
  "@jupyter-widgets/controls": controls,
  "@jupyter-widgets/output": { OutputModel, OutputView },
};
const REFERENCE = /IPY_MODEL_([\w-]+)/g;

const tell = (message) => parent.postMessage(message, "*");

class Manager extends ManagerBase {
  comms = new Map();
  wanted = new Map();

  loadClass(className, module) {
    const found = MODULES[module]?.[className];
    return found ? Promise.resolve(found) : Promise.reject(
      new Error(
        `${module} is no part of this page: only widgets of ipywidgets are shown`,
      ),
    );
  }

  _create_comm() {
    return Promise.reject(new Error("Widgets begin in the kernel"));
  }

  _get_comm_info() {
    return Promise.resolve({});
  }

  /** Make what is new of these widgets; each may refer to others, in any order. */
  async add(states) {
    const fresh = Object.entries(states).filter(([model]) =>
      !this.has_model(model)
    );
    await Promise.all(fresh.map(([model, state]) => {
      const comm = new Comm(model, tell);
      this.comms.set(model, comm);
      return this.new_model({
        model_name: state._model_name,
        model_module: state._model_module,
        model_module_version: state._model_module_version,
        model_id: model,
        comm,
      }, fromText(state));
    }));
    for (const [model] of fresh) {
      this.wanted.get(model)?.forEach((go) => go());
      this.wanted.delete(model);
    }
  }

  /** Wait until the widgets that a state refers to are there, asking for those that are not. */
  async have(state) {
    const named = [...JSON.stringify(state).matchAll(REFERENCE)].map((
      [, model],
    ) => model);
    const shown = (state.outputs ?? []).map(({ view }) => view).filter(Boolean);
    const missing = [...new Set([...named, ...shown])].filter((model) =>
      !this.has_model(model)
    );
    if (!missing.length) return;
    tell({ need: missing });
    await Promise.all(missing.map((model) =>
      new Promise((go) => {
        this.wanted.set(model, [...this.wanted.get(model) ?? [], go]);
      })
    ));
  }

  async update(model, state, number) {
    const comm = this.comms.get(model);
    if (!comm || !comm.isNewer(number)) return;
    await this.have(state);
    comm.hear(fromText(state));
  }
}

const manager = new Manager();
let place = null;

async function show({ view, models, live }) {
  await manager.add(models);
  const model = await manager.get_model(view);
  const shown = await manager.create_view(model);
  place = document.getElementById("view");
  // Who may not use it can still read it.
  place.inert = !live;
  MessageLoop.sendMessage(shown.luminoWidget, Widget.Msg.BeforeAttach);
  place.append(shown.el);
  MessageLoop.sendMessage(shown.luminoWidget, Widget.Msg.AfterAttach);
  place.dataset.ready = "yes";
  new ResizeObserver(() =>
    MessageLoop.postMessage(
      shown.luminoWidget,
      Widget.ResizeMessage.UnknownSize,
    )
  ).observe(place);
  name(place);
}

addEventListener("message", ({ source, data }) => {
  if (source !== parent) return;
  if (data.theme) document.documentElement.dataset.theme = data.theme;
  if (data.view) show(data);
  else if (data.models) manager.add(data.models);
  if (data.update) manager.update(data.update, data.state, data.number);
  if (data.closed) manager.comms.get(data.closed)?.end();
  if (data.sent) manager.comms.get(data.sent)?.done(data.number);
});

dress();
new ResizeObserver(() =>
  tell({
    height: document.getElementById("view").getBoundingClientRect().height + 8,
  })
)
  .observe(document.getElementById("view"));
tell({ ready: true });
