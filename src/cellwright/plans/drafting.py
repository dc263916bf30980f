"""Drafts a plan by rule, with no model: the common shape of work on data, for the words of a problem and the files at hand.

Always the frame (import, load, explore, clean, save), and between it what the words call for: statistics, charts. Where
they call for neither, statistics. A problem that is not about data gets steps without code, for the caller to fill in.
What it makes says that it is a draft.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from cellwright.errors import PlanError
from cellwright.plans import draftcode
from cellwright.plans.columns import Column
from cellwright.plans.datafiles import (
    FORMATS,
    HEAD_BYTES,
    DataFile,
    chosen_file,
    data_files,
    described,
    folded,
    folded_words,
)
from cellwright.plans.draftcode import Interest
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
        TodoOutline("Import required libraries", draftcode.import_code(file, draws=draws)),
        _load(problem, file, candidates),
        TodoOutline(
            "Explore data structure",
            draftcode.explore_code(nested=nested),
            (_true("len(overview) == df.shape[1]"),),
            (2,),
            "The type of each column, how many values are missing, and how many different ones there are.",
        ),
        TodoOutline(
            "Clean data",
            draftcode.clean_code(columns, nested=nested, decimal=file.decimal if file is not None else "."),
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
        todos.append(TodoOutline("Generate visualizations", draftcode.visual_code(interest), shown, (4,)))
    todos.append(_save(len(todos), summary=sums, grouped=grouped and sums, figure=draws))
    validation = TodoOutline("Check what was saved", draftcode.validation_code(_FOLDER))
    return Outline(problem, tuple(todos), validation, draft=True)


def _load(problem: str, file: DataFile | None, candidates: list[str]) -> TodoOutline:
    rows = _true("len(df) > 0")
    if file is not None:
        words = f"Reads `{file.path}`{_seen(file)}"
        names = [column.name for column in file.columns]
        shape = (
            (_true(f"list(df.columns) == {draftcode.literals(names)}"),)
            if 0 < len(names) <= _MAX_NAMED
            else ()
        )
        return TodoOutline(file.format.step, draftcode.load_code(file), (rows, *shape), (1,), words)
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
        name = draftcode.literal(column.name.strip())
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
        checks.append(_true(f"len(by_group) == df[{draftcode.literal(interest.group or '')}].nunique()"))
    return TodoOutline("Create summary statistics", draftcode.summary_code(interest), tuple(checks), (4,))


def _save(count: int, *, summary: bool, grouped: bool, figure: bool) -> TodoOutline:
    wanted = {"cleaned.csv": True, "summary.csv": summary, "by_group.csv": grouped, "charts.png": figure}
    checks = tuple(Check("file", f"{_FOLDER}/{name}") for name, there in wanted.items() if there)
    return TodoOutline(
        "Save results",
        draftcode.save_code(_FOLDER, summary=summary, grouped=grouped, figure=figure),
        checks,
        tuple(range(4, count + 1)),
        f"Writes into `{_FOLDER}/`.",
    )


def _true(expression: str) -> Check:
    return Check("expression", expression)
