"""The import smoke: does every affected module of what is shipped still import, by itself?

One fresh process of the project's interpreter imports them in turn. A module that ends the
process costs a second one for the rest. What fails is tried on the base too.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, replace

from glideslope.model.paths import RepoPath
from glideslope.model.result import Diagnostic, FindingState, Severity
from glideslope.ports.toolchain import Command, Context, Output, Side, Tree
from glideslope.toolchains.python.absent import hint_for, is_foreign, named_absent
from glideslope.toolchains.python.checks import relative, within
from glideslope.toolchains.python.findings import Found, judge
from glideslope.toolchains.python.graph import ImportGraph
from glideslope.toolchains.python.package import Shipped, is_smoked, shipped
from glideslope.toolchains.python.units import read_config

KIND = "python.build"
CAP_S = 5.0
"""How long one module may take to import."""

_PATIENCE = 4  # how many times longer a slow one may take on its second try

_SLOW = "import_slow"
_NOT_FOUND = ("ModuleNotFoundError", "ImportError")
_MOST_DEATHS = 12  # processes that modules may end before the rest is left alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoked:
    """What importing a set of modules came to."""

    imported: tuple[str, ...] = ()
    failed: Mapping[str, Found] | None = None  # by module
    effects: tuple[Found, ...] = ()
    untried: tuple[str, ...] = ()  # because too many others ended the process
    lost: Output | None = None  # a process that ended without a module to blame
    lacking: tuple[
        str, ...
    ] = ()  # modules of others that something at the top wants, with no base to compare


SmokeScript = Generator[tuple[Command, ...], tuple[Output, ...], Smoked]


def smoke_modules(
    tree: Tree, ships: Shipped, paths: tuple[RepoPath, ...], graph: ImportGraph
) -> dict[str, RepoPath]:
    """Modules to import for some affected files, what is imported before what imports it.

    So a module that ends the process is the one that was begun, not one that imports it.
    """
    found: dict[str, RepoPath] = {}
    for path in paths:
        dotted = ships.name_of(path) if path in tree.entries and is_smoked(path) else None
        if dotted is None:
            continue
        for top, folder in ships.packages.items():
            first = RepoPath(f"{folder}/__init__.py")
            if dotted.startswith(top + ".") and first in tree.entries:
                found.setdefault(top, first)
        found[dotted] = path
    by_path = {path: dotted for dotted, path in sorted(found.items())}
    return {by_path[path]: path for path in _imported_first(graph, by_path)}


def _imported_first(graph: ImportGraph, paths: Iterable[RepoPath]) -> list[RepoPath]:
    """Paths, each after those of them that it imports; cycles are cut where they are entered."""
    wanted = list(paths)
    members = frozenset(wanted)
    done: dict[RepoPath, None] = {}
    entered: set[RepoPath] = set()
    pending = [(path, False) for path in reversed(wanted)]
    while pending:
        path, left = pending.pop()
        if left:
            done[path] = None
        elif path not in entered:
            entered.add(path)
            pending.append((path, True))
            before = members.intersection(graph.edges(path).loads) - entered
            pending += [(target, False) for target in sorted(before, reverse=True)]
    return list(done)


def smoke(
    context: Context,
    graph: ImportGraph,
    ships: Shipped,
    paths: tuple[RepoPath, ...],
    origins: Mapping[RepoPath, RepoPath],
) -> Generator[tuple[Command, ...], tuple[Output, ...], tuple[tuple[Diagnostic, ...], Smoked]]:
    """Imports affected modules and tells new failures from known ones.

    Without a base, a module that does not import is known, unless it is a top-level package or
    module: a project that cannot be imported at all is never sound. What lacks only a module of
    somebody else's is known too: how the tests are run may well bring it.

    Args:
        context: What is verified.
        graph: The import graph of the tree under test.
        ships: What the project ships.
        paths: Affected files.
        origins: Paths of now that had another one in the base.

    Returns:
        Diagnostics, sorted, and what was imported.
    """
    modules = smoke_modules(context.now, ships, paths, graph)
    if not modules:
        return (), Smoked()
    smoked = yield from _import(context, graph, ships, modules, Side.NOW)
    failed = dict(smoked.failed or {})
    before: dict[str, Found] = {}
    if context.base is not None and failed:
        before = yield from _on_base(context, graph, modules, failed, origins)
    diagnostics: list[Diagnostic] = []
    lacking: dict[str, None] = {}
    for module, found in failed.items():
        top = module in ships.packages or module in ships.modules
        foreign = _foreign(context, ships, found) if context.base is None and top else ""
        if foreign:
            lacking[foreign] = None
        known = module in before or (context.base is None and (bool(foreign) or not top))
        shown = judge((found,), None if known else (), now=context.now, before=context.base, origins=origins)
        diagnostics += shown
    diagnostics += judge(smoked.effects, (), now=context.now, before=None, origins=origins)
    return _once(diagnostics), replace(smoked, lacking=tuple(lacking))


def _foreign(context: Context, ships: Shipped, found: Found) -> str:
    """The module of somebody else's for lack of which an import failed; "" where that is not why."""
    kind = found.message.partition(": ")[2].partition(": ")[0]
    absent = named_absent(found.message) if kind in _NOT_FOUND else ""
    return absent if absent and is_foreign(context, ships, absent) else ""


