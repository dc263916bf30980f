// Begins: greets the host, wears its light, and shows what the tool's result is about.

{
  const root = document.documentElement, main = document.querySelector("main");
  const { view, version } = document.body.dataset;
  let shown = "", timer = 0, turn = 0, isOver = false;

  const wear = (context) => {
    Object.assign(app.context, context);
    if (!context.theme) return;
    root.dataset.theme = context.theme;
    app.draw();
  };

  /** Show what there is now, and again soon where something goes on; before the call is over only that. */
  app.load = async () => {
    clearTimeout(timer);
    if (!app.about) return;
    turn += 1;
    const mine = turn;
    let goes_on = !isOver;
    try {
      const data = app.about.charts
        ? app.about
        : await app.call("app_view", { view, ...app.about });
      if (mine !== turn) return;
      if (isOver || data.goes_on) draw(data);
      goes_on ||= data.goes_on;
    } catch (error) {
      if (mine !== turn) return;
      if (isOver) app.say(error.message, true);
    }
    for (const one of main.querySelectorAll(app.DEEDS)) one.disabled = false;
    if (goes_on) timer = setTimeout(app.load, 1000);
  };

  const draw = (data) => {
    const fresh = JSON.stringify(data);
    if (fresh === shown) return;
    shown = fresh;
    const held = main.contains(document.activeElement)
      ? document.activeElement.getAttribute("aria-label")
      : null;
    main.replaceChildren(...app.views[view](data).filter(Boolean));
    if (held) main.querySelector(`[aria-label="${CSS.escape(held)}"]`)?.focus();
    app.draw();
  };

  const live = new Set(["cell", "plan"]);
  app.hears["ui/notifications/host-context-changed"] = wear;
  app.hears["ui/notifications/tool-cancelled"] = () => {
    isOver = true;
    app.say("The call was taken back.");
  };
  app.hears["ui/notifications/tool-input"] = ({ arguments: given = {} }) => {
    if (!live.has(view)) return;
    app.about = given.session_id ? { session_id: given.session_id } : {};
    app.load();
  };
  app.hears["ui/notifications/tool-result"] = (result) => {
    isOver = true;
    app.about = result._meta?.["cellwright/view"];
    if (result.isError || !app.about) {
      turn += 1;
      main.replaceChildren(app.made("pre", {}, app.textOf(result)));
      return;
    }
    if (app.about.charts) {
      app.about.pictures = (result.content ?? []).filter(({ type }) =>
        type === "image"
      );
    }
    app.load();
  };

  const start = async () => {
    const { hostContext = {}, hostCapabilities = {} } = await app.ask(
      "ui/initialize",
      {
        appInfo: { name: "cellwright", version },
        appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
        protocolVersion: "2026-01-26",
      },
    );
    app.able = hostCapabilities;
    wear(hostContext);
    app.tell("ui/notifications/initialized");
    new ResizeObserver(() =>
      app.tell("ui/notifications/size-changed", {
        height: Math.ceil(root.getBoundingClientRect().height),
      })
    ).observe(root);
  };
  start();
}
