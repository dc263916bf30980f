"""Our own tasks, for runs where no public set is at hand: data made here, questions, solutions, and the truth.

The truth is worked out from the rows in plain Python, apart from the solutions, so that neither confirms itself.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datatasks.tables import Tables, make_tables
from datatasks.tasks import Step, Task, TaskSet

__all__ = ["read"]


@dataclass(frozen=True, slots=True)
class _Own:
    id: str
    files: tuple[str, ...]
    question: str
    form: str
    solution: str
    """Cells, with an empty line between."""
    truth: Callable[[Tables], Mapping[str, Any]]


def read(directory: Path) -> TaskSet:
    """Write the data into a directory and return the tasks over it."""
    tables = make_tables(directory)
    return TaskSet("builtin", tuple(_task(own, tables) for own in _TASKS))


def _task(own: _Own, tables: Tables) -> Task:
    answers = {name: _said(value) for name, value in own.truth(tables).items()}
    question = (
        f"{own.question}\n\nThe data is in {', '.join(own.files)}.\n\n"
        f"End your answer with the results in exactly this format, brackets included:\n{own.form}"
    )
    return Task(
        own.id,
        (Step(question, tuple(own.solution.strip().split("\n\n")), answers),),
        {name: tables.directory / name for name in own.files},
    )


def _said(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


# The truth -----------------------------------------------------------------------------------------------------------


def _sums(pairs: Iterable[tuple[Any, float]]) -> dict[Any, float]:
    sums: dict[Any, float] = defaultdict(float)
    for key, value in pairs:
        sums[key] += value
    return sums


def _top(sums: Mapping[Any, float]) -> tuple[Any, float]:
    return max(sums.items(), key=lambda item: item[1])


def _revenue(tables: Tables) -> dict[str, Any]:
    region, most = _top(_sums((row["region"], row["units"] * row["price"]) for row in tables.sales))
    return {"region": region, "revenue": most}


def _best_month(tables: Tables) -> dict[str, Any]:
    month, units = _top(_sums((row["date"][:7], row["units"]) for row in tables.sales))
    return {"month": month, "units": int(units)}


def _pivot(tables: Tables) -> dict[str, Any]:
    units = _sums(((row["product"], row["region"]), row["units"]) for row in tables.sales)
    return {"drill_east": int(units["drill", "east"]), "bolt_west": int(units["bolt", "west"])}


def _weighted(tables: Tables) -> dict[str, Any]:
    total = sum(row["units"] for row in tables.sales)
    return {"weighted_price": sum(row["units"] * row["price"] for row in tables.sales) / total}


def _joined(tables: Tables) -> dict[str, Any]:
    country = {row["customer_id"]: row["country"] for row in tables.customers}
    orders = [row for row in tables.orders if row["customer_id"] in country]
    amounts = _sums((country[row["customer_id"]], row["amount"]) for row in orders)
    return {"italy": amounts["IT"], "unknown_orders": len(tables.orders) - len(orders)}


def _silent(tables: Tables) -> dict[str, Any]:
    ordered = {row["customer_id"] for row in tables.orders}
    return {"without_orders": sum(row["customer_id"] not in ordered for row in tables.customers)}


def _gaps(tables: Tables) -> dict[str, Any]:
    gaps = Counter(row["sensor"] for row in tables.sensors if row["value"] is None)
    known = [row["value"] for row in tables.sensors if row["value"] is not None]
    return {"gaps_a": gaps["a"], "gaps_b": gaps["b"], "median": statistics.median(known)}


def _outliers(tables: Tables) -> dict[str, Any]:
    known = [row["value"] for row in tables.sensors if row["value"] is not None]
    low, _, high = statistics.quantiles(known, n=4, method="inclusive")
    reach = 1.5 * (high - low)
    return {"outliers": sum(not low - reach <= value <= high + reach for value in known)}


def _warmest(tables: Tables) -> dict[str, Any]:
    days = defaultdict(list)
    for row in tables.sensors:
        if row["value"] is not None and row["sensor"] == "a":
            days[row["time"][:10]].append(row["value"])
    day, mean = _top({day: statistics.fmean(values) for day, values in days.items()})
    return {"day": day, "mean": mean}


def _correlation(tables: Tables) -> dict[str, Any]:
    ages, pressures = zip(*((row["age"], row["pressure"]) for row in tables.patients), strict=True)
    slope, intercept = statistics.linear_regression(ages, pressures)
    return {"r": statistics.correlation(ages, pressures), "slope": slope, "intercept": intercept}


def _welch(tables: Tables) -> dict[str, Any]:
    groups = [[row["pressure"] for row in tables.patients if row["treated"] == group] for group in (0, 1)]
    means = [statistics.fmean(group) for group in groups]
    spread = math.sqrt(sum(statistics.variance(group) / len(group) for group in groups))
    return {"t": (means[0] - means[1]) / spread, "difference": means[0] - means[1]}


def _ages(tables: Tables) -> dict[str, Any]:
    groups = Counter(
        "young" if row["age"] < 40 else "middle" if row["age"] < 65 else "old" for row in tables.patients
    )
    return dict(groups)


def _nested(tables: Tables) -> dict[str, Any]:
    paid = Counter(row["user"]["id"] for row in tables.events if row["user"]["plan"] == "paid")
    tags = Counter(tag for row in tables.events for tag in row["tags"])
    return {"paying_users": len(paid), "chart_tags": tags["chart"]}


def _log(tables: Tables) -> dict[str, Any]:
    errors = [line.split() for line in tables.lines if line.startswith("ERROR")]
    return {"errors": len(errors), "slowest_ms": max(int(words[3]) for words in errors)}


def _fitted(tables: Tables) -> dict[str, Any]:
    """Two regressors, by their normal equations around the means."""
    rows = tables.patients
    mean = {name: statistics.fmean(row[name] for row in rows) for name in ("age", "treated", "pressure")}

    def product(one: str, other: str) -> float:
        return sum((row[one] - mean[one]) * (row[other] - mean[other]) for row in rows)

    ages, groups, both = product("age", "age"), product("treated", "treated"), product("age", "treated")
    determinant = ages * groups - both**2
    effect = (ages * product("treated", "pressure") - both * product("age", "pressure")) / determinant
    return {"treatment_effect": effect}


# The tasks -----------------------------------------------------------------------------------------------------------

_TASKS = (
    _Own(
        "revenue-by-region",
        ("sales.csv",),
        "Revenue is units times price. Which region has the highest revenue, and how much is it, to two "
        "decimals?",
        "@region[name] @revenue[amount]",
        """
