"""Finds the line of a key in a TOML document, by parsing prefixes of it.

A TOML parser does not say where a key stood. But whether the first n lines hold it is a question
it does answer, and once they do, more lines do too: so the line is found by bisection. A prefix
that ends inside a statement does not parse; it stands for the next longer one that does.
"""

from __future__ import annotations

import tomllib
from bisect import bisect_left


def locate(content: bytes, path: tuple[str, ...]) -> int | None:
    """The line, from 1, on which the statement begins that first makes `path` exist.

    Args:
        content: A document that parses.
        path: Names of tables, and at last the key.

    Returns:
        The line; None when the path does not exist.
    """
    lines = content.decode("utf-8", "replace").splitlines(keepends=True)

    def holds(size: int) -> bool:
        while (document := _parsed("".join(lines[:size]))) is None and size < len(lines):
            size += 1
        return _has(document, path)

    if not path or not holds(len(lines)):
        return None
    return bisect_left(range(len(lines) + 1), True, key=holds)


def _has(document: object, path: tuple[str, ...]) -> bool:
    here = document
    for name in path:
        if not isinstance(here, dict) or name not in here:
            return False
        here = here[name]
    return True


def _parsed(text: str) -> object:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return None
