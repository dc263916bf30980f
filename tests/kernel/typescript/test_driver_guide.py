"""The guide's cells run, in its order, with the results that it tells."""

from __future__ import annotations

import re
from pathlib import Path

from tests.kernel.typescript.conftest import Driver

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "typescript.md"
CELL = re.compile(r"^```typescript\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
RESULT = re.compile(r"// → (?P<result>.*)$", re.MULTILINE)


def test_cells_of_the_guide_give_what_it_tells(own_driver: Driver) -> None:
    cells = [match["code"] for match in CELL.finditer(GUIDE.read_text())]
    assert len(cells) > 5
    for code in cells:
        told = RESULT.search(code)
        result = own_driver.value(code)
        assert told is None or result == told["result"], code