import pandas as pd

sales = pd.read_csv("sales.csv", parse_dates=["date"])

revenue = (sales.units * sales.price).groupby(sales.region).sum()
revenue

print(f"@region[{revenue.idxmax()}] @revenue[{revenue.max():.2f}]")
""",
        _revenue,
    ),
    _Own(
        "best-month",
        ("sales.csv",),
        "In which month of 2024 were most units sold, and how many?",
        "@month[YYYY-MM] @units[count]",
        """
import pandas as pd

sales = pd.read_csv("sales.csv", parse_dates=["date"])

months = sales.groupby(sales.date.dt.strftime("%Y-%m")).units.sum()
months.head()

print(f"@month[{months.idxmax()}] @units[{months.max()}]")
""",
        _best_month,
    ),
    _Own(
        "pivot",
        ("sales.csv",),
        "How many drills were sold in the east, and how many bolts in the west?",
        "@drill_east[units] @bolt_west[units]",
        """
import pandas as pd

sales = pd.read_csv("sales.csv", parse_dates=["date"])

units = sales.pivot_table(values="units", index="product", columns="region", aggfunc="sum")
units

print(f"@drill_east[{units.loc['drill', 'east']}] @bolt_west[{units.loc['bolt', 'west']}]")
""",
        _pivot,
    ),
    _Own(
        "weighted-price",
        ("sales.csv",),
        "What is the mean price weighted by units, to two decimals?",
        "@weighted_price[price]",
        """
import numpy as np
import pandas as pd

sales = pd.read_csv("sales.csv", parse_dates=["date"])

print(f"@weighted_price[{np.average(sales.price, weights=sales.units):.2f}]")
""",
        _weighted,
    ),
    _Own(
        "join",
        ("customers.csv", "orders.csv"),
        "What do all orders of customers from Italy (IT) amount to, to two decimals, and how many orders "
        "name a customer that is not in the list?",
        "@italy[amount] @unknown_orders[count]",
        """
import pandas as pd

customers, orders = pd.read_csv("customers.csv"), pd.read_csv("orders.csv")

merged = orders.merge(customers, how="left", on="customer_id")
merged.head()

print(f"@italy[{merged[merged.country == 'IT'].amount.sum():.2f}] @unknown_orders[{merged.country.isna().sum()}]")
""",
        _joined,
    ),
    _Own(
        "anti-join",
        ("customers.csv", "orders.csv"),
        "How many customers have no order?",
        "@without_orders[count]",
        """
import pandas as pd

customers, orders = pd.read_csv("customers.csv"), pd.read_csv("orders.csv")

print(f"@without_orders[{(~customers.customer_id.isin(orders.customer_id)).sum()}]")
""",
        _silent,
    ),
    _Own(
        "missing-values",
        ("sensors.csv",),
        "How many values are missing for sensors a and b, and what is the median of all that are there, "
        "to two decimals?",
        "@gaps_a[count] @gaps_b[count] @median[value]",
        """
import pandas as pd

