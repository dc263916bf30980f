"""Downloads source distributions from where pip is set to look, and does nothing with them.

``python sdists.py DIRECTORY DISTRIBUTION=FILE …``. ``pip download`` would build each for its metadata, which nobody here
asks for and which takes most of a minute. Checks no hash (see fetching).
"""

from __future__ import annotations

import sys
from optparse import Values
from pathlib import Path

# There is no public way to ask pip where a file is; in a process of its own, what changes there breaks only this.
from pip._internal.commands.index import IndexCommand
from pip._internal.exceptions import DistributionNotFound
from pip._internal.index.package_finder import PackageFinder


class DownloadSources(IndexCommand):
    """A command of pip, with its settings: indexes, links, certificates, credentials."""

    def run(self, options: Values, args: list[str]) -> int:
        directory, *wanted = args
        with self._build_session(options) as session:
            finder = self._build_package_finder(options, session)
            for distribution, filename in (item.split("=") for item in wanted):
                answer = session.get(_address(finder, distribution, filename))
                answer.raise_for_status()
                (Path(directory) / filename).write_bytes(answer.content)
        return 0


def _address(finder: PackageFinder, distribution: str, filename: str) -> str:
    for candidate in finder.find_all_candidates(distribution):
        if candidate.link.filename == filename:
            return candidate.link.url_without_fragment
    raise DistributionNotFound(f"No {filename} was found")


if __name__ == "__main__":
    # Named as the command in whose place it stands, so that what is set for that one holds here.
    sys.exit(DownloadSources("download", "Download source distributions.").main(sys.argv[1:]))
