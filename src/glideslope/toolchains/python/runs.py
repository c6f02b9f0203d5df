"""Which processes run tests: the interpreter's ability, the split into runs, the command lines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import replace

from glideslope.errors import UnknownId
from glideslope.model.paths import RepoPath, is_beneath
from glideslope.model.result import RungState
from glideslope.ports.toolchain import Command, Context, ProjectRung, Side
from glideslope.toolchains.python.selection import Selected
from glideslope.toolchains.python.units import PytestConfig

_OLDEST_PYTEST = 7
_FILES_A_PROCESS = 4  # below this, another process costs more than it saves
_PYTEST_STYLE = re.compile(
    r"^(?:import pytest\b|from pytest\b|(?:async )?def test|@pytest\.|class Test\w*(?:\((?:object)?\))?:)",
    re.M,
)


def unable(context: Context, files: Iterable[RepoPath]) -> ProjectRung | None:
    """Why the project's interpreter cannot run its tests; None where it can."""
    version = context.interpreter.distributions.get("pytest")
    python = context.interpreter.executable
    pip = f"{shlex.quote(python)} -m pip install"
    if version is not None:
        major = version.split(".")[0]
        if major.isdigit() and int(major) < _OLDEST_PYTEST:
            text = f"pytest {version} is too old: {_OLDEST_PYTEST}.0 or later is needed"
            return _missing(text, f"{pip} 'pytest>={_OLDEST_PYTEST}'")
        return None
    for path in files:
        if path.rpartition("/")[2] == "conftest.py" or _PYTEST_STYLE.search(_source(context, path)):
            return _missing(
                f"{path} is written for pytest, which {python} does not have",
                f"{pip} pytest",
            )
    return None


def _missing(summary: str, install: str) -> ProjectRung:
    return ProjectRung(state=RungState.INCONCLUSIVE, reason="tool_missing", summary=summary, next=install)


def _source(context: Context, path: RepoPath) -> str:
    if path not in context.now.entries:
        return ""
    try:
        return context.now.read(path).decode("utf-8", "replace")
    except UnknownId:
        return ""


def batches(context: Context, files: tuple[RepoPath, ...]) -> list[tuple[RepoPath, ...]]:
    """Splits files into runs of neighbours of about equal size.

    Without a base nothing tells a failure caused by splitting from a real one, and without
    isolation runs could meet each other: then there is one run.
    """
    count = min(context.processes, len(files) // _FILES_A_PROCESS)
    if count < 2 or not context.isolated or context.base is None:
        return [files]
    sizes = [context.now.entries[path].size_bytes + 1 for path in files]
    share, done = sum(sizes) / count, 0
    runs: list[list[RepoPath]] = [[] for _ in range(count)]
    for path, size in zip(files, sizes, strict=True):
        runs[min(int((done + size / 2) / share), count - 1)].append(path)
        done += size
    return [tuple(batch) for batch in runs if batch]


def files_command(
    context: Context, config: PytestConfig, files: Iterable[RepoPath], *, label: str, side: Side = Side.NOW
) -> Command:
    """Runs certain test files and nothing else."""
    if context.interpreter.has("pytest"):
        command = pytest_command(context, neutral_options(context, config), files=tuple(files), steady=True)
    else:
        command = unittest_command(context, tuple(files))
    return replace(command, label=label, side=side)


def selection_commands(
    context: Context, config: PytestConfig, chosen: Selected, label: Callable[[int], str]
) -> tuple[Command, ...]:
    """Runs the chosen test files, in as few processes as cap and isolation allow.

    The first process leaves out the files that were not chosen instead of naming those that were:
    what a plug-in or a conftest collects from files that are no test files to us runs always.
    """
    parts = batches(context, chosen.selected)
    commands = [files_command(context, config, files, label=label(len(files))) for files in parts]
    if context.interpreter.has("pytest"):
        others = tuple(path for path in chosen.units if path not in set(parts[0]))
        first = pytest_command(
            context, neutral_options(context, config), but=others, all_but=True, steady=True
        )
        commands[0] = replace(first, label=label(len(parts[0])))
    return tuple(commands)


def neutral_options(context: Context, config: PytestConfig) -> tuple[str, ...]:
    """Options that take back what `addopts` may ask of plugins that change how tests run."""
    options: list[str] = []
    if config.mentions("--disable-plugin-autoload"):
        return ()
    disabled = set(config.option_values("-p"))
    if context.interpreter.has("pytest-xdist") and not disabled & {"no:xdist", "no:xdist.plugin"}:
        options.append("-n0")
    if context.interpreter.has("pytest-cov") and not disabled & {"no:cov", "no:pytest_cov"}:
        options.append("--no-cov")
    caches = (
        "--lf",
        "--last-failed",
        "--ff",
        "--failed-first",
        "--nf",
        "--new-first",
        "--sw",
        "--stepwise",
        "--cache",
    )
    if not context.isolated and not config.mentions(*caches):
        options += ["-p", "no:cacheprovider"]
    return tuple(options)


def pytest_command(
    context: Context,
    arguments: tuple[str, ...],
    *,
    files: tuple[RepoPath, ...] = (),
    but: tuple[RepoPath, ...] = (),
    all_but: bool = False,
    steady: bool = False,
) -> Command:
    """A run of pytest.

    Args:
        context: What is verified.
        arguments: Arguments for pytest.
        files: The only files to collect from; none: all that pytest collects by itself.
        but: Files and folders to leave out, with `all_but`.
        all_but: Whether to collect everything but those, instead of only `files`.
        steady: Whether options that end a run early, repeat or shuffle are switched off.

    Returns:
        The command.
    """
    chosen = "--but-from-stdin" if all_but else "--only-from-stdin" if files else ""
    options = (*((chosen,) if chosen else ()), *(("--steady",) if steady else ()))
    return _run(context, "pytest_run.py", options, arguments, but if all_but else files)


def unittest_command(context: Context, files: tuple[RepoPath, ...], names: tuple[str, ...] = ()) -> Command:
    """A run of unittest over test files, and over tests named with dots."""
    return _run(context, "unittest_run.py", ("--only-from-stdin",), names, files)


def _run(
    context: Context,
    program: str,
    options: Iterable[str],
    arguments: Iterable[str],
    files: Iterable[RepoPath],
) -> Command:
    worker = context.tools.worker.rstrip("/")
    argv = (context.interpreter.executable, f"{worker}/{program}", "--report-fd", "{report_fd}", *options)
    chosen = "".join(_below(context.project.root, path) + "\0" for path in files)
    return Command(
        kind="pytest.run" if program == "pytest_run.py" else "unittest.run",
        argv=(*argv, "--", *arguments),
        cwd=context.project.root,
        report=True,
        stdin=chosen.encode("utf-8", "surrogateescape"),
    )


def _below(root: str, path: str) -> str:
    return path[len(root) + 1 :] if root and is_beneath(path, root) else path
