// Checkpoints as a time line, the newest first, and the branches beside it.

app.views.checkpoints = ({ session_id, name, moments, family }) => {
  const of = { session_id };

  const rollBack = (moment) => async () => {
    const done = await app.call("session_rollback", {
      ...of,
      checkpoint: moment.id,
    });
    await app.inform(
      `A person rolled session ${session_id} back to checkpoint ${moment.title}: generation ${done.generation}.`,
    );
    const lost = done.not_restored.length
      ? ` Not restored: ${done.not_restored.join("; ")}.`
      : "";
    return `Rolled back to ${moment.title}.${lost}`;
  };

  const branch = (moment) => async () => {
    const { branches: [made] } = await app.call("session_branch", {
      ...of,
      checkpoint: moment.id,
    });
    await app.inform(
      `A person made a branch of session ${session_id} from checkpoint ${moment.title}: session ${made.session_id}.`,
    );
    return `${made.notebook} (${made.session_id}) is a branch now.`;
  };

  const adopt = (one) => async () => {
    const done = await app.call("branch_adopt", { session_id: one.session_id });
    app.about.session_id = done.session_id;
    await app.inform(
      `A person adopted branch ${one.session_id}: session ${done.session_id} goes on with its state, generation ${done.generation}.`,
    );
    return `${one.name} is adopted.`;
  };

  const sure = (moment) => {
    const undone = moment.undone
      ? `What ${moment.undone} did since then is undone, in memory and in files. `
      : "";
    const lost = moment.cannot_return.length
      ? ` These cannot return: ${moment.cannot_return.join("; ")}.`
      : "";
    return `${undone}Whatever runs is ended.${lost}`;
  };

  const facts = (moment) =>
    [
      app.clock(moment.time),
      moment.before && `before ${moment.before}`,
      moment.memory_bytes && app.bytes(moment.memory_bytes),
      app.amount(moment.files, "file"),
    ].filter(Boolean).join(" · ");

  const point = (moment) =>
    app.made(
      "li",
      {},
      app.made("strong", {}, moment.title),
      app.made("small", {}, facts(moment)),
      moment.undone && app.made("small", {}, `Since then: ${moment.undone}`),
      app.made(
        "div",
        { className: "buttons" },
        ...app.careful("Roll back", sure(moment), rollBack(moment), {
          label: `Roll back to ${moment.title}`,
        }),
        app.button("Branch", branch(moment), {
          label: `Branch from ${moment.title}`,
        }),
      ),
    );

  const relative = (one) =>
    app.made(
      "li",
      {},
      app.made("strong", {}, one.name),
      " ",
      app.state(one.state),
      app.made("small", {}, `${one.relation} · ${one.session_id}`),
      one.can_be_adopted &&
        app.made(
          "div",
          { className: "buttons" },
          ...app.careful(
            "Adopt",
            "Its cells, files and kernel go to the session that it came from; other branches end.",
            adopt(one),
            { label: `Adopt ${one.name}` },
          ),
        ),
    );

  return [
    app.made("h1", {}, name, app.made("small", {}, " checkpoints")),
    moments.length
      ? app.made(
        "ol",
        { className: "timeline" },
        app.made("li", { className: "now" }, "Now"),
        ...moments.map(point),
      )
      : app.made("p", { className: "empty" }, "No checkpoint is kept."),
    family.length ? app.made("h2", {}, "Branches") : null,
    family.length
      ? app.made("ul", { className: "family" }, ...family.map(relative))
      : null,
  ];
};
