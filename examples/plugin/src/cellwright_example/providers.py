"""A provider of models: one that says what was said to it. What speaks to it is in ``parrot``, imported on first use."""

from __future__ import annotations

from cellwright.agent.models.providers import Provider
from cellwright.agent.models.table import ModelRow

CELLWRIGHT_API = 1

PARROT = Provider(
    "cellwright_example.parrot",
    key_needed=False,
    rows=(ModelRow("polly", "parrot", 32_000, tools="none", output="prompted", pictures=False),),
)
