"""Finds the project's own Python, and tells what is installed there.

Theory of operation. Places are asked in a fixed order; the first environment that is there is
taken, and one that is there but broken is an error, never passed over. What an interpreter is, is
asked of itself once, without `site`, so nothing of the project runs. What is installed is read from
the names and RECORDs of the distributions on every call; a RECORD is read again when it changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from glideslope.adapters.environment_places import kept_environments
from glideslope.errors import NoInterpreter
from glideslope.model.ids import EnvironmentKey
from glideslope.model.project import Interpreter

_PROBE_TIMEOUT_S = 20.0
_SETTLED_NS = 2_000_000_000
_TELLING = (".dist-info", ".egg-info", ".egg-link", ".pth")
_DISTRIBUTION = re.compile(r"(?P<name>.+?)(?:-(?P<version>[^-]+))?(?:-py[\d.]+)?\.(?:dist|egg)-info\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Probe:
    """What an interpreter said of itself."""

    version: tuple[int, int, int]
    implementation: str
    build: str
    site: tuple[str, ...]  # folders of installed distributions
    prefix: str
    executable: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where an interpreter may be."""

    how: str
    path: str  # an executable or an environment's folder


class LocalInterpreters:
    """Finds interpreters on this machine; keeps what it learnt in memory."""

    def __init__(self, *, worker: str, own_prefix: str, trees: str | None = None) -> None:
        """Creates a finder.

        Args:
            worker: Folder of the injected programs.
            own_prefix: The environment this product runs in.
            trees: Folder that holds copies of repositories: nothing there is an interpreter.
        """
        self._trees = trees and os.path.realpath(trees)
        self._worker = worker
        self._own_prefix = own_prefix
        self._probes: dict[tuple[object, ...], _Probe] = {}
        self._listings: dict[str, tuple[int, tuple[tuple[str, tuple[str, str] | None], ...]]] = {}
        self._digests: dict[str, tuple[tuple[int, ...], str]] = {}

    def find(
        self,
        *,
        workspace_root: str,
        project_root: str,
        argument: str | None,
        setting: str,
        virtual_env: str | None,
        is_foreign: Callable[[str], bool],
    ) -> Interpreter:
        """Finds the interpreter of a project; see the port."""
        looked: list[str] = []
        for place in self._places(workspace_root, project_root, argument, setting, virtual_env):
            executable = _executable(place)
            if executable is None:
                looked.append(f"{place.path} ({place.how})")
                continue
            if self._trees:
                _refuse_foreign(executable, self._trees, lambda _: True)
            _refuse_foreign(executable, workspace_root, is_foreign)
            found = self._describe(executable, outside_program(executable, workspace_root), place.how)
            if place.how == "VIRTUAL_ENV" and self._is_ours(found) and _lacks_tests(found, project_root):
                looked.append(f"{place.path} (VIRTUAL_ENV, glideslope's own, without pytest)")
                continue
            return found
        raise NoInterpreter(
            "no interpreter of the project was found; looked at "
            + (", ".join(looked) or "no place at all")
            + ": make an environment with the project and its test tools, or name one with --python",
            next=_advice(project_root),
        )

    def _places(
        self,
        workspace_root: str,
        project_root: str,
        argument: str | None,
        setting: str,
        virtual_env: str | None,
    ) -> Iterator[_Place]:
        for how, path in (("argument", argument), ("setting", setting)):
            if path:
                yield _Place(how=how, path=_named(path, workspace_root))
                return  # what was named is used or fails; nothing else is taken instead
        for name in (".venv", "venv"):
            yield _Place(how=name, path=os.path.join(project_root, name))
        if project_root != workspace_root:
            for name in (".venv", "venv"):
                yield _Place(how=f"workspace {name}", path=os.path.join(workspace_root, name))
        for how, folder in kept_environments(Path(project_root), Path.home()):
            yield _Place(how=how, path=str(folder))
        if virtual_env:
            yield _Place(how="VIRTUAL_ENV", path=virtual_env)

    def _is_ours(self, found: Interpreter) -> bool:
        return os.path.realpath(found.prefix) == os.path.realpath(self._own_prefix)

    def _describe(self, executable: str, program: str, how: str) -> Interpreter:
        configuration = _read(Path(executable).parent.parent / "pyvenv.cfg")
        probe = self._probe(executable, program, configuration)
        digest = hashlib.sha256()
        distributions: dict[str, str] = {}
        for text in (probe.executable, probe.build, configuration):
            digest.update(f"{text}\0".encode("utf-8", "surrogateescape"))
        for folder in probe.site:
            for name, content, distribution in self._installed(folder):
                digest.update(f"{name}\0{content}\0".encode("utf-8", "surrogateescape"))
                if distribution is not None:
                    distributions.setdefault(*distribution)
        return Interpreter(
            executable=probe.executable,
            prefix=probe.prefix,
            version=probe.version,
            implementation=probe.implementation,
            build=probe.build,
            how=how,
            distributions=distributions,
            key=EnvironmentKey(digest.hexdigest()[:32]),
        )

    def _installed(self, folder: str) -> Iterator[tuple[str, str, tuple[str, str] | None]]:
        """What matters in a folder of distributions: name, digest of what it says, distribution."""
        for name, distribution in self._listed(folder):
            path = f"{folder}/{name}"
            if distribution is None:
                yield name, self._digest(path), None
                continue
            # RECORD holds a digest of direct_url.json too.
            record = self._digest(f"{path}/RECORD")
            yield name, record or self._digest(f"{path}/direct_url.json"), distribution

    def _listed(self, folder: str) -> tuple[tuple[str, tuple[str, str] | None], ...]:
        """Names of distributions and path files in a folder, sorted; listed again when it changed."""
        try:
            changed_ns = os.stat(folder).st_mtime_ns
            kept = self._listings.get(folder)
            if kept is not None and kept[0] == changed_ns:
                return kept[1]
            with os.scandir(folder) as listing:
                names = sorted(entry.name for entry in listing if entry.name.endswith(_TELLING))
        except OSError:
            return ()
        found = tuple((name, _distribution(name, f"{folder}/{name}")) for name in names)
        if time.time_ns() - changed_ns > _SETTLED_NS:  # a change within the same clock tick would be missed
            self._listings[folder] = (changed_ns, found)
        return found

    def _digest(self, path: str) -> str:
        """Digest of a small file, "" where there is none; read again only when its stat changed."""
        try:
            found = os.stat(path)
        except OSError:
            return ""
        identity = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        kept = self._digests.get(path)
        if kept is None or kept[0] != identity:
            try:
                content = Path(path).read_bytes()
            except OSError:
                return "unreadable"
            kept = self._digests[path] = (identity, hashlib.sha256(content).hexdigest())
        return kept[1]

    def _probe(self, executable: str, program: str, configuration: str) -> _Probe:
        try:
            found = os.stat(executable)
        except OSError as error:
            raise _broken(executable, error.strerror or "cannot be read") from error
        looks = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        key = (executable, program, looks, configuration)
        if key not in self._probes:
            self._probes[key] = self._ask(executable, program, configuration)
        return self._probes[key]

    def _ask(self, executable: str, program: str, configuration: str) -> _Probe:
        prefix = os.path.dirname(os.path.dirname(executable)) if configuration else ""
        argv = [program, "-I", "-S", os.path.join(self._worker, "interpreter_facts.py"), prefix]
        try:
            done = subprocess.run(
                argv,
                capture_output=True,
                timeout=_PROBE_TIMEOUT_S,
                cwd="/",
                env={},
                stdin=subprocess.DEVNULL,
                check=False,
            )
            said = json.loads(done.stdout)
            major, minor, micro = said["version"]
            shared = "include-system-site-packages = true" in configuration.lower()
            return _Probe(
                version=(int(major), int(minor), int(micro)),
                implementation=str(said["implementation"]),
                build=str(said["build"]),
                site=(*said["site"], *(said["base_site"] if shared or not prefix else ())),
                prefix=prefix or str(said["base_prefix"]),
                # A launcher that picks a version by the current folder must not do so again later.
                executable=executable if prefix else str(said["executable"] or executable),
            )
        except subprocess.TimeoutExpired as error:
            raise _broken(executable, "it does not answer") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _broken(executable, f"it cannot run ({error})") from error


