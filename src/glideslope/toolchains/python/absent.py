"""Modules that an import did not find: whose they are, and what helps."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from glideslope.model.paths import RepoPath
from glideslope.model.project import Project, nearest_project
from glideslope.ports.toolchain import Context, Tree
from glideslope.toolchains.python.graph import SUFFIXES
from glideslope.toolchains.python.layout import import_roots, table, texts
from glideslope.toolchains.python.package import Declaration, Shipped

CARRY_HINT = "; if git ignores it, name it in carry_files"
"""Ends a message about an own module that the snapshot does not hold."""

_NO_MODULE = re.compile(r"No module named '([\w.]+)'")


def named_absent(message: str) -> str:
    """The module that an error says is not there; "" where it says no such thing."""
    found = _NO_MODULE.search(message)
    return found[1] if found else ""


def hint_for(context: Context, message: str) -> str:
    """What to add to an error of an import: `CARRY_HINT` where a module of the workspace is missing."""
    dotted = named_absent(message)
    top = dotted.partition(".")[0]
    is_missing = (
        bool(top)
        and _has(context.now, context.projects, top)
        and not _has(context.now, context.projects, dotted)
    )
    return CARRY_HINT if is_missing else ""


def is_foreign(context: Context, ships: Shipped, dotted: str) -> bool:
    """Whether a module that was not found is none of the project's own.

    It is another project's, or comes with a dependency: then the environment lacks it, or the
    path on which the project's own runs find it.
    """
    top = dotted.partition(".")[0]
    if top in ships.packages or top in ships.modules:
        return False
    own = [
        path
        for path in _files(context.now, (context.project,), top)
        if nearest_project(context.projects, path) == context.project
    ]
    # What is there and was not found lies in a folder that only some runs have on their path.
    return not own or _has(context.now, (context.project,), dotted)


def how_to_add(context: Context, dotted: str) -> str:
    """What brings a module of somebody else's into the environment."""
    python = shlex.quote(context.interpreter.executable)
    files = _files(context.now, context.projects, dotted)
    home = nearest_project(context.projects, files[0]) if files else None
    if home is not None:
        return f"{python} -m pip install -e {shlex.quote(home.root or '.')}"
    top = dotted.partition(".")[0]
    named = next((one for one in _dependencies(context) if _plain(one) == _plain(top)), None)
    if named is not None:
        return f"{python} -m pip install {shlex.quote(named)}"
    # Another name than the module's may be the right one, and any name may be somebody's trap.
    return f"add what provides {top} to the environment: {python} -m pip install NAME"


def _dependencies(context: Context) -> Iterable[str]:
    declaration = Declaration.of(context.now, context.project)
    yield from texts(table(declaration.pyproject, "project").get("dependencies"))
    yield from declaration.setup_cfg.get("options", {}).get("install_requires", "").splitlines()


def _plain(requirement: str) -> str:
    """The name of a requirement or module, in one spelling."""
    found = re.match(r"\s*([\w.-]+)", requirement)
    return re.sub(r"[-_.]+", "-", found[1]).lower() if found else ""


def _has(tree: Tree, projects: tuple[Project, ...], dotted: str) -> bool:
    return bool(_files(tree, projects, dotted))


def _files(tree: Tree, projects: tuple[Project, ...], dotted: str) -> list[RepoPath]:
    """Files that a dotted name, or what is below it, may mean in some projects; sorted."""
    spots: set[str] = set()
    for package, folder in import_roots(tree, projects):
        rest = dotted
        if package:
            if dotted != package and not dotted.startswith(package + "."):
                continue
            rest = dotted[len(package) + 1 :]
        spots.add("/".join(part for part in (folder, *rest.split(".")) if part))
    stems = tuple(spot + suffix for spot in spots for suffix in SUFFIXES)
    below = tuple(spot + "/" for spot in spots)
    return sorted(
        path for path in tree.entries if path.endswith(SUFFIXES) and (path in stems or path.startswith(below))
    )
