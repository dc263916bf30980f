"""A contract for import-linter: a module with an underscore is imported only from its own folder and below it.

Every other module of a package is one of its doors. ``pyproject.toml`` names the contract's type and the root packages.
"""

from __future__ import annotations

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output


class DoorsContract(Contract):
    """Keeps private modules private."""

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # the base class's own
        passed = [
            (importer, imported)
            for imported in sorted(graph.modules)
            if _is_private(imported)
            for importer in sorted(graph.find_modules_that_directly_import(imported))
            if not _may_import(importer, imported)
        ]
        output.verbose_print(verbose, f"{sum(map(_is_private, graph.modules))} modules are private")
        return ContractCheck(kept=not passed, metadata={"passed": passed})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for importer, imported in check.metadata["passed"]:
            output.print_error(f"{importer} imports {imported}, which is private to {_folder(imported)}")


def _is_private(module: str) -> bool:
    last = module.rpartition(".")[2]
    return last.startswith("_") and not last.startswith("__")


def _may_import(importer: str, imported: str) -> bool:
    return f"{importer}.".startswith(f"{_folder(imported)}.")


def _folder(module: str) -> str:
    return module.rpartition(".")[0]
