// What is chosen in a grid, by the pointer and by keys, and copied.

const MOST_COPIED = 10000;

class GridChoice {
  constructor(grid) {
    this.grid = grid;
    this.active = { row: 0, column: 0 };
    this.anchor = null;
  }

  restart() {
    this.active = { row: 0, column: this.active.column };
    this.anchor = null;
  }

  has(row, column) {
    const from = this.anchor ?? this.active, to = this.active;
    return row >= Math.min(from.row, to.row) && row <= Math.max(from.row, to.row) && column >= Math.min(from.column, to.column) && column <= Math.max(from.column, to.column);
  }

  point(event) {
    const cell = event.target.closest("[id]"), [row, column] = cell.id.slice(this.grid.url.length + 1).split("/").map(Number);
    if (event.shiftKey) this.anchor ??= this.active; else this.anchor = null;
    this.active = { row, column };
    this.grid.rows.paint();
  }

  key(event) {
    if (event.target !== this.grid.body) return;
    const step = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1], PageDown: [this.grid.fitting, 0], PageUp: [-this.grid.fitting, 0] }[event.key];
    const end = { Home: event.ctrlKey ? [0, 0] : [this.active.row, 0], End: event.ctrlKey ? [this.grid.found - 1, this.grid.head.columns.length - 1] : [this.active.row, this.grid.head.columns.length - 1] }[event.key];
    if (event.key === "a" && (event.ctrlKey || event.metaKey)) {
      this.anchor = { row: 0, column: 0 };
      this.active = { row: this.grid.found - 1, column: this.grid.head.columns.length - 1 };
    } else if (step || end) {
      if (event.shiftKey) this.anchor ??= this.active; else this.anchor = null;
      const [row, column] = end ?? [this.active.row + step[0], this.active.column + step[1]];
      this.active = { row: Math.min(Math.max(row, 0), Math.max(this.grid.found - 1, 0)), column: Math.min(Math.max(column, 0), this.grid.head.columns.length - 1) };
    } else return;
    event.preventDefault();
    if (this.active.row < this.grid.first) this.grid.go(this.active.row);
    else if (this.active.row >= this.grid.first + this.grid.fitting) this.grid.go(this.active.row - this.grid.fitting + 1);
    else this.grid.rows.paint();
    const cell = document.getElementById(this.grid.rows.cellId(this.active.row, this.active.column));
    if (cell) this.grid.body.scrollLeft = Math.min(Math.max(this.grid.body.scrollLeft, cell.offsetLeft + cell.offsetWidth - this.grid.body.clientWidth), cell.offsetLeft);
  }

  /** Chosen cells as lines with tabs, which a spreadsheet takes, with the names of their columns. */
  async copy() {
    const from = this.anchor ?? this.active, to = this.active;
    const [low, high] = [Math.min(from.row, to.row), Math.max(from.row, to.row)], [left, right] = [Math.min(from.column, to.column), Math.max(from.column, to.column)];
    const last = Math.min(high, low + MOST_COPIED - 1), lines = [];
    try {
      for (let start = low; start <= last; start += 1000) lines.push(...(await this.grid.get(this.grid.query(start, Math.min(1000, last - start + 1)))).rows);
      const texts = lines.map((row) => row.slice(left, right + 1).map((value) => value ?? "").join("\t"));
      if (low !== high || left !== right) texts.unshift(this.grid.head.columns.slice(left, right + 1).map((one) => one.name).join("\t"));
      await navigator.clipboard.writeText(texts.join("\n"));
      say(`${lines.length.toLocaleString("en")} rows are copied${last < high ? ` of ${(high - low + 1).toLocaleString("en")}: take a file for all` : ""}`);
    } catch (error) {
      say(`It could not be copied: ${error.message}`, true);
    }
  }
}
