"""Draws the behaviour bugs of a project: `python -m tests.long.draw NAME...` writes `mutants/NAME.json`.

With the plain tools alone. A drawn bug is kept if ruff, ty and an import of its module say nothing
that they do not say at rest, and plain pytest fails with failures that are not there at rest, the
same ones twice. What was dropped is counted by reason.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from tests.long.mutation import Edit, bugs
from tests.long.plain import Plain, cached
from tests.long.project import Project, clean_environment, prepare, projects, restore

WANTED = 10
TOOLS = Path(sysconfig.get_path("scripts"))
MUTANTS = Path(__file__).parent / "mutants"


def main(names: list[str]) -> None:
    for name in names or list(projects()):
        project = projects()[name]
        with prepare(project):
            _draw(project)


def _draw(project: Project) -> None:
    rest = at_rest(project)
    static = _static(project)
    print(
        f"{project.name}: at rest {dict(rest.counts)} in {rest.wall_s} s, failing {rest.failing}", flush=True
    )
    dropped: Counter[str] = Counter()
    kept: list[Edit] = []
    for edit in bugs(project.folder, project.modules(), project.seed):
        edit.apply(project.folder)
        try:
            reason = _why_not(project, edit, rest, static)
        finally:
            restore(project.folder)
        print(f"  {reason or 'kept':12} {edit.path}:{edit.line} {edit.operator}", flush=True)
        if reason:
            dropped[reason] += 1
            continue
        kept.append(edit)
        if len(kept) == WANTED:
            break
    row = {
        "version": project.version,
        "seed": project.seed,
        "drawn": len(kept) + dropped.total(),
        "dropped": dict(sorted(dropped.items())),
        "kept": [asdict(edit) for edit in kept],
    }
    MUTANTS.mkdir(exist_ok=True)
    (MUTANTS / f"{project.name}.json").write_text(json.dumps(row, indent=1) + "\n")
    print(f"{project.name}: drawn {row['drawn']}, dropped {row['dropped']}, kept {len(kept)}", flush=True)


def at_rest(project: Project) -> Plain:
    """Plain pytest on the project as it is, twice.

    Raises:
        SystemExit: the two differ, so nothing can be compared with them.
    """
    first, second = (cached(project, "rest", turn=turn) for turn in (0, 1))
    if (first.counts, first.failing) != (second.counts, second.failing):
        raise SystemExit(f"{project.name} is not the same twice: {first} {second}")
    return first


def identity(edit: Edit) -> str:
    """The name of a bug's content in the cache of results."""
    return f"bug {edit.path} {edit.start} {edit.before} {edit.after}"


def bug_limit_s(rest: Plain) -> float:
    """How long the suite may take with a bug in it before the bug counts as one that hangs."""
    return 60 + 5 * rest.wall_s


def _why_not(project: Project, edit: Edit, rest: Plain, static: Counter[str]) -> str:
    if _static(project) - static:
        return "static"
    if not _imports(project, edit):
        return "import"
    first = cached(project, identity(edit), limit_s=bug_limit_s(rest))
    if first.exit_code is None:
        return "hangs"
    if not set(first.failing) - set(rest.failing):
        return "survives"
    if first.exit_code != 1:
        return "not_collected"
    second = cached(project, identity(edit), turn=1, limit_s=bug_limit_s(rest))
    return "" if first.failing == second.failing else "unstable"


def _static(project: Project) -> Counter[str]:
    """What ruff and ty find, and in which lines of text; lines may move. ruff's rules count only where the project chose them."""
    configured = (
        "[tool.ruff" in (project.folder / "pyproject.toml").read_text()
        if (project.folder / "pyproject.toml").exists()
        else False
    )
    chosen = () if configured else ("--isolated", "--select", "E9,F63,F7,F82")
    ruff = (
        str(TOOLS / "ruff"),
        "check",
        "--no-fix",
        "--no-cache",
        "--output-format",
        "concise",
        *chosen,
        *project.packages,
    )
    ty = (str(TOOLS / "ty"), "check", "--python", ".venv", "--output-format", "concise", "--color", "never")
    found: Counter[str] = Counter()
    for argv in (ruff, ty):
        ended = subprocess.run(
            argv, cwd=project.folder, capture_output=True, text=True, env=clean_environment()
        )
        for line in ended.stdout.splitlines():
            at = re.match(r"(\S+):(\d+):\d+: ", line)
            if at is not None and ": warning" not in line:
                text = (project.folder / at[1]).read_text(encoding="utf-8", errors="replace").splitlines()
                edited = text[int(at[2]) - 1] if int(at[2]) <= len(text) else ""
                found[f"{re.sub(r'[0-9]+', 'N', line)} {edited.strip()}"] += 1
    return found


def _imports(project: Project, edit: Edit) -> bool:
    """Whether the edited module can still be imported, or could not be before either."""
    parts = Path(edit.path).with_suffix("").parts
    name = ".".join(parts[1:] if parts[0] == "src" else parts).removesuffix(".__init__")

    def imports() -> bool:
        argv = (str(project.python), "-c", f"import {name}")
        ended = subprocess.run(
            argv, cwd=project.folder, capture_output=True, timeout=60, env=clean_environment()
        )
        return ended.returncode == 0

    if imports():
        return True
    restore(project.folder)
    before = imports()
    edit.apply(project.folder)
    return not before


if __name__ == "__main__":
    main(sys.argv[1:])
