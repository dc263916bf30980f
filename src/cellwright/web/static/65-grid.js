// A grid over a live table: the kernel is asked for the rows that are seen, and only those are in the document.

const ROW = 26, CHUNK = 100, MOST_CHUNKS = 60;
// No browser has elements much higher than this: beyond it a step of the scroll bar is more than a row.
const MOST_HEIGHT = 8e6;

class Grid {
  constructor(button, output) {
    this.url = button.dataset.grid;
    this.button = button;
    this.output = output;
    this.chunks = new Map();
    this.heads = new GridHeads(this);
    this.choice = new GridChoice(this);
    this.rows = new GridRows(this);
    this.first = 0;
    this.asked = 0;
  }

  async open() {
    this.head = await this.get("");
    this.found = this.head.total;
    this.build();
    this.output.classList.add("gridded");
    this.button.closest("form").after(this.root);
    this.note.hidden = !this.head.changed;
    this.fit();
    await this.draw();
    this.body.focus({ preventScroll: true });
    this.heads.watch();
  }

  close() {
    this.root.remove();
    this.output.classList.remove("gridded");
    this.button.focus();
  }

  async get(path) {
    const answer = await ask(this.url + path);
    const told = await answer.json();
    if (!answer.ok || told.error) {
      const error = new Error(
        [told.error, told.hint].filter(Boolean).join(". "),
      );
      throw Object.assign(error, { isBusy: told.code === "kernel_busy" });
    }
    return told;
  }

  // What stands where ------------------------------------------------------------------------------------------------

