"""Behaviour bugs and comment-only edits, drawn by seed from a project's modules.

A bug replaces one span of one file's bytes. Sites are found in the syntax tree, the text around
them is left as it is, and what comes out parses.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"), ast.NotIn: (r"not\s+in", "in"),
}  # fmt: skip
ARITHMETIC = {ast.Add: (r"\+", "-"), ast.Sub: ("-", "+"), ast.Mult: (r"\*", "+")}
BOOLEANS = {ast.And: ("and", "or"), ast.Or: ("or", "and")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Replaces `before` by `after` at byte `start` of `path` (relative to the project's folder)."""

    path: str
    line: int
    start: int
    before: str
    after: str
    operator: str

    def apply(self, folder: Path) -> None:
        """Writes the edited file.

        Raises:
            ValueError: the file does not hold `before` there.
        """
        file = folder / self.path
        content = file.read_bytes()
        end = self.start + len(self.before.encode())
        if content[self.start : end] != self.before.encode():
            raise ValueError(f"{self.path} has no {self.before!r} at byte {self.start}: draw again")
        file.write_bytes(content[: self.start] + self.after.encode() + content[end:])


def bugs(folder: Path, modules: tuple[Path, ...], seed: int) -> Iterator[Edit]:
    """Every possible bug of those modules once, in the order of the seed."""
    places = [(sites, *place) for sites in (_Sites(folder, m) for m in modules) for place in sites.places()]
    random.Random(seed).shuffle(places)
    for sites, operator, start, end, after in places:
        edit = sites.edit(operator, start, end, after)
        if edit is not None:
            yield edit


def comments(folder: Path, modules: tuple[Path, ...], seed: int, count: int) -> tuple[Edit, ...]:
    """`count` edits that change comments alone: a comment line added, or a comment's words changed."""
    draw = random.Random(f"comments {seed}")
    found = [edit for module in modules for edit in _Sites(folder, module).comments()]
    chosen: list[Edit] = []
    for number in range(count):
        wanted = ("comment_added", "comment_changed")[number % 2]
        kind = [edit for edit in found if edit.operator == wanted] or found
        chosen.append(draw.choice(kind))
    return tuple(chosen)


class _Sites:
    """The places of one module where an edit can be made."""

    def __init__(self, folder: Path, module: Path) -> None:
        self._path = module.relative_to(folder).as_posix()
        self._bytes = module.read_bytes()
        self._lines = [0]
        for line in self._bytes.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._tree = ast.parse(self._bytes)

    def places(self) -> Iterator[tuple[str, int, int, str]]:
        for node in ast.walk(self._tree):
            for operator, find in FINDERS.items():
                for start, end, after in find(self, node):
                    yield operator, start, end, after

    def edit(self, operator: str, start: int, end: int, after: str) -> Edit | None:
        """That replacement; None where the module would not parse or would mean the same."""
        edited = self._bytes[:start] + after.encode() + self._bytes[end:]
        try:
            tree = ast.parse(edited)
        except SyntaxError:
            return None
        if ast.dump(tree) == ast.dump(self._tree):
            return None
        line = self._bytes.count(b"\n", 0, start) + 1
        before = self._text(start, end)
        return Edit(path=self._path, line=line, start=start, before=before, after=after, operator=operator)

    def comments(self) -> Iterator[Edit]:
        for node in ast.walk(self._tree):
            if not isinstance(node, (ast.Assign, ast.Return, ast.If, ast.For, ast.Raise)):
                continue
            begin = self._lines[node.lineno - 1]
            start = self._start(node)
            indent = self._bytes[begin:start].decode()
            if not indent.strip() and self._text(start, start + 4) != "elif":
                yield Edit(
                    path=self._path, line=node.lineno, start=begin, before=indent,
                    after=f"{indent}# reviewed\n{indent}", operator="comment_added",
                )  # fmt: skip
        inside = self._string_lines()
        for number, start in enumerate(self._lines[:-1], 1):
            line = self._bytes[start : self._lines[number]].decode()
            found = re.fullmatch(r"(\s*# )([A-Z][a-z]+ [^\n]*)\n", line)
            if (
                found
                and number not in inside
                and not re.search(r"type:|noqa|pragma|cod(e|ing)|ruff|fmt", line)
            ):
                at = start + len(found[1].encode())
                yield Edit(
                    path=self._path, line=number, start=at, before=found[2],
                    after=f"{found[2]} Still so.", operator="comment_changed",
                )  # fmt: skip

    # --- finders: spans and what to put there -----------------------------------------------

    def compared(self, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        if isinstance(node, ast.Compare):
            operands = (node.left, *node.comparators)
            for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
                yield from self._between(left, right, *COMPARISONS[type(operator)])

    def calculated(self, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            yield from self._between(node.left, node.right, *ARITHMETIC[type(node.op)])

    def joined(self, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        if isinstance(node, ast.BoolOp) and len(node.values) == 2:
            yield from self._between(node.values[0], node.values[1], *BOOLEANS[type(node.op)])

    def negated(self, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        if isinstance(node, (ast.If, ast.While, ast.IfExp)) and not isinstance(node.test, ast.NamedExpr):
            start, end = self._start(node.test), self._end(node.test)
            yield start, end, f"(not ({self._text(start, end)}))"

    def counted(self, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            yield self._start(node), self._end(node), str(node.value + 1)

    def flipped(self, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield self._start(node), self._end(node), str(not node.value)

    def returned(self, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        if not isinstance(node, ast.Return) or node.value is None:
            return
        if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield self._start(node.value), self._end(node.value), "None"

    def uncalled(self, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield self._start(node), self._end(node), "pass"

    def unpassed(self, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        if isinstance(node, ast.Call) and node.keywords and node.keywords[-1].arg is not None:
            passed = [*node.args, *node.keywords[:-1]]
            last = node.keywords[-1]
            after = max((self._end(each) for each in passed), default=None)
            if after is not None and after < self._start(last):
                yield after, self._end(last), ""

    # --- text and positions ---------------------------------------------------------------

    def _between(
        self, left: ast.expr, right: ast.expr, pattern: str, after: str
    ) -> Iterator[tuple[int, int, str]]:
        low, high = self._end(left), self._start(right)
        gap = self._text(low, high)
        found = re.fullmatch(rf"([\s)]*)({pattern})([\s(]*)", gap)
        if found is not None:
            start = low + len(found[1].encode())
            yield start, start + len(found[2].encode()), after

    def _string_lines(self) -> frozenset[int]:
        strings = (
            node
            for node in ast.walk(self._tree)
            if isinstance(node, ast.JoinedStr)
            or (isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)))
        )
        return frozenset(line for node in strings for line in range(node.lineno, (node.end_lineno or 0) + 1))

    def _start(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._lines[node.end_lineno - 1] + node.end_col_offset

    def _text(self, start: int, end: int) -> str:
        return self._bytes[start:end].decode()


Finder = Callable[[_Sites, ast.AST], Iterator[tuple[int, int, str]]]

FINDERS: dict[str, Finder] = {
    "comparison_swapped": _Sites.compared,
    "arithmetic_swapped": _Sites.calculated,
    "and_or_swapped": _Sites.joined,
    "condition_negated": _Sites.negated,
    "number_off_by_one": _Sites.counted,
    "truth_flipped": _Sites.flipped,
    "returns_none": _Sites.returned,
    "call_removed": _Sites.uncalled,
    "argument_dropped": _Sites.unpassed,
}
