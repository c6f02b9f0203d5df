"""Values: what they refuse, how they compare, and what two trees differ in."""

from __future__ import annotations

import pytest

from glideslope.errors import InvalidInput, PathEscapes
from glideslope.model.ids import BlobId, SnapshotId, TreeId
from glideslope.model.paths import RepoPath, is_beneath, name, parent, repo_path
from glideslope.model.project import Interpreter, Project, nearest_project
from glideslope.model.result import Diagnostic, FindingState, Severity, Verdict
from glideslope.model.rung import (
    RUNGS,
    LadderPlan,
    PlannedRung,
    Rung,
    VerifyPolicy,
    parse_policy,
    parse_rung,
)
from glideslope.model.snapshot import ChangeKind, Entry, FileMode, Snapshot, diff
from glideslope.model.task import TaskState


@pytest.mark.parametrize(
    ("text", "path"),
    [("a.py", "a.py"), ("./a//b.py", "a/b.py"), ("a/./b", "a/b"), ("b\udcff", "b\udcff"), ("a/...", "a/...")],
)
def test_a_path_is_brought_to_one_form(text: str, path: str) -> None:
    assert repo_path(text) == path


@pytest.mark.parametrize("text", ["", "/etc/passwd", "..", "a/../b", "a\0b", ".git/config", "sub/.git", "."])
def test_a_path_that_leaves_the_workspace_is_refused(text: str) -> None:
    with pytest.raises(PathEscapes) as raised:
        repo_path(text)
    assert raised.value.fields["path"] == text


def test_lying_beneath_is_about_folders_and_not_about_letters() -> None:
    assert is_beneath("src/a.py", "src")
    assert is_beneath("src", "src")
    assert not is_beneath("srcs/a.py", "src")
    assert is_beneath("anything", "")
    assert is_beneath("anything", ".")
    assert (parent("a/b/c"), parent("c")) == ("a/b", "")
    assert (name("a/b/c"), name("c")) == ("c", "c")


def test_rungs_are_ordered_from_cheap_to_expensive() -> None:
    assert [rung.value for rung in RUNGS] == [
        "diagnose.files",
        "compile.project",
        "build.affected",
        "test.scoped",
        "test.full",
    ]
    assert [rung.height for rung in RUNGS] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        *((policy.value, policy) for policy in VerifyPolicy),
        ("quick", "minimal"),
        ("ci", "ci_parity"),
        ("full", "ci_parity"),
    ],
)
def test_a_policy_is_known_by_name_or_alias(text: str, policy: str) -> None:
    assert parse_policy(text) == policy


@pytest.mark.parametrize("text", ["", "Standard", "L3", "ci-parity"])
def test_an_unknown_policy_or_rung_is_an_error_and_never_a_default(text: str) -> None:
    with pytest.raises(InvalidInput, match="use one of"):
        parse_policy(text)
    with pytest.raises(InvalidInput, match="use one of"):
        parse_rung(text)


def test_a_rung_is_known_by_its_canonical_id() -> None:
    assert [parse_rung(rung.value) for rung in RUNGS] == list(RUNGS)


def test_the_required_rung_is_the_last_that_is_not_skipped() -> None:
    diagnose, scoped = PlannedRung(rung=Rung.DIAGNOSE), PlannedRung(rung=Rung.SCOPED, skipped="why")
    assert LadderPlan(policy=VerifyPolicy.STANDARD, rungs=(diagnose, scoped)).required is Rung.DIAGNOSE
    assert LadderPlan(policy=VerifyPolicy.STANDARD, rungs=(scoped,)).required is None


def test_each_verdict_has_an_exit_code_of_its_own_and_only_green_is_zero() -> None:
    assert {verdict.value: verdict.exit_code for verdict in Verdict} == {
        "green": 0,
        "red": 1,
        "refused": 3,
        "stale": 4,
        "died": 5,
        "cancelled": 6,
        "inconclusive": 7,
    }


def test_five_states_of_a_task_are_endings() -> None:
    assert [state.value for state in TaskState if not state.ended] == ["queued", "running"]