def _on_base(
    context: Context,
    graph: ImportGraph,
    modules: Mapping[str, RepoPath],
    failed: Mapping[str, Found],
    origins: Mapping[RepoPath, RepoPath],
) -> Generator[tuple[Command, ...], tuple[Output, ...], dict[str, Found]]:
    """Which of the failed modules fail on the base too; by their name of now."""
    assert context.base is not None
    ships = shipped(context.base, context.project)
    names: dict[str, str] = {}
    paths: dict[str, RepoPath] = {}
    for module in failed:
        old = origins.get(modules[module], modules[module])
        dotted = ships.name_of(old) if old in context.base.entries else None
        if dotted is not None:
            names[dotted] = module
            paths[dotted] = old
    if not names:
        return {}
    answer = yield from _import(context, graph, ships, paths, Side.BASE)
    return {names[dotted]: found for dotted, found in (answer.failed or {}).items() if dotted in names}


def _import(
    context: Context, graph: ImportGraph, ships: Shipped, modules: Mapping[str, RepoPath], side: Side
) -> SmokeScript:
    """Imports modules of one side; those that were slow once more, with patience.

    A cold disk or a busy machine is no finding; a module that waits for something is.
    """
    first = yield from _import_once(context, graph, ships, modules, side, CAP_S)
    failed = dict(first.failed or {})
    slow = {module: modules[module] for module, found in failed.items() if found.code == _SLOW}
    if not slow or first.lost is not None:
        return first
    second = yield from _import_once(context, graph, ships, slow, side, CAP_S * _PATIENCE)
    kept = {module: found for module, found in failed.items() if module not in slow}
    return replace(
        first,
        imported=(*first.imported, *second.imported),
        failed={**kept, **(second.failed or {})},
        untried=(*first.untried, *second.untried),
        lost=second.lost,
    )


def _import_once(
    context: Context,
    graph: ImportGraph,
    ships: Shipped,
    modules: Mapping[str, RepoPath],
    side: Side,
    cap_s: float,
) -> SmokeScript:
    left = dict(modules)
    imported: list[str] = []
    failed: dict[str, Found] = {}
    effects: list[Found] = []
    killers: dict[str, frozenset[RepoPath]] = {}  # with everything that imports them
    for _ in range(_MOST_DEATHS):
        outputs = yield (_command(context, ships, tuple(left), side, cap_s),)
        output = outputs[0]
        current = ""
        for record in map(json.loads, output.report):
            if "begin" in record:
                current = str(record["begin"])
            elif "effect" in record:
                effects.append(_effect(context, record, left))
            else:
                module = str(record["module"])
                if record["ok"]:
                    imported.append(module)
                else:
                    failed[module] = _failure(context, record, left.get(module))
                left.pop(module, None)
                current = ""
        if not left:
            break
        if not current:
            return Smoked(imported=tuple(imported), failed=failed, effects=tuple(effects), lost=output)
        path = left.pop(current)
        earlier = next((failed[m] for m, reach in killers.items() if path in reach), None)
        # Whoever imports a module that ends the process ends it too: one finding is enough.
        failed[current] = earlier or _ended(output, current, path)
        killers[current] = graph.closure([path], typing=False)
        if not left:
            break
    return Smoked(imported=tuple(imported), failed=failed, effects=tuple(effects), untried=tuple(left))


