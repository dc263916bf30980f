// A table as a grid: the kernel is asked for one page of rows, in an order and of those that filters leave.

app.grid = (of, preview) => {
  const asked = { start: 0, sort: "", filters: {} };
  const body = app.made("div", { className: "wide" }),
    foot = app.made("p", { className: "tools" });
  const root = app.made("div", { className: "output grid" }, preview);

  const show = async () => {
    try {
      const told = await app.call("app_rows", {
        ...of,
        ...asked,
        sort: asked.sort || undefined,
      });
      draw(told);
      if (preview.isConnected) preview.replaceWith(body, foot);
    } catch (error) {
      if (body.isConnected) foot.textContent = error.message;
    }
  };

  const go = (change) => {
    Object.assign(asked, { start: 0 }, change);
    return show();
  };

  const head = (column) => {
    const { name } = column,
      isFirst = asked.sort === `+${name}`,
      isLast = asked.sort === `-${name}`;
    const sort = app.made(
      "button",
      { type: "button", "aria-label": `Sort by ${name}` },
      name || "#",
      isFirst ? " ↑" : isLast ? " ↓" : "",
    );
    sort.addEventListener(
      "click",
      () => go({ sort: `${isFirst ? "-" : "+"}${name}` }),
    );
    const filter = app.made("input", {
      type: "search",
      value: asked.filters[name] ?? "",
      size: 8,
      placeholder: "filter",
      "aria-label": `Filter ${name}`,
    });
    filter.addEventListener("change", () => {
      const filters = { ...asked.filters, [name]: filter.value };
      if (!filter.value) delete filters[name];
      go({ filters });
    });
    return app.made(
      "th",
      {
        scope: "col",
        title: column.dtype,
        "aria-sort": isFirst ? "ascending" : isLast ? "descending" : "none",
      },
      sort,
      filter,
    );
  };

  const draw = ({ columns, rows, found, total, start, count, width }) => {
    const cell = (value, { kind, index }) =>
      app.made(index ? "th" : "td", {
        className: kind === "number" ? "number" : "",
      }, value === null ? "–" : String(value));
    body.replaceChildren(
      app.made(
        "table",
        { className: "data" },
        app.made("thead", {}, app.made("tr", {}, ...columns.map(head))),
        app.made(
          "tbody",
          {},
          ...rows.map((row) =>
            app.made(
              "tr",
              {},
              ...columns.map((column, place) => cell(row[place], column)),
            )
          ),
        ),
      ),
    );
    const page = (text, label, to) => {
      const button = app.made("button", {
        type: "button",
        "aria-label": label,
        disabled: to < 0 || to >= found,
      }, text);
      button.addEventListener("click", () => go({ start: to }));
      return button;
    };
    const whole = found === total
      ? app.amount(total, "row")
      : `${found.toLocaleString("en")} of ${app.amount(total, "row")}`;
    foot.replaceChildren(
      page("←", "Rows before", start ? Math.max(start - count, 0) : -1),
      page("→", "Next rows", start + count),
      ` ${(start + 1).toLocaleString("en")}–${
        (start + rows.length).toLocaleString("en")
      } · ${whole} × ${width} columns`,
    );
  };

  show();
  return root;
};
