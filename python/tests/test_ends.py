"""However a store ends, its file alone is whole, and nothing goes on reading it."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import annals
import pytest

# Daemon threads append, follow, iterate and verify, and the main thread ends as its argument says.
PROGRAM = """
import sys, threading, annals
store = annals.open(sys.argv[1])
store.append("talk", [{"id": f"first-{n}", "kind": "PauseEvent"} for n in range(2000)])
enough = threading.Barrier(5)

def append():
    number = 0
    while True:
        store.append("talk", {"id": f"e{number}", "kind": "PauseEvent"})
        # In one write: the end of the interpreter may come between two.
        sys.stdout.write(f"e{number}\\n")
        sys.stdout.flush()
        number += 1
        if number == 20:
            enough.wait()

def follow():
    for number, _ in enumerate(store.follow()):
        if number == 20:
            enough.wait()

def iterate():
    while True:
        for number, _ in enumerate(store.events("talk")):
            if number == 20 and not enough.broken and enough.n_waiting < 5:
                enough.wait() if not done.is_set() else None
                done.set()

def verify():
    enough.wait()
    while True:
        store.verify()

done = threading.Event()
for work in (append, follow, iterate, verify):
    threading.Thread(target=work, daemon=True).start()
enough.wait()
if sys.argv[2] == "error":
    raise SystemExit(3)
"""


def assert_alone_and_whole(path: Path, events: list[str]) -> None:
    assert [one.name for one in path.parent.iterdir() if one.name.startswith(path.name)] == [path.name]
    copy = path.parent / "copy"
    copy.mkdir()
    shutil.copy(path, copy / "annals.db")
    with annals.open(copy / "annals.db") as store:
        assert store.verify().is_sound
        there = set(store.event_ids("talk"))
        assert [name for name in events if name not in there] == []


@pytest.mark.parametrize(("how", "status"), [("end", 0), ("error", 3)])
def test_the_interpreters_end_closes_the_file_under_daemon_threads(tmp_path: Path, how: str, status: int) -> None:
    path = tmp_path / "annals.db"
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), how], capture_output=True, text=True, timeout=300
    )
    assert (ended.returncode, ended.stderr) == (status, "")
    assert_alone_and_whole(path, ended.stdout.split())


def test_iterators_that_outlive_a_close_say_so_and_let_go_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "annals.db"
    store = annals.open(path)
    events = [{"id": f"e{number}", "kind": "PauseEvent"} for number in range(1200)]
    store.append("talk", events)
    store.append("other", events)
    iterators = [
        store.follow(),
        store.follow(conversation="talk"),
        store.events("talk"),
        store.events("talk", descending=True),
    ]
    for iterator in iterators:
        next(iterator)

    async def follow() -> None:
        async for _ in store.follow_async():
            store.close()

    with pytest.raises(annals.InvalidError, match="closed"):
        asyncio.run(follow())
    assert_alone_and_whole(path, [str(one["id"]) for one in events])
    for iterator in iterators:
        with pytest.raises(annals.InvalidError, match="closed"):
            # What was read before may still come.
            for _ in iterator:
                pass