def _broken(executable: str, why: str) -> NoInterpreter:
    return NoInterpreter(
        f"{executable} is broken: {why}; make its environment again, or name another one with --python",
        next="glideslope verify --python PATH",
        path=executable,
    )


def _refuse_foreign(executable: str, workspace_root: str, is_foreign: Callable[[str], bool]) -> None:
    """Repositories may ship a program of any name; it is not run to ask what it is."""
    real = os.path.realpath(executable)
    if not _is_within(real, workspace_root):
        return
    # A genuine interpreter runs what lies around it: its library, or what its pyvenv.cfg names.
    around = [folder for folder in _around(real) if folder != workspace_root]
    if any(_is_within(path, workspace_root) and is_foreign(path) for path in (real, *around)):
        raise NoInterpreter(
            f"{executable} is a file of the repository, or lies among such, and is not run outside the sandbox: "
            "name an interpreter that lies elsewhere with --python",
            next="glideslope verify --python PATH",
            path=executable,
        )


def outside_program(executable: str, workspace_root: str) -> str:
    """What to start in place of an interpreter, where it has to run outside the sandbox.

    A link in the workspace may stand beside a `pyvenv.cfg` of the repository, which can name another
    standard library, and that would be run. So the interpreter is started by its own path.

    Args:
        executable: An interpreter that came from elsewhere, or was made here.
        workspace_root: Real path of the workspace.
    """
    around = {*_around(executable), *map(os.path.realpath, _around(executable))}
    if any(_is_within(folder, workspace_root) for folder in around):
        return os.path.realpath(executable)
    return executable


