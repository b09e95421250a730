"""Events as they come, also from other processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import annals

APPEND = """
import sys, annals
with annals.open(sys.argv[1]) as store:
    for number in range(int(sys.argv[2])):
        store.append("talk", {"id": f"new-{number}", "kind": "PauseEvent"})
"""


def event(name: str, kind: str = "PauseEvent") -> dict[str, str]:
    return {"id": name, "kind": kind}


def test_stored_events_come_first_and_the_iterator_ends(store: annals.Store) -> None:
    store.append("talk", [event("a"), event("b", "MessageEvent"), event("c")])
    store.append("other", event("d"))
    names = [one.id for one in store.follow(seconds_max=0)]
    assert names == ["a", "b", "c", "d"]
    assert [one.id for one in store.follow(after=2, seconds_max=0)] == ["c", "d"]
    assert [one.id for one in store.follow(conversation="talk", after=1, seconds_max=0)] == ["b", "c"]
    for kinds in (["MessageEvent"], "MessageEvent"):
        assert [one.id for one in store.follow(kinds=kinds, seconds_max=0)] == ["b"]


def test_events_of_another_process_arrive(path: Path, store: annals.Store) -> None:
    with subprocess.Popen([sys.executable, "-c", APPEND, str(path), "20"]) as writer:
        seen = []
        for one in store.follow(seconds_max=300):
            seen.append(one.id)
            if len(seen) == 20:
                break
        assert writer.wait() == 0
    assert seen == [f"new-{number}" for number in range(20)]


def test_an_async_loop_goes_on_while_it_waits(store: annals.Store) -> None:
    async def both() -> list[str]:
        seen: list[str] = []

        async def read() -> None:
            async for one in store.follow_async(conversation="talk"):
                seen.append(one.id)
                if len(seen) == 3:
                    return

        store.append("talk", event("a"))
        reader = asyncio.create_task(read())
        for name in ("b", "c"):
            await asyncio.sleep(0)
            store.append("talk", event(name))
        await reader
        waiting = asyncio.create_task(anext(store.follow_async(after=store.last_position)))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return seen

    assert asyncio.run(asyncio.wait_for(both(), 300)) == ["a", "b", "c"]
