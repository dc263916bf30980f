// The heads of a grid's columns: names that sort, figures and histograms over all rows, filters, charts.

class GridHeads {
  constructor(grid) {
    this.grid = grid;
    this.filters = {};
    this.sort = "";
  }

  build(columns) {
    this.root = made_of("div", { className: "heads" });
    this.root.setAttribute("role", "rowgroup");
    const names = made_of("div", { className: "row" });
    names.setAttribute("role", "row");
    names.setAttribute("aria-rowindex", 1);
    names.append(...columns.map((one, number) => this.headOf(one, number)));
    this.root.append(names);
    return this.root;
  }

  headOf(column, number) {
    const cell = made_of("div", { className: `head ${column.kind}` });
    cell.setAttribute("role", "columnheader");
    cell.setAttribute("aria-colindex", number + 1);
    cell.setAttribute("aria-sort", "none");
    cell.dataset.column = column.name;
    const sort = pressed_by(column.name || "#", () => this.order(column.name));
    sort.className = "name";
    sort.title = `Sort by ${column.name} (${column.dtype})`;
    const chart = pressed_by("▥", () => this.chart(column.name));
    chart.setAttribute("aria-label", `Chart ${column.name}`);
    chart.title = "Write a cell that draws this column";
    chart.dataset.needs = "run";
    const figures = made_of("div", { className: "figures", textContent: column.dtype });
    const filter = made_of("input", { type: "search", placeholder: column.kind === "number" ? ">0" : "text" });
    filter.setAttribute("aria-label", `Filter ${column.name}: a text, =x, >5, empty or filled`);
    filter.addEventListener("change", () => this.filter(column.name, filter.value));
    filter.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); this.filter(column.name, filter.value); } });
    const line = made_of("div", { className: "line" });
    line.append(sort, chart);
    cell.append(line, figures, filter);
    return cell;
  }

  order(name) {
    this.sort = this.sort === `+${name}` ? `-${name}` : this.sort === `-${name}` ? "" : `+${name}`;
    for (const head of all(".head", this.root)) head.setAttribute("aria-sort", this.sort.slice(1) !== head.dataset.column || !this.sort ? "none" : this.sort[0] === "-" ? "descending" : "ascending");
    this.grid.restart();
  }

  filter(name, text) {
    if ((this.filters[name] ?? "") === text.trim()) return;
    if (text.trim()) this.filters[name] = text.trim(); else delete this.filters[name];
    if (!Object.keys(this.filters).length) { this.grid.found = this.grid.head.total; this.grid.fit(); }
    this.grid.restart();
  }

  /** Figures are counted over all rows: of a column only once it is seen, one after another. */
  watch() {
    let line = Promise.resolve();
    const watcher = new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        watcher.unobserve(target);
        line = line.then(() => this.figures(target)).catch(() => {});
      }
    }, { root: this.grid.body });
    for (const head of all(".head", this.root)) watcher.observe(head);
  }

  async figures(head) {
    const told = await this.grid.get(`/figures?column=${encodeURIComponent(head.dataset.column)}`), words = [];
    if (told.least !== null) words.push(`${brief(told.least)} – ${brief(told.most)}`);
    if (told.distinct !== null) words.push(`${told.distinct.toLocaleString("en")} distinct`);
    if (told.common.length && told.distinct > 1) words.push(`${told.common[0][0]} ×${told.common[0][1].toLocaleString("en")}`);
    if (told.missing) words.push(`${told.missing.toLocaleString("en")} missing`);
    const place = head.querySelector(".figures");
    place.textContent = words.join(", ");
    place.title = place.textContent;
    if (told.bars.length) place.append(bars_of(told.bars, `How the values of ${head.dataset.column} are spread`));
  }

  async chart(column) {
    const answer = await ask(`${this.grid.url}/chart`, { method: "POST", body: new URLSearchParams({ column }) });
    const told = await answer.json();
    say(told.say ?? [told.error, told.hint].filter(Boolean).join("\n"), Boolean(told.error));
    if (told.go) document.getElementById(told.go.slice(1))?.focus();
  }
}

/** A value as the head of a column has room for it. */
function brief(value) {
  return Number.isFinite(value) && !Number.isInteger(value) ? String(Number(value.toPrecision(Math.abs(value) < 1 ? 4 : 7))) : shown_as(value);
}

function bars_of(counts, label) {
  const space = "http://www.w3.org/2000/svg", svg = document.createElementNS(space, "svg"), most = Math.max(...counts, 1);
  svg.setAttribute("viewBox", `0 0 ${counts.length * 5} 20`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  counts.forEach((count, number) => {
    const bar = document.createElementNS(space, "rect"), height = count ? Math.max(count / most * 20, 1) : 0;
    for (const [name, value] of Object.entries({ x: number * 5, y: 20 - height, width: 4, height })) bar.setAttribute(name, value);
    svg.append(bar);
  });
  return svg;
}