def _around(executable: str) -> tuple[str, str]:
    """The folders in which an interpreter looks for its configuration."""
    folder = os.path.dirname(executable)
    return folder, os.path.dirname(folder)


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _named(path: str, workspace_root: str) -> str:
    """A path as somebody wrote it: absolute, below the workspace, or a command on PATH."""
    expanded = os.path.expanduser(path)
    if "/" not in expanded and not os.path.exists(os.path.join(workspace_root, expanded)):
        return shutil.which(expanded) or expanded
    return os.path.normpath(os.path.join(workspace_root, expanded))


def _executable(place: _Place) -> str | None:
    """The interpreter of a place; None where there is nothing.

    Raises:
        NoInterpreter: There is an environment, but its interpreter is gone or cannot be started.
    """
    try:
        found = os.stat(place.path)
    except OSError as error:
        if os.path.islink(place.path):
            raise _broken(place.path, f"it is a link to {os.readlink(place.path)}, which is gone") from error
        return None
    if not stat.S_ISDIR(found.st_mode):
        if not os.access(place.path, os.X_OK):
            raise _broken(place.path, "it is not a program")
        return place.path
    for name in ("python", "python3"):
        candidate = os.path.join(place.path, "bin", name)
        if os.path.exists(candidate):
            return candidate
        if os.path.islink(candidate):
            raise _broken(candidate, f"it is a link to {os.readlink(candidate)}, which is gone")
    if os.path.exists(os.path.join(place.path, "pyvenv.cfg")):
        raise _broken(place.path, "it has no python in its bin folder")
    return None


def _distribution(name: str, path: str) -> tuple[str, str] | None:
    """Canonical name and version of an installed distribution, by the name of its folder."""
    found = _DISTRIBUTION.match(name)
    if found is None:
        return None
    version = found["version"]
    if version is None:
        metadata = _read(Path(path, "PKG-INFO"))
        said = re.search(r"^Version: (\S+)", metadata, re.M)
        version = said[1] if said else ""
    return re.sub(r"[-_.]+", "-", found["name"]).lower(), version


def _lacks_tests(found: Interpreter, project_root: str) -> bool:
    """Whether the project tests with pytest and the interpreter does not have it."""
    return not found.has("pytest") and _uses_pytest(Path(project_root))


def _uses_pytest(root: Path) -> bool:
    if any(
        (root / name).exists() for name in ("pytest.ini", ".pytest.ini", "conftest.py", "tests/conftest.py")
    ):
        return True
    return any("pytest" in _read(root / name) for name in ("pyproject.toml", "setup.cfg", "tox.ini"))


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


_MAKERS: Mapping[str, str] = {
    "uv.lock": "uv sync",
    "poetry.lock": "poetry install",
    "pdm.lock": "pdm install",
}


def _advice(project_root: str) -> str:
    """The command that would make the project's environment."""
    for lock, command in _MAKERS.items():
        if os.path.exists(os.path.join(project_root, lock)):
            return command
    return "python3 -m venv .venv && .venv/bin/python -m pip install -e . pytest"
