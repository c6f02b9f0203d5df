"""Test files of a project, and the pytest configuration that decides which files those are.

Follows pytest's own collection by names alone. Conftest files may leave out more while pytest
runs; nothing here leaves out what pytest would collect, as far as names and configuration tell.
"""

from __future__ import annotations

import fnmatch
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from glideslope.model.paths import RepoPath, is_beneath, name, parent
from glideslope.model.project import Project
from glideslope.ports.toolchain import Tree
from glideslope.toolchains.python.layout import read_ini, read_toml, table, texts

CONFIG_FILES = (
    "pytest.toml",
    ".pytest.toml",
    "pytest.ini",
    ".pytest.ini",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
)
"""In the order in which pytest asks for them."""

_NORECURSE = ("*.egg", ".*", "_darcs", "build", "CVS", "dist", "node_modules", "venv", "{arch}")
_NEVER_DOCTESTED = frozenset({"setup.py", "__main__.py"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PytestConfig:
    """What pytest reads from a project's files. Folders are relative to the workspace root."""

    source: RepoPath | None = None  # None: no file configures pytest
    rootdir: str = ""
    python_files: tuple[str, ...] = ("test_*.py", "*_test.py")
    testpaths: tuple[str, ...] = ()
    norecursedirs: tuple[str, ...] = _NORECURSE
    addopts: tuple[str, ...] = ()
    pythonpath: tuple[str, ...] = ()  # folders of the workspace that pytest puts on the path

    def option_values(self, *names: str) -> tuple[str, ...]:
        """Values given to options in `addopts`, as `--name VALUE`, `--name=VALUE` or `-nVALUE`."""
        found: list[str] = []
        for at, word in enumerate(self.addopts):
            for option in names:
                if word == option and at + 1 < len(self.addopts):
                    found.append(self.addopts[at + 1])
                elif word.startswith(option + "=") and option.startswith("--"):
                    found.append(word[len(option) + 1 :])
                elif not option.startswith("--") and word.startswith(option) and len(word) > len(option):
                    found.append(word[len(option) :])
        return tuple(found)

    def mentions(self, *prefixes: str) -> bool:
        """Whether a word of `addopts` begins with one of the given prefixes."""
        return any(word.startswith(prefixes) for word in self.addopts)

    @property
    def plugins(self) -> tuple[str, ...]:
        """Plugins that `addopts` loads by module name."""
        return tuple(name for name in self.option_values("-p") if not name.startswith("no:"))


def read_config(tree: Tree, project: Project) -> PytestConfig:
    """Reads the configuration that applies when pytest starts in a project's folder.

    Returns:
        The configuration; defaults where nothing configures pytest or the file does not parse,
        which pytest itself reports.
    """
    folder = project.root
    while True:
        prefix = f"{folder}/" if folder else ""
        for file in CONFIG_FILES:
            path = prefix + file
            if path in tree.entries:
                found = _table_of(tree, path)
                if found is not None:
                    return _config(RepoPath(path), folder, found)
        if not folder:
            return PytestConfig(rootdir=project.root)
        folder = parent(folder)


def _table_of(tree: Tree, path: str) -> Mapping[str, object] | None:
    """The part of a file that configures pytest; None where it has none."""
    file = name(path)
    if file == "pyproject.toml":
        tool = table(read_toml(tree, path), "tool")
        native, compatible = table(tool, "pytest"), table(tool, "pytest", "ini_options")
        if compatible:
            return compatible
        return native if native and set(native) != {"ini_options"} else None
    if file.endswith(".toml"):
        return table(read_toml(tree, path), "pytest")
    sections = read_ini(tree, path)
    if file in ("pytest.ini", ".pytest.ini"):
        return sections.get("pytest", {})
    return sections.get("tool:pytest" if file == "setup.cfg" else "pytest")


def _config(source: RepoPath, folder: str, found: Mapping[str, object]) -> PytestConfig:
    default = PytestConfig()
    return PytestConfig(
        source=source,
        rootdir=folder,
        python_files=_words(found.get("python_files")) or default.python_files,
        testpaths=_words(found.get("testpaths")),
        norecursedirs=_words(found.get("norecursedirs")) or default.norecursedirs,
        addopts=_words(found.get("addopts")),
        pythonpath=_below_root(folder, _words(found.get("pythonpath"))),
    )


def _below_root(folder: str, names: Iterable[str]) -> tuple[str, ...]:
    """Names seen from a folder, as folders of the workspace; those outside of it are left out."""
    found = []
    for text in names:
        parts = folder.split("/") if folder else []
        for part in text.split("/"):
            if part == ".." and not parts:
                break
            if part == "..":
                parts.pop()
            elif part not in ("", "."):
                parts.append(part)
        else:
            if not text.startswith("/"):
                found.append("/".join(parts))
    return tuple(dict.fromkeys(found))


def _words(value: object) -> tuple[str, ...]:
    """A setting that is a list, or a text split as a shell would."""
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value, comments=True))
        except ValueError:
            return tuple(value.split())
    return texts(value)


