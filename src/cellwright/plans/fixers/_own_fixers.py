"""Our own fixers, in the order in which they are asked, as ``pyproject.toml`` registers them."""

from __future__ import annotations

from collections.abc import Callable

from cellwright.plans.failures import Failure, Proposal
from cellwright.plans.fixers._attributes import (
    fix_appended_frame,
    fix_fill_method,
    fix_misspelt_attribute,
    fix_retired_attribute,
)
from cellwright.plans.fixers._bounds import fix_index
from cellwright.plans.fixers._callables import (
    fix_assigned_none,
    fix_call_of_module,
    fix_call_of_value,
    fix_missing_call,
    suggest_types,
)
from cellwright.plans.fixers._columns import fix_column, fix_key, fix_query
from cellwright.plans.fixers._drift import (
    fix_colormap,
    fix_frequency,
    fix_library_import,
    fix_library_name,
    fix_parameter_value,
    fix_style,
)
from cellwright.plans.fixers._drift_arguments import fix_keyword, fix_positions
from cellwright.plans.fixers._imports import fix_missing_package, fix_misspelt_import, fix_moved_import
from cellwright.plans.fixers._limits import suggest_check, suggest_less, suggest_zero
from cellwright.plans.fixers._names import (
    fix_foreign_name,
    fix_missing_import,
    fix_misspelt_name,
    point_to_other_step,
)
from cellwright.plans.fixers._paths import fix_missing_directory, fix_missing_file
from cellwright.plans.fixers._syntax import fix_syntax
from cellwright.plans.fixers._tabular import fix_encoding, fix_header, fix_one_column, fix_separator
from cellwright.plans.fixers._values import fix_date_format, fix_number, fix_truth, fix_unpacking

__all__ = ["FIXERS"]

CELLWRIGHT_API = 1

FIXERS: tuple[Callable[[Failure], Proposal | None], ...] = (
    fix_syntax,
    fix_foreign_name,
    fix_missing_import,
    point_to_other_step,
    fix_misspelt_name,
    fix_library_import,
    fix_moved_import,
    fix_misspelt_import,
    fix_missing_package,
    fix_style,
    fix_missing_directory,
    fix_missing_file,
    fix_encoding,
    fix_separator,
    fix_one_column,
    fix_column,
    fix_key,
    fix_query,
    fix_header,
    fix_assigned_none,
    fix_library_name,
    fix_retired_attribute,
    fix_appended_frame,
    fix_misspelt_attribute,
    fix_colormap,
    fix_frequency,
    fix_parameter_value,
    fix_fill_method,
    fix_keyword,
    fix_positions,
    fix_call_of_module,
    fix_call_of_value,
    fix_missing_call,
    suggest_types,
    fix_index,
    fix_number,
    fix_date_format,
    fix_truth,
    fix_unpacking,
    suggest_zero,
    suggest_less,
    suggest_check,
)
"""Those that go by rule, the surer ones first."""
