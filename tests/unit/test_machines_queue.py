"""The queue: what its values refuse, beside the histories that are enumerated elsewhere."""

from __future__ import annotations

import pytest

from glideslope.errors import InvalidInput
from glideslope.machines import queue
from glideslope.model.ids import TaskId
from glideslope.model.task import TaskResult, TaskState


@pytest.mark.parametrize("cap", [0, -1])
def test_a_queue_that_lets_nothing_run_is_refused(cap: int) -> None:
    with pytest.raises(InvalidInput, match="lets nothing run"):
        queue.Queue(cap=cap)


@pytest.mark.parametrize("state", TaskState)
def test_a_task_ends_only_with_an_ending(state: TaskState) -> None:
    if state.ended:
        queue.Ended(task=TaskId("t"), result=TaskResult(state=state))
    else:
        with pytest.raises(InvalidInput, match="no ending"):
            queue.Ended(task=TaskId("t"), result=TaskResult(state=state))
