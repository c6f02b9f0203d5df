"""Findings of static tools, and which of them are new against the base.

A finding is recognised on the base by what stays when lines move: its path (renames followed),
its source and code, its message with numbers and quoted paths blanked, and the text of its line.
Equal findings are counted, so a second one of a kind is new.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from glideslope.errors import UnknownId
from glideslope.model.paths import RepoPath
from glideslope.model.result import Diagnostic, FindingState, Severity
from glideslope.ports.toolchain import Tree

_QUOTED_PATH = re.compile(r"(['\"`])[^'\"`]*/[^'\"`]*\1")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One finding as a tool reports it, before it is compared. Lines and columns count from 1."""

    path: str  # relative to the workspace root
    line: int  # 0: the whole file
    column: int
    code: str
    source: str
    message: str
    severity: Severity = Severity.ERROR
    end_line: int = 0
    end_column: int = 0
    gates: bool = False  # blocks where it is new
    configured: bool = False  # by a checker that the repository itself configures


class Lines:
    """The lines and digests of a tree's files, each file read once."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._lines: dict[str, list[str]] = {}

    def text(self, path: str, line: int) -> str:
        """A line without surrounding white space, "" where there is none."""
        if path not in self._lines:
            data = self._read(path)
            self._lines[path] = [] if data is None else data.decode("utf-8", "replace").splitlines()
        lines = self._lines[path]
        return lines[line - 1].strip() if 0 < line <= len(lines) else ""

    def sha256(self, path: str) -> str | None:
        """Digest of a file's bytes; None where they are not at hand."""
        data = self._read(path)
        return None if data is None else hashlib.sha256(data).hexdigest()

    def _read(self, path: str) -> bytes | None:
        if path not in self._tree.entries:
            return None
        try:
            return self._tree.read(RepoPath(path))
        except UnknownId:
            return None


def judge(
    found: Iterable[Found],
    base: Iterable[Found] | None,
    *,
    now: Tree,
    before: Tree | None,
    origins: Mapping[RepoPath, RepoPath],
) -> tuple[Diagnostic, ...]:
    """Tells new findings from known ones.

    Args:
        found: Findings on the tree under test.
        base: Findings on the base; None: there is no base, so what gates is there already.
        now: The tree under test.
        before: The base's tree.
        origins: Paths of now that had another one in the base.

    Returns:
        Diagnostics sorted by path, line, column; those that block are new.
    """
    lines = Lines(now)
    known: Counter[tuple[str, ...]] = Counter()
    if base is not None and before is not None:
        old_lines = Lines(before)
        known.update(_key(finding, finding.path, old_lines) for finding in base)
    result = []
    for finding in sorted(found, key=_order):
        state = FindingState.ADVISORY
        if finding.gates:
            origin = origins.get(RepoPath(finding.path), RepoPath(finding.path))
            key = _key(finding, origin, lines)
            state = FindingState.KNOWN if base is None or known[key] > 0 else FindingState.NEW
            known[key] -= 1
        result.append(_diagnostic(finding, state, lines))
    return tuple(result)


def blocking(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Those that stop the climb."""
    return tuple(diagnostic for diagnostic in diagnostics if diagnostic.blocking)


def count_text(diagnostics: Iterable[Diagnostic]) -> str:
    """Such as `2 new findings (12 known, 3 advisory)`."""
    states = Counter(diagnostic.state for diagnostic in diagnostics)
    new = states[FindingState.NEW]
    rest = [
        f"{states[state]} {state}" for state in (FindingState.KNOWN, FindingState.ADVISORY) if states[state]
    ]
    text = f"{new} new finding{'' if new == 1 else 's'}"
    return f"{text} ({', '.join(rest)})" if rest else text


def _order(finding: Found) -> tuple[str, int, int, str, str]:
    return finding.path, finding.line, finding.column, finding.source, finding.code


def _key(finding: Found, path: str, lines: Lines) -> tuple[str, ...]:
    message = _NUMBER.sub("#", _QUOTED_PATH.sub("…", finding.message))
    return path, finding.source, finding.code, message, lines.text(finding.path, finding.line)


def _diagnostic(finding: Found, state: FindingState, lines: Lines) -> Diagnostic:
    return Diagnostic(
        path=finding.path,
        line=finding.line,
        column=finding.column,
        end_line=finding.end_line or finding.line,
        end_column=finding.end_column or finding.column,
        severity=finding.severity,
        code=finding.code,
        source=finding.source,
        message=finding.message,
        state=state,
        blocking=state is FindingState.NEW,
        configured=finding.configured,
        sha256=lines.sha256(finding.path),
    )
