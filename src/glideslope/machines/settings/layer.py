"""One layer of settings: from text or variables to checked values, with every problem found."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from glideslope.machines.settings.check import normal, wrong
from glideslope.machines.settings.key import (
    ANY,
    BY_NAME,
    PROFILES,
    REMOVED_IN,
    UNREAD,
    Kind,
    Value,
    find_key,
    is_table,
    renamed,
)
from glideslope.machines.settings.locate import locate

VARIABLE_PREFIX = "GLIDESLOPE__"


class Source(StrEnum):
    """Where a layer comes from, weakest first."""

    DEFAULT = "default"
    USER = "user file"
    REPOSITORY = "repository file"
    VARIABLE = "environment variable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with a layer."""

    where: str  # file:line, or the name of a variable
    message: str  # ends with what to do
    key: str = ""  # dotted


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A checked value and where it stands."""

    value: Value
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What one source says."""

    source: Source
    values: Mapping[tuple[str, ...], Found]
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


def empty(source: Source) -> Layer:
    """A layer that says nothing."""
    return Layer(source=source, values={})


def parse_toml(content: bytes) -> Mapping[str, object] | str:
    """Reads a TOML document.

    Returns:
        The document, or a sentence that says why it is none.
    """
    try:
        return tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError as reason:
        return f"not UTF-8 at byte {reason.start}"
    except RecursionError:
        return "nested too deeply"
    except ValueError as reason:
        return str(reason)


def read_file(content: bytes, *, file: str, source: Source) -> Layer:
    """Reads a `glideslope.toml` or the user's file; one that does not parse is a problem."""
    document = parse_toml(content)
    if isinstance(document, str):
        problem = Problem(where=file, message=f"{file} is not TOML, {document}: mend it")
        return Layer(source=source, values={}, problems=(problem,))
    return _read(document, _Places(file=file, content=content), source)


def read_pyproject(content: bytes, *, file: str) -> Layer:
    """Reads `[tool.glideslope]`; a file that does not parse says nothing here.

    That it does not parse is a finding about the project, which a run reports.
    """
    document = parse_toml(content)
    if isinstance(document, str):
        return empty(Source.REPOSITORY)
    table: object = document
    for name in ("tool", "glideslope"):
        table = table.get(name, {}) if isinstance(table, dict) else {}
    places = _Places(file=file, content=content, prefix=("tool", "glideslope"))
    if not isinstance(table, dict):
        problem = Problem(
            where=places.of(()), message="tool.glideslope expects a table: write [tool.glideslope]"
        )
        return Layer(source=Source.REPOSITORY, values={}, problems=(problem,))
    return _read(table, places, Source.REPOSITORY)


def read_variables(variables: Mapping[str, str]) -> Layer:
    """Reads `GLIDESLOPE__AGENT__ENVIRONMENT__KEY` and the like; other variables are ignored."""
    builder = _Builder(_Places(file=""), Source.VARIABLE)
    for name in sorted(variables):
        if name.startswith(VARIABLE_PREFIX):
            path = tuple(name.removeprefix(VARIABLE_PREFIX).lower().split("__"))
            builder.take(path, _from_text(path, variables[name]), where=name)
    return builder.layer()


def _from_text(path: tuple[str, ...], text: str) -> object:
    """The value of a variable: words as they are, everything else as TOML writes it."""
    key = find_key(renamed(path))
    if key is None or key.kind in (Kind.TEXT, Kind.CHOICE):
        return text
    document = parse_toml(
        f"value = {text.lower() if key.kind is Kind.FLAG else text}".encode("utf-8", "replace")
    )
    return text if isinstance(document, str) else document["value"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """Says where in a file a key stands; looks only when asked, since few ever are."""

    file: str
    content: bytes = b""
    prefix: tuple[str, ...] = ()

    def of(self, path: tuple[str, ...]) -> str:
        line = locate(self.content, (*self.prefix, *path))
        return f"{self.file}:{line}" if line else self.file


def _read(document: Mapping[str, object], places: _Places, source: Source) -> Layer:
    builder = _Builder(places, source)
    for path, value in _leaves((), document):
        builder.take(path, value)
    return builder.layer()


def _leaves(path: tuple[str, ...], table: Mapping[str, object]) -> Iterator[tuple[tuple[str, ...], object]]:
    """Walks down as far as the schema knows tables."""
    for name, value in table.items():
        here = (*path, name)
        if isinstance(value, dict) and is_table(here):
            yield from _leaves(here, value)
        else:
            yield here, value


class _Builder:
    """Collects the values and the problems of one layer."""

    def __init__(self, places: _Places, source: Source) -> None:
        self._places = places
        self._source = source
        self._values: dict[tuple[str, ...], Found] = {}
        self._problems: list[Problem] = []
        self._warnings: list[str] = []

    def take(self, path: tuple[str, ...], value: object, *, where: str = "") -> None:
        """Checks one value and keeps it, or the problem with it."""
        wanted = renamed(path)
        dotted = ".".join(path)
        key = find_key(wanted)
        if key is None:
            self._problem(path, where, f"{dotted}: {_why_unknown(wanted)}")
            return
        reason = wrong(key, value)
        if reason is not None:
            self._problem(path, where, f"{dotted} {reason}")
            return
        if wanted != path:
            self._warnings.append(
                f"{where or self._places.of(path)}: {dotted} is an old name, read until version {REMOVED_IN}: "
                f"write {'.'.join(wanted)}"
            )
            if wanted in self._values:  # where both are written the new name counts
                return
        self._values[wanted] = Found(value=normal(key, value), where=where or self._places.file)

    def _problem(self, path: tuple[str, ...], where: str, message: str) -> None:
        where = where or self._places.of(path)
        self._problems.append(Problem(where=where, message=f"{where}: {message}", key=".".join(path)))

    def layer(self) -> Layer:
        return Layer(
            source=self._source,
            values=self._values,
            problems=tuple(self._problems),
            warnings=tuple(self._warnings),
        )


def _why_unknown(path: tuple[str, ...]) -> str:
    dotted = ".".join(path)
    if any(dotted == name or dotted.startswith(name + ".") for name in UNREAD):
        return "nothing in this version reads this key: remove it"
    if is_table(path):
        return f"expects a table: write [{dotted}]"
    near = _nearest(path)
    return f"unknown key: did you mean {near}?" if near else "unknown key: see `glideslope config schema`"


def _nearest(path: tuple[str, ...]) -> str | None:
    """The key or table whose own name is most like the last one given."""
    own = path[1] if path[:1] == (PROFILES,) and len(path) > 1 else ANY
    known = [name.replace(ANY, own).split(".") for name in BY_NAME]
    dotted = {".".join(parts[:size]) for parts in known for size in range(1, len(parts) + 1)}
    by_last = {name.rpartition(".")[2]: name for name in sorted(dotted)}
    close = difflib.get_close_matches(path[-1], list(by_last), n=1, cutoff=0.7)
    return by_last[close[0]] if close else None