def find_units(tree: Tree, project: Project, config: PytestConfig) -> tuple[RepoPath, ...]:
    """The files pytest would collect from when started in a project's folder, sorted."""
    starts = _starts(tree, project, config)
    accepts = _acceptor(config)
    ignored = _ignored(project, config)
    skipped_folder = _any_pattern(config.norecursedirs)
    reached: dict[str, bool] = {}

    def is_reached(folder: str) -> bool:
        """Whether pytest walks into a folder, coming from one of the starts."""
        if folder not in reached:
            if folder in starts:
                reached[folder] = True
            elif not folder:
                reached[folder] = False
            else:
                reached[folder] = (
                    is_reached(parent(folder)) and not skipped_folder(folder) and not ignored(folder)
                )
        return reached[folder]

    return tuple(
        sorted(
            path
            for path in tree.entries
            if path in starts or (accepts(path) and is_reached(parent(path)) and not ignored(path))
        )
    )


def find_unittest_units(tree: Tree, project: Project) -> tuple[RepoPath, ...]:
    """The files unittest's discovery would load by name, sorted."""
    skipped = _any_pattern(_NORECURSE)

    def is_reached(folder: str) -> bool:
        below = folder[len(project.root) :].strip("/")
        return not below or not any(skipped(part) for part in below.split("/"))

    return tuple(
        sorted(
            path
            for path in tree.entries
            if project.holds(path) and fnmatch.fnmatch(name(path), "test*.py") and is_reached(parent(path))
        )
    )


def _starts(tree: Tree, project: Project, config: PytestConfig) -> frozenset[str]:
    """Folders and files that collection starts from."""
    patterns = [pattern.rstrip("/") for pattern in config.testpaths] if config.rootdir == project.root else []
    found: set[str] = set()
    prefix = f"{project.root}/" if project.root else ""
    for pattern in patterns:
        whole = (prefix + pattern).removeprefix("./") if pattern != "." else project.root
        if not any(mark in pattern for mark in "*?["):
            if whole in tree.entries or any(is_beneath(path, whole) for path in tree.entries):
                found.add(whole)
            continue
        matches = re.compile(fnmatch.translate(whole)).match
        candidates = {folder for path in tree.entries for folder in _folders_above(path)} | set(tree.entries)
        found.update(path for path in candidates if matches(path))
    # Without a match pytest warns and takes the current folder.
    return frozenset(found) or frozenset({project.root})


def _folders_above(path: str) -> Iterable[str]:
    while path:
        path = parent(path)
        yield path


def _acceptor(config: PytestConfig) -> Callable[[str], bool]:
    """Tells whether pytest collects from a file of that path, were it to meet it."""
    is_test = _any_pattern(config.python_files)
    modules = "--doctest-modules" in config.addopts
    is_text_test = _any_pattern(config.option_values("--doctest-glob") or ("test*.txt",))

    def accepts(path: str) -> bool:
        if path.endswith(".py"):
            return is_test(path) or (modules and name(path) not in _NEVER_DOCTESTED)
        return is_text_test(path)

    return accepts


def _ignored(project: Project, config: PytestConfig) -> Callable[[str], bool]:
    """Tells whether `--ignore` or `--ignore-glob` leaves a path out."""
    prefix = f"{project.root}/" if project.root else ""
    fixed = tuple((prefix + path).rstrip("/").removeprefix("./") for path in config.option_values("--ignore"))
    globs = [re.compile(fnmatch.translate(prefix + path)) for path in config.option_values("--ignore-glob")]
    return lambda path: path in fixed or any(pattern.match(path) for pattern in globs)


def _any_pattern(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Matches as pytest does: by the last component, or by the end of the path where a pattern has a slash."""
    simple = [re.compile(fnmatch.translate(pattern)) for pattern in patterns if "/" not in pattern]
    whole = [re.compile(fnmatch.translate("*/" + pattern)) for pattern in patterns if "/" in pattern]

    def matches(path: str) -> bool:
        last = name(path)
        return any(found.match(last) for found in simple) or any(found.match("/" + path) for found in whole)

    return matches
