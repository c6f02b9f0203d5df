"""Layers of settings into one value.

A later layer wins, except for safety keys: there the user's own file decides, and everything after
it (the repository, the environment of a caller, an argument) can only forbid more. What would
loosen them is left out and said aloud.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from glideslope.machines.settings.key import ANY, KEYS, PROFILES, Key, Value, find_key
from glideslope.machines.settings.layer import Found, Layer, Problem, Source
from glideslope.model.settings import SandboxProfile, Settings

_PROFILE_KEY = "agent.environment.default_sandbox_profile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What holds, why, and what is wrong or to be told."""

    settings: Settings
    digest: str  # of all that a pass may depend on
    sources: Mapping[str, str]  # dotted key -> where its value stands, "default" where nowhere
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


def merge(layers: Iterable[Layer], *, user_file: str) -> Merged:
    """Merges layers, weakest first, onto the defaults.

    Args:
        layers: At most one per source.
        user_file: Where the user can loosen a safety key, for the warnings.

    Returns:
        The settings; a layer with problems takes part with what is right in it.
    """
    values: dict[tuple[str, ...], Found] = dict(_defaults())
    problems: list[Problem] = []
    warnings: list[str] = []
    for layer in layers:
        problems += layer.problems
        warnings += layer.warnings
        for path, found in layer.values.items():
            if layer.source is not Source.USER and _loosens(path, values.get(path), found):
                warnings.append(
                    f"{found.where}: {'.'.join(path)} = {_shown(found.value)} would allow more than "
                    f"{_shown(values[path].value)} and is left out: to allow it, set it in {user_file}"
                )
            else:
                values[path] = found
    problems += _without_command(values)
    return Merged(
        settings=_built(values),
        digest=_digest(values),
        sources={".".join(path): found.where for path, found in sorted(values.items())},
        problems=tuple(problems),
        warnings=tuple(warnings),
    )


def allows(granted: SandboxProfile, asked: SandboxProfile) -> bool:
    """Whether a call may ask for a profile where the settings grant another: it may only tighten."""
    key = find_key(tuple(_PROFILE_KEY.split(".")))
    assert key is not None, "the profile is a key"
    assert key.strictness is not None, "the profile is a safety key"
    return key.strictness[asked] >= key.strictness[granted]


def by_default(key: Key) -> Value | None:
    """The default of a key; None for keys of a test profile, which have none of their own."""
    found = dict(_defaults()).get(tuple(key.name.split(".")))
    return found.value if found else None


def _defaults() -> Iterable[tuple[tuple[str, ...], Found]]:
    plain = _plain(Settings())
    for key in KEYS:
        path = tuple(key.name.split("."))
        if ANY in path:
            continue
        here: object = plain
        for name in path:
            assert isinstance(here, Mapping), f"{key.name} is no field of the settings"
            here = here[name]
        yield path, Found(value=msgspec.convert(_tupled(here), Value), where=Source.DEFAULT.value)


def _plain(settings: Settings) -> Mapping[str, object]:
    """The settings as TOML has them, without test profiles."""
    return {"agent": {"environment": msgspec.to_builtins(settings.environment)}}


def _tupled(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _loosens(path: tuple[str, ...], before: Found | None, found: Found) -> bool:
    key = find_key(path)
    if key is None or key.strictness is None or before is None:
        return False
    return key.strictness[found.value] < key.strictness[before.value]


def _without_command(values: Mapping[tuple[str, ...], Found]) -> list[Problem]:
    """Test profiles that say something, but not what to run."""
    found: list[Problem] = []
    for name, path in _profiles(values):
        if (PROFILES, name, "command") not in values:
            where = values[path].where
            message = f"{where}: {PROFILES}.{name} has no command: write command = [...]"
            found.append(Problem(where=where, message=message, key=f"{PROFILES}.{name}"))
    return found


def _profiles(values: Mapping[tuple[str, ...], Found]) -> list[tuple[str, tuple[str, ...]]]:
    """Names of the profiles, sorted, each with one of the paths that mention it."""
    return sorted({path[1]: path for path in values if path[0] == PROFILES}.items())


def _built(values: Mapping[tuple[str, ...], Found]) -> Settings:
    tree: dict[str, object] = {}
    for path, found in values.items():
        if path[0] != PROFILES:
            _put(tree, path[1:], found.value)  # all of them lie below `agent`
    profiles = [
        {
            "name": name,
            **{path[2]: found.value for path, found in values.items() if path[:2] == (PROFILES, name)},
        }
        for name, _ in _profiles(values)
        if (PROFILES, name, "command") in values
    ]
    return msgspec.convert({**tree, "test_profiles": profiles}, Settings)


def _put(tree: dict[str, object], path: tuple[str, ...], value: Value) -> None:
    for name in path[:-1]:
        below = tree.setdefault(name, {})
        assert isinstance(below, dict), "a key is no table"
        tree = below
    tree[path[-1]] = value


def _digest(values: Mapping[tuple[str, ...], Found]) -> str:
    """Sixteen hexadecimal digits over the keys that a pass may depend on."""
    relevant = {
        ".".join(path): found.value for path, found in values.items() if (key := find_key(path)) and key.proof
    }
    return hashlib.sha256(json.dumps(relevant, sort_keys=True).encode()).hexdigest()[:16]


def _shown(value: Value) -> str:
    return json.dumps(value)
