"""What a wheel no longer holds that the base's wheel did."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterable

from glideslope.model.result import Severity
from glideslope.ports.toolchain import Command, Context, Output, Side
from glideslope.toolchains.python.checks import Check, ask_base_once
from glideslope.toolchains.python.findings import Found
from glideslope.toolchains.python.layout import texts
from glideslope.toolchains.python.module import Memo

_MOST = 20  # files named one by one
_OWN_FOLDER = re.compile(r"[^/]+\.(dist-info|data)/")  # its name holds the version
_RECORDS = ("dist-info/RECORD", "dist-info/WHEEL")

LossScript = Generator[tuple[Command, ...], tuple[Output, ...], tuple[Found, ...]]


def losses(context: Context, check: Check, output: Output | None, memo: Memo) -> LossScript:
    """Compares the wheel with the base's, which is built for it unless that was done before.

    Args:
        context: What is verified.
        check: The build of the wheel.
        output: How it ended on the tree under test; None: it was not built.
        memo: Keeps what was answered about a base.

    Returns:
        A finding, which never blocks, for every file that is gone and whose source is not.
    """
    now = wheel_files(output)
    if context.base is None or not now or check.base_backend is None:
        return ()
    (answer,) = yield from ask_base_once(context, memo, (check.command((), Side.BASE),))
    gone = sorted(wheel_files(answer) - now)
    kept = [file for file in gone if not _source_is_gone(context, file)]
    return tuple(_finding(context, file, len(kept)) for file in kept[:_MOST])


def wheel_files(output: Output | None) -> frozenset[str]:
    """The files of a wheel as its build reported them, without versions; empty where there is none."""
    if output is None or output.outcome != "exited" or not output.report:
        return frozenset()
    files = texts(json.loads(output.report[0]).get("files"))
    named = {_OWN_FOLDER.sub(r"\1/", file, count=1) for file in files}
    return frozenset(file for file in named if not file.startswith(_RECORDS))


def _source_is_gone(context: Context, file: str) -> bool:
    """Whether the file came from one of the tree that is no longer there."""
    assert context.base is not None

    def found(paths: Iterable[str]) -> bool:
        return any(path == file or path.endswith("/" + file) for path in paths)

    return found(context.base.entries) and not found(context.now.entries)


def _finding(context: Context, file: str, count: int) -> Found:
    prefix = f"{context.project.root}/" if context.project.root else ""
    named = (prefix + name for name in ("pyproject.toml", "setup.cfg", "setup.py"))
    more = f" (one of {count})" if count > _MOST else ""
    return Found(
        path=next((path for path in named if path in context.now.entries), prefix + "pyproject.toml"),
        line=0,
        column=0,
        code="gone_from_wheel",
        source="build",
        message=f"{file} was in the wheel of the base and is not in this one{more}",
        severity=Severity.WARNING,
    )
