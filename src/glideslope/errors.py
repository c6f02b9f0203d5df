"""The whole tree of errors; the branch tells the caller what to do.

GlideslopeError
├─ RequestError        the same request will fail again    -> fix the request    exit 2
├─ Refused             a rule forbids it                   -> ask a person       exit 3
├─ Stale               the world moved since you looked    -> look again         exit 4
├─ EnvironmentBroken   infrastructure, not your code       -> retry or repair    exit 5
└─ InternalError       an invariant is false: our bug      -> report             exit 70

Red tests, findings, died hosts and cancelled tasks are results, never exceptions.
Each class has a stable `code`; an instance carries fields and a `next` step, so that it can
cross a wire as data and be rebuilt there without naming a class.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar


class GlideslopeError(Exception):
    """The root. Carries a stable code, plain fields, and the command to try next."""

    code: ClassVar[str] = "error"
    kind: ClassVar[str] = "internal_error"
    exit_code: ClassVar[int] = 70

    def __init__(self, message: str, *, next: str | None = None, **fields: str | int | None) -> None:
        super().__init__(message)
        self.message = message
        self.next = next
        self.fields: Mapping[str, str | int | None] = MappingProxyType(dict(fields))


class RequestError(GlideslopeError):
    """The same request will fail again: fix the request."""

    code = "request_error"
    kind = "request_error"
    exit_code = 2


class InvalidInput(RequestError):
    """An argument or a setting has a value that is not allowed."""

    code = "invalid_input"


class UnknownId(RequestError):
    """No run, task or log of that name is known."""

    code = "unknown_id"


class PathEscapes(RequestError):
    """A path leaves the workspace, or is not a path we may name."""

    code = "path_escapes"


class NoWorkspace(RequestError):
    """The folder is neither a repository nor a project."""

    code = "no_workspace"


class NoInterpreter(RequestError):
    """No Python interpreter of the project's own was found."""

    code = "no_interpreter"


class SnapshotUnreadable(RequestError):
    """Something in the working tree cannot be read, so no id can be true of it."""

    code = "snapshot_unreadable"


class Refused(GlideslopeError):
    """A rule forbids it: a person must act."""

    code = "refused"
    kind = "refused"
    exit_code = 3


class ProfileRefused(Refused):
    """The sandbox profile is not one that this action may use."""

    code = "profile_refused"


class Stale(GlideslopeError):
    """The world moved since you looked: look again."""

    code = "stale"
    kind = "stale"
    exit_code = 4


class SnapshotStale(Stale):
    """The working tree changed while it was being read, again and again."""

    code = "snapshot_stale"


class EnvironmentBroken(GlideslopeError):
    """Infrastructure failed, not the code under test: retry or repair."""

    code = "environment_broken"
    kind = "environment_broken"
    exit_code = 5


class HostUnavailable(EnvironmentBroken):
    """A helper process could not be started or died."""

    code = "host_unavailable"


class HostProtocolError(EnvironmentBroken):
    """A helper process answered with something that is not its protocol."""

    code = "host_protocol_error"


class SubstrateUnavailable(EnvironmentBroken):
    """A fresh substrate or verify tree could not be made."""

    code = "substrate_unavailable"


class StateUnavailable(EnvironmentBroken):
    """The state folder is read-only, full or damaged."""

    code = "state_unavailable"


class Undecodable(EnvironmentBroken):
    """Stored data or a message is damaged, or written by a newer version."""

    code = "undecodable"


class EngineBusy(EnvironmentBroken):
    """Another engine owns the state folder, or a busy daemon is of another version."""

    code = "engine_busy"


class InternalError(GlideslopeError):
    """An invariant is false: our bug."""

    code = "internal_error"


def _tree(root: type[GlideslopeError]) -> dict[str, type[GlideslopeError]]:
    found = {root.code: root}
    for child in root.__subclasses__():
        found.update(_tree(child))
    return found


def from_wire(
    code: str,
    message: str,
    *,
    kind: str = "internal_error",
    next: str | None = None,
    fields: Mapping[str, str | int | None] | None = None,
) -> GlideslopeError:
    """Rebuilds an error from its wire form through the closed table of codes.

    Args:
        code: The stable code; unknown ones fall back to the branch `kind` names.
        message: The sentence to show.
        kind: Branch of the tree, used when the code is newer than this program.
        next: The command to try.
        fields: Plain values the error carried.

    Returns:
        An instance of the matching class.
    """
    table = _tree(GlideslopeError)
    return table.get(code, table.get(kind, InternalError))(message, next=next, **dict(fields or {}))
