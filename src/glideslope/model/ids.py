"""Identities, each a type of its own so that they cannot be mixed up."""

from __future__ import annotations

from typing import NewType

RunId = NewType("RunId", str)
TaskId = NewType("TaskId", str)
EpochId = NewType("EpochId", str)
SnapshotId = NewType("SnapshotId", str)  # "s1-" and 16 hexadecimal digits
TreeId = NewType("TreeId", str)  # git tree id of the raw content, 40 hexadecimal digits
BlobId = NewType("BlobId", str)  # git blob id of the raw content, 40 hexadecimal digits
CommitId = NewType("CommitId", str)
EnvironmentKey = NewType("EnvironmentKey", str)
Scope = NewType("Scope", str)  # real path of a worktree root
LogRef = NewType("LogRef", str)
HostId = NewType("HostId", str)
