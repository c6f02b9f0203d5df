"""Modules that import each other while they load."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from glideslope.model.paths import RepoPath
from glideslope.model.result import Severity
from glideslope.toolchains.python.findings import Found
from glideslope.toolchains.python.graph import ImportGraph


def new_cycles(
    now: ImportGraph,
    base: ImportGraph | None,
    changed: Iterable[RepoPath],
    origins: Mapping[RepoPath, RepoPath],
) -> Iterator[Found]:
    """Cycles of imports at load time that run through a changed module and that the base did not have.

    Advisory: many cycles work, and one that does not fails the import smoke.

    Args:
        now: Graph of the tree under test.
        base: Graph of the base; without one nothing is new.
        changed: Changed files.
        origins: Paths of now that had another one in the base.

    Yields:
        One finding per cycle, at the import of a changed module that is part of it.
    """
    if base is None:
        return
    suspects = [path for path in changed if _imports(now, path) != _imports(base, origins.get(path, path))]
    if not suspects:
        return
    before = {frozenset(group) for group in _cycles(base, base.files)}
    for group in _cycles(now, suspects):
        old = frozenset(origins.get(path, path) for path in group)
        through = sorted(frozenset(group).intersection(suspects))
        if through and not any(old <= known for known in before):
            yield _finding(now, through[0], group)


def _imports(graph: ImportGraph, path: RepoPath) -> frozenset[tuple[int, str, tuple[str, ...]]]:
    if path not in graph.known:
        return frozenset()
    facts = graph.facts(path)
    return frozenset((entry.level, entry.module, entry.names) for entry in facts.imports if entry.at_load)


def _targets(graph: ImportGraph, path: RepoPath) -> list[RepoPath]:
    found: set[RepoPath] = set()
    for imported in graph.facts(path).imports:
        if imported.at_load:
            found |= graph.resolve(path, imported)[0]
    found.discard(path)
    return sorted(target for target in found if target in graph.known)


def _cycles(graph: ImportGraph, starts: Iterable[RepoPath]) -> list[tuple[RepoPath, ...]]:
    """Groups of two or more modules that reach each other (Tarjan, without recursion)."""
    order: dict[RepoPath, int] = {}
    low: dict[RepoPath, int] = {}
    stack: list[RepoPath] = []
    on_stack: set[RepoPath] = set()
    groups: list[tuple[RepoPath, ...]] = []
    for start in starts:
        if start in order:
            continue
        work = [(start, iter(_targets(graph, start)))]
        order[start] = low[start] = len(order)
        stack.append(start)
        on_stack.add(start)
        while work:
            node, targets = work[-1]
            following = next(targets, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    at = stack.index(node)
                    group, stack = stack[at:], stack[:at]
                    on_stack.difference_update(group)
                    if len(group) > 1:
                        groups.append(tuple(sorted(group)))
            elif following not in order:
                order[following] = low[following] = len(order)
                stack.append(following)
                on_stack.add(following)
                work.append((following, iter(_targets(graph, following))))
            elif following in on_stack:
                low[node] = min(low[node], order[following])
    return groups


def _finding(graph: ImportGraph, path: RepoPath, group: tuple[RepoPath, ...]) -> Found:
    line, column = 0, 0
    for imported in graph.facts(path).imports:
        if imported.at_load and graph.resolve(path, imported)[0].intersection(group) - {path}:
            line, column = imported.line, imported.column
            break
    shown = ", ".join(group[:4]) + (f" and {len(group) - 4} more" if len(group) > 4 else "")
    return Found(
        path=path,
        line=line,
        column=column,
        code="import_cycle",
        source="imports",
        message=f"new cycle of imports at load time: {shown}",
        severity=Severity.WARNING,
    )
