"""Which tier follows from what is missing; a root that is not what it must be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from glideslope.worker import probe, view


def test_nothing_missing_is_the_overlay() -> None:
    assert probe.choose_tier({}) == "snapshot"


@pytest.mark.parametrize("name", probe.FOR_OVERLAY)
def test_without_the_overlay_the_tree_is_copied(name: str) -> None:
    assert probe.choose_tier({name: "refused"}) == "copy"


@pytest.mark.parametrize("name", probe.ESSENTIAL)
def test_without_an_essential_primitive_only_the_live_tree_is_left(name: str) -> None:
    assert probe.choose_tier({name: "refused", "overlay": "refused"}) == "live"


@pytest.mark.parametrize("name", probe.BETTER)
def test_what_is_only_better_costs_no_tier(name: str) -> None:
    assert probe.choose_tier({name: "refused"}) == "snapshot"


@pytest.mark.parametrize("tier", ["snapshot", "copy"])
def test_a_root_over_which_nothing_was_mounted_is_found_out(tmp_path: Path, tier: str) -> None:
    made = view.View({"root": str(tmp_path), "tier": tier, "read_only": False}, all_ids=False)
    made.written = os.open("/", os.O_RDONLY)
    try:
        with pytest.raises(view.ViewBroken, match="not there"):
            view._check_root(made)
    finally:
        os.close(made.written)
        os.close(made.outer_proc)
