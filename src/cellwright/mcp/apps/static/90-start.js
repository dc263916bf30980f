// Begins: greets the host, wears its light, and shows what the tool's result is about.

{
  const root = document.documentElement, main = document.querySelector("main");
  const { view, version } = document.body.dataset;
  let shown = "", timer = 0;

  const wear = (context) => {
    Object.assign(app.context, context);
    if (context.theme) root.dataset.theme = context.theme;
  };

  /** Show what there is now, and again soon where something goes on. */
  app.load = async () => {
    clearTimeout(timer);
    if (!app.about) return;
    try {
      const data = await app.call("app_view", { view, ...app.about });
      draw(data);
      if (data.goes_on) timer = setTimeout(app.load, 1000);
    } catch (error) {
      app.say(error.message, true);
    }
  };

  const draw = (data) => {
    const fresh = JSON.stringify(data);
    const held = main.contains(document.activeElement)
      ? document.activeElement.getAttribute("aria-label")
      : null;
    for (const one of document.querySelectorAll("button")) one.disabled = false;
    if (fresh === shown) return;
    shown = fresh;
    main.replaceChildren(...app.views[view](data).filter(Boolean));
    if (held) main.querySelector(`[aria-label="${CSS.escape(held)}"]`)?.focus();
    main.dataset.ready = "yes";
  };

  app.hears["ui/notifications/host-context-changed"] = wear;
  app.hears["ui/notifications/tool-cancelled"] = () =>
    app.say("The call was taken back.");
  app.hears["ui/notifications/tool-result"] = (result) => {
    app.about = result._meta?.["cellwright/view"];
    if (result.isError || !app.about) {
      main.replaceChildren(app.made("pre", {}, app.textOf(result)));
    } else app.load();
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
