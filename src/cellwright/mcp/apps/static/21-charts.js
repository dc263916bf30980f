// Charts, drawn by Vega where the host lets the app read it; until then, and otherwise, their pictures stay.

{
  const VEGA = "ui://cellwright/vega.js";
  let drawer = null;

  const fetched = async () => {
    const { contents: [{ text }] } = await app.ask("resources/read", {
      uri: VEGA,
    });
    const own = document.querySelector("script[nonce]");
    document.head.append(
      app.made("script", { nonce: own.nonce, textContent: text }),
    );
  };

  const dark = JSON.parse(document.getElementById("dark").textContent);

  const draw = async (place) => {
    const spec = JSON.parse(place.querySelector("script").textContent);
    delete spec.$schema;
    if (
      spec.usermeta?.cellwright &&
      document.documentElement.dataset.theme === "dark"
    ) spec.config = dark;
    const stage = app.made("div", { className: "stage" });
    place.querySelector(".stage")?.remove();
    place.append(stage);
    // What the policy forbids, Vega is told not to do: style sheets of its own, compiled expressions, fetching.
    const refuse = () => Promise.reject(new Error("Nothing is fetched"));
    await vegaEmbed(stage, spec, {
      actions: false,
      renderer: "svg",
      ast: true,
      defaultStyle: false,
      loader: { load: refuse, sanitize: refuse },
      tooltip: { disableDefaultStyle: true },
    });
    place.dataset.drawn = "yes";
  };

  /** Draw every chart that is there, in the light that there is. */
  app.draw = async () => {
    const places = [...document.querySelectorAll(".cw-chart")];
    if (!places.length) return;
    drawer ??= fetched();
    try {
      await drawer;
    } catch {
      drawer = null;
      return;
    }
    for (const place of places) {
      await draw(place).catch(() => place.querySelector(".stage")?.remove());
    }
  };
}

app.views.chart = ({ charts, pictures }) =>
  charts.map(({ spec, html }, place) => {
    if (html) return app.html("div", "output wide", html);
    const still = pictures[place];
    return app.made(
      "div",
      { className: "cw-chart" },
      app.made("script", {
        type: "application/json",
        textContent: JSON.stringify(spec),
      }),
      still &&
        app.made(
          "div",
          { className: "cw-still" },
          app.made("img", {
            src: `data:${still.mimeType};base64,${still.data}`,
            alt: "The chart as a picture",
          }),
        ),
    );
  });
