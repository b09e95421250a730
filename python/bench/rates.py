"""How quick the module is, as ratios within one run: against the Rust library, and against the SDK's own event log.

    python bench/rates.py RATE      # RATE: the program of `cargo build --release --example rate`

Each round measures every row once, in turn; the medians are compared.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import annals

ROUNDS = 5
BATCHES, SIZE = 200, 100
SINGLE = 300
TEXT = "x" * 800


def payloads(number: int) -> list[str]:
    return [
        json.dumps({"id": f"{number}-{place}", "kind": "MessageEvent", "source": "user", "text": TEXT})
        for place in range(SIZE)
    ]


def rust(folder: Path) -> tuple[float, float]:
    out = subprocess.run(
        [sys.argv[1], folder / "rust.db", str(BATCHES), str(SIZE)], check=True, capture_output=True, text=True
    ).stdout
    append, read = map(float, out.split())
    return append, read


def python(folder: Path) -> tuple[float, float]:
    batches = [payloads(number) for number in range(BATCHES)]
    with annals.open(folder / "python.db") as store:
        began = time.perf_counter()
        for batch in batches:
            store.append("talk", batch)
        appended = time.perf_counter()
        assert sum(1 for _ in store.events("talk")) == BATCHES * SIZE
        return appended - began, time.perf_counter() - appended


def single(folder: Path) -> float:
    with annals.open(folder / "single.db") as store:
        events = [json.dumps({"id": str(n), "kind": "MessageEvent", "source": "user", "text": TEXT}) for n in range(SINGLE)]
        began = time.perf_counter()
        for event in events:
            store.append("talk", event)
        return time.perf_counter() - began


def logs() -> tuple[Callable[[Path], float], Callable[[Path], float]]:
    from openhands.sdk import Message, MessageEvent, TextContent
    from openhands.sdk.conversation.event_store import EventLog
    from openhands.sdk.io import FileStore, LocalFileStore

    from annals.openhands import AnnalsFileStore

    def fill(files: FileStore) -> float:
        log = EventLog(files)
        message = Message(role="user", content=[TextContent(text=TEXT)])
        events = [MessageEvent(source="user", llm_message=message) for _ in range(SINGLE)]
        began = time.perf_counter()
        for event in events:
            log.append(event)
        return time.perf_counter() - began

    return (
        lambda folder: fill(LocalFileStore(str(folder / "files"))),
        lambda folder: fill(AnnalsFileStore(folder / "log.db", "talk")),
    )


def main() -> None:
    on_files, on_annals = logs()
    seconds: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for row, times in (("rust", rust(folder)), ("python", python(folder))):
                seconds.setdefault(f"{row} append", []).append(times[0])
                seconds.setdefault(f"{row} read", []).append(times[1])
            for row, work in (("append", single), ("event log, files", on_files), ("event log, annals", on_annals)):
                seconds.setdefault(row, []).append(work(folder))
    middle = {row: statistics.median(times) for row, times in seconds.items()}
    events = BATCHES * SIZE
    print(f"batches of {SIZE}: {events / middle['python append']:,.0f} events/s, "
          f"{middle['rust append'] / middle['python append']:.2f} of Rust")
    print(f"reading: {events / middle['python read']:,.0f} events/s, {middle['rust read'] / middle['python read']:.2f} of Rust")
    for row in ("append", "event log, files", "event log, annals"):
        print(f"single, {row}: {SINGLE / middle[row]:,.0f} events/s, "
              f"{middle['event log, files'] / middle[row]:.1f} x the SDK's event log")


if __name__ == "__main__":
    main()
