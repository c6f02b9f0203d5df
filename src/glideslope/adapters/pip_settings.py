"""Reads pip's configuration files as pip finds them, without pip."""

from __future__ import annotations

import configparser
import os
from collections.abc import Iterator, Mapping

from glideslope.errors import SubstrateUnavailable

_SECTIONS = ("global", "install")  # the second is stronger


def read_pip_settings(variables: Mapping[str, str], *, prefix: str) -> list[Mapping[str, str]]:
    """The options of every configuration file there is, the weakest file first.

    Args:
        variables: Of the caller: `PIP_CONFIG_FILE` names one more file, or none at all.
        prefix: Host path of the environment whose pip is meant.

    Raises:
        SubstrateUnavailable: A file is there and cannot be read. Going on without it could mean
            asking the wrong index.
    """
    named = variables.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return []
    found = []
    for path in (*_places(prefix), *([named] if named else [])):
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, UnicodeDecodeError) as error:
            raise _unreadable(path) from error
        found.append(_options(path, text))
    return found


def _places(prefix: str) -> Iterator[str]:
    for folder in reversed(os.environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":")):
        yield os.path.join(folder, "pip", "pip.conf")
    yield "/etc/pip.conf"
    home = os.path.expanduser("~")
    yield os.path.join(home, ".pip", "pip.conf")
    yield os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "pip", "pip.conf")
    yield os.path.join(prefix, "pip.conf")


def _options(path: str, text: str) -> Mapping[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise _unreadable(path) from error
    found: dict[str, str] = {}
    for section in _SECTIONS:
        if parser.has_section(section):
            found |= {name.replace("_", "-"): value for name, value in parser.items(section) if value}
    return found


def _unreadable(path: str) -> SubstrateUnavailable:
    # Not in the words of the error: the line they quote may hold a password.
    return SubstrateUnavailable(
        f"{path} is there and cannot be read as a configuration of pip: correct it", next="pip config debug"
    )
