"""Where a repository stands: HEAD, branch, refs, an operation in progress."""

from __future__ import annotations

import hashlib
import os

from glideslope.adapters.git import Git, Started
from glideslope.adapters.workspace import Layout
from glideslope.model.ids import CommitId
from glideslope.model.snapshot import GitState

_OPERATIONS = (
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
)


class RefsReader:
    """Reads the git state, and keeps the refs of the last few states for building git layers."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._kept: dict[str, bytes] = {}

    def start(self, scope: str) -> Started:
        """Starts listing HEAD and all refs."""
        return self._git.start(scope, ["show-ref", "--head", "--dereference"])

    def finish(self, started: Started, scope: str, layout: Layout) -> GitState:
        """The state at the moment the listing ran."""
        out = started.wait().out  # an empty repository has no refs, and git calls that a failure
        head = next((line[:-5] for line in out.split(b"\n", 1)[:1] if line.endswith(b" HEAD")), None)
        digest = hashlib.sha256(out).hexdigest()[:32]
        self._kept[digest] = out
        while len(self._kept) > 8:
            self._kept.pop(next(iter(self._kept)))
        return GitState(
            head=CommitId(head.decode()) if head else None,
            branch=self._branch(scope, layout),
            refs_digest=digest,
            operation=operation(layout.git_dir),
        )

    def kept(self, refs_digest: str) -> bytes | None:
        """The refs as listed when that digest was made, if that was lately."""
        return self._kept.get(refs_digest)

    def _branch(self, scope: str, layout: Layout) -> str | None:
        with open(os.path.join(layout.git_dir, "HEAD"), "rb") as file:
            text = file.read(4096).strip()
        if text == b"ref: refs/heads/.invalid":  # refs live in a table, HEAD is a placeholder
            done = self._git.run(scope, ["symbolic-ref", "--quiet", "HEAD"])
            text = b"ref: " + done.out.strip() if done else b""
        prefix = b"ref: refs/heads/"
        return text[len(prefix) :].decode("utf-8", "surrogateescape") if text.startswith(prefix) else None


def operation(git_dir: str) -> str | None:
    """What git is in the middle of, if anything."""
    for name, what in _OPERATIONS:
        if os.path.lexists(os.path.join(git_dir, name)):
            return what
    return None
