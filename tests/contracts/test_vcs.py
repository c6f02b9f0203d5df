"""What every `Vcs` keeps, in a repository and in a folder that is none."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from glideslope.adapters.vcs import LocalVcs
from glideslope.errors import InvalidInput, NoWorkspace, UnknownId
from glideslope.model.ids import BlobId, CommitId
from glideslope.model.paths import RepoPath
from glideslope.model.snapshot import BaseReason, Snapshot, diff
from glideslope.ports.vcs import Vcs, Workspace

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def nobodys_git_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home without settings, and a name to commit under."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / ".gitconfig").write_text(
        "[user]\nname = Ada\nemail = ada@example.org\n[init]\ndefaultBranch = main\n"
    )


@pytest.fixture(params=[LocalVcs])
def vcs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Vcs]:
    """Each implementation, on a state folder of its own."""
    make: Callable[[str], LocalVcs] = request.param
    made = make(str(tmp_path / "state"))
    yield made
    made.close()


@pytest.fixture(params=["git", "plain"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A workspace with a few files."""
    folder = tmp_path / "work"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pyproject.toml").write_text("")
    (folder / "pkg/a.py").write_text("a = 1\n")
    (folder / "pkg/b.py").write_text("b = 1\n")
    if request.param == "git":
        git(folder, "init", "-q")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "first")
    return folder


def git(folder: Path, *arguments: str) -> str:
    """The user's own git."""
    return subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def take(vcs: Vcs, root: Path) -> tuple[Workspace, Snapshot]:
    """A snapshot with the default settings."""
    workspace = vcs.locate(str(root))
    return workspace, vcs.snapshot(workspace, carry=(".venv",), carry_files=(".env",))


def test_a_workspace_is_found_from_any_folder_in_it(vcs: Vcs, root: Path) -> None:
    assert vcs.locate(str(root)) == vcs.locate(str(root / "pkg"))
    assert vcs.locate(str(root)).scope == os.path.realpath(root)


