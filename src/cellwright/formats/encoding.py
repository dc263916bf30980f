"""Between a file's bytes and its text, with the line of what is wrong. Knows no format."""

from __future__ import annotations

from cellwright.errors import NotebookFormatError

__all__ = ["MAX_BYTES", "at_line", "decoded", "encoded"]

MAX_BYTES = 100_000_000
_HEAD = 8_000
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def decoded(content: bytes, name: str) -> str:
    """A text file's text, without a byte order mark.

    Raises:
        NotebookFormatError: it is too large, not text, or in another encoding.
    """
    if len(content) > MAX_BYTES:
        raise NotebookFormatError(
            f"{name} has {len(content):,} bytes, and at most {MAX_BYTES:,} are read",
            hint="Leave the outputs out, or split it",
        )
    encoding = "utf-16" if content.startswith(_UTF16) else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        if b"\0" in content[:_HEAD]:
            raise NotebookFormatError(
                f"{name} is a binary file, not text",
                hint="Give a notebook in one of the formats that are read",
            ) from error
        line = content.count(b"\n", 0, error.start) + 1
        raise at_line(
            line,
            f"byte 0x{content[error.start]:02x} is not UTF-8",
            name=name,
            hint="Save the file as UTF-8",
        ) from error


def encoded(text: str) -> tuple[bytes, tuple[str, ...]]:
    """A text as UTF-8, and a notice where it holds what no encoding can."""
    try:
        return text.encode(), ()
    except UnicodeEncodeError:
        # Half of a pair, as a cut emoji leaves it; JSON has an escape for it, text has none.
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return whole.encode(), ("Broken characters (halves of surrogate pairs) were replaced by \ufffd",)


def at_line(line: int, problem: str, *, name: str, hint: str | None = None) -> NotebookFormatError:
    """An error that says where in a file it is."""
    return NotebookFormatError(f"{name}, line {line}: {problem}", hint=hint)
