"""mypy, the repository's own, with the repository's own configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping

from glideslope.model.paths import RepoPath
from glideslope.model.result import Severity
from glideslope.ports.toolchain import Context, Output, Tree
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
from glideslope.toolchains.python.layout import read_ini, read_toml, table, texts

_OPTIONS = (
    "--no-error-summary",
    "--no-pretty",
    "--no-color-output",
    "--show-column-numbers",
    "--show-error-codes",
    # Nothing is kept: the tree it would be kept in is thrown away.
    "--cache-dir=/dev/null",
)
_LINE = re.compile(
    r"(?P<path>.+?):(?:(?P<line>\d+):)?(?:(?P<column>\d+):)? (?P<level>error|warning|note): (?P<message>.*)"
)
_CODE = re.compile(r"  \[(?P<code>[\w-]+)\]\Z")


def mypy_check(context: Context, affected: tuple[RepoPath, ...], kind: str) -> Check | None:
    """A run of mypy over what its configuration names, else over the affected files.

    Where the configuration names no files, tests are left out: nothing says that the repository
    checks them.

    Returns:
        The check; None where there is no file for it.
    """
    cwd = context.project.root
    config = _config(context.now, cwd)
    names_files = any(config.get(key) for key in ("files", "packages", "modules"))
    files = () if names_files else tuple(path for path in affected if _is_checked(path, cwd, config))
    if not (names_files or files):
        return None

    def argv(paths: tuple[str, ...]) -> tuple[str, ...]:
        return (context.interpreter.executable, "-m", "mypy", *_OPTIONS, *(("--", *paths) if paths else ()))

    def read(output: Output) -> Reading:
        return read_mypy(context, cwd, output)

    return Check(tool="mypy", kind=kind, cwd=cwd, files=files, argv=argv, read=read)


def read_mypy(context: Context, cwd: str, output: Output) -> Reading:
    """Reads mypy's answer, one finding a line; notes are left out."""
    trouble = infrastructure_trouble(output)
    if trouble is not None:
        return trouble
    found = []
    for line in output.stdout.decode("utf-8", "replace").splitlines():
        matched = _LINE.fullmatch(line)
        if matched is None or matched["level"] == "note":
            continue
        message = matched["message"]
        code = _CODE.search(message)
        found.append(
            Found(
                path=within(context, cwd, matched["path"]),
                line=int(matched["line"] or 0),
                column=int(matched["column"] or 0),
                code=code["code"] if code else "mypy",
                source="mypy",
                message=_CODE.sub("", message),
                severity=Severity.ERROR if matched["level"] == "error" else Severity.WARNING,
                gates=True,
                configured=True,
            )
        )
    words = stderr_tail(output)
    if output.code not in (0, 1) and not found:
        crashed = "INTERNAL ERROR" in words or "Traceback" in words
        last = words.splitlines()[-1] if words else "it gave no reason"
        return Reading(trouble=Trouble.DIED if crashed else Trouble.CONFIG_ERROR, message=last)
    return Reading(found=tuple(found))


def _config(tree: Tree, root: str) -> Mapping[str, object]:
    """The `[mypy]` section of the file that mypy would take, as far as it names files."""
    prefix = f"{root}/" if root else ""
    for name in ("mypy.ini", ".mypy.ini"):
        section = read_ini(tree, prefix + name).get("mypy")
        if section is not None:
            return section
    section_of_toml = table(read_toml(tree, prefix + "pyproject.toml"), "tool", "mypy")
    return section_of_toml or read_ini(tree, prefix + "setup.cfg").get("mypy", {})


def _is_checked(path: RepoPath, cwd: str, config: Mapping[str, object]) -> bool:
    if is_test_path(path) or path.rpartition("/")[2] in ("setup.py", "noxfile.py"):
        return False
    return not any(_matches(pattern, relative(path, cwd)) for pattern in texts(config.get("exclude")))


def _matches(pattern: str, path: str) -> bool:
    try:
        return re.search(pattern, path) is not None
    except re.error:
        return False  # mypy will say so itself
