"""Where settings lie: the user's file, the repository's, and the variables of a caller."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from glideslope.errors import InvalidInput, RequestError
from glideslope.machines.settings.layer import Layer, Source, empty, read_file, read_pyproject, read_variables
from glideslope.machines.settings.merge import Merged, merge
from glideslope.ports.settings import LoadedSettings

REPOSITORY_FILE = "glideslope.toml"
PROJECT_FILE = "pyproject.toml"

Read = Callable[[str], bytes | None]


def user_settings_file(variables: Mapping[str, str], home: str | None = None) -> str:
    """Host path of the user's own file, whether it exists or not.

    Args:
        variables: Of the process whose user it is; `XDG_CONFIG_HOME` counts where it is absolute.
        home: The home folder; None: of the process.
    """
    home = home or str(Path.home())
    configured = variables.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(configured):
        folder = configured
    elif sys.platform == "darwin":
        folder = os.path.join(home, "Library", "Application Support")
    else:
        folder = os.path.join(home, ".config")
    return os.path.join(folder, "glideslope", "settings.toml")


def merge_settings(*, user_file: str | None, variables: Mapping[str, str], read: Read) -> Merged:
    """Reads and merges all layers, and reports every problem instead of raising.

    Args:
        user_file: Host path of the user's file; None: there is none.
        variables: Environment of the caller; only names of ours are looked at.
        read: The bytes of a file at the root of the workspace, None where there is none. Give the
            snapshot's bytes where there is a snapshot, so that settings and content agree.
    """
    layers = (_user(user_file), _repository(read), read_variables(variables))
    return merge(layers, user_file=user_file or "your own settings file")


def load_settings(*, user_file: str | None, variables: Mapping[str, str], read: Read) -> Merged:
    """Reads and merges all layers; arguments as of `merge_settings`.

    Raises:
        InvalidInput: An unknown key or a wrong value; the first one, with file and line.
    """
    merged = merge_settings(user_file=user_file, variables=variables, read=read)
    if merged.problems:
        first, *others = merged.problems
        more = f" (and {len(others)} more)" if others else ""
        raise InvalidInput(
            first.message + more, next="glideslope config check", field=first.key, where=first.where
        )
    return merged


def folder_reader(root: str | None) -> Read:
    """Reads files at the root of a workspace from the disk; None: there is no workspace."""

    def read(name: str) -> bytes | None:
        return None if root is None else _bytes_of(os.path.join(root, name))

    return read


def _user(path: str | None) -> Layer:
    content = None if path is None else _bytes_of(path)
    if path is None or content is None:
        return empty(Source.USER)
    return read_file(content, file=path, source=Source.USER)


def _repository(read: Read) -> Layer:
    own = read(REPOSITORY_FILE)
    if own is not None:
        return read_file(own, file=REPOSITORY_FILE, source=Source.REPOSITORY)
    project = read(PROJECT_FILE)
    return empty(Source.REPOSITORY) if project is None else read_pyproject(project, file=PROJECT_FILE)


def _bytes_of(path: str) -> bytes | None:
    """The bytes of a regular file; None where there is none.

    Raises:
        RequestError: It is there and cannot be read.
    """
    try:
        # Not blocking: a pipe in the file's place must not hold us for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            with open(descriptor, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(descriptor)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as reason:
        raise RequestError(
            f"{path} cannot be read, {reason.strerror}: make it readable", path=path
        ) from reason


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """The settings source of the engine: files of this machine and the caller's variables."""

    user_file: str | None

    def load(self, *, workspace_root: str | None, variables: Mapping[str, str]) -> LoadedSettings:
        """Merges defaults, user file, repository file and the caller's variables.

        Raises:
            InvalidInput: An unknown key or a wrong value, with file, line and a suggestion.
        """
        merged = load_settings(
            user_file=self.user_file, variables=variables, read=folder_reader(workspace_root)
        )
        return LoadedSettings(settings=merged.settings, digest=merged.digest, warnings=merged.warnings)
