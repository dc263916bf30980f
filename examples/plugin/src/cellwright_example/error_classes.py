"""An error class: a plan stops at an error of this kind instead of trying again."""

from __future__ import annotations

import re

from cellwright.plans.error_classes import ErrorClass

CELLWRIGHT_API = 1

QUOTA = ErrorClass(
    "example_quota",
    "unrecoverable",
    "The quota for this month is used up",
    "Wait for the next month, or ask for more: {message}",
    types=("RuntimeError",),
    says=re.compile(r"quota for this month"),
)
