"""Everything that is measured, in one run: `python -m benchmarks [--rounds N]`, or `make bench`.

Two real projects (`GLIDESLOPE_TEST_PROJECTS` names others). Ratios to the plain tools come first,
since they hold on any machine; then absolute figures. Ends 1 where a budget is exceeded.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.long.product import product
from tests.long.project import Project, chosen, prepare

from benchmarks import snapshot
from benchmarks.budget import FIRST, HUB_EDIT, LEAF_EDIT, SNAPSHOT, STATUS_CPU, Figure, over
from benchmarks.startup import status_cpu_ms
from benchmarks.verify import Modules, Round, measure, modules
from glideslope.adapters.vcs import LocalVcs

DEFAULT = ("starlette", "boltons")
BUDGETS = {"first": FIRST, "leaf": LEAF_EDIT, "hub": HUB_EDIT}
LEAVES_WANTED = 5
FILES = 5000


def main() -> int:
    """Measures, prints, and says whether every budget was kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument(
        "--rounds", type=int, default=3, help="repetitions of each edit; medians are compared"
    )
    rounds = parser.parse_args().rounds
    figures: list[Figure] = []
    for project in chosen(DEFAULT):
        with prepare(project):
            found = modules(project)
            print(f"== {project.name} {project.version}: {_reach(project, found)}", flush=True)
            if len(found.leaves) < LEAVES_WANTED or not found.hubs:
                raise SystemExit(f"{project.name} has too few leaves or no hub: measure another project")
            done = measure(project, found, rounds=rounds)
            figures += [_ratio(project, done, what) for what in BUDGETS]
            _show_rounds(done)
            _show_rungs(done)
            figures.append(_status(project))
            _show("snapshot, warm, nothing changed", _snapshots(project.folder))
    print(f"== made-up repository of {FILES:,} files", flush=True)
    figures.append(_snapshot_of_many())
    print("== budgets")
    for figure in figures:
        print(figure.line())
    return 1 if over(figures) else 0


def _reach(project: Project, found: Modules) -> str:
    return (
        f"{len(project.modules())} modules, {len(project.tests())} test files; "
        f"{len(found.leaves)} leaves, {len(found.hubs)} hubs to edit"
    )


def _ratio(project: Project, done: Sequence[Round], what: str) -> Figure:
    values = tuple(each.ratio for each in done if each.what == what)
    return Figure(budget=BUDGETS[what], where=project.name, values=values)


def _show_rounds(done: Sequence[Round]) -> None:
    print("  edit   ratio  verify s  plain s = ruff + ty + pytest      selected  verdict       module")
    for each in done:
        tests = each.verified.rung("test.scoped")["tests"] or {"selected": None, "units": None}
        print(
            f"  {each.what:<6} {each.ratio:5.2f}  {each.verified.wall_s:8.2f}  {each.plain_s:7.2f}"
            f" = {each.ruff_s:.2f} + {each.ty_s:.2f} + {each.pytest_s:.2f}"
            f"   {tests['selected']} of {tests['units']} files  {each.verified.verdict:<12}  {each.path}"
        )


def _show_rungs(done: Sequence[Round]) -> None:
    plain = {
        "diagnose.files": ("ruff check && ty check", lambda each: each.ruff_s + each.ty_s),
        "compile.project": ("ty check", lambda each: each.ty_s),
        "test.scoped": ("python -m pytest", lambda each: each.pytest_s),
    }
    print("  each rung of an edit, ms (median): itself, waiting in the queue, plain tool")
    for what in ("leaf", "hub"):
        rounds = [each for each in done if each.what == what]
        for name in ("diagnose.files", "compile.project", "build.affected", "test.scoped"):
            rungs = [each.verified.rung(name) for each in rounds]
            took, queued = (_median([rung[key] for rung in rungs]) for key in ("duration_ms", "queued_ms"))
            tool, seconds = plain.get(name, ("", None))
            beside = f"{_median([1000 * seconds(each) for each in rounds])} {tool}" if seconds else "none"
            print(f"  {what:<5} {name:<16} {took:>7} {queued:>6}   {beside}")
        times = [each.verified.run["time_ms"] for each in rounds]
        idle = [time["wall"] - (time["environment"] - time["overlapped"]) for time in times]
        print(f"  {what:<5} outside any task: {_median(idle)} of {_median([time['wall'] for time in times])}")


def _median(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{statistics.median(known):.0f}" if known else "—"


def _status(project: Project) -> Figure:
    with tempfile.TemporaryDirectory() as state, product(Path(state), project.folder) as ours:
        values = status_cpu_ms(ours, rounds=15)
    return Figure(budget=STATUS_CPU, where=project.name, values=values)


def _snapshots(folder: Path) -> tuple[float, ...]:
    """Milliseconds of fifteen snapshots of a folder that does not change, after two that fill the memory."""
    with tempfile.TemporaryDirectory() as state:
        vcs = LocalVcs(state)
        workspace = vcs.locate(str(folder))
        values: list[float] = []
        for _ in range(17):
            began = time.perf_counter()
            vcs.snapshot(workspace, carry=snapshot.CARRY, carry_files=snapshot.CARRY_FILES)
            values.append((time.perf_counter() - began) * 1000)
            time.sleep(0.05)  # past the granularity of file times, so that what was read can be trusted
        vcs.close()
    return tuple(values[2:])


def _snapshot_of_many() -> Figure:
    with tempfile.TemporaryDirectory() as folder:
        repository = Path(folder, "repository")
        snapshot.make_repository(repository, FILES)
        return Figure(budget=SNAPSHOT, where="made up", values=_snapshots(repository))


def _show(what: str, values: Sequence[float]) -> None:
    print(f"  {what}: {statistics.median(values):.1f} ms (best {min(values):.1f})")


if __name__ == "__main__":
    sys.exit(main())
