"""The data of our own tasks: made from a fixed seed, written as files, and kept as rows for the truth. Needs nothing."""

from __future__ import annotations

import csv
import json
import random
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

__all__ = ["Tables", "make_tables"]

Row: TypeAlias = dict[str, Any]

_REGIONS = ("north", "south", "east", "west")
_PRODUCTS = ("anvil", "bolt", "clamp", "drill")
_WORDS = ("kernel", "notebook", "table", "branch", "cell", "plan", "chart")


@dataclass(frozen=True, slots=True)
class Tables:
    """Rows as they were made; None is a value that the file leaves empty."""

    directory: Path
    sales: list[Row]
    customers: list[Row]
    orders: list[Row]
    sensors: list[Row]
    patients: list[Row]
    events: list[Row]
    lines: list[str]


def make_tables(directory: Path) -> Tables:
    """Make every table and write it into a directory."""
    chance = random.Random(20)  # noqa: S311  # the same data every time is the point
    tables = Tables(
        directory,
        _sales(chance),
        _customers(chance),
        _orders(chance),
        _sensors(chance),
        _patients(chance),
        _events(chance),
        _lines(chance),
    )
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("sales", "customers", "orders", "sensors", "patients"):
        _write_csv(directory / f"{name}.csv", getattr(tables, name))
    events = "".join(json.dumps(row) + "\n" for row in tables.events)
    (directory / "events.jsonl").write_text(events)
    (directory / "service.log").write_text("\n".join(tables.lines) + "\n")
    return tables


def _sales(chance: random.Random) -> list[Row]:
    return [
        {
            "date": (date(2024, 1, 1) + timedelta(days=chance.randrange(366))).isoformat(),
            "region": chance.choice(_REGIONS),
            "product": chance.choice(_PRODUCTS),
            "units": chance.randrange(1, 40),
            "price": round(chance.uniform(2, 90), 2),
        }
        for _ in range(3000)
    ]


def _customers(chance: random.Random) -> list[Row]:
    return [
        {
            "customer_id": number,
            "country": chance.choice(("DE", "FR", "IT", "PL")),
            "since": chance.randrange(2010, 2024),
        }
        for number in range(1, 201)
    ]


def _orders(chance: random.Random) -> list[Row]:
    # Some orders name a customer that does not exist, and some customers order nothing.
    return [
        {
            "order_id": number,
            "customer_id": chance.randrange(1, 181) + 25,
            "amount": round(chance.uniform(5, 500), 2),
        }
        for number in range(1, 1201)
    ]


def _sensors(chance: random.Random) -> list[Row]:
    start = datetime(2024, 3, 1)  # a wall clock of no place
    rows = []
    for hour in range(24 * 30):
        for sensor in ("a", "b"):
            value = round(20 + 5 * (hour % 24) / 24 + chance.gauss(0, 1), 3)
            if chance.random() < 0.005:
                value = round(value + 60, 3)
            rows.append(
                {
                    "time": (start + timedelta(hours=hour)).isoformat(sep=" "),
                    "sensor": sensor,
                    "value": None if chance.random() < 0.04 else value,
                }
            )
    return rows


def _patients(chance: random.Random) -> list[Row]:
    rows = []
    for number in range(400):
        age = chance.randrange(18, 90)
        treated = chance.randrange(2)
        pressure = round(95 + 0.6 * age - 7 * treated + chance.gauss(0, 6), 1)
        rows.append({"patient": number, "age": age, "treated": treated, "pressure": pressure})
    return rows


def _events(chance: random.Random) -> list[Row]:
    return [
        {
            "user": {"id": chance.randrange(1, 60), "plan": chance.choice(("free", "paid"))},
            "kind": chance.choice(("open", "run", "save", "close")),
            "tags": chance.sample(_WORDS, chance.randrange(4)),
        }
        for _ in range(2000)
    ]


def _lines(chance: random.Random) -> list[str]:
    return [
        f"{chance.choice(('INFO', 'INFO', 'INFO', 'WARN', 'ERROR'))} "
        f"{chance.choice(_WORDS)} took {chance.randrange(1, 2000)} ms"
        for _ in range(1500)
    ]


def _write_csv(path: Path, rows: list[Row]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
