"""Drafts a plan by rule, with no model: the common shape of work on data, for the words of a problem and the files at hand.

Always the frame (import, load, explore, clean, save), and between it what the words call for: statistics, charts. Where
they call for neither, statistics. A problem that is not about data gets steps without code, for the caller to fill in.
What it makes says that it is a draft.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from cellwright.errors import PlanError
from cellwright.plans.data_files import (
    FORMATS,
    HEAD_BYTES,
    Column,
    DataFile,
    chosen_file,
    data_files,
    described,
    folded,
    folded_words,
)
from cellwright.plans.model import Check, Outline, TodoOutline
from cellwright.plans.outlines import checked_outline

__all__ = ["HEAD_BYTES", "data_files", "draft"]
_FOLDER = "results"

_MAX_MEASURES = 4

_MAX_NAMED = 12

# Beginnings of words in languages that people ask in, without accents.
_visual = re.compile(
    r"\b(?:plot|chart|graph|grafi|visual|histogram|heatmap|scatter|boxplot|draw|diagram|dashboard|zeichn|darstell|courbe"
    r"|dibuj|wykres|график|диаграмм|визуализ)|图|圖|可视化|可視化|グラフ|차트|그래프"
)

_statistics = re.compile(
    r"\b(?:analy|analis|analiz|auswert|summar|zusammenfass|resum|riassu|statisti|average|mean\b|median|totals?\b|sums?\b"
    r"|counts?\b|compar|vergleich|trend|distribut|group|insight|report|kennzahl|mittelwert|durchschnitt|moyenne|promedio"
    r"|rank|top\b|correlat|анализ|статист)|分析|统计|統計|要約|분석|통계"
)

_data = re.compile(
    r"\b(?:data|datos|daten|datei|donnee|dati|dados|tables?\b|tabell|columns?\b|rows?\b|records?\b|files?\b|fichier"
    r"|csv|tsv|excel|xlsx|spreadsheet|json|parquet|sqlite|данн)|数据|數據|データ|데이터"
)


def draft(problem: str, *, files: Sequence[str] = (), heads: Mapping[str, bytes] | None = None) -> Outline:
    """A plan for the problem, with code wherever the files tell enough.

    ``files`` are names as the code is to say them, relative to where it runs; ``heads`` the first bytes of those that
    ``data_files`` names, as far as anybody has read them.

    Raises:
        PlanError: the problem is empty.
    """
    problem = problem.strip()
    if not problem:
        raise PlanError("A draft needs a problem", hint="Say in a line what is to be solved")
    name, candidates = chosen_file(problem, files)
    text = folded(problem)
    if not candidates and not (_data.search(text) or _visual.search(text)):
        return checked_outline(Outline(problem, _open_steps(), draft=True))
    file = described(name, (heads or {}).get(name, b"")) if name is not None else None
    return checked_outline(_data_plan(problem, file, candidates))


def _open_steps() -> tuple[TodoOutline, ...]:
    """The steps of a problem that nothing is known of."""
    return (
        TodoOutline(
            "Prepare the input", explanation="Import what is needed and set up what the work begins with."
        ),
        TodoOutline("Work out the result", depends_on=(1,), explanation="The work itself."),
        TodoOutline(
            "Check the result", depends_on=(2,), explanation="Show that the result is right, by assertions."
        ),
        TodoOutline(
            "Save results", depends_on=(2,), explanation=f"Write what is to be kept into `{_FOLDER}/`."
        ),
    )


def _data_plan(problem: str, file: DataFile | None, candidates: list[str]) -> Outline:
    draws = _visual.search(folded(problem)) is not None
    sums = not draws or _statistics.search(folded(problem)) is not None
    columns = _usable(file)
    interest = _interest(problem, columns)
    nested = file is not None and (file.nested or file.format.name in ("json", "jsonl"))
    todos = [
        TodoOutline("Import required libraries", import_code(file, draws=draws)),
        _load(problem, file, candidates),
        TodoOutline(
            "Explore data structure",
            explore_code(nested=nested),
            (_true("len(overview) == df.shape[1]"),),
            (2,),
            "The type of each column, how many values are missing, and how many different ones there are.",
        ),
        TodoOutline(
            "Clean data",
            clean_code(columns, nested=nested, decimal=file.decimal if file is not None else "."),
            _clean_checks(columns, nested=nested),
            (2,),
            _clean_words(columns),
        ),
    ]
    grouped = interest is not None and interest.group is not None and bool(interest.measures)
    if sums:
        todos.append(_summarise(interest, grouped=grouped))
    if draws:
        shown = (Check("output", "image/png"),)
        todos.append(TodoOutline("Generate visualizations", visual_code(interest), shown, (4,)))
    todos.append(_save(len(todos), summary=sums, grouped=grouped and sums, figure=draws))
    validation = TodoOutline("Check what was saved", validation_code(_FOLDER))
    return Outline(problem, tuple(todos), validation, draft=True)


def _load(problem: str, file: DataFile | None, candidates: list[str]) -> TodoOutline:
    rows = _true("len(df) > 0")
    if file is not None:
        words = f"Reads `{file.path}`{_seen(file)}"
        names = [column.name for column in file.columns]
        shape = (_true(f"list(df.columns) == {literals(names)}"),) if 0 < len(names) <= _MAX_NAMED else ()
        return TodoOutline(file.format.step, load_code(file), (rows, *shape), (1,), words)
    asked = set(folded_words(problem))
    kinds = [kind.step for kind in FORMATS if asked.intersection(kind.words)]
    if candidates:
        some = ", ".join(f"`{name}`" for name in candidates[:_MAX_NAMED])
        words = f"Several files could be meant: {some}. Give code that reads the right one into a frame named `df`."
    else:
        words = "No data file lies in the working directory. Give code that reads the data into a frame named `df`."
    return TodoOutline(kinds[0] if kinds else "Load data", checks=(rows,), depends_on=(1,), explanation=words)


def _seen(file: DataFile) -> str:
    """What the head told, as the rest of a sentence."""
    parts = []
    if file.format.name in ("csv", "tsv"):
        separator = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}[file.separator]
        parts.append(f"{file.encoding}, fields separated by {separator}")
    if file.columns:
        kinds = (f"`{column.name.strip()}` ({column.kind})" for column in file.columns[:_MAX_NAMED])
        more = len(file.columns) - _MAX_NAMED
        parts.append(f"columns {', '.join(kinds)}{f' and {more} more' if more > 0 else ''}")
    return f": {'; '.join(parts)}." if parts else "."


def _usable(file: DataFile | None) -> tuple[Column, ...]:
    """The columns that can be told apart by their names once these are stripped."""
    columns = file.columns if file is not None else ()
    names = [column.name.strip() for column in columns]
    return tuple(column for column in columns if names.count(column.name.strip()) == 1)


def _interest(problem: str, columns: Sequence[Column]) -> Interest | None:
    """What to sum up and draw, columns that the problem names before others; None where no column is fit for it."""
    asked = set(folded_words(problem))

    def by_mention(kinds: Iterable[str]) -> list[Column]:
        found = [column for column in columns if column.kind in kinds]
        return sorted(found, key=lambda column: not asked.intersection(folded_words(column.name)))

    groups = [column for column in by_mention(("category",)) if column.distinct > 1]
    times = by_mention(("date", "year"))
    measures = by_mention(("number",))[:_MAX_MEASURES]
    if not groups and not measures:
        return None
    return Interest(
        measures=tuple(column.name.strip() for column in measures),
        group=groups[0].name.strip() if groups else None,
        time=times[0].name.strip() if times else None,
    )


def _clean_checks(columns: Sequence[Column], *, nested: bool) -> tuple[Check, ...]:
    checks = [_true("len(df) > 0")]
    checks.append(_true(f"not {'df.astype(str)' if nested else 'df'}.duplicated().any()"))
    for column in columns:
        name = literal(column.name.strip())
        if column.kind == "number":
            checks.append(_true(f"pd.api.types.is_numeric_dtype(df[{name}])"))
        elif column.kind == "date":
            checks.append(_true(f"pd.api.types.is_datetime64_any_dtype(df[{name}])"))
    return tuple(checks[:_MAX_NAMED])


def _clean_words(columns: Sequence[Column]) -> str:
    words = (
        "Strips names and texts, reads numbers and dates as such, and leaves out empty and repeated rows. "
        "What is missing stays missing: nothing is filled in."
    )
    unclear = [f"`{column.name.strip()}`" for column in columns if column.ambiguous]
    if unclear:
        words += f" {', '.join(unclear)} could have the day or the month first, and stays text: decide which it is."
    return words


def _summarise(interest: Interest | None, *, grouped: bool) -> TodoOutline:
    checks = [_true("not summary.empty")]
    if interest is not None and grouped:
        checks.append(_true(f"len(by_group) == df[{literal(interest.group or '')}].nunique()"))
    return TodoOutline("Create summary statistics", summary_code(interest), tuple(checks), (4,))


def _save(count: int, *, summary: bool, grouped: bool, figure: bool) -> TodoOutline:
    wanted = {"cleaned.csv": True, "summary.csv": summary, "by_group.csv": grouped, "charts.png": figure}
    checks = tuple(Check("file", f"{_FOLDER}/{name}") for name, there in wanted.items() if there)
    return TodoOutline(
        "Save results",
        save_code(_FOLDER, summary=summary, grouped=grouped, figure=figure),
        checks,
        tuple(range(4, count + 1)),
        f"Writes into `{_FOLDER}/`.",
    )


def _true(expression: str) -> Check:
    return Check("expression", expression)


# The code of a draft's steps, in pandas and matplotlib, for a file whose columns are known or are not.

_MAX_BARS = 15


@dataclass(frozen=True, slots=True)
class Interest:
    """The columns that summaries and charts are about, by the names they have once the data is clean."""

    measures: tuple[str, ...] = ()
    group: str | None = None
    time: str | None = None


def import_code(file: DataFile | None, *, draws: bool) -> str:
    kind = file.format.name if file is not None else ""
    standard = [
        *(["import json"] if kind in ("json", "jsonl") else []),
        *(["import sqlite3"] if kind == "sqlite" else []),
        "from pathlib import Path",
    ]
    others = [*(["import matplotlib.pyplot as plt"] if draws else []), "import pandas as pd"]
    return "\n".join([*standard, "", *others])


def load_code(file: DataFile) -> str:
    path = literal(file.path)
    match file.format.name:
        case "csv" | "tsv":
            code = f"df = pd.read_csv({', '.join([path, *_csv_options(file)])})"
        case "excel":
            code = f"df = pd.read_excel({path})"
        case "parquet":
            code = f"df = pd.read_parquet({path})"
        case "jsonl":
            # Not pandas' own reader, which takes for dates what is called so.
            code = f'lines = Path({path}).read_text(encoding="utf-8-sig").split("\\n")\n'
            code += "df = pd.json_normalize([json.loads(line) for line in lines if line.strip()])"
        case "json":
            inner = f"[{literal(file.inner)}]" if file.inner is not None else ""
            code = f'records = json.loads(Path({path}).read_text(encoding="utf-8-sig")){inner}\n'
            code += "df = pd.json_normalize(records)"
        case _:
            code = _sqlite_code(file)
    return f"{code}\ndf.head()"


def _csv_options(file: DataFile) -> list[str]:
    names = [] if file.has_header else [f"names={literals(column.name for column in file.columns)}"]
    options = {
        "sep": None if file.separator == "," else literal(file.separator),
        "decimal": None if file.decimal == "." else literal(file.decimal),
        "encoding": None if file.encoding == "utf-8" else literal(file.encoding),
        # Read in one piece, so that a column is of one type, and not of one for each piece.
        "low_memory": "False" if file.long else None,
    }
    return [*(f"{name}={value}" for name, value in options.items() if value is not None), *names]


def _sqlite_code(file: DataFile) -> str:
    lines = [f"connection = sqlite3.connect({literal(file.path)})"]
    if file.inner is not None:
        quoted = file.inner.replace('"', '""')
        query = literal(f'SELECT * FROM "{quoted}"')  # noqa: S608  # the name is quoted as SQL does
    else:
        names = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        lines += [
            f'tables = list(pd.read_sql_query({literal(names)}, connection)["name"])',
            'print("Tables:", ", ".join(tables))',
        ]
        query = "f'SELECT * FROM \"{tables[0]}\"'"
    return "\n".join([*lines, f"df = pd.read_sql_query({query}, connection)", "connection.close()"])


def explore_code(*, nested: bool) -> str:
    distinct = "df.astype(str).nunique()" if nested else "df.nunique()"
    return "\n".join(
        [
            'print(f"{len(df):,} rows, {df.shape[1]} columns")',
            "overview = pd.DataFrame(",
            f'    {{"type": df.dtypes.astype(str), "missing": df.isna().sum(), "distinct": {distinct}}}',
            ")",
            "overview",
        ]
    )


def clean_code(columns: Sequence[Column], *, nested: bool, decimal: str = ".") -> str:
    numbers = [column.name.strip() for column in columns if column.kind == "number"]
    lines = [
        "before = len(df)",
        "df.columns = [str(column).strip() for column in df.columns]",
        "for column in df.columns:",
        "    if not pd.api.types.is_numeric_dtype(df[column]):",
        "        df[column] = df[column].map(lambda value: value.strip() if isinstance(value, str) else value)",
    ]
    if numbers:
        lines += [
            f"for column in {literals(numbers)}:",
            *_decimal_lines(decimal),
            '    df[column] = pd.to_numeric(df[column], errors="coerce")',
        ]
    lines += [_date_line(column) for column in columns if column.kind == "date"]
    repeated = "df.astype(str).duplicated()" if nested else "df.duplicated()"
    return "\n".join(
        [
            *lines,
            'df = df.dropna(how="all").dropna(axis="columns", how="all")',
            f"df = df[~{repeated}].reset_index(drop=True)",
            'print(f"{before - len(df):,} rows left out, {int(df.isna().sum().sum()):,} values are missing")',
        ]
    )


def _decimal_lines(decimal: str) -> list[str]:
    """For a column that stayed text because of some other text in it, its numbers with their marks."""
    if decimal == ".":
        return []
    return [
        "    if not pd.api.types.is_numeric_dtype(df[column]):",
        f'        df[column] = df[column].astype(str).str.replace({literal(decimal)}, ".")',
    ]


def _date_line(column: Column) -> str:
    name = literal(column.name.strip())
    zone = ", utc=True" if column.zoned else ""
    return f'df[{name}] = pd.to_datetime(df[{name}], format={literal(column.date_format or "")}, errors="coerce"{zone})'


def summary_code(interest: Interest | None) -> str:
    if interest is None:
        return (
            'numbers = df.select_dtypes("number")\n'
            "summary = numbers.describe() if numbers.shape[1] else df.astype(str).describe()\n"
            "summary"
        )
    group = literal(interest.group) if interest.group is not None else None
    if not interest.measures:
        if group is None:
            return "summary = df.astype(str).describe()\nsummary"
        return f'summary = df[{group}].value_counts(dropna=False).rename("rows").to_frame()\nsummary'
    lines = [f"measures = {literals(interest.measures)}", "summary = df[measures].describe()"]
    if group is None:
        return "\n".join([*lines, "summary"])
    return "\n".join(
        [
            *lines,
            f'by_group = df.groupby({group})[measures].agg(["count", "mean", "sum"])',
            "display(summary)",
            "by_group",
        ]
    )


def visual_code(interest: Interest | None) -> str:
    """Charts beside one another, in a figure named ``figure``."""
    if interest is None:
        return _charts_of_anything()
    panels = _panels(interest)
    size = f"figsize=({5 * len(panels)}, 4)"
    lines = [f'figure, axes = plt.subplots(1, {len(panels)}, {size}, squeeze=False, layout="constrained")']
    for place, panel in enumerate(panels):
        lines += ["", *(line.replace("AXIS", f"axes[0, {place}]") for line in panel)]
    return "\n".join([*lines, "", "plt.show()"])


def _panels(interest: Interest) -> list[list[str]]:
    panels = []
    first = interest.measures[0] if interest.measures else None
    if first is not None and interest.time is not None:
        panels.append(_line_panel(interest.time, first))
    if interest.group is not None:
        panels.append(_bar_panel(interest.group, first))
    if len(interest.measures) > 1:
        panels.append(_scatter_panel(*interest.measures[:2]))
    elif first is not None:
        panels.append(_histogram_panel(first))
    return panels


def _line_panel(time: str, measure: str) -> list[str]:
    return [
        f"over_time = df.groupby({literal(time)})[{literal(measure)}].sum(min_count=1).dropna()",
        'AXIS.plot(over_time.index, over_time.to_numpy(), marker=".")',
        f"AXIS.set(xlabel={label(time)}, ylabel={label(measure)}, title={label(f'{measure} over time')})",
        'AXIS.tick_params(axis="x", rotation=30)',
    ]


def _bar_panel(group: str, measure: str | None) -> list[str]:
    if measure is None:
        values, title = f"df[{literal(group)}].value_counts()", f"Rows by {group}"
    else:
        values, title = (
            f"df.groupby({literal(group)})[{literal(measure)}].sum(min_count=1)",
            f"{measure} by {group}",
        )
    return [
        f"totals = {values}.dropna().sort_values().tail({_MAX_BARS})",
        'names = [str(name)[:20].replace("$", r"\\$") for name in totals.index]',
        "AXIS.barh(range(len(totals)), totals.to_numpy())",
        f"AXIS.set(yticks=range(len(totals)), yticklabels=names, title={label(title)})",
    ]


def _scatter_panel(first: str, second: str) -> list[str]:
    return [
        f"AXIS.scatter(df[{literal(first)}], df[{literal(second)}], s=12, alpha=0.6)",
        f"AXIS.set(xlabel={label(first)}, ylabel={label(second)}, title={label(f'{second} against {first}')})",
    ]


def _histogram_panel(measure: str) -> list[str]:
    return [
        f"AXIS.hist(df[{literal(measure)}].dropna(), bins=20)",
        f'AXIS.set(xlabel={label(measure)}, ylabel="rows", title={label(f"Distribution of {measure}")})',
    ]


def _charts_of_anything() -> str:
    return "\n".join(
        [
            'numeric = list(df.select_dtypes("number").columns[:3])',
            "charts = max(len(numeric), 1)",
            'figure, axes = plt.subplots(1, charts, figsize=(5 * charts, 4), squeeze=False, layout="constrained")',
            "for axis, column in zip(axes[0], numeric):",
            "    axis.hist(df[column].dropna().astype(float), bins=20)",
            '    axis.set_title(str(column).replace("$", r"\\$"))',
            "if not numeric:",
            f"    counts = df.iloc[:, 0].astype(str).value_counts().head({_MAX_BARS})",
            '    names = [name[:20].replace("$", r"\\$") for name in counts.index]',
            "    axes[0, 0].barh(range(len(counts)), counts.to_numpy())",
            "    axes[0, 0].set(yticks=range(len(counts)), yticklabels=names)",
            "plt.show()",
        ]
    )


def save_code(folder: str, *, summary: bool, grouped: bool, figure: bool) -> str:
    return "\n".join(
        [
            f"results = Path({literal(folder)})",
            "results.mkdir(exist_ok=True)",
            'df.to_csv(results / "cleaned.csv", index=False)',
            *(['summary.to_csv(results / "summary.csv")'] if summary else []),
            *(['by_group.to_csv(results / "by_group.csv")'] if grouped else []),
            *(['figure.savefig(results / "charts.png", dpi=150)'] if figure else []),
            "sorted(path.name for path in results.iterdir())",
        ]
    )


def validation_code(folder: str) -> str:
    path = literal(str(PurePosixPath(folder, "cleaned.csv")))
    return "\n".join(
        [
            f"saved = pd.read_csv({path}, low_memory=False)",
            'assert len(saved) == len(df), f"{len(saved)} of {len(df)} rows were saved"',
            "assert list(saved.columns) == list(df.columns), list(saved.columns)",
            'print(f"{len(saved):,} rows were saved and can be read again")',
        ]
    )


def literal(text: str) -> str:
    """The text as Python writes it, in the quotation marks that most people use."""
    quoted = repr(text)
    plain = quoted.startswith("'") and '"' not in quoted and "\\" not in quoted
    return f'"{quoted[1:-1]}"' if plain else quoted


def literals(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(literal, texts))}]"


def label(text: str) -> str:
    """A text for a chart, in which a dollar sign would begin a formula."""
    return literal(text.replace("$", r"\$"))
