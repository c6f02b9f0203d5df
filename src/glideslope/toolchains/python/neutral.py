"""Changes that change no code: what a test could notice stays the same.

A source file is equal when its syntax tree (docstrings included, positions not), its encoding
and the comments that tools act on are. Documents are, unless something reads them.
"""

from __future__ import annotations

import ast
import fnmatch
import io
import re
import tokenize
from collections.abc import Iterable, Iterator

from glideslope.errors import UnknownId
from glideslope.model.paths import RepoPath, name
from glideslope.model.snapshot import Change, ChangeKind, FileMode
from glideslope.ports.toolchain import Tree
from glideslope.toolchains.python.graph import sources
from glideslope.toolchains.python.layout import CONFIGURATION, read_text
from glideslope.toolchains.python.module import SyntaxFault, parse, read_encoding

_DOCUMENTS = ("*.md", "*.rst", "licen[cs]e*", "copying*", "notice*", "authors*")
_FOLDERS = ("docs", "doc", ".github")
_PRAGMA = re.compile(
    r"#\s*(?:type|noqa|pragma|mypy|pyright|ruff|ty|flake8|pylint|isort|doctest|cython|distutils)\b|#!|coding[:=]",
    re.IGNORECASE,
)

_LAYOUT = re.compile(r"[\s()]")


def is_neutral(changes: Iterable[Change], base: Tree | None, now: Tree) -> bool:
    """Whether a change leaves all code as it was.

    Args:
        changes: Everything that differs; without any, nothing changed and the answer is True.
        base: The tree before; without one nothing can be said to be unchanged.
        now: The tree after.

    Returns:
        False where in doubt.
    """
    if base is None:
        return False
    return all(_is_neutral(change, base, now) for change in changes)


def is_document(path: str) -> bool:
    """Whether a file is documentation by its name or folder."""
    if any(fnmatch.fnmatchcase(name(path).lower(), pattern) for pattern in _DOCUMENTS):
        return True
    return path.split("/")[0] in _FOLDERS and not path.endswith((".py", ".pyi"))


def same_code(before: bytes, after: bytes) -> bool:
    """Whether two source files differ in nothing but layout and plain comments."""
    if read_encoding(before) != read_encoding(after):
        return False
    old, new = parse(before), parse(after)
    if isinstance(old, SyntaxFault) or isinstance(new, SyntaxFault):
        return False
    if ast.dump(old, include_attributes=False) != ast.dump(new, include_attributes=False):
        return False
    return list(_pragmas(before)) == list(_pragmas(after))


def _is_neutral(change: Change, base: Tree, now: Tree) -> bool:
    if is_document(change.path):
        return not _is_named(change.path, now) and not _is_named(change.path, base)
    if change.kind is not ChangeKind.MODIFIED or not change.path.endswith(".py"):
        return False
    if change.before is None or change.after is None or change.before.mode is not change.after.mode:
        return False
    if FileMode.SYMLINK in (change.before.mode, change.after.mode):
        return False
    try:
        return same_code(base.read(change.path), now.read(change.path))
    except UnknownId:
        return False


def _pragmas(source: bytes) -> Iterator[tuple[str, str]]:
    """Comments that tools act on, each with the code on its line, without its layout."""
    try:
        for token in tokenize.tokenize(io.BytesIO(source).readline):
            if token.type == tokenize.COMMENT and _PRAGMA.search(token.string):
                yield token.string, _LAYOUT.sub("", token.line[: token.start[1]])
    except (tokenize.TokenError, SyntaxError):
        yield "", ""


def _is_named(path: RepoPath, tree: Tree) -> bool:
    """Whether configuration or code mentions a document, by its name or as one of its kind."""
    last = name(path)
    suffix = last.rpartition(".")[2]
    wanted = re.compile("|".join((re.escape(last), *((r"\*\." + re.escape(suffix),) if "." in last else ()))))
    for entry in tree.entries:
        if name(entry) in CONFIGURATION and wanted.search(_without_metadata(read_text(tree, entry))):
            return True
    return any(wanted.search(read_text(tree, file)) for file in sources(tree))


def _without_metadata(text: str) -> str:
    """Configuration without the lines that only put a file into a distribution's metadata."""
    kept = (line for line in text.splitlines() if not _METADATA.match(line))
    return "\n".join(kept)


_METADATA = re.compile(r"\s*(?:readme|license|license-files|license_files?|long_description)\s*=")
