"""``python benchmarks/agent``: see README.md beside this file."""

from __future__ import annotations

import sys
from pathlib import Path

# Run as a directory, this one is on the path; what all benchmarks share lies beside it.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from datatasks.commands import main  # only works from here on

if __name__ == "__main__":
    sys.exit(main())
