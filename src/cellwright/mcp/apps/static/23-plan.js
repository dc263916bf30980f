// A plan: its steps with their states, and what a person may do with it.

app.views.plan = (
  {
    session_id,
    problem,
    phase,
    done,
    skipped,
    total,
    todos,
    validation,
    report,
    notices,
    summary,
  },
) => {
  const of = { session_id };
  const act = (text, tool, args, told, options = {}) =>
    app.button(text, async () => {
      await app.call(tool, { ...of, ...args });
      await app.inform(`A person ${told} the plan of session ${session_id}.`);
    }, { follows: true, ...options });

  const deeds = () => {
    if (phase === "running") {
      return [act("Stop", "kernel_interrupt", {}, "paused")];
    }
    const words = {
      ready: "Run the plan",
      paused: "Continue",
      interrupted: "Continue",
      stopped: "Try again",
    }[phase];
    return [
      words && act(words, "plan_run", {}, "went on with", { main: true }),
      phase === "stopped" &&
      act("Ask the fixers", "plan_fix", {}, "asked the fixers about"),
      ["stopped", "waiting"].includes(phase) &&
      act(
        "Skip the step",
        "plan_skip",
        { reason: "by a person" },
        "skipped a step of",
      ),
    ].filter(Boolean);
  };

  const facts = (todo) =>
    [
      todo.attempts > 1 && app.amount(todo.attempts, "attempt"),
      todo.seconds > 0 && app.seconds(todo.seconds),
      todo.needs_code && todo.status === "pending" && "needs code",
      todo.reason && `skipped: ${todo.reason}`,
    ].filter(Boolean).join(" · ");

  const step = (todo) =>
    app.made(
      "li",
      {},
      app.state(todo.status),
      " ",
      todo.description,
      " ",
      app.made("small", {}, facts(todo)),
      ...(todo.warnings ?? []).map((one) =>
        app.made("p", { className: "note" }, one)
      ),
      todo.error && app.made("pre", { className: "error" }, todo.error),
      todo.accept &&
        app.made(
          "ul",
          { className: "checks" },
          ...todo.accept.map((one) => app.made("li", {}, one)),
        ),
    );

  return [
    app.made("h1", {}, problem),
    app.made(
      "p",
      {},
      app.state(phase),
      ` ${done} of ${app.amount(total, "step")}`,
      skipped ? `, ${skipped} skipped` : "",
    ),
    report && app.made("p", { className: "problem" }, report.text),
    app.made(
      "ol",
      { className: "steps" },
      ...[...todos, ...(validation ? [validation] : [])].map(step),
    ),
    ...(notices ?? []).map((one) => app.made("p", { className: "note" }, one)),
    summary && app.made("pre", {}, summary),
    app.made("div", { className: "buttons" }, ...deeds()),
  ];
};
