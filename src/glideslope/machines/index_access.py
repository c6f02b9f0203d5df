"""What of the operator's configuration of pip the one task that may use the index gets to see.

Only names on a list pass: where packages are looked for, and how that place is reached. Nothing
that names a program to be started does (`python`, `keyring-provider` and the like).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

OPTIONS = frozenset(
    [
        "index-url",
        "extra-index-url",
        "find-links",
        "no-index",
        "trusted-host",
        "cert",
        "client-cert",
        "proxy",
        "timeout",
        "default-timeout",
        "retries",
        "constraint",
        "prefer-binary",
        "pre",
    ]
)
"""Options of pip that pass, from its configuration files and from `PIP_...` variables."""

_NETWORK = frozenset(
    [
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "no_proxy",
        "ssl_cert_file",
        "ssl_cert_dir",
        "requests_ca_bundle",
        "curl_ca_bundle",
    ]
)
_CONFIGURATION = "PIP_CONFIG_FILE"  # read by us, never by the task's pip
_WAITING = frozenset(["PIP_TIMEOUT", "PIP_DEFAULT_TIMEOUT", "PIP_RETRIES"])
_CREDENTIALS = re.compile(r"(://|^)[^/@\s]+@")
_FIXED = MappingProxyType(
    {
        "PIP_CONFIG_FILE": "/dev/null",  # what passes was read from the files already
        "PIP_KEYRING_PROVIDER": "disabled",  # one of the others starts a program
        "PIP_NO_INPUT": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
    }
)
_PATIENCE = MappingProxyType({"PIP_DEFAULT_TIMEOUT": "15", "PIP_RETRIES": "2"})


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexAccess:
    """How the operator reaches a package index."""

    variables: Mapping[str, str]  # for the task that may; credentials may be among them
    visible: tuple[str, ...] = ()  # host paths they name, which the task has to see
    key: str = ""  # digest of where packages come from; says nothing of credentials


def is_index_variable(name: str) -> bool:
    """Whether a variable of a caller says how a package index is reached."""
    return name == _CONFIGURATION or _is_option(name) or name.lower() in _NETWORK


def plan_access(files: Iterable[Mapping[str, str]], variables: Mapping[str, str]) -> IndexAccess:
    """Lays configuration files and variables over one another and keeps what is on the list.

    Args:
        files: Options by name, as configuration files have them; the weakest file first.
        variables: Of the caller, stronger than any file.

    Returns:
        The variables of the task, complete: its pip is to read no file, and no other `PIP_` variable
        is to be set.
    """
    found: dict[str, str] = {}
    for options in files:
        for option, text in options.items():
            name = "PIP_" + option.replace("-", "_").upper()
            if _is_option(name):
                found[name] = " ".join(text.split())
    found |= {
        name: text for name, text in variables.items() if name != _CONFIGURATION and is_index_variable(name)
    }
    told = sorted((name, without_credentials(text)) for name, text in found.items() if name not in _WAITING)
    waits = {} if _WAITING & set(found) else _PATIENCE
    return IndexAccess(
        variables={**waits, **found, **_FIXED},
        visible=tuple(dict.fromkeys(path for text in found.values() for path in _paths(text))),
        key=hashlib.sha256(json.dumps(told).encode("utf-8", "surrogateescape")).hexdigest()[:12],
    )


def without_credentials(text: str) -> str:
    """A list of addresses without what stands before their `@`."""
    return " ".join(_CREDENTIALS.sub(r"\1", word) for word in text.split())


def _is_option(name: str) -> bool:
    return name.startswith("PIP_") and name[4:].lower().replace("_", "-") in OPTIONS


def _paths(text: str) -> Iterable[str]:
    for word in text.split():
        path = word.removeprefix("file://")
        if path.startswith("/"):
            yield path
