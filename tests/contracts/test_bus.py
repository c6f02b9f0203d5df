"""What every bus must do: nothing lost, nothing twice, in order, whatever the reader's pace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest

from glideslope.adapters.bus import JournalBus
from glideslope.adapters.clock import SystemClock
from glideslope.adapters.journal import SqliteJournal
from glideslope.errors import InvalidInput
from glideslope.model.event import HostDied, Recorded


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    opened = SqliteJournal(str(tmp_path / "journal.sqlite3"), SystemClock())
    yield opened
    opened.close()


def happen(journal: SqliteJournal, bus: JournalBus | None = None) -> Recorded:
    recorded = journal.append(HostDied(host_kind="tool", pid=1), scope=None)
    if bus is not None:
        bus.publish(recorded)
    return recorded


async def take(events: AsyncIterator[Recorded], count: int) -> list[int]:
    with anyio.fail_after(10):
        return [(await anext(events)).seq for _ in range(count)]


async def nothing_more(events: AsyncIterator[Recorded]) -> bool:
    with anyio.move_on_after(0.05):
        await anext(events)
        return False
    return True


async def test_a_subscriber_sees_what_is_published_after_it_subscribed(journal: SqliteJournal) -> None:
    bus = JournalBus(journal)
    happen(journal, bus)
    async with bus.subscribe() as events:
        happen(journal, bus)
        happen(journal, bus)

        assert await take(events, 2) == [2, 3]
        assert await nothing_more(events)
        happen(journal, bus)
        assert await take(events, 1) == [4]


async def test_a_subscriber_that_names_a_number_first_gets_what_followed_it(journal: SqliteJournal) -> None:
    for _ in range(3):
        happen(journal)
    bus = JournalBus(journal)
    happen(journal, bus)
    async with bus.subscribe(after=1) as events:
        happen(journal, bus)

        assert await take(events, 4) == [2, 3, 4, 5]
        assert await nothing_more(events)


@pytest.mark.parametrize("window", [1, 3, 1000])
async def test_a_slow_subscriber_misses_nothing_and_sees_nothing_twice(
    journal: SqliteJournal, window: int
) -> None:
    bus = JournalBus(journal, window=window)
    async with bus.subscribe(after=0) as slow, bus.subscribe() as fast:
        for n in range(1, 601):
            happen(journal, bus)
            if n % 7 == 0:
                assert await take(fast, 7) == list(range(n - 6, n + 1))
        assert await take(slow, 600) == list(range(1, 601))
        happen(journal, bus)

        assert await take(slow, 1) == [601]
        assert await nothing_more(slow)


async def test_a_waiting_subscriber_is_woken(journal: SqliteJournal) -> None:
    bus = JournalBus(journal)
    seen: list[int] = []

    async def listen(events: AsyncIterator[Recorded]) -> None:
        seen.extend(await take(events, 2))

    async with bus.subscribe() as one, bus.subscribe(after=0) as two, anyio.create_task_group() as group:
        group.start_soon(listen, one)
        group.start_soon(listen, two)
        await anyio.wait_all_tasks_blocked()
        happen(journal, bus)
        await anyio.wait_all_tasks_blocked()
        happen(journal, bus)

    assert sorted(seen) == [1, 1, 2, 2]


async def test_an_event_that_was_journaled_but_not_yet_published_comes_once(journal: SqliteJournal) -> None:
    happen(journal)
    bus = JournalBus(journal)
    unpublished = happen(journal)
    async with bus.subscribe(after=0) as events:
        assert await take(events, 2) == [1, 2]
        bus.publish(unpublished)
        happen(journal, bus)

        assert await take(events, 1) == [3]


async def test_news_out_of_step_is_put_in_order_by_the_journal(journal: SqliteJournal) -> None:
    bus = JournalBus(journal)
    async with bus.subscribe() as events:
        first, second, third = (happen(journal) for _ in range(3))
        for recorded in (second, third, first):
            bus.publish(recorded)

        assert await take(events, 3) == [1, 2, 3]
        assert await nothing_more(events)


async def test_a_replay_over_trimmed_events_goes_on_with_what_is_left(journal: SqliteJournal) -> None:
    bus = JournalBus(journal, window=1)
    for _ in range(5):
        happen(journal, bus)
    journal.trim(keep_runs=0)
    async with bus.subscribe(after=0) as events:
        happen(journal, bus)

        assert await take(events, 2) == [5, 6]


@pytest.mark.parametrize("after", [-1, 2])
async def test_a_number_that_never_was_is_refused(journal: SqliteJournal, after: int) -> None:
    bus = JournalBus(journal)
    happen(journal, bus)
    with pytest.raises(InvalidInput):
        async with bus.subscribe(after=after):
            pass
