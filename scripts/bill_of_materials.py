"""Writes a CycloneDX bill of materials from a locked requirements file. Resolves nothing, and asks no index.

The lock is what a release was tested with: names, versions, hashes and who needs what (``# via``) all stand in it.
"""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass, field
from typing import Any

_ENTRY = re.compile(
    r"^(?P<name>[\w.-]+)(?:\[[^\]]*\])?==(?P<version>[^\s;\\]+)(?:\s*;\s*(?P<marker>[^\\]+?))?\s*\\?$"
)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_VIA = re.compile(r"^\s+#\s+(?:via )?([\w.-]+)(?: \(pyproject\.toml\))?$")


@dataclass(frozen=True, slots=True)
class Package:
    """A distribution of the lock."""

    name: str
    version: str
    marker: str | None
    hashes: list[str] = field(default_factory=list)
    needed_by: list[str] = field(default_factory=list)

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.name.lower()}@{self.version}"


def read_lock(text: str) -> list[Package]:
    """The packages of a file that ``make lock`` wrote."""
    packages: list[Package] = []
    for line in text.splitlines():
        if entry := _ENTRY.match(line):
            packages.append(Package(entry["name"], entry["version"], entry["marker"]))
        elif packages:
            packages[-1].hashes.extend(_HASH.findall(line))
            if via := _VIA.match(line):
                packages[-1].needed_by.append(via[1])
    return packages


def bill_of_materials(lock: str, name: str, version: str, timestamp: str) -> str:
    """A CycloneDX 1.6 document. The same lock, version and time make the same bytes."""
    packages = read_lock(lock)
    purls: dict[str, list[str]] = {}
    for package in packages:
        purls.setdefault(package.name, []).append(package.purl)
    own = f"pkg:pypi/{name}@{version}"
    needs: dict[str, set[str]] = {own: set(), **{package.purl: set() for package in packages}}
    for package in packages:
        for other in package.needed_by:
            for user in [own] if other == name else purls.get(other, []):
                needs[user].add(package.purl)
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, own + lock)}",
        "version": 1,
        "metadata": {
            "timestamp": timestamp,
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": name,
                "version": version,
                "purl": own,
                "licenses": [{"license": {"id": "BSD-3-Clause"}}],
            },
        },
        "components": [_component(package) for package in packages],
        "dependencies": [{"ref": ref, "dependsOn": sorted(on)} for ref, on in needs.items()],
    }
    return json.dumps(document, indent=1) + "\n"


def _component(package: Package) -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        "purl": package.purl,
    }
    if package.marker:
        component["properties"] = [{"name": "cellwright:environment-marker", "value": package.marker}]
    return component
