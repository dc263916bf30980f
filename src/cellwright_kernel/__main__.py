"""The fork server's way in, run as a file: ``python path/to/cellwright_kernel/__main__.py --channel FD``.

With ``--trial`` it is the trial of the lockdown instead, with ``--confine`` it confines another program, with ``--ferry``
it stands between one and its sockets.

A path rather than ``-m``, because the package must not be importable by way of a directory that would bring
the rest of our site-packages into the user's interpreter. So it registers itself from where it lies.
"""

import importlib.util
import sys
from pathlib import Path


def register_package() -> None:
    """Make ``cellwright_kernel`` importable, and nothing beside it."""
    home = Path(__file__).resolve().parent
    # Running a file put its directory first on the path: our modules would shadow the user's by bare name.
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != home]
    spec = importlib.util.spec_from_file_location(
        "cellwright_kernel", home / "__init__.py", submodule_search_locations=[str(home)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load cellwright_kernel from {home}")
    package = importlib.util.module_from_spec(spec)
    sys.modules["cellwright_kernel"] = package
    spec.loader.exec_module(package)


if __name__ == "__main__":
    register_package()
    if sys.argv[1:] == ["--trial"]:
        from cellwright_kernel import _trial as trial

        trial.main()
    elif sys.argv[1:2] == ["--confine"]:
        from cellwright_kernel import _confined_program as confined_program

        confined_program.main(sys.argv[2:])
    elif sys.argv[1:2] == ["--ferry"]:
        from cellwright_kernel import _ferry as ferry

        ferry.main(sys.argv[2:])
    else:
        from cellwright_kernel import _forkserver as forkserver

        forkserver.main(sys.argv[1:])
