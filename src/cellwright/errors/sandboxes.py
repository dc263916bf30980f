"""What the isolation refuses, or cannot do."""

from __future__ import annotations

from cellwright.errors.base import CellwrightError

__all__ = [
    "FileConflict",
    "FileFailed",
    "FileRefused",
    "FileTooLarge",
    "FileUnreadable",
    "NetworkRuleInvalid",
    "NoSuchFile",
    "PackageFailed",
    "PackageRefused",
    "SandboxError",
]


class SandboxError(CellwrightError):
    code = "sandbox"


class FileRefused(SandboxError):
    code = "file_refused"


class NoSuchFile(SandboxError):
    code = "no_such_file"


class FileTooLarge(SandboxError):
    code = "file_too_large"


class FileFailed(SandboxError):
    code = "file_failed"


class FileUnreadable(SandboxError):
    """A file's content is not what it should be, or too much to be looked at; the message says which."""

    code = "file_unreadable"


class FileConflict(SandboxError):
    """Files of the project are no longer what a session's own were made from; ``paths`` names them."""

    code = "file_conflict"

    def __init__(self, message: str, *, paths: tuple[str, ...], hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.paths = paths


class PackageRefused(SandboxError):
    """A package may not be installed here; ``suggestion`` is the approved one that was probably meant."""

    code = "package_refused"

    def __init__(self, message: str, *, suggestion: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.suggestion = suggestion


class PackageFailed(SandboxError):
    code = "package_failed"


class NetworkRuleInvalid(SandboxError):
    code = "network_rule_invalid"
