"""The names of files that people bring."""

from __future__ import annotations

import pytest

from cellwright.errors import CellwrightError
from cellwright.web._uploads import free_name, upload_name


@pytest.mark.parametrize("name", ["data.csv", "Größe 2.parquet", "no suffix"])
def test_a_plain_name_is_kept(name: str) -> None:
    assert upload_name(name) == name


@pytest.mark.parametrize(
    "name", ["", " ", "../up.csv", "a/b.csv", "a\\b.csv", ".hidden", "a\nb", "a\u202eb", "x" * 201]
)
def test_a_name_that_leads_elsewhere_or_deceives_is_refused(name: str) -> None:
    with pytest.raises(CellwrightError, match="name"):
        upload_name(name)


def test_a_second_file_of_a_name_gets_the_next_one() -> None:
    assert [free_name("data.csv", number) for number in (1, 2, 3)] == ["data.csv", "data_2.csv", "data_3.csv"]
    assert free_name("README", 2) == "README_2"
