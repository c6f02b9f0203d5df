"""pyright and basedpyright, the repository's own, with the repository's own configuration."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Mapping

from glideslope.model.paths import RepoPath
from glideslope.model.result import Severity
from glideslope.ports.toolchain import Context, Output
from glideslope.toolchains.python.change import is_test_path
from glideslope.toolchains.python.checks import (
    Check,
    Reading,
    Trouble,
    infrastructure_trouble,
    relative,
    stderr_tail,
    within,
)
from glideslope.toolchains.python.findings import Found
from glideslope.toolchains.python.layout import read_text, read_toml, table, texts

_SEVERITIES = {"error": Severity.ERROR, "warning": Severity.WARNING}
_COMMENT = re.compile(r"(?m)(?:^|\s)//.*$|,(?=\s*[}\]])")


def pyright_check(context: Context, tool: str, affected: tuple[RepoPath, ...], kind: str) -> Check | None:
    """A run of pyright over the affected files that its configuration includes.

    Args:
        context: What is verified.
        tool: pyright or basedpyright.
        affected: Files of the tree under test.
        kind: Kind of the command.

    Returns:
        The check; None where there is no file for it.
    """
    cwd = context.project.root
    config = _config(context, tool)
    files = tuple(path for path in affected if _is_included(relative(path, cwd), config))
    if not files:
        return None

    def argv(paths: tuple[str, ...]) -> tuple[str, ...]:
        executable = context.interpreter.executable
        return (executable, "-m", tool, "--outputjson", "--pythonpath", executable, *paths)

    def read(output: Output) -> Reading:
        return read_pyright(context, tool, cwd, output)

    return Check(tool=tool, kind=kind, cwd=cwd, files=files, argv=argv, read=read)


def read_pyright(context: Context, tool: str, cwd: str, output: Output) -> Reading:
    """Reads the answer of `--outputjson`."""
    trouble = infrastructure_trouble(output)
    if trouble is not None:
        return trouble
    words = stderr_tail(output) or output.stdout[-500:].decode("utf-8", "replace").strip()
    last = words.splitlines()[-1] if words else "it gave no reason"
    try:
        answer = json.loads(output.stdout)
    except ValueError:
        # The wheel of pyright is a launcher that fetches the program; here it cannot.
        fetching = re.search(r"\bnode|npm|urlopen|getaddrinfo", words, re.IGNORECASE) is not None
        return Reading(trouble=Trouble.TOOL_MISSING if fetching else Trouble.DIED, message=last)
    if output.code not in (0, 1):
        return Reading(trouble=Trouble.CONFIG_ERROR, message=last)
    records = answer.get("generalDiagnostics", ())
    return Reading(found=tuple(_found(context, tool, cwd, record) for record in records))


def _found(context: Context, tool: str, cwd: str, record: Mapping[str, object]) -> Found:
    line, column = _spot(table(record, "range", "start"))
    end_line, end_column = _spot(table(record, "range", "end"))
    severity = _SEVERITIES.get(str(record.get("severity")), Severity.NOTE)
    return Found(
        path=within(context, cwd, str(record.get("file", ""))),
        line=line,
        column=column,
        end_line=end_line,
        end_column=end_column,
        code=str(record.get("rule") or tool),
        source=tool,
        message=str(record.get("message", "")),
        severity=severity,
        gates=severity is Severity.ERROR,
        configured=True,
    )


def _spot(value: Mapping[str, object]) -> tuple[int, int]:
    line, character = value.get("line"), value.get("character")
    return (line + 1 if isinstance(line, int) else 0), (character + 1 if isinstance(character, int) else 0)


def _config(context: Context, tool: str) -> Mapping[str, object]:
    prefix = f"{context.project.root}/" if context.project.root else ""
    text = read_text(context.now, prefix + "pyrightconfig.json")
    if text:
        try:
            data = json.loads(_COMMENT.sub("", text))
        except ValueError:
            return {}  # pyright will say so itself
        return data if isinstance(data, Mapping) else {}
    tools = table(read_toml(context.now, prefix + "pyproject.toml"), "tool")
    return table(tools, tool) or table(tools, "pyright")


def _is_included(path: str, config: Mapping[str, object]) -> bool:
    """Whether pyright would look at a file by itself; without `include`, tests are left out."""
    include, exclude = texts(config.get("include")), texts(config.get("exclude"))
    if not include and is_test_path(path):
        return False
    wanted = not include or any(_covers(pattern, path) for pattern in include)
    return wanted and not any(_covers(pattern, path) for pattern in exclude)


def _covers(pattern: str, path: str) -> bool:
    pattern = pattern.removeprefix("./").rstrip("/")
    if pattern in ("", "."):
        return True
    plain = pattern.replace("**/", "*").replace("/**", "/*")
    return path == pattern or path.startswith(pattern + "/") or fnmatch.fnmatch(path, plain)
