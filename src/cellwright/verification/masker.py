"""A process of its own that replaces what patterns match in texts: read from stdin, written to stdout, as JSON.

Run by its path, so that it starts quickly; imports nothing of ours. A pattern may take for ever on the wrong text, and
nothing but the end of a process stops it: after so many seconds of processor time as its argument says.
"""

from __future__ import annotations

import json
import re
import resource
import sys

_MEMORY_BYTES = 1 << 30


def main() -> None:
    seconds = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    asked = json.load(sys.stdin)
    texts = asked["texts"]
    for pattern, shown in asked["patterns"]:
        try:
            compiled = re.compile(pattern)
            # Doubled, so that no part of it is a reference to what was matched.
            plain = shown.replace("\\", "\\\\")
            texts = [compiled.sub(plain, text) for text in texts]
        except (re.error, RecursionError, MemoryError, OverflowError) as error:
            json.dump({"pattern": pattern, "error": f"{type(error).__name__}: {error}"[:500]}, sys.stdout)
            return
    json.dump({"texts": texts}, sys.stdout)


if __name__ == "__main__":
    main()
