"""Where a repository stands: HEAD, branch, refs, an operation in progress."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from dataclasses import dataclass

from glideslope.adapters.git import Git, Started
from glideslope.adapters.statcache import Look, is_settled, look_at
from glideslope.adapters.workspace import Layout
from glideslope.model.ids import CommitId
from glideslope.model.snapshot import GitState

_MOST_LOOSE = 300  # loose refs above this cost more to look at than one git process
_OPERATIONS = (
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
)


@dataclass(frozen=True, slots=True)
class _Mark:
    """How the files that hold HEAD and refs looked; equal and settled marks mean equal refs."""

    looks: tuple[tuple[str, Look | None], ...]
    settled: bool


class RefsReader:
    """Reads the git state, and keeps the refs of the last few states for building git layers."""

    def __init__(self, git: Git) -> None:
        self.git = git
        self._kept: dict[str, bytes] = {}
        self._last: dict[str, tuple[_Mark, bytes]] = {}
        self._lock = threading.Lock()

    def start(self, scope: str, layout: Layout) -> StartedRefs:
        """Starts listing HEAD and all refs, unless nothing changed since the last time."""
        mark = _mark(layout)
        with self._lock:
            last = self._last.get(scope)
        if last is not None and mark is not None and last[0] == mark and mark.settled:
            return StartedRefs(self, scope, layout, out=last[1])
        listing = self.git.start(scope, ["show-ref", "--head", "--dereference"])
        return StartedRefs(self, scope, layout, listing=listing, mark=mark)

    def keep(self, scope: str, mark: _Mark | None, out: bytes) -> str:
        """Remembers a listing and returns its digest."""
        digest = hashlib.sha256(out).hexdigest()[:32]
        with self._lock:
            if mark is not None:
                self._last[scope] = (mark, out)
            self._kept[digest] = out
            while len(self._kept) > 16:
                self._kept.pop(next(iter(self._kept)))
        return digest

    def kept(self, refs_digest: str) -> bytes | None:
        """The refs as listed when that digest was made, if that was lately."""
        with self._lock:
            return self._kept.get(refs_digest)


class StartedRefs:
    """A reading of the git state under way."""

    def __init__(
        self,
        reader: RefsReader,
        scope: str,
        layout: Layout,
        *,
        out: bytes | None = None,
        listing: Started | None = None,
        mark: _Mark | None = None,
    ) -> None:
        self._reader = reader
        self._scope = scope
        self._layout = layout
        self._out = out
        self._listing = listing
        self._mark = mark

    def cancel(self) -> None:
        """Ends the listing if it still runs; safe at any time."""
        if self._listing is not None:
            self._listing.kill()

    def finish(self) -> GitState:
        """The state at about the moment the reading was started."""
        out = self._out
        if out is None:
            # An empty repository has no refs, and git calls that a failure.
            out = self._listing.wait().out if self._listing else b""
        head = next((line[:-5] for line in out.split(b"\n", 1)[:1] if line.endswith(b" HEAD")), None)
        return GitState(
            head=CommitId(head.decode()) if head else None,
            branch=self._branch(),
            refs_digest=self._reader.keep(self._scope, self._mark, out),
            operation=operation(self._layout.git_dir),
        )

    def _branch(self) -> str | None:
        with open(os.path.join(self._layout.git_dir, "HEAD"), "rb") as file:
            text = file.read(4096).strip()
        if text == b"ref: refs/heads/.invalid":  # refs live in a table, HEAD is a placeholder
            done = self._reader.git.run(self._scope, ["symbolic-ref", "--quiet", "HEAD"])
            text = b"ref: " + done.out.strip() if done else b""
        prefix = b"ref: refs/heads/"
        return text[len(prefix) :].decode("utf-8", "surrogateescape") if text.startswith(prefix) else None


def _mark(layout: Layout) -> _Mark | None:
    """Looks at all files that hold refs; None when there are too many for that to be worth it."""
    started_ns = time.time_ns()
    paths = [os.path.join(layout.git_dir, "HEAD"), os.path.join(layout.common_dir, "packed-refs")]
    paths.append(os.path.join(layout.common_dir, "reftable", "tables.list"))
    waiting = list({os.path.join(folder, "refs") for folder in (layout.git_dir, layout.common_dir)})
    while waiting:
        folder = waiting.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        waiting += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        paths += [entry.path for entry in entries if not entry.is_dir(follow_symlinks=False)]
        if len(paths) > _MOST_LOOSE:
            return None
    try:
        looks = tuple((path, look_at(os.fsencode(path))) for path in sorted(paths))
    except OSError:
        return None
    return _Mark(looks, all(is_settled(look, read_from_ns=started_ns) for _, look in looks if look))


def operation(git_dir: str) -> str | None:
    """What git is in the middle of, if anything."""
    for name, what in _OPERATIONS:
        if os.path.lexists(os.path.join(git_dir, name)):
            return what
    return None
