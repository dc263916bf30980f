// A notebook with its certificate: what ran again, what came out the same, and the notebook itself.

app.views.verified = (
  { session_id, name, standing, proof, cells, done, total, goes_on },
) => {
  const verdicts = {
    valid: [
      "good",
      "Verified.",
      `Run from the top in a clean kernel on ${proof?.at} in ${proof?.took} by ${proof?.by}: every output came out the same.`,
    ],
    failed: [
      "bad",
      "Not verified.",
      `A clean run on ${proof?.at} did not give the same.`,
    ],
    stale: [
      "warn",
      "Not verified any more.",
      `The code was changed after the clean run on ${proof?.at}.`,
    ],
    none: [
      "warn",
      "Never verified.",
      "Nobody has run this notebook from the top in a clean kernel yet.",
    ],
  };
  const [tone, verdict, words] = verdicts[standing];
  const again = () =>
    app.button(proof ? "Verify again" : "Verify", async () => {
      await app.call("plan_verify", { session_id });
      await app.inform(`A person had session ${session_id} verified.`);
    }, { follows: true });
  const folded = (title, isOpen, ...inner) =>
    app.made(
      "details",
      { open: isOpen },
      app.made("summary", {}, title),
      ...inner,
    );
  const row = (...values) =>
    app.made("tr", {}, ...values.map((one) => app.made("td", {}, one)));
  const table = (heads, rows) =>
    app.made(
      "div",
      { className: "wide" },
      app.made(
        "table",
        {},
        app.made(
          "thead",
          {},
          app.made(
            "tr",
            {},
            ...heads.map((one) => app.made("th", { scope: "col" }, one)),
          ),
        ),
        app.made("tbody", {}, ...rows),
      ),
    );
  const ran = proof?.cells.map((one) =>
    row(
      one.place || "gone",
      app.state(one.state),
      [one.same ? "same" : "not the same", ...one.differences].join(": "),
    )
  );
  return [
    app.made("h1", {}, name),
    app.made(
      "p",
      { className: `verdict ${tone}` },
      app.made("strong", {}, verdict),
      ` ${words}`,
    ),
    ...(proof?.findings ?? []).map((one) =>
      app.made("p", { className: "note" }, one)
    ),
    goes_on
      ? app.made(
        "p",
        {},
        app.state("running"),
        ` ${done} of ${app.amount(total, "cell")}`,
      )
      : app.made("div", { className: "buttons" }, again()),
    proof &&
    folded(
      `${proof.cells.filter((one) => one.same).length} of ${
        app.amount(proof.cells.length, "cell")
      } gave the same`,
      standing === "failed",
      table(["Cell", "Ended", "Outputs"], ran),
    ),
    proof && proof.inputs.length > 0 &&
    folded(
      `${app.amount(proof.inputs.length, "file")} read`,
      false,
      table(["File", "SHA-256"], proof.inputs.map((one) => row(...one))),
    ),
    proof &&
    folded(
      "Environment",
      false,
      table(
        ["", ""],
        [...proof.facts, ...proof.packages].map((one) => row(...one)),
      ),
    ),
    folded(
      "The notebook",
      true,
      ...cells.map((cell) =>
        app.cell(session_id, {
          ...cell,
          outputs: cell.outputs.map((one) => ({ ...one, grid: false })),
        })
      ),
    ),
  ];
};
