"""Frames as values: what a client asks, read strictly, and what it is answered.

Nothing unknown is passed over and nothing wrong is replaced by a default: a client that misspells
a field must not get the action without it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar, get_type_hints

from glideslope import codec
from glideslope.engine.actions import CATALOGUE, Action, Answer, CatalogueEntry, Status
from glideslope.errors import GlideslopeError, InvalidInput, Undecodable
from glideslope.model.ids import RunId
from glideslope.surfaces.wire.answer import wire_status
from glideslope.surfaces.wire.envelope import success, to_json

T = TypeVar("T")
Frame = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The first frame of a connection, either way."""

    protocol: int
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question. Its input is read when it is served, so that a mistake in it has an answer."""

    id: int
    action: str
    input: Mapping[str, Any]
    tie: bool = False
    form: str = "plain"  # or envelope: the text that the command line prints


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequest:
    """Gives up a request of the same connection."""

    id: int
    cancel: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """Input of `events`, which is a stream and therefore no action of the catalogue."""

    after: int | None = None  # None: only what is new
    follow: bool = True
    run_id: RunId | None = None
    types: tuple[str, ...] = ()  # names of event classes; empty: all


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonStatus:
    """Input of `daemon.status`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonStop:
    """Input of `daemon.stop`."""

    wait: bool = False  # let the runs end first, and begin no others
    only_idle: bool = False  # refuse where a run is under way


def read_frame(line: bytes) -> Frame:
    """A line as a frame.

    Raises:
        InvalidInput: It is no JSON object.
    """
    try:
        frame = json.loads(line, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"not a frame: {error}: send one JSON object a line") from None
    if not isinstance(frame, dict):
        raise InvalidInput("not a frame: send one JSON object a line")
    return frame


def read_hello(frame: Frame) -> Hello:
    """The greeting in a frame.

    Raises:
        InvalidInput: There is none.
    """
    if set(frame) != {"hello"}:
        raise InvalidInput('the first frame must be {"hello": {"protocol": …, "version": …}}')
    return strict(Hello, frame["hello"])


def read_request(frame: Frame) -> Request | CancelRequest:
    """The request in a frame.

    Raises:
        InvalidInput: It has no usable id, or fields that no request has.
    """
    if "cancel" in frame:
        return strict(CancelRequest, frame)
    given = frame.get("input", {})
    if not isinstance(given, dict):
        raise InvalidInput("the input of a request must be an object", field="input")
    # The input is read once only, by its own class: text in it may carry escapes.
    request = dataclasses.replace(strict(Request, {**frame, "input": {}}), input=given)
    if request.form not in ("plain", "envelope"):
        raise InvalidInput(
            f"unknown form {request.form!r}: use plain or envelope", field="form", value=request.form
        )
    return request


def catalogued(action: str) -> CatalogueEntry:
    """The entry of an action.

    Raises:
        InvalidInput: There is none of that name.
    """
    entry = next((entry for entry in CATALOGUE if entry.name == action), None)
    if entry is None:
        names = ", ".join(entry.name for entry in CATALOGUE)
        raise InvalidInput(f"unknown action {action!r}: use one of {names}", field="action", value=action)
    return entry


def read_action(entry: CatalogueEntry, given: Mapping[str, Any]) -> Action:
    """The input of an action.

    Raises:
        InvalidInput: A field that it does not have, lacks one it needs, or has a wrong value.
    """
    return strict(entry.input, given)


def strict(kind: type[T], given: object) -> T:
    """Rebuilds a value from plain data and takes nothing that is not part of it.

    Raises:
        InvalidInput: The data does not fit; the message names the field.
    """
    _refuse_unknown(kind, given, kind.__name__)
    try:
        return codec.from_plain(kind, given)
    except (Undecodable, GlideslopeError) as error:
        raise InvalidInput(error.message) from error


def answered(request: Request, answer: Answer) -> Frame:
    """The frame of an answer, in the form that was asked for.

    Raises:
        InvalidInput: Only `status` has an envelope here.
    """
    if request.form == "plain":
        return {"id": request.id, "ok": True, "data": codec.to_plain(answer)}
    if not isinstance(answer, Status):
        raise InvalidInput(f"{request.action} has no form {request.form!r}: use plain", field="form")
    envelope = success(request.action, wire_status(answer))
    return {"id": request.id, "ok": True, "envelope": to_json(envelope)}


def refused(request: int | None, error: GlideslopeError) -> Frame:
    """The frame of an error; id null: the last frame of the connection."""
    plain = {
        "code": error.code,
        "kind": error.kind,
        "message": error.message,
        "next": error.next,
        "fields": dict(error.fields),
    }
    return {"id": request, "ok": False, "error": plain}


def line(frame: Frame) -> bytes:
    """A frame as it is sent."""
    return json.dumps(frame, separators=(",", ":")).encode("ascii") + b"\n"


def _refuse_unknown(kind: type[Any], given: object, where: str) -> None:
    if not isinstance(given, dict):
        raise InvalidInput(f"{where} must be an object", field=where)
    known = _fields(kind)
    for name, value in given.items():
        if name not in known:
            raise InvalidInput(f"{where} has no field {name!r}: use {', '.join(known)}", field=name)
        nested = known[name]
        if nested is not None:
            _refuse_unknown(nested, value, f"{where}.{name}")


def _fields(kind: type[Any]) -> Mapping[str, type[Any] | None]:
    """The fields of a class, and the class of those that are values of ours themselves."""
    hints = get_type_hints(kind)
    return {
        field.name: hints[field.name] if dataclasses.is_dataclass(hints[field.name]) else None
        for field in dataclasses.fields(kind)
    }


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")