@pytest.mark.parametrize(
    ("state", "new"), [(FindingState.NEW, True), (FindingState.ADVISORY, True), (FindingState.KNOWN, False)]
)
def test_a_finding_is_new_unless_the_base_had_it(state: FindingState, new: bool) -> None:
    found = Diagnostic(
        path="a.py",
        line=1,
        column=1,
        end_line=1,
        end_column=1,
        severity=Severity.ERROR,
        code="",
        source="ruff",
        message="",
        state=state,
    )
    assert found.new is new


def file(content: str, mode: FileMode = FileMode.REGULAR) -> Entry:
    return Entry(mode, BlobId(content), len(content))


def changes(before: dict[str, Entry], after: dict[str, Entry]) -> list[tuple[str, ChangeKind, str | None]]:
    base = {RepoPath(path): entry for path, entry in before.items()}
    now = {RepoPath(path): entry for path, entry in after.items()}
    return [(change.path, change.kind, change.origin) for change in diff(base, now)]


def test_equal_trees_differ_in_nothing() -> None:
    assert changes({"a": file("1")}, {"a": file("1")}) == []


def test_what_was_added_changed_and_deleted_is_listed_by_path() -> None:
    before = {"gone": file("1"), "same": file("2"), "text": file("3"), "run": file("4")}
    after = {
        "new": file("5"),
        "same": file("2"),
        "text": file("6"),
        "run": file("4", FileMode.EXECUTABLE),
    }
    assert changes(before, after) == [
        ("gone", ChangeKind.DELETED, None),
        ("new", ChangeKind.ADDED, None),
        ("run", ChangeKind.MODIFIED, None),
        ("text", ChangeKind.MODIFIED, None),
    ]


def test_a_moved_file_is_one_rename_and_of_two_equal_ones_each_has_one_origin() -> None:
    before = {"a": file("1"), "b": file("1"), "c": file("2")}
    after = {"x": file("1"), "y": file("1"), "z": file("1"), "c2": file("2", FileMode.EXECUTABLE)}
    assert changes(before, after) == [
        ("c", ChangeKind.DELETED, None),
        ("c2", ChangeKind.ADDED, None),
        ("x", ChangeKind.RENAMED, "a"),
        ("y", ChangeKind.RENAMED, "b"),
        ("z", ChangeKind.ADDED, None),
    ]


def test_an_entry_is_found_in_the_tree_or_among_the_declared_inputs() -> None:
    tracked, declared = RepoPath("a"), RepoPath(".env")
    snapshot = Snapshot(
        id=SnapshotId("s1-0"),
        tree_id=TreeId("t"),
        entries={tracked: file("1")},
        inputs={declared: file("2")},
        inputs_digest="",
        git=None,
        dirty_paths=(),
    )
    assert snapshot.entry(tracked) == file("1")
    assert snapshot.entry(declared) == file("2")
    assert snapshot.entry(RepoPath("b")) is None


def test_a_snapshot_with_a_file_too_large_to_keep_is_not_complete() -> None:
    def holding(*entries: Entry) -> Snapshot:
        return Snapshot(
            id=SnapshotId("s1-0"),
            tree_id=TreeId("t"),
            entries={RepoPath(f"{number}"): entry for number, entry in enumerate(entries)},
            inputs={},
            inputs_digest="",
            git=None,
            dirty_paths=(),
        )

    large = Entry(FileMode.REGULAR, BlobId("1"), 2**30, stored=False)
    assert holding().complete
    assert holding(file("1")).complete
    assert not holding(file("1"), large).complete


def test_a_path_belongs_to_the_deepest_project_that_holds_it() -> None:
    root = Project(name=".", root="", toolchain="python")
    nested = Project(name="libs/a", root="libs/a", toolchain="python")
    assert nearest_project((root, nested), "libs/a/src/x.py") is nested
    assert nearest_project((root, nested), "libs/ab/x.py") is root
    assert nearest_project((nested,), "x.py") is None


def test_an_interpreter_knows_what_is_installed() -> None:
    python = Interpreter(
        executable="/venv/bin/python",
        prefix="/venv",
        version=(3, 12, 1),
        implementation="cpython",
        how=".venv",
        distributions={"pytest": "8.4"},
    )
    assert python.has("pytest")
    assert not python.has("mypy")
