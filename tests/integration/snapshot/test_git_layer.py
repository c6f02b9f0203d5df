"""Inside a verify tree git answers as in the workspace, and what it writes goes nowhere."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

QUESTIONS = (
    ("status", "--porcelain=v1", "--branch"),
    ("log", "--oneline", "--decorate", "--all"),
    ("describe", "--tags", "--dirty", "--always"),
    ("rev-parse", "HEAD", "--abbrev-ref", "HEAD"),
    ("branch", "--all"),
    ("tag", "--list", "-n1"),
    ("diff", "--stat"),
    ("diff", "--cached", "--stat"),
    ("ls-files", "--stage"),
    ("config", "user.name"),
    ("rev-parse", "--is-shallow-repository", "--show-object-format"),
    ("fsck", "--connectivity-only"),
)


@pytest.fixture
def inside(tmp_path: Path) -> Callable[..., Path]:
    """Puts a leased tree, its git folder and the objects together the way a mount would."""

    def compose(lease) -> Path:
        place = tmp_path / "inside" / lease.id
        shutil.copytree(lease.tree, place, symlinks=True)
        shutil.copytree(Path(lease.git_layer) / ".git", place / ".git")
        bound = place / lease.objects_at
        assert not any(bound.iterdir())
        bound.rmdir()
        bound.symlink_to(lease.objects)
        return place

    return compose


def ask(where: Path, *question: str) -> tuple[int, str, str]:
    """One git command's answer."""
    done = subprocess.run(["git", *question], cwd=where, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def assert_same_answers(bench, root: Path, inside: Callable[..., Path]) -> Path:
    """Asks everything in the workspace and inside the tree of its snapshot."""
    lease = bench.lease(root, bench.snapshot(root))
    place = inside(lease)
    for question in QUESTIONS:
        assert ask(place, *question) == ask(root, *question), question
    assert (place / ".git").is_dir()
    bench.vcs.release(lease)
    return place


def test_a_dirty_repository_with_tags_and_remotes_answers_the_same(
    bench, repository, inside, home: Path
) -> None:
    repository.git("tag", "-a", "v1.0", "-m", "one")
    repository.git("tag", "light")
    repository.git("update-ref", "refs/remotes/origin/main", "HEAD")
    repository.write("pkg/a.py", "a = 2\n")
    repository.write("staged.py", "s = 1\n")
    repository.git("add", "staged.py", "pkg/a.py")
    repository.write("pkg/a.py", "a = 3\n")
    repository.write("untracked ü.py", "u = 1\n")
    repository.write("notes.swp", "ignored by the user alone")
    (home / ".config/git").mkdir(parents=True)
    (home / ".config/git/ignore").write_text("*.swp\n")
    (repository.root / "README").unlink()
    place = assert_same_answers(bench, repository.root, inside)
    (place / "pkg/__pycache__").mkdir()
    (place / "pkg/__pycache__/a.pyc").write_bytes(b"")
    assert "__pycache__" not in ask(place, "status", "--porcelain")[1]


def test_a_commit_inside_leaves_the_repository_alone(bench, repository, inside, seen) -> None:
    repository.write("pkg/a.py", "a = 2\n")
    before = seen(repository.root)
    lease = bench.lease(repository.root, bench.snapshot(repository.root))
    layer = seen(Path(lease.git_layer))
    place = inside(lease)
    assert ask(place, "commit", "-qam", "inside")[0] == 0
    assert ask(place, "status", "--porcelain")[1] == ""
    after = seen(repository.root)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    # Over a writable store git renews the time of objects it has already; a mount forbids even that.
    assert all(before[path][3] == after[path][3] for path in changed)
    assert all(path.startswith(".git/objects/") for path in changed)
    assert seen(Path(lease.git_layer)) == layer


def test_a_detached_head_and_an_unborn_branch_answer_the_same(
    bench, repository, make_repository, inside
) -> None:
    repository.git("checkout", "-q", "--detach")
    assert_same_answers(bench, repository.root, inside)
    empty = make_repository("empty")
    empty.write("a.py", "a = 1\n")
    assert_same_answers(bench, empty.root, inside)


def test_an_interrupted_merge_answers_the_same(bench, repository, inside) -> None:
    repository.git("checkout", "-q", "-b", "other")
    repository.write("pkg/a.py", "a = 'other'\n")
    repository.commit()
    repository.git("checkout", "-q", "main")
    repository.write("pkg/a.py", "a = 'main'\n")
    repository.commit()
    repository.git("merge", "other", ok=False)
    place = assert_same_answers(bench, repository.root, inside)
    assert ask(place, "status")[1] == ask(repository.root, "status")[1]


def test_a_linked_worktree_has_a_real_folder_inside(bench, repository, inside, tmp_path: Path) -> None:
    repository.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    (tmp_path / "side/pkg/a.py").write_text("a = 2\n")
    lease = bench.lease(tmp_path / "side", bench.snapshot(tmp_path / "side"))
    place = inside(lease)
    for question in QUESTIONS:
        if (
            question[0] != "branch"
        ):  # marks what is checked out in other worktrees, of which there are none inside
            assert ask(place, *question) == ask(tmp_path / "side", *question), question


def test_a_submodule_as_workspace_has_a_real_folder_inside(
    bench, repository, make_repository, inside
) -> None:
    library = make_repository("library")
    library.write("lib.py", "lib = 1\n")
    library.commit()
    repository.git("submodule", "add", "-q", str(library.root), "vendor/library")
    repository.commit()
    assert (repository.root / "vendor/library/.git").is_file()
    assert_same_answers(bench, repository.root / "vendor/library", inside)
    assert_same_answers(bench, repository.root, inside)


def test_a_shallow_clone_that_borrows_objects_answers_the_same(
    bench, repository, inside, tmp_path: Path
) -> None:
    repository.write("pkg/a.py", "a = 2\n")
    repository.commit()
    for name, options in (("shallow", ["--depth=1"]), ("borrowing", ["--shared"])):
        where = str(tmp_path / name)
        subprocess.run(
            [
                "git",
                "clone",
                "-q",
                *options,
                f"file://{repository.root}" if name == "shallow" else str(repository.root),
                where,
            ],
            check=True,
        )
        assert_same_answers(bench, tmp_path / name, inside)


def test_a_repository_with_sha256_names_answers_the_same(
    bench, tmp_path: Path, inside, make_repository
) -> None:
    root = tmp_path / "long"
    subprocess.run(["git", "init", "-q", "--object-format=sha256", str(root)], check=True)
    repository = type(make_repository("other"))(root)
    repository.write("pkg/a.py", "a = 1\n")
    repository.write("pkg/b.py", "b = 1\n")
    repository.commit()
    repository.write("pkg/a.py", "a = 2\n")
    snapshot = bench.snapshot(root)
    assert snapshot.dirty_paths == ("pkg/a.py",)
    base = bench.vcs.base_of_revision(bench.vcs.locate(str(root)), "HEAD")
    assert base.entries["pkg/b.py"] == snapshot.entries["pkg/b.py"]
    assert bench.vcs.read(base.entries["pkg/a.py"].blob) == b"a = 1\n"
    assert_same_answers(bench, root, inside)


def test_a_sparse_checkout_shows_no_deletions_inside(bench, repository, inside) -> None:
    repository.write("outside/big.py", "big = 1\n")
    repository.commit()
    repository.git("sparse-checkout", "set", "--cone", "pkg")
    repository.write("pkg/a.py", "a = 2\n")
    place = inside(bench.lease(repository.root, bench.snapshot(repository.root)))
    assert ask(place, "status", "--porcelain") == ask(repository.root, "status", "--porcelain")


def test_nothing_in_the_layer_can_start_a_program(bench, repository, tmp_path: Path) -> None:
    for name in (
        "core.fsmonitor",
        "core.hooksPath",
        "core.sshCommand",
        "filter.x.clean",
        "alias.st",
        "include.path",
    ):
        repository.git("config", name, "/bin/evil")
    repository.git("config", "core.autocrlf", "input")
    repository.git("config", "remote.origin.url", "https://user:secret@example.org/x")
    lease = bench.lease(repository.root, bench.snapshot(repository.root))
    config = (Path(lease.git_layer) / ".git/config").read_text()
    assert "evil" not in config
    assert "secret" not in config
    assert 'autocrlf = "input"' in config
    assert not (Path(lease.git_layer) / ".git/hooks").exists()


def test_head_and_refs_are_those_of_the_snapshot_even_if_they_moved_since(bench, repository, inside) -> None:
    before = repository.git("rev-parse", "HEAD").strip()
    snapshot = bench.snapshot(repository.root)
    repository.git("checkout", "-q", "-b", "later")
    repository.write("pkg/a.py", "a = 9\n")
    repository.commit()
    place = inside(bench.lease(repository.root, snapshot))
    assert ask(place, "rev-parse", "HEAD")[1].strip() == before
    assert ask(place, "symbolic-ref", "HEAD")[1].strip() == "refs/heads/main"
    assert ask(place, "rev-parse", "--verify", "--quiet", "later")[0] != 0


def test_an_equal_state_shares_its_layer_and_a_new_one_gets_another(bench, repository) -> None:
    def layer() -> str:
        lease = bench.lease(repository.root, bench.snapshot(repository.root))
        bench.vcs.release(lease)
        return lease.git_layer

    first = layer()
    repository.write("pkg/a.py", "a = 2\n")
    assert layer() == first
    repository.git("add", "pkg/a.py")
    staged = layer()
    assert staged != first
    repository.git("tag", "v2")
    tagged = layer()
    assert tagged not in (first, staged)
    repository.git("tag", "-d", "v2")
    assert layer() == staged
    for number in range(12):
        repository.git("tag", f"t{number}")
        layer()
    assert len(os.listdir(bench.state / "git")) <= 9


def test_outside_git_there_is_no_layer(bench, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/setup.py").write_text("")
    lease = bench.lease(tmp_path / "plain", bench.snapshot(tmp_path / "plain"))
    assert (lease.git_layer, lease.objects, lease.objects_at) == (None, None, None)
