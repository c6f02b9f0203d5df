"""Reading a repository executes nothing it configures and writes nothing into it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from glideslope.errors import NoWorkspace

pytestmark = pytest.mark.process


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A file that exists only if something planted has run."""
    return tmp_path / "canary"


@pytest.fixture
def trapped(repository, canary: Path, tmp_path: Path):
    """A repository in which every setting that can name a program names one that sings."""
    song = tmp_path / "song"
    song.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{canary}'\ncat\n")
    song.chmod(0o755)
    repository.write(".gitattributes", "*.py filter=trap diff=trap merge=trap text eol=crlf\n")
    repository.write("pkg/c.py", "c = 1\n")
    repository.commit()
    for name in (
        "filter.trap.clean",
        "filter.trap.smudge",
        "filter.trap.process",
        "diff.trap.textconv",
        "diff.trap.command",
        "diff.external",
        "merge.trap.driver",
        "core.fsmonitor",
        "core.sshCommand",
        "core.gitProxy",
        "core.pager",
        "core.editor",
        "core.askPass",
        "core.alternateRefsCommand",
        "credential.helper",
        "pager.ls-files",
        "pager.show-ref",
        "gpg.program",
        "uploadpack.packObjectsHook",
        "alias.ls-files",
        "alias.cat-file",
    ):
        repository.git("config", name, str(song))
    repository.git("config", "filter.trap.required", "true")
    repository.git("config", "remote.origin.url", f"ext::{song} %S")
    repository.git("config", "remote.origin.promisor", "true")
    repository.git("config", "remote.origin.partialclonefilter", "blob:none")
    repository.git("config", "extensions.partialClone", "origin")
    repository.git("config", "core.repositoryFormatVersion", "1")
    repository.git("config", "protocol.ext.allow", "always")
    hooks = repository.root / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for hook in (
        "post-index-change",
        "fsmonitor-watchman",
        "query-watchman",
        "reference-transaction",
        "pre-commit",
        "post-checkout",
    ):
        (hooks / hook).write_bytes(song.read_bytes())
        (hooks / hook).chmod(0o755)
    repository.write("pkg/a.py", "a = 2\n")
    canary.unlink(missing_ok=True)
    return repository


def test_nothing_that_a_repository_configures_is_executed(bench, trapped, canary: Path) -> None:
    head = subprocess.run(
        ["cat", ".git/refs/heads/main"], cwd=trapped.root, capture_output=True, text=True, check=True
    )
    workspace = bench.vcs.locate(str(trapped.root))
    snapshot = bench.snapshot(trapped.root)
    bench.vcs.base_of_revision(workspace, "HEAD")
    bench.vcs.merge_base(workspace, ["main", "other"])
    bench.vcs.ancestors(workspace, [head.stdout.strip(), "0" * 40])
    lease = bench.lease(trapped.root, snapshot)
    bench.vcs.release(lease)
    assert not canary.exists(), canary.read_text()


def test_a_missing_object_of_a_partial_clone_is_not_fetched(bench, trapped, canary: Path) -> None:
    blob = subprocess.run(
        ["git", "hash-object", "--no-filters", "--stdin"],
        input="b = 1\n",
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    (trapped.root / ".git/objects" / blob[:2] / blob[2:]).unlink()
    workspace = bench.vcs.locate(str(trapped.root))
    base = bench.vcs.base_of_revision(workspace, "HEAD")
    assert not base.entries["pkg/b.py"].stored
    assert base.entries["README"].stored
    assert not canary.exists(), canary.read_text()


def test_the_trap_does_sing_when_git_is_used_without_care(trapped, canary: Path) -> None:
    trapped.git("status", ok=False)
    assert canary.exists()


def test_the_workspace_is_left_as_it_was_to_the_last_byte_and_time(bench, repository, seen) -> None:
    repository.git("update-index", "--untracked-cache")
    repository.git("tag", "-a", "v1", "-m", "one")
    repository.write("pkg/a.py", "a = 2\n")
    repository.write("new.py", "new = 1\n")
    before = seen(repository.root)
    workspace = bench.vcs.locate(str(repository.root / "pkg"))
    snapshot = bench.snapshot(repository.root)
    bench.snapshot(repository.root)
    bench.vcs.base_of_revision(workspace, "HEAD")
    bench.vcs.merge_base(workspace, ["main"])
    bench.vcs.ancestors(workspace, [snapshot.git.head])
    bench.vcs.release(bench.lease(repository.root, snapshot))
    bench.restart()
    bench.snapshot(repository.root)
    assert seen(repository.root) == before


def test_a_repository_whose_working_tree_is_elsewhere_is_not_followed_there(
    bench, repository, tmp_path: Path
) -> None:
    (tmp_path / "foreign").mkdir()
    repository.git("config", "core.worktree", str(tmp_path / "foreign"))
    with pytest.raises(NoWorkspace, match="foreign"):
        bench.vcs.locate(str(repository.root))


def test_a_planted_bare_repository_is_not_taken_for_one(bench, repository) -> None:
    subprocess.run(["git", "init", "-q", "--bare", str(repository.root / "fixtures/bare")], check=True)
    for folder in ("fixtures/bare", ".git"):
        with pytest.raises(NoWorkspace, match="own folder"):
            bench.vcs.locate(str(repository.root / folder))
    assert "fixtures/bare/HEAD" in bench.snapshot(repository.root).entries
