"""ruff: the repository's own rules where it has any, only certain faults where it has none."""

from __future__ import annotations

import json
from collections.abc import Mapping

from glideslope.model.paths import RepoPath
from glideslope.model.result import Severity
from glideslope.ports.toolchain import Context, Output
from glideslope.toolchains.python.checks import (
    Check,
    Reading,
    Trouble,
    cause,
    infrastructure_trouble,
    stderr_tail,
    within,
)
from glideslope.toolchains.python.detect import ruff_config
from glideslope.toolchains.python.findings import Found

CERTAIN = "E9,F63,F7,F82"
"""Rules that find faults, not style; all that is asked of a repository that configures nothing."""

_SYNTAX = (None, "invalid-syntax")


def ruff_checks(context: Context, files: tuple[RepoPath, ...], kind: str) -> tuple[Check, ...]:
    """The runs of ruff over some files: one for those under a configuration, one for the rest."""
    chosen = {
        path: ruff_config(context.now, path) is not None for path in files if path.endswith((".py", ".pyi"))
    }
    checks = []
    for configured in (True, False):
        mine = tuple(path for path, is_configured in chosen.items() if is_configured is configured)
        if mine:
            checks.append(ruff_check(context, mine, kind, configured=configured))
    return tuple(checks)


def ruff_check(context: Context, files: tuple[RepoPath, ...], kind: str, *, configured: bool) -> Check:
    """One run of ruff.

    Args:
        context: What is verified.
        files: Files of the tree under test.
        kind: Kind of the command.
        configured: By the repository's own rules; otherwise without any configuration.
    """
    program = context.tools.ruff
    if context.interpreter.has("ruff"):
        program = (context.interpreter.executable, "-m", "ruff")
    options: tuple[str, ...] = ("check", "--no-cache", "--no-fix", "--output-format", "json", "--quiet")
    if configured:
        options = (*options, "--force-exclude")
    else:
        major, minor = context.interpreter.version[:2]
        options = (*options, "--isolated", "--select", CERTAIN, "--target-version", f"py{major}{minor}")
    cwd = context.project.root

    def argv(paths: tuple[str, ...]) -> tuple[str, ...]:
        return (*program, *options, "--", *paths)

    def read(output: Output) -> Reading:
        return read_ruff(context, cwd, output, configured=configured)

    return Check(tool="ruff", kind=kind, cwd=cwd, files=files, argv=argv, read=read)


def read_ruff(context: Context, cwd: str, output: Output, *, configured: bool) -> Reading:
    """Reads the answer of `ruff check --output-format json`."""
    trouble = infrastructure_trouble(output)
    if trouble is not None:
        return trouble
    words = stderr_tail(output)
    if output.code not in (0, 1):
        if "Required version" in words:
            return Reading(trouble=Trouble.TOOL_MISSING, message=cause(words))
        broken = output.code == 2 and "panic" not in words
        return Reading(trouble=Trouble.CONFIG_ERROR if broken else Trouble.DIED, message=cause(words))
    try:
        records = json.loads(output.stdout or b"[]")
    except ValueError:
        return Reading(trouble=Trouble.DIED, message="its answer is not JSON")
    return Reading(found=tuple(_found(context, cwd, record, configured) for record in records))


def _found(context: Context, cwd: str, record: Mapping[str, object], configured: bool) -> Found:
    code = record.get("code")
    line, column = _spot(record.get("location"))
    end_line, end_column = _spot(record.get("end_location"))
    return Found(
        path=within(context, cwd, str(record.get("filename", ""))),
        line=line,
        column=column,
        end_line=end_line,
        end_column=end_column,
        code=str(code or "invalid-syntax"),
        source="ruff",
        message=str(record.get("message", "")),
        severity=Severity.ERROR if configured or code != "E902" else Severity.WARNING,
        # What does not compile was found before; without a configuration, ruff's idea of the
        # grammar is no rule of the repository.
        gates=configured or code not in _SYNTAX,
        configured=configured,
    )


def _spot(value: object) -> tuple[int, int]:
    if not isinstance(value, Mapping):
        return 0, 0
    row, column = value.get("row"), value.get("column")
    return (row if isinstance(row, int) else 0), (column if isinstance(column, int) else 0)
