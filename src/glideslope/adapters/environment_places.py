"""Where poetry, hatch, pdm and uv keep a project's environment, told from files alone."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path


def kept_environments(project: Path, home: Path) -> Iterator[tuple[str, Path]]:
    """Environments that a project's tools keep, whether they are there or not.

    Args:
        project: The project's folder.
        home: The user's home folder.

    Yields:
        The tool's name, and the folder of an environment or an executable.
    """
    data = _toml(project / "pyproject.toml")
    tool = _table(data, "tool")
    if (project / "uv.lock").exists() or "uv" in tool:
        for above in project.parents:
            # A member of a uv workspace shares the environment of the workspace.
            if (above / "uv.lock").exists():
                yield "uv", above / ".venv"
                break
    if (project / "poetry.lock").exists() or "poetry" in tool:
        yield from (("poetry", path) for path in _poetry(project, home, data))
    if "hatch" in tool or (project / "hatch.toml").exists():
        yield from (("hatch", path) for path in _hatch(project, home, data))
    chosen = project / ".pdm-python"
    if chosen.is_file():
        yield "pdm", Path(chosen.read_text("utf-8", "replace").strip())


def _poetry(project: Path, home: Path, data: Mapping[str, object]) -> Iterator[Path]:
    """`{name}-{hash of the folder}-py{version}`, the active version first, then the newest."""
    name = _name(_table(data, "tool", "poetry")) or _name(_table(data, "project")) or project.name
    cleaned = re.sub(r'[ $`!*@"\\\r\n\t]', "_", name.lower())[:42]
    stem = f"{cleaned}-{_folder_hash(os.path.realpath(project))}"
    configured = _table(_toml(home / ".config/pypoetry/config.toml"), "virtualenvs").get("path")
    folder = home / ".cache/pypoetry/virtualenvs"
    if isinstance(configured, str) and "{" not in configured:
        folder = Path(configured)
    active = _table(_toml(folder / "envs.toml"), stem).get("minor")
    if isinstance(active, str):
        yield folder / f"{stem}-py{active}"
    yield from sorted(folder.glob(f"{stem}-py*"), key=_python_version, reverse=True)


def _hatch(project: Path, home: Path, data: Mapping[str, object]) -> Iterator[Path]:
    """`{name}/{hash of the folder}/{environment}`; the default one carries the project's name."""
    name = re.sub(r"[-_.]+", "-", _name(_table(data, "project")) or project.name).lower()
    folder = home / ".local/share/hatch/env/virtual" / name / _folder_hash(str(project))
    configured = _table(data, "tool", "hatch", "dirs", "env").get("virtual")
    yield folder / name
    yield from sorted(folder.glob("hatch-test*"), key=_python_version, reverse=True)
    if isinstance(configured, str):
        yield project / configured / name
        yield project / configured / _folder_hash(str(project)) / name


def _folder_hash(folder: str) -> str:
    digest = hashlib.sha256(folder.encode("utf-8", "surrogateescape")).digest()
    return base64.urlsafe_b64encode(digest).decode()[:8]


def _python_version(path: Path) -> tuple[int, ...]:
    found = re.search(r"py(\d+)\.(\d+)$", path.name)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _name(table: Mapping[str, object]) -> str:
    name = table.get("name")
    return name if isinstance(name, str) else ""


def _toml(path: Path) -> Mapping[str, object]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}


def _table(data: object, *keys: str) -> Mapping[str, object]:
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data if isinstance(data, Mapping) else {}
