"""JSON Schema of every shape, and of the settings."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from glideslope.machines.settings.key import ANY, KEYS, Key, Kind
from glideslope.machines.settings.merge import by_default
from glideslope.surfaces.wire.answer import (
    WireCancelled,
    WireConfig,
    WireDaemonStatus,
    WireDoctor,
    WireLog,
    WirePruned,
    WireRuns,
    WireStatus,
)
from glideslope.surfaces.wire.envelope import SCHEMA, WireError
from glideslope.surfaces.wire.run import WireRun

SHAPES: Mapping[str, type] = {
    "run": WireRun,
    "runs": WireRuns,
    "status": WireStatus,
    "cancel": WireCancelled,
    "log": WireLog,
    "doctor": WireDoctor,
    "prune": WirePruned,
    "config": WireConfig,
    "daemon": WireDaemonStatus,
}
DIALECT = "https://json-schema.org/draft/2020-12/schema"

_TYPES: Mapping[Kind, dict[str, object]] = {
    Kind.FLAG: {"type": "boolean"},
    Kind.WHOLE: {"type": "integer"},
    Kind.NUMBER: {"type": "number"},
    Kind.TEXT: {"type": "string"},
    Kind.CHOICE: {"type": "string"},
    Kind.TEXTS: {"type": "array", "items": {"type": "string"}},
    Kind.PATHS: {"type": "array", "items": {"type": "string"}},
    Kind.COMMAND: {"type": "array", "items": {"type": "string"}, "minItems": 1},
}


def envelope_schema(name: str) -> dict[str, object]:
    """JSON Schema of the envelope around one shape of `SHAPES`; of an error where it failed."""
    (data, error), components = msgspec.json.schema_components(
        [SHAPES[name], WireError], ref_template="#/$defs/{name}"
    )
    nothing = {"type": "null"}
    return {
        "$schema": DIALECT,
        "title": f"glideslope {name}",
        "type": "object",
        "properties": {
            "schema": {"const": SCHEMA},
            "ok": {"type": "boolean"},
            "action": {"type": "string"},
            "data": {"anyOf": [data, nothing]},
            "error": {"anyOf": [error, nothing]},
        },
        "required": ["schema", "ok", "action", "data", "error"],
        "$defs": components,
    }


def settings_schema() -> dict[str, object]:
    """JSON Schema of `glideslope.toml`."""
    root = _table()
    for key in KEYS:
        *tables, name = key.name.split(".")
        here = root
        for table in tables:
            here = _below(here, table)
        properties = here["properties"]
        assert isinstance(properties, dict), "a table has properties"
        properties[name] = _value(key)
    return {"$schema": DIALECT, "title": "glideslope settings", **root}


def _table() -> dict[str, object]:
    return {"type": "object", "properties": {}, "additionalProperties": False}


def _below(here: dict[str, object], name: str) -> dict[str, object]:
    """The table of that name; one that the user names is what any other property has to be."""
    if name == ANY:
        if not here["additionalProperties"]:
            here["additionalProperties"] = {**_table(), "required": ["command"]}
        found = here["additionalProperties"]
    else:
        properties = here["properties"]
        assert isinstance(properties, dict), "a table has properties"
        found = properties.setdefault(name, _table())
    assert isinstance(found, dict), "a table is a schema"
    return found


def _value(key: Key) -> dict[str, object]:
    found: dict[str, object] = {"description": key.about, **_TYPES[key.kind]}
    if key.choices:
        found["enum"] = list(key.choices)
    if key.least is not None:
        found["minimum"] = key.least
    if key.most is not None:
        found["maximum"] = key.most
    default = by_default(key)
    if default is not None:
        found["default"] = list(default) if isinstance(default, tuple) else default
    return found
