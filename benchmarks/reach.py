"""How many test files of a project each of its modules reaches: a scan of import statements.

Kept apart from the product's own import graph on purpose: it decides which modules are measured,
not what is selected. Packages run with their modules; a conftest file speaks for all below it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.long.project import Project


def reach(project: Project) -> dict[Path, float]:
    """The share of test files, 0 to 1, that each module of the project's packages reaches."""
    tests = project.tests()
    names = _names(project)
    imports = {path: frozenset(_imported(path, names)) for path in set(names.values()) | set(tests)}
    reached: dict[Path, int] = dict.fromkeys(project.modules(), 0)
    for test in tests:
        seen = {test, *(path for path in _conftests(project, test) if path in imports)}
        pending = list(seen)
        while pending:
            new = imports[pending.pop()] - seen
            seen |= new
            pending += new
        for path in seen & reached.keys():
            reached[path] += 1
    return {path: count / len(tests) for path, count in reached.items()}


def _names(project: Project) -> dict[str, Path]:
    """Every file that can be imported, by dotted name from the root and from each package's folder."""
    roots = {project.folder, *((project.folder / package).parent for package in project.packages)}
    found: dict[str, Path] = {}
    for path in project.folder.rglob("*.py"):
        if ".venv" in path.relative_to(project.folder).parts:
            continue
        for root in roots:
            if path.is_relative_to(root):
                parts = path.relative_to(root).with_suffix("").parts
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _imported(path: Path, names: dict[str, Path]) -> Iterator[Path]:
    own = next((name for name, file in names.items() if file == path), "")
    package = own if path.name == "__init__.py" else own.rpartition(".")[0]
    for node in _statements(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
        else:
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            wanted = [module, *(f"{module}.{alias.name}" for alias in node.names)]
        for name in wanted:
            parts = name.split(".")
            yield from (names[p] for n in range(len(parts)) if (p := ".".join(parts[: n + 1])) in names)


def _statements(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        else:
            yield from _statements(node)


def _conftests(project: Project, test: Path) -> Iterator[Path]:
    for folder in test.parents:
        yield folder / "conftest.py"
        yield folder / "__init__.py"
        if folder == project.folder:
            return