def test_a_workspace_is_found_through_a_link_at_its_real_path(vcs: Vcs, root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    assert vcs.locate(str(tmp_path / "link/pkg")) == vcs.locate(str(root))


@pytest.mark.parametrize("folder", ["nothing", "missing"])
def test_neither_a_repository_nor_a_project_is_an_error_with_the_way_out(
    vcs: Vcs, tmp_path: Path, folder: str
) -> None:
    (tmp_path / "nothing").mkdir()
    with pytest.raises(NoWorkspace, match="--repo"):
        vcs.locate(str(tmp_path / folder))


@pytest.mark.parametrize("name", ["pyproject.toml", "setup.py", "setup.cfg", "glideslope.toml"])
def test_outside_git_the_nearest_project_file_upwards_decides(vcs: Vcs, tmp_path: Path, name: str) -> None:
    inner = tmp_path / "outer/inner"
    (inner / "deep").mkdir(parents=True)
    (tmp_path / "outer/setup.py").write_text("")
    (inner / name).write_text("")
    assert vcs.locate(str(inner / "deep")) == Workspace(scope=str(inner), repository=str(inner), is_git=False)


def test_a_snapshot_holds_every_byte_and_its_blobs_can_be_read(vcs: Vcs, root: Path) -> None:
    _, snapshot = take(vcs, root)
    assert {path: vcs.read(entry.blob) for path, entry in snapshot.entries.items()} == {
        "pkg/a.py": b"a = 1\n",
        "pkg/b.py": b"b = 1\n",
        "pyproject.toml": b"",
    }
    assert list(snapshot.entries) == sorted(snapshot.entries)
    assert all(entry.size_bytes == len(vcs.read(entry.blob)) for entry in snapshot.entries.values())


def test_equal_content_is_one_snapshot_and_other_content_another(vcs: Vcs, root: Path) -> None:
    _, first = take(vcs, root)
    (root / "pkg/a.py").write_text("a = 2\n")
    _, second = take(vcs, root)
    (root / "pkg/a.py").write_text("a = 1\n")
    _, third = take(vcs, root)
    assert first.id == third.id != second.id
    assert [change.path for change in diff(first.entries, second.entries)] == ["pkg/a.py"]


def test_a_snapshot_stays_readable_after_the_files_went(vcs: Vcs, root: Path) -> None:
    workspace, snapshot = take(vcs, root)
    (root / "pkg/a.py").unlink()
    lease = vcs.lease(workspace, snapshot.entries, snapshot)
    assert Path(lease.tree, "pkg/a.py").read_text() == "a = 1\n"
    vcs.release(lease)


def test_content_that_was_never_seen_is_unknown(vcs: Vcs, root: Path) -> None:
    take(vcs, root)
    with pytest.raises(UnknownId):
        vcs.read(BlobId("0" * 40))


def test_a_lease_holds_entries_and_inputs_and_nothing_else(vcs: Vcs, root: Path) -> None:
    (root / ".venv").mkdir()
    (root / ".venv/python").write_text("")
    (root / ".gitignore").write_text(".env\n")
    (root / ".env").write_text("A=1")
    workspace, snapshot = take(vcs, root)
    lease = vcs.lease(workspace, snapshot.entries, snapshot)
    found = {str(path.relative_to(lease.tree)) for path in Path(lease.tree).rglob("*") if path.is_file()}
    assert found == {".env", ".gitignore", "pkg/a.py", "pkg/b.py", "pyproject.toml"}
    assert set(lease.fresh_paths) == {"pkg/a.py", "pkg/b.py"}
    vcs.release(lease)
    vcs.release(lease)


def test_a_base_materialised_beside_its_snapshot_disturbs_neither(vcs: Vcs, root: Path) -> None:
    workspace, before = take(vcs, root)
    (root / "pkg/a.py").write_text("a = 2\n")
    (root / "pkg/b.py").unlink()
    _, now = take(vcs, root)
    leases = [vcs.lease(workspace, entries, now) for entries in (now.entries, before.entries)]
    assert [Path(lease.tree, "pkg/a.py").read_text() for lease in leases] == ["a = 2\n", "a = 1\n"]
    assert [Path(lease.tree, "pkg/b.py").exists() for lease in leases] == [False, True]
    for lease in leases:
        vcs.release(lease)


def test_a_base_is_the_committed_content(vcs: Vcs, root: Path) -> None:
    workspace, snapshot = take(vcs, root)
    if not workspace.is_git:
        with pytest.raises(InvalidInput, match="no git repository"):
            vcs.base_of_revision(workspace, "HEAD")
        return
    git(root, "tag", "-a", "v1", "-m", "one")
    (root / "pkg/a.py").write_text("a = 2\n")
    git(root, "commit", "-qam", "second")
    for revision in ("HEAD~1", "v1", git(root, "rev-parse", "HEAD~1"), "main~1"):
        base = vcs.base_of_revision(workspace, revision)
        assert base.reason is BaseReason.GIVEN
        assert base.entries == snapshot.entries
    head = vcs.base_of_revision(workspace, "HEAD").entries
    assert head is not None
    assert vcs.read(head[RepoPath("pkg/a.py")].blob) == b"a = 2\n"


@pytest.mark.parametrize(
    "revision", ["", "nope", "-x", "--all", "HEAD:pkg", "HEAD~9", "HEAD\n", "HEAD..HEAD", "a\0b"]
)
def test_a_revision_that_names_no_commit_is_an_error(vcs: Vcs, root: Path, revision: str) -> None:
    workspace, _ = take(vcs, root)
    with pytest.raises(InvalidInput, match="commit"):
        vcs.base_of_revision(workspace, revision)


def test_the_merge_base_is_with_the_first_branch_that_exists_unless_head_is_on_it(
    vcs: Vcs, root: Path
) -> None:
    workspace, _ = take(vcs, root)
    if not workspace.is_git:
        assert vcs.merge_base(workspace, ["main"]) is None
        return
    fork = git(root, "rev-parse", "HEAD")
    assert vcs.merge_base(workspace, ["main", "master"]) is None
    git(root, "checkout", "-q", "-b", "topic")
    git(root, "commit", "-q", "--allow-empty", "-m", "mine")
    git(root, "branch", "master", "HEAD")
    assert vcs.merge_base(workspace, ["main", "master"]) == fork
    assert vcs.merge_base(workspace, ["none"]) is None
    git(root, "checkout", "-q", "--detach")
    assert vcs.merge_base(workspace, ["main"]) == fork
    git(root, "update-ref", "refs/remotes/origin/main", fork)
    git(root, "branch", "-qD", "main")
    assert vcs.merge_base(workspace, ["main"]) == fork
    git(root, "checkout", "-q", "--orphan", "unborn")
    assert vcs.merge_base(workspace, ["main"]) is None


def test_ancestors_are_the_commits_head_descends_from(vcs: Vcs, root: Path) -> None:
    workspace, _ = take(vcs, root)
    absent = [CommitId("0" * 40), CommitId("not a commit"), CommitId("--all")]
    if not workspace.is_git:
        assert vcs.ancestors(workspace, absent) == frozenset()
        return
    first = CommitId(git(root, "rev-parse", "HEAD"))
    git(root, "checkout", "-q", "-b", "topic")
    git(root, "commit", "-q", "--allow-empty", "-m", "mine")
    mine = CommitId(git(root, "rev-parse", "HEAD"))
    tree = CommitId(git(root, "rev-parse", "HEAD^{tree}"))
    assert vcs.ancestors(workspace, [first, mine, tree, *absent]) == {first, mine}
    git(root, "commit", "-q", "--amend", "--allow-empty", "-m", "amended")
    assert vcs.ancestors(workspace, [first, mine]) == {first}
    assert vcs.ancestors(workspace, []) == frozenset()
    git(root, "checkout", "-q", "--orphan", "unborn")
    assert vcs.ancestors(workspace, [first]) == frozenset()


def test_a_base_has_the_id_that_a_clean_checkout_of_it_has(vcs: Vcs, root: Path) -> None:
    workspace = vcs.locate(str(root))
    if not workspace.is_git:
        return
    clean = vcs.snapshot(workspace, carry=(), carry_files=())
    assert vcs.base_of_revision(workspace, "HEAD").snapshot == clean.id
    (root / "pkg/a.py").write_text("a = 2\n")
    git(root, "commit", "-qam", "second")
    ids = {vcs.base_of_revision(workspace, revision).snapshot for revision in ("HEAD", "HEAD~1")}
    assert clean.id in ids
    assert len(ids) == 2
