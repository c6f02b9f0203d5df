"""Where a workspace keeps its importable code: the folders that stand on `sys.path`."""

from __future__ import annotations

import configparser
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from glideslope.errors import UnknownId
from glideslope.model.paths import RepoPath
from glideslope.model.project import Project
from glideslope.ports.toolchain import Tree

CONFIGURATION = ("pyproject.toml", "setup.cfg", "setup.py", "pytest.ini", ".pytest.ini", "tox.ini")
"""Files of a project that may name import roots."""

_USUAL = ("", "src", "lib", "python")

Roots = tuple[tuple[str, str], ...]
"""Pairs of a package prefix ("" for none) and the folder its content lies in, sorted."""


def import_roots(tree: Tree, projects: Iterable[Project]) -> Roots:
    """Folders whose content is importable by its path below them, in any project.

    Returns:
        Folders relative to the workspace root, "" for the root itself.
    """
    roots: set[tuple[str, str]] = {("", "")}
    for project in projects:
        named = {*(("", name) for name in _USUAL), *_declared(tree, project.root)}
        for package, name in named:
            folder = _below(project.root, name)
            if folder is not None:
                roots.add((package, folder))
    return tuple(sorted(roots))


def declared_package_folders(tree: Tree, root: str) -> dict[str, str]:
    """`package-dir` of setuptools: package ("" for all) to folder, relative to the project."""
    prefix = f"{root}/" if root else ""
    tool = table(read_toml(tree, prefix + "pyproject.toml"), "tool", "setuptools", "package-dir")
    found = {package: text for package, text in tool.items() if isinstance(text, str)}
    lines = read_ini(tree, prefix + "setup.cfg").get("options", {}).get("package_dir", "").splitlines()
    for line in lines:
        package, sign, folder = line.partition("=")
        if sign:
            found[package.strip()] = folder.strip()
    return found


def read_toml(tree: Tree, path: str) -> Mapping[str, object]:
    """A TOML file of the tree as plain data; empty where it is missing or does not parse."""
    text = read_text(tree, path)
    try:
        return tomllib.loads(text) if text else {}
    except tomllib.TOMLDecodeError:
        return {}


def read_ini(tree: Tree, path: str) -> Mapping[str, Mapping[str, str]]:
    """An INI file of the tree as plain data; empty where it is missing or does not parse."""
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(read_text(tree, path))
    except configparser.Error:
        return {}
    return {name: dict(parser.items(name)) for name in parser.sections()}


def read_text(tree: Tree, path: str) -> str:
    """A file of the tree as text, undecodable bytes replaced; "" where it is missing or not stored."""
    if path not in tree.entries:
        return ""
    try:
        return tree.read(RepoPath(path)).decode("utf-8", "replace")
    except UnknownId:
        return ""


def table(data: object, *keys: str) -> Mapping[str, object]:
    """A nested table, empty where there is none."""
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data if isinstance(data, Mapping) else {}


def texts(value: object) -> tuple[str, ...]:
    """The strings of a value that should be a string or a list of strings."""
    if isinstance(value, str):
        return (value,)
    return tuple(entry for entry in value if isinstance(entry, str)) if isinstance(value, list) else ()


def _below(root: str, name: str) -> str | None:
    parts = [part for part in PurePosixPath(root, name).parts if part != "."]
    return None if ".." in parts or "/" in parts else "/".join(parts)


def _declared(tree: Tree, root: str) -> set[tuple[str, str]]:
    """Import roots that a project's own files name, folders relative to the project."""
    prefix = f"{root}/" if root else ""
    tool = table(read_toml(tree, prefix + "pyproject.toml"), "tool")
    found: set[str] = set(texts(table(tool, "pytest", "ini_options").get("pythonpath")))
    found |= set(texts(table(tool, "pytest").get("pythonpath")))
    found |= set(texts(table(tool, "setuptools", "packages", "find").get("where")))
    packages = table(tool, "poetry").get("packages")
    for entry in packages if isinstance(packages, list) else ():
        found |= set(texts(table(entry).get("from")))
    found |= set(texts(table(tool, "pdm", "build").get("package-dir")))
    found |= set(texts(table(tool, "maturin").get("python-source")))
    found |= set(texts(table(tool, "uv", "build-backend").get("module-root")))
    for text in texts(table(tool, "hatch", "build", "targets", "wheel").get("packages")):
        found.add(text.rpartition("/")[0])
    for name in ("setup.cfg", "pytest.ini", ".pytest.ini", "tox.ini"):
        ini = read_ini(tree, prefix + name)
        for section in ("pytest", "tool:pytest"):
            found |= set(ini.get(section, {}).get("pythonpath", "").split())
        found |= set(ini.get("options.packages.find", {}).get("where", "").split())
    return {("", folder) for folder in found} | set(declared_package_folders(tree, root).items())