  build() {
    const { head } = this, cut = head.width - head.columns.length;
    this.root = made_of("cell-grid", { className: "grid" });
    this.root.moved = () => this.go(this.first);
    this.root.setAttribute("role", "region");
    this.root.setAttribute(
      "aria-label",
      this.button.getAttribute("aria-label"),
    );
    const bar = made_of("div", { className: "tools" });
    this.count = made_of("span", { className: "count" });
    this.count.setAttribute("role", "status");
    this.problem = made_of("span", { className: "wrong", hidden: true });
    this.problem.setAttribute("role", "alert");
    bar.append(
      this.count,
      made_of("small", {
        textContent: `${head.name ? `${head.name}, ` : ""}${head.type}${
          cut > 0
            ? `; the first ${head.columns.length} of ${head.width} columns`
            : ""
        }`,
      }),
      pressed_by("Copy", () => this.choice.copy()),
      this.download("CSV"),
      this.download("Parquet"),
      pressed_by("Close", () => this.close()),
      this.problem,
    );
    this.note = made_of("p", {
      className: "notice",
      textContent:
        "The table has changed since it was shown above: this is what the kernel has now.",
    });
    this.body = made_of("div", { className: "scroll", tabIndex: 0 });
    this.body.setAttribute("role", "grid");
    this.body.setAttribute("aria-label", `${head.name ?? "Table"}, all rows`);
    this.body.setAttribute("aria-colcount", head.columns.length);
    this.body.setAttribute("aria-readonly", "true");
    this.widths = head.columns.map((one) =>
      `${
        Math.min(
          Math.max(one.name.length + 4, one.kind === "number" ? 13 : 16),
          34,
        )
      }ch`
    );
    this.space = made_of("div", { className: "space" });
    this.space.setAttribute("role", "rowgroup");
    this.body.append(this.heads.build(head.columns), this.space);
    this.root.append(this.note, bar, this.body);
    this.root.style.setProperty("--columns", this.widths.join(" "));
    // The page's own keys, such as the arrows from cell to cell, are not meant here.
    this.root.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") event.stopPropagation();
    });
    this.body.addEventListener("scroll", () => this.scrolled());
    this.body.addEventListener("wheel", (event) => this.wheeled(event), {
      passive: false,
    });
    this.body.addEventListener("keydown", (event) => this.choice.key(event));
    this.space.addEventListener(
      "pointerdown",
      (event) => this.choice.point(event),
    );
    this.body.addEventListener("copy", (event) => {
      if (event.target === this.body) {
        event.preventDefault();
        this.choice.copy();
      }
    });
  }

  download(kind) {
    const link = made_of("a", {
      className: "button",
      href: `${this.url}/all.${kind.toLowerCase()}`,
      textContent: kind,
      download: "",
    });
    link.setAttribute("aria-label", `All rows as ${kind}`);
    return link;
  }

  /** How high all rows are together, and what of that the element has. */
  fit() {
    this.height = Math.min(Math.max(this.found, 1) * ROW, MOST_HEIGHT);
    this.space.style.height = `${this.height}px`;
    this.body.setAttribute("aria-rowcount", this.found + 1);
    const total = this.head.total.toLocaleString("en");
    this.count.textContent = this.found === this.head.total
      ? `${total} rows × ${this.head.width} columns`
      : `${this.found.toLocaleString("en")} of ${total} rows`;
  }

  get isScaled() {
    return this.height < this.found * ROW;
  }
  get fitting() {
    return Math.max(
      Math.floor((this.body.clientHeight - this.heads.root.offsetHeight) / ROW),
      3,
    );
  }
  get lastFirst() {
    return Math.max(this.found - this.fitting, 0);
  }

  // Rows ---------------------------------------------------------------------------------------------------------------

  scrolled() {
    const room = Math.max(this.body.scrollHeight - this.body.clientHeight, 1);
    // The place that was set for a row says less than the row itself.
    if (this.isScaled && this.set === Math.round(this.body.scrollTop)) return;
    this.first = this.isScaled
      ? this.body.scrollTop / room * this.lastFirst
      : this.body.scrollTop / ROW;
    this.draw();
  }

  wheeled(event) {
    if (!this.isScaled || event.deltaY === 0) return;
    event.preventDefault();
    this.go(this.first + event.deltaY / ROW);
  }

  go(first) {
    this.first = Math.min(Math.max(first, 0), this.lastFirst);
    const room = Math.max(this.body.scrollHeight - this.body.clientHeight, 1);
    this.body.scrollTop = this.isScaled
      ? this.first / Math.max(this.lastFirst, 1) * room
      : this.first * ROW;
    this.set = Math.round(this.body.scrollTop);
    this.draw();
  }

  query(start, count) {
    return `/rows?${new URLSearchParams({
      start,
      count,
      sort: this.heads.sort,
      filters: JSON.stringify(this.heads.filters),
    })}`;
  }

  row(number) {
    return this.chunks.get(Math.floor(number / CHUNK))?.[number % CHUNK];
  }

  async draw() {
    this.rows.paint();
    const from = Math.floor(Math.max(this.first - 20, 0) / CHUNK),
      to = Math.floor(
        Math.min(this.first + this.fitting + 20, Math.max(this.found - 1, 0)) /
          CHUNK,
      );
    const wanted = [];
    for (let chunk = from; chunk <= to; chunk += 1) {
      if (!this.chunks.has(chunk)) wanted.push(chunk);
    }
    if (!wanted.length || this.loading) return;
    this.loading = true;
    const asked = this.asked;
    try {
      const told = await this.get(
        this.query(wanted[0] * CHUNK, (wanted.at(-1) - wanted[0] + 1) * CHUNK),
      );
      if (asked !== this.asked) return;
      if (told.runs !== this.head.runs || told.total !== this.head.total) {
        await this.again();
      } else this.keep(wanted[0], wanted.at(-1), told);
      this.say("");
    } catch (error) {
      this.say(error.message);
      if (error.isBusy && isRunning()) {
        onceIdle.add(this.retry ??= () => this.root.isConnected && this.draw());
      }
      return;
    } finally {
      this.loading = false;
      this.body.dataset.ready = "yes";
    }
    this.rows.paint();
    this.draw();
  }

  keep(from, to, told) {
    if (told.found !== this.found) {
      this.found = told.found;
      this.fit();
    }
    for (let chunk = from; chunk <= to; chunk += 1) {
      this.chunks.set(
        chunk,
        told.rows.slice((chunk - from) * CHUNK, (chunk - from + 1) * CHUNK),
      );
    }
    for (const chunk of this.chunks.keys()) {
      if (this.chunks.size <= MOST_CHUNKS) break;
      if (chunk < from || chunk > to) this.chunks.delete(chunk);
    }
  }

  /** A cell ran since: the table may be another one. */
  async again() {
    const before = this.head.columns.map((one) => one.name).join("\0");
    const head = await this.get("");
    if (head.columns.map((one) => one.name).join("\0") !== before) {
      this.root.remove();
      this.output.classList.remove("gridded");
      say("The table has other columns now", true);
      await new Grid(this.button, this.output).open();
      return;
    }
    this.head = head;
    this.note.hidden = !head.changed;
    this.chunks.clear();
    this.found = head.total;
    this.fit();
  }

  say(text) {
    this.problem.hidden = !text;
    this.problem.textContent = text;
    if (text) {
      this.problem.append(
        " ",
        pressed_by("Try again", () => this.draw()),
      );
    }
  }

  // Another order, other filters --------------------------------------------------------------------------------------------

  restart() {
    this.asked += 1;
    this.chunks.clear();
    this.first = 0;
    this.choice.restart();
    this.loading = false;
    this.body.scrollTop = 0;
    delete this.body.dataset.ready;
    this.draw();
  }
}
