"""Whether a value fits a key."""

from __future__ import annotations

import difflib

from glideslope.errors import PathEscapes
from glideslope.machines.settings.key import Key, Kind, Value
from glideslope.model.paths import repo_path


def wrong(key: Key, value: object) -> str | None:
    """Says what is wrong with a value as TOML gives it.

    Returns:
        The rest of a sentence that begins with the key's name; None where the value fits.
    """
    if not _fits(key.kind, value):
        return f"expects {key.expects}, not {_show(value)}"
    match value:
        case str() if key.choices and value not in key.choices:
            near = difflib.get_close_matches(value.lower(), key.choices, n=1)
            return f"expects {key.expects}, not {value!r}" + (f": did you mean {near[0]}?" if near else "")
        case str() if "\0" in value:
            return "holds a NUL: take it out"
        case int() | float() if not isinstance(value, bool) and not _within(key, value):
            return f"expects {key.expects}, not {value!r}"
        case list() if key.kind is Kind.COMMAND and (not value or not value[0]):
            return f"expects {key.expects}; it is empty"
        case list() if key.kind is Kind.PATHS:
            return next((reason for item in value if (reason := _leaves_workspace(str(item)))), None)
        case _:
            return None


def normal(key: Key, value: object) -> Value:
    """A value that fits, as the model holds it."""
    match value:
        case list():
            return tuple(str(item) for item in value)
        case bool() | str() | float():
            return value
        case int():
            return float(value) if key.kind is Kind.NUMBER else value
        case _:
            raise AssertionError(f"{key.name} was not checked")


def _fits(kind: Kind, value: object) -> bool:
    match kind:
        case Kind.FLAG:
            return isinstance(value, bool)
        case Kind.WHOLE:
            return isinstance(value, int) and not isinstance(value, bool)
        case Kind.NUMBER:
            return isinstance(value, int | float) and not isinstance(value, bool)
        case Kind.TEXT | Kind.CHOICE:
            return isinstance(value, str)
        case Kind.TEXTS | Kind.PATHS | Kind.COMMAND:
            return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _within(key: Key, value: float) -> bool:
    """Whether a number keeps to the limits; what is not a number keeps to none."""
    low = key.least is None or value >= key.least
    high = key.most is None or value <= key.most
    return low and high and value - value == 0


def _leaves_workspace(pattern: str) -> str | None:
    try:
        repo_path(pattern)
    except PathEscapes:
        return f"holds {pattern!r}, which is no path below the workspace root: give a relative one"
    return None


def _show(value: object) -> str:
    shown = "a table" if isinstance(value, dict) else repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