sensors = pd.read_csv("sensors.csv", parse_dates=["time"])

gaps = sensors.value.isna().groupby(sensors.sensor).sum()
gaps

print(f"@gaps_a[{gaps['a']}] @gaps_b[{gaps['b']}] @median[{sensors.value.median():.2f}]")
""",
        _gaps,
    ),
    _Own(
        "outliers",
        ("sensors.csv",),
        "How many values lie outside of 1.5 times the interquartile range below the first or above the "
        "third quartile? Leave missing ones out.",
        "@outliers[count]",
        """
import pandas as pd

sensors = pd.read_csv("sensors.csv", parse_dates=["time"])

low, high = sensors.value.quantile([0.25, 0.75])
reach = 1.5 * (high - low)

known = sensors.value.dropna()
print(f"@outliers[{(~known.between(low - reach, high + reach)).sum()}]")
""",
        _outliers,
    ),
    _Own(
        "resampling",
        ("sensors.csv",),
        "On which day was the mean of sensor a highest, and what was it, to two decimals? Leave missing "
        "values out.",
        "@day[YYYY-MM-DD] @mean[value]",
        """
import pandas as pd

sensors = pd.read_csv("sensors.csv", parse_dates=["time"])

days = sensors[sensors.sensor == "a"].set_index("time").value.resample("D").mean()
days.describe()

print(f"@day[{days.idxmax():%Y-%m-%d}] @mean[{days.max():.2f}]")
""",
        _warmest,
    ),
    _Own(
        "regression",
        ("patients.csv",),
        "What are Pearson's r of age and pressure, and slope and intercept of pressure over age, each to "
        "two decimals?",
        "@r[value] @slope[value] @intercept[value]",
        """
import numpy as np
import pandas as pd

patients = pd.read_csv("patients.csv")

slope, intercept = np.polyfit(patients.age, patients.pressure, 1)

r = patients.age.corr(patients.pressure)
print(f"@r[{r:.2f}] @slope[{slope:.2f}] @intercept[{intercept:.2f}]")
""",
        _correlation,
    ),
    _Own(
        "t-test",
        ("patients.csv",),
        "Compare the pressure of untreated (0) with that of treated (1) patients: Welch's t and the "
        "difference of the means, each to two decimals.",
        "@t[value] @difference[value]",
        """
import pandas as pd

patients = pd.read_csv("patients.csv")

groups = patients.groupby("treated").pressure.agg(["mean", "var", "count"])
groups

difference = groups["mean"][0] - groups["mean"][1]
t = difference / (groups["var"] / groups["count"]).sum() ** 0.5
print(f"@t[{t:.2f}] @difference[{difference:.2f}]")
""",
        _welch,
    ),
    _Own(
        "binning",
        ("patients.csv",),
        "How many patients are young (below 40), middle (40 to 64) and old (65 and above)?",
        "@young[count] @middle[count] @old[count]",
        """
import pandas as pd

patients = pd.read_csv("patients.csv")

groups = pd.cut(patients.age, [0, 40, 65, 200], right=False, labels=["young", "middle", "old"]).value_counts()
groups

print(*(f"@{name}[{count}]" for name, count in groups.items()))
""",
        _ages,
    ),
    _Own(
        "nested-json",
        ("events.jsonl",),
        "How many users with the plan paid are there, and how often is the tag chart used?",
        "@paying_users[count] @chart_tags[count]",
        """
import json
from pathlib import Path
import pandas as pd

events = pd.json_normalize([json.loads(line) for line in Path("events.jsonl").read_text().splitlines()])
events.head()

paying = events[events["user.plan"] == "paid"]["user.id"].nunique()
print(f"@paying_users[{paying}] @chart_tags[{(events.tags.explode() == 'chart').sum()}]")
""",
        _nested,
    ),
    _Own(
        "log-lines",
        ("service.log",),
        "How many lines are errors, and how many milliseconds took the slowest of those?",
        "@errors[count] @slowest_ms[milliseconds]",
        r"""
import re
from pathlib import Path

found = re.findall(r"^ERROR \w+ took (\d+) ms$", Path("service.log").read_text(), re.MULTILINE)

print(f"@errors[{len(found)}] @slowest_ms[{max(map(int, found))}]")
""",
        _log,
    ),
    _Own(
        "two-regressors",
        ("patients.csv",),
        "Fit pressure by ordinary least squares on age and treated, with an intercept. What is the "
        "coefficient of treated, to two decimals?",
        "@treatment_effect[value]",
        """
import numpy as np
import pandas as pd

patients = pd.read_csv("patients.csv")

design = np.column_stack([np.ones(len(patients)), patients.age, patients.treated])

fit = np.linalg.lstsq(design, patients.pressure, rcond=None)[0]
print(f"@treatment_effect[{fit[2]:.2f}]")
""",
        _fitted,
    ),
)
