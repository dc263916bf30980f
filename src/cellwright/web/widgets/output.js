// `Output`: what code puts out while it has taken over. The server has made each output harmless and whole.

import { DOMWidgetModel, DOMWidgetView } from "@jupyter-widgets/base";

const MODULE = "@jupyter-widgets/output";

export class OutputModel extends DOMWidgetModel {
  defaults() {
    return {
      ...super.defaults(),
      _model_name: "OutputModel",
      _view_name: "OutputView",
      _model_module: MODULE,
      _view_module: MODULE,
      msg_id: "",
      outputs: [],
    };
  }
}

export class OutputView extends DOMWidgetView {
  render() {
    super.render();
    this.el.classList.add("jupyter-widgets", "output");
    this.turn = 0;
    this.listenTo(this.model, "change:outputs", this.draw);
    return this.draw();
  }

  async draw() {
    const turn = this.turn += 1;
    const made = await Promise.all(
      (this.model.get("outputs") ?? []).map((one) => this.one(one)),
    );
    // Of two states the later one need not be drawn later.
    if (turn !== this.turn) return;
    this.el.replaceChildren(...made.map(({ element }) => element));
    for (const { view } of made) view?.trigger("displayed");
  }

  async one({ html, view }) {
    const element = document.createElement("div");
    if (!view) {
      element.innerHTML = html ?? "";
      return { element };
    }
    const child = await this.create_child_view(
      await this.model.widget_manager.get_model(view),
    );
    element.append(child.el);
    return { element, view: child };
  }
}
