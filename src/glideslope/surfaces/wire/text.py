"""Text that is safe in UTF-8 JSON.

File names are bytes; those that are not UTF-8 reach us with surrogate escapes, which JSON in UTF-8
cannot carry. A path is therefore escaped so that it can be read back; other text only so that it
can be shown.
"""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")
_TO_ESCAPE = re.compile("[\\\\\ud800-\udfff]")
_ESCAPED = re.compile(r"\\(?:\\|x([0-9a-f]{2})|u([0-9a-f]{4}))")


def path_text(path: str) -> str:
    r"""A path as JSON carries it: a backslash is `\\`, a byte that is not UTF-8 is `\xNN`."""
    return _TO_ESCAPE.sub(lambda found: "\\\\" if found[0] == "\\" else _escape(found), path)


def text_path(text: str) -> str:
    """The path that `path_text` wrote."""

    def unescape(found: re.Match[str]) -> str:
        if found[1]:
            return chr(0xDC00 + int(found[1], 16))
        return chr(int(found[2], 16)) if found[2] else "\\"

    return _ESCAPED.sub(unescape, text)


def plain_text(text: str) -> str:
    r"""Any other text: only what JSON cannot carry is written `\xNN`."""
    return text if text.isascii() else _SURROGATE.sub(_escape, text)


def plain_or_none(text: str | None) -> str | None:
    """The same for a text that may be absent."""
    return None if text is None else plain_text(text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"
