"""The one envelope around every answer and every error."""

from __future__ import annotations

import msgspec

from glideslope.errors import GlideslopeError
from glideslope.surfaces.wire.text import plain_or_none, plain_text

SCHEMA = "glideslope/1"

USAGE = "usage"  # code of a command line that cannot be parsed
CANCELLED = "cancelled"  # code and kind of an interrupted command


class WireError(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong, by code and kind, and the command to try next."""

    code: str
    kind: str
    message: str
    fields: dict[str, str | int | None] = msgspec.field(default_factory=dict)
    next: str | None = None


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """`data` or `error`; `ok` is true whenever `data` is there, also for a red verdict."""

    schema: str = SCHEMA
    ok: bool
    action: str
    data: object = None
    error: WireError | None = None


def success(action: str, data: object) -> Envelope:
    """The envelope of an answer."""
    return Envelope(ok=True, action=action, data=data)


def failure(action: str, error: WireError) -> Envelope:
    """The envelope of an error."""
    return Envelope(ok=False, action=action, error=error)


def wire_error(error: GlideslopeError) -> WireError:
    """One of our errors as data."""
    fields = {
        name: plain_text(value) if isinstance(value, str) else value for name, value in error.fields.items()
    }
    return WireError(
        code=error.code,
        kind=error.kind,
        message=plain_text(error.message),
        fields=fields,
        next=plain_or_none(error.next),
    )


def to_json(value: object) -> str:
    """One line of JSON, valid UTF-8 whatever the names of files are."""
    return msgspec.json.encode(value).decode("utf-8")
