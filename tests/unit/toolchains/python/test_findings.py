"""New findings told from known ones."""

from __future__ import annotations

import hashlib

from tests.unit.toolchains.python.world import TextTree, shown

from glideslope.model.paths import RepoPath
from glideslope.toolchains.python.findings import Found, blocking, count_text, judge

TEXT = "one\ntwo\nthree\ntwo\n"


def found(
    line: int, message: str = "bad", *, path: str = "a.py", code: str = "X1", gates: bool = True
) -> Found:
    return Found(path=path, line=line, column=1, code=code, source="tool", message=message, gates=gates)


def states(now: list[Found], base: list[Found] | None, before: str = TEXT, after: str = TEXT) -> list[str]:
    diagnostics = judge(
        now, base, now=TextTree({"a.py": after}), before=TextTree({"a.py": before}), origins={}
    )
    return [str(diagnostic.state) for diagnostic in diagnostics]


def test_a_finding_whose_line_moved_is_known() -> None:
    assert states([found(3)], [found(1)], before="three\n", after="\n\nthree\n") == ["known"]


def test_a_finding_on_another_line_of_text_is_new() -> None:
    assert states([found(3)], [found(1)]) == ["new"]


def test_a_second_finding_of_a_kind_is_new() -> None:
    assert states([found(2), found(4)], [found(2)]) == ["known", "new"]


def test_numbers_and_quoted_paths_do_not_matter_and_words_do() -> None:
    assert states([found(1, "3 of `x/y.py`")], [found(1, "7 of `z/y.py`")]) == ["known"]
    assert states([found(1, "no `x`")], [found(1, "no `y`")]) == ["new"]


def test_another_code_is_another_finding() -> None:
    assert states([found(1, code="X2")], [found(1)]) == ["new"]


def test_without_a_base_what_is_there_is_known() -> None:
    assert states([found(1)], None) == ["known"]


def test_what_does_not_gate_is_advice_whatever_the_base_says() -> None:
    assert states([found(1, gates=False)], []) == ["advisory"]
    assert states([found(1, gates=False)], None) == ["advisory"]


def test_a_finding_follows_its_file_through_a_rename() -> None:
    diagnostics = judge(
        [found(1, path="b.py")],
        [found(1)],
        now=TextTree({"b.py": TEXT}),
        before=TextTree({"a.py": TEXT}),
        origins={RepoPath("b.py"): RepoPath("a.py")},
    )
    assert shown(diagnostics) == [("b.py", 1, "X1", "known")]


def test_diagnostics_are_sorted_and_bound_to_the_bytes_they_are_about() -> None:
    tree = TextTree({"a.py": TEXT, "b.py": ""})
    diagnostics = judge([found(0, path="b.py"), found(3), found(1)], [], now=tree, before=tree, origins={})
    assert [(found.path, found.line) for found in diagnostics] == [("a.py", 1), ("a.py", 3), ("b.py", 0)]
    assert diagnostics[0].sha256 == hashlib.sha256(TEXT.encode()).hexdigest()
    assert judge([found(1, path="gone.py")], [], now=tree, before=tree, origins={})[0].sha256 is None


def test_only_new_findings_block_and_the_count_says_so() -> None:
    tree = TextTree({"a.py": TEXT})
    diagnostics = judge(
        [found(1), found(2), found(3, gates=False)], [found(1)], now=tree, before=tree, origins={}
    )
    assert [found.line for found in blocking(diagnostics)] == [2]
    assert count_text(diagnostics) == "1 new finding (1 known, 1 advisory)"
    assert count_text(()) == "0 new findings"