def _command(context: Context, ships: Shipped, modules: tuple[str, ...], side: Side, cap_s: float) -> Command:
    boot = f"{context.tools.worker.rstrip('/')}/boot.py"
    cwd = context.project.root
    tree = context.base if side is Side.BASE and context.base is not None else context.now
    # What pytest finds of other projects by its configuration, an import by itself finds as well.
    folders = dict.fromkeys((*ships.roots, *read_config(tree, context.project).pythonpath))
    roots = tuple(relative(root, cwd) if root != cwd else "." for root in folders)
    return Command(
        kind=KIND,
        argv=(
            context.interpreter.executable,
            "-I",
            boot,
            "import_smoke",
            "{report_fd}",
            f"{cap_s:g}",
            *roots,
        ),
        cwd=cwd,
        side=side,
        label="import smoke" if side is Side.NOW else "import smoke on the base",
        report=True,
        stdin="\n".join(modules).encode(),
        idle_s=cap_s * 3,  # for imports that no signal can interrupt
    )


def _failure(context: Context, record: Mapping[str, object], path: RepoPath | None) -> Found:
    module, kind, message = (str(record.get(key, "")) for key in ("module", "type", "message"))
    file, line = _place(context, record)
    if not file or file not in context.now.entries:
        file, line = path or file, 0
    text = f"importing {module}: {kind}: {message}" if message else f"importing {module}: {kind}"
    text += hint_for(context, message)
    return Found(
        path=file,
        line=line,
        column=1 if line else 0,
        code=_SLOW if kind == "TooSlow" else "import_failed",
        source="smoke",
        message=text,
        gates=True,
    )


def _ended(output: Output, module: str, path: RepoPath) -> Found:
    how = f"signal {output.signal}" if output.signal else f"status {output.code}"
    if output.outcome == "timed_out":
        how = "a time limit"
    return Found(
        path=path,
        line=0,
        column=0,
        code="import_failed",
        source="smoke",
        message=f"importing {module} ended the process with {how}",
        gates=True,
    )


def _effect(context: Context, record: Mapping[str, object], modules: Mapping[str, RepoPath]) -> Found:
    module, kind, detail = (str(record.get(key, "")) for key in ("module", "effect", "detail"))
    file, line = _place(context, record)
    return Found(
        path=file or modules.get(module, ""),
        line=line,
        column=1,
        code=f"import_effect_{kind}",
        source="smoke",
        message=f"importing {module}: {detail}",
        severity=Severity.WARNING,
    )


def _place(context: Context, record: Mapping[str, object]) -> tuple[str, int]:
    file, line = str(record.get("file", "")), record.get("line")
    return (within(context, "", file) if file else ""), (line if isinstance(line, int) else 0)


def _once(diagnostics: list[Diagnostic]) -> tuple[Diagnostic, ...]:
    """One finding per place: many modules may fail over the same line of another."""
    kept: dict[tuple[str, int, str, str], Diagnostic] = {}
    for found in diagnostics:
        cause = found.message.partition(": ")[2]
        key = (found.path, found.line, found.code, cause)
        earlier = kept.get(key)
        if earlier is None or (earlier.state is FindingState.KNOWN and found.blocking):
            kept[key] = found
    return tuple(sorted(kept.values(), key=lambda found: (found.path, found.line, found.column)))
