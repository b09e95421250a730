"""Appends events to a new file through the SQLite recorder of the Python library eventsourcing, and reads them.

    eventsourcing_peer.py FILE EVENTS MODE

The arguments are those of the other programs here. Python's own work is a part of the figures.
"""

import sys
import threading
import time
import uuid

from eventsourcing.persistence import StoredEvent
from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore

WARM_UP, THREADS = 1000, 64


def main(path, events, mode):
    with open(events, "rb") as file:
        payloads = file.read().splitlines()
    recorder = SQLiteApplicationRecorder(SQLiteDatastore(path))
    recorder.create_table()
    talk = uuid.uuid4()

    def append(stream, start, batch):
        recorder.insert_events(
            [StoredEvent(stream, start + place, "Event", payload) for place, payload in enumerate(batch)]
        )

    def append_all(stream, start, batch, size):
        for at in range(0, len(batch), size):
            append(stream, start + at, batch[at : at + size])

    warm, measured = payloads[:WARM_UP], payloads[WARM_UP:]
    append_all(talk, 0, warm, 100)
    if mode == "read":
        append_all(talk, WARM_UP, measured, 100)
    began = time.perf_counter()
    if mode == "single":
        append_all(talk, WARM_UP, measured, 1)
    elif mode == "batch":
        append_all(talk, WARM_UP, measured, 100)
    elif mode == "threads":
        # Each has a stream of its own: two writers of one stream would conflict.
        share = -(-len(measured) // THREADS)
        parts = [measured[at : at + share] for at in range(0, len(measured), share)]
        threads = [threading.Thread(target=append_all, args=(uuid.uuid4(), 0, part, 1)) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    elif mode == "read":
        read, start = 0, WARM_UP
        while page := recorder.select_events(talk, gt=start - 1, limit=500):
            read += sum(len(event.state) for event in page)
            start += len(page)
        assert read == sum(map(len, measured))
    else:
        raise SystemExit("no such mode")
    print(len(measured), time.perf_counter() - began)


if __name__ == "__main__":
    main(*sys.argv[1:])
