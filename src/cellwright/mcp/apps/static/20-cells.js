// Cells with what they put out, while they put it out.

/** An element with HTML that the server has cleaned; shadow roots in it come to be. */
app.html = (tag, className, html) => {
  const element = app.made(tag, { className });
  if (element.setHTMLUnsafe) element.setHTMLUnsafe(html);
  else element.innerHTML = html;
  return element;
};

app.cell = (session_id, cell, deeds = []) => {
  const output = (one) => {
    const box = app.html("div", `output ${one.kind}`, one.html);
    return one.grid
      ? app.grid({ session_id, cell_id: cell.id, output: one.number }, box)
      : box;
  };
  if (cell.kind === "markdown") {
    return app.html("article", "cell markdown prose", cell.source);
  }
  const code = app.made(
    "pre",
    { className: "code" },
    app.html("code", "", cell.source),
  );
  return app.made(
    "article",
    {
      className: "cell code",
      "aria-label": `Cell ${cell.place}, ${cell.state}`,
    },
    app.made(
      "header",
      {},
      app.made("span", { className: "place" }, `${cell.place}`),
      app.made("span", { className: `state ${cell.tone}` }, cell.state),
      cell.seconds === null
        ? null
        : app.made("small", {}, app.seconds(cell.seconds)),
      app.made("small", { className: "language" }, cell.language),
      app.made("span", { className: "deeds" }, ...deeds),
    ),
    code,
    app.made("div", { className: "outputs" }, ...cell.outputs.map(output)),
  );
};

app.views.cell = ({ session_id, cells, goes_on }) => {
  const stop = () =>
    app.button("Stop", async () => {
      await app.call("kernel_interrupt", { session_id });
      await app.inform(`A person interrupted session ${session_id}.`);
    });
  const again = (cell) =>
    app.button("Run again", async () => {
      await app.call("cell_execute", { session_id, cell_id: cell.id });
      await app.inform(
        `A person ran cell ${cell.id} of session ${session_id} again.`,
      );
    }, { label: `Run cell ${cell.place} again`, follows: true });
  return cells.length
    ? cells.map((cell) =>
      app.cell(session_id, cell, [goes_on ? stop() : again(cell)])
    )
    : [
      app.made("p", { className: "empty" }, "There is no such cell any more."),
    ];
};
