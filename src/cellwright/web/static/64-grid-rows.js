// The rows of a grid that are seen, and a few beyond them, as elements.

class GridRows {
  constructor(grid) {
    this.grid = grid;
  }

  paint() {
    const { grid } = this;
    const first = Math.floor(grid.first), rows = [];
    for (
      let number = Math.max(first - 5, 0);
      number < Math.min(first + grid.fitting + 6, grid.found);
      number += 1
    ) rows.push(this.rowOf(number));
    // Where the rows stand follows what is seen, so that they glide by whole and half rows alike.
    const top = grid.isScaled
      ? grid.body.scrollTop - (grid.first - first) * ROW -
        Math.min(first, 5) * ROW
      : Math.max(first - 5, 0) * ROW;
    const shift = made_of("div", { className: "window" });
    shift.setAttribute("role", "presentation");
    shift.style.transform = `translateY(${Math.max(top, 0)}px)`;
    shift.append(...rows);
    grid.space.replaceChildren(shift);
    const active = this.cellId(
      grid.choice.active.row,
      grid.choice.active.column,
    );
    if (document.getElementById(active)) {
      grid.body.setAttribute("aria-activedescendant", active);
    } else grid.body.removeAttribute("aria-activedescendant");
  }

  cellId(row, column) {
    return `${this.grid.url}/${row}/${column}`;
  }

  rowOf(number) {
    const { grid } = this;
    const held = grid.row(number),
      row = made_of("div", { className: held ? "row" : "row waits" });
    row.setAttribute("role", "row");
    row.setAttribute("aria-rowindex", number + 2);
    grid.head.columns.forEach((column, place) => {
      const value = held?.[place],
        cell = made_of("div", {
          className: `cell-of ${column.kind}`,
          id: this.cellId(number, place),
        });
      cell.setAttribute("role", column.index ? "rowheader" : "gridcell");
      cell.setAttribute("aria-colindex", place + 1);
      if (held && value === null) cell.classList.add("none");
      cell.textContent = held ? shown_as(value) : "…";
      if (grid.choice.has(number, place)) {
        cell.setAttribute("aria-selected", "true");
      }
      row.append(cell);
    });
    return row;
  }
}

function made_of(tag, properties) {
  return Object.assign(document.createElement(tag), properties);
}

function pressed_by(text, act) {
  const button = made_of("button", { type: "button", textContent: text });
  button.addEventListener("click", act);
  return button;
}

function shown_as(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  return Number.isInteger(value)
    ? String(value)
    : String(Number(value.toPrecision(8)));
}
