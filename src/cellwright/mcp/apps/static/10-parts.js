// Pieces that all views are made of.

/** An element with its properties and what is in it; a property that is no element's own is an attribute. */
app.made = (tag, properties = {}, ...inner) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(
    ...inner.filter((one) => one !== null && one !== undefined && one !== ""),
  );
  return element;
};

app.say = (text, isBad = false) => {
  const said = document.querySelector(".said");
  said.textContent = text;
  said.classList.toggle("problem", isBad);
};

/** A button that works once at a time and says what went wrong; `act` answers what to say. */
app.button = (
  text,
  act,
  { label = text, main = false, follows = false } = {},
) => {
  const button = app.made("button", {
    type: "button",
    className: main ? "main" : "",
    "aria-label": label,
  }, text);
  button.addEventListener("click", async () => {
    for (const one of document.querySelectorAll(app.DEEDS)) one.disabled = true;
    app.say("");
    if (follows) setTimeout(app.load, 300);
    try {
      app.say(await act() ?? "");
    } catch (error) {
      app.say(error.message, true);
    }
    await app.load();
  });
  return button;
};

/** A button that says first what would be lost, and asks. No host lets an app open a dialog. */
app.careful = (text, words, act, { label = text } = {}) => {
  const first = app.made(
    "button",
    { type: "button", "aria-label": label },
    text,
  );
  const question = app.made("div", { className: "sure", hidden: true });
  const leave = app.made("button", { type: "button" }, "Leave it");
  const show = (asks) => {
    question.hidden = !asks;
    first.hidden = asks;
    (asks ? leave : first).focus();
  };
  first.addEventListener("click", () => show(true));
  leave.addEventListener("click", () => show(false));
  question.append(
    app.made("p", {}, words),
    app.button(`${text} now`, act, { main: true }),
    leave,
  );
  return [first, question];
};

app.amount = (count, noun) =>
  `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

app.bytes = (count) => {
  const units = ["B", "kB", "MB", "GB"];
  let step = 0;
  for (; count >= 1000 && step < units.length - 1; step += 1) count /= 1000;
  return `${
    count.toLocaleString("en", { maximumFractionDigits: step ? 1 : 0 })
  } ${units[step]}`;
};

app.clock = (seconds) =>
  new Date(seconds * 1000).toLocaleTimeString([], {
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  });

app.state = (word) => app.made("span", { className: `state ${word}` }, word);

/** The model reads with its next turn what a person did here: no reply tells it. */
app.inform = (text) => {
  if (app.able.updateModelContext) {
    return app.ask("ui/update-model-context", {
      content: [{ type: "text", text }],
    }).catch(() => {});
  }
};

app.seconds = (seconds) =>
  `${
    seconds.toLocaleString("en", {
      maximumFractionDigits: seconds < 10 ? 2 : 0,
    })
  } s`;

/** The buttons that change something: one at a time. */
app.DEEDS = ".buttons button, .deeds button";
