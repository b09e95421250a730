"""Conversations of the real SDK whose files are in a file of Annals."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pytest

pytest.importorskip("openhands.sdk")

from openhands.sdk import LLM, Agent, Message, MessageEvent, TextContent
from openhands.sdk.conversation import LocalConversation
from openhands.sdk.conversation.event_store import EventLog
from openhands.sdk.event import Event as SdkEvent
from openhands.sdk.io import LocalFileStore

import annals
from annals import errors
from annals.openhands import AnnalsFileStore

ID = "0b9c2a52-7a0c-4d6c-93c3-5d6f0b8c1a11"


def said(text: str, name: str | None = None) -> MessageEvent:
    message = Message(role="user", content=[TextContent(text=text)])
    given = {} if name is None else {"id": name}
    return MessageEvent(source="user", llm_message=message, **given)


@pytest.fixture
def files(store: annals.Store) -> AnnalsFileStore:
    return AnnalsFileStore(store, ID)


def test_files_are_written_read_listed_and_deleted(files: AnnalsFileStore, tmp_path: Path) -> None:
    local = LocalFileStore(str(tmp_path / "local"))
    for one in (files, local):
        assert one.list("") == [] and not one.exists("a.txt")
        with pytest.raises(FileNotFoundError):
            one.read("a.txt")
        one.write("a.txt", "é")
        one.write("notes/b.txt", b"bytes")
        one.write("notes/deep/c.txt", "c")
        one.write("a.txt", "again")
        assert (one.read("a.txt"), one.read("notes/b.txt"), one.read("/notes/deep/c.txt")) == ("again", "bytes", "c")
        assert sorted(one.list("")) == ["a.txt", "notes/"]
        assert sorted(one.list("notes")) == ["notes/b.txt", "notes/deep/"]
        assert one.list("a.txt") == ["a.txt"] and one.list("none") == []
        assert one.exists("notes") and one.exists("notes/deep/c.txt") and not one.exists("notes/c")
        one.delete("none")
        one.delete("notes/b.txt")
        assert not one.exists("notes/b.txt")
        one.delete("notes")
        assert one.list("") == ["a.txt"]
        for path in ("../out", "notes/../../out", "..\\out"):
            with pytest.raises(ValueError):
                one.write(path, "x")
        assert one.get_absolute_path("a.txt").endswith("a.txt")
    assert files.store.verify().is_sound


def test_a_folder_is_no_file(files: AnnalsFileStore) -> None:
    files.write("notes/a", "x")
    with pytest.raises(IsADirectoryError):
        files.write("notes", "x")


def test_an_event_is_written_once_and_in_its_place(files: AnnalsFileStore) -> None:
    text = json.dumps({"id": "a", "kind": "PauseEvent"})
    files.write("events/event-00000-a.json", text)
    files.write("events/event-00000-a.json", text)
    assert files.read("events/event-00000-a.json") == text
    assert files.list("events") == ["events/event-00000-a.json"]
    assert files.exists("events") and not files.exists("events/event-00000-b.json")
    other = json.dumps({"id": "b", "kind": "PauseEvent"})
    for path, content, error in [
        ("events/event-00000-a.json", json.dumps({"id": "a", "kind": "MessageEvent"}), errors.ConflictError),
        ("events/event-00000-b.json", other, errors.ConflictError),
        ("events/event-00002-b.json", other, errors.ConflictError),
        ("events/event-00001-a.json", text, errors.ConflictError),
        ("events/event-00001-c.json", other, errors.InvalidError),
        ("events/event-00001-c.json", "{torn", errors.InvalidError),
    ]:
        with pytest.raises(error):
            files.write(path, content)
    for path in ("events/event-00000-a.json", "events", ""):
        with pytest.raises(errors.ConflictError):
            files.delete(path)
    assert files.store.count(ID) == 1 and files.store.verify().is_sound


def test_the_event_log_of_the_sdk_works_on_it(files: AnnalsFileStore) -> None:
    log = EventLog(files)
    events = [said(f"number {number}") for number in range(25)]
    assert [log.append(event) for event in events] == list(range(25))
    assert [event.id for event in log] == [event.id for event in events]
    with pytest.raises(ValueError, match="already exists"):
        log.append(events[3])
    again = EventLog(files)
    assert len(again) == 25 and again[24] == events[24] and again.get_index(events[7].id) == 7
    # Each of the two sees what the other has appended.
    more = said("more")
    assert again.append(more) == 25 and log.append(said("last")) == 26
    assert [event.id for event in EventLog(files)][25] == more.id
    assert all(name.startswith("events/event-") for name in files.list("events"))


def appender(path: str, writer: int, count: int) -> None:
    log = EventLog(AnnalsFileStore(path, ID))
    for number in range(count):
        log.append(said(f"{writer} {number}"))


def test_processes_append_to_one_conversation(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=appender, args=(str(path), writer, 20)) for writer in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    with annals.open(path) as store:
        texts = [event.payload["llm_message"]["content"][0]["text"] for event in store.events(ID)]
        assert sorted(texts) == sorted(f"{writer} {number}" for writer in range(3) for number in range(20))
        assert store.verify().is_sound


def test_a_store_in_memory_has_locks_of_its_own() -> None:
    with annals.in_memory() as one, annals.in_memory() as two:
        with AnnalsFileStore(one, ID).lock("x"):
            with AnnalsFileStore(two, ID).lock("x", timeout=0):
                pass
            with pytest.raises(TimeoutError), AnnalsFileStore(one, ID).lock("x", timeout=0):
                pass
        with AnnalsFileStore(one, ID).lock("x", timeout=0):
            pass


def test_a_lock_excludes_threads_and_stores_and_times_out(path: Path) -> None:
    one, two = AnnalsFileStore(path, ID), AnnalsFileStore(path, ID)
    other = AnnalsFileStore(path, "other")
    with one.lock("events/.lock"):
        with other.lock("events/.lock", timeout=0), one.lock("another", timeout=0):
            pass
        for held in (one, two):
            with pytest.raises(TimeoutError), held.lock("events/.lock", timeout=0.01):
                pass
    with two.lock("events/.lock", timeout=0):
        pass
    waiting = threading.Event()
    order: list[str] = []

    def wait() -> None:
        waiting.set()
        with two.lock("x"):
            order.append("second")

    with one.lock("x"):
        thread = threading.Thread(target=wait)
        thread.start()
        waiting.wait()
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


HOLDER = """
import sys
from annals.openhands import AnnalsFileStore
with AnnalsFileStore(sys.argv[1], "talk").lock("x"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_lock_of_a_killed_process_is_free(path: Path) -> None:
    files = AnnalsFileStore(path, "talk")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    with pytest.raises(TimeoutError), files.lock("x", timeout=0):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with files.lock("x", timeout=30):
        pass


def agent() -> Agent:
    return Agent(llm=LLM(model="openai/none", api_key="none", usage_id="agent"), tools=[])


def conversation(files: AnnalsFileStore, folder: Path) -> LocalConversation:
    return LocalConversation(
        agent=agent(), workspace=str(folder), conversation_id=uuid.UUID(ID), file_store=files, visualizer=None
    )


TALK = """
import os, sys, uuid
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from test_openhands import AnnalsFileStore, conversation
talk = conversation(AnnalsFileStore(sys.argv[1], "0b9c2a52-7a0c-4d6c-93c3-5d6f0b8c1a11"), Path(sys.argv[2]))
number = 0
while True:
    talk.send_message(f"number {number}")
    print(number, flush=True)
    number += 1
"""


def test_a_conversation_is_killed_and_resumed(path: Path, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    writer = subprocess.Popen(
        [sys.executable, "-c", TALK, str(path), str(tmp_path / "work"), str(Path(__file__).parent)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENHANDS_SUPPRESS_BANNER": "1"},
    )
    assert writer.stdout is not None
    sent = -1
    for line in writer.stdout:
        if re.fullmatch(r"\d+\n", line):
            sent = int(line)
        if sent == 7:
            break
    writer.kill()
    writer.wait()
    files = AnnalsFileStore(path, ID)
    talk = conversation(files, tmp_path / "work")
    texts = [event.llm_message.content[0].text for event in talk.state.events if isinstance(event, MessageEvent)]
    assert texts[:8] == [f"number {number}" for number in range(8)]
    before = len(talk.state.events)
    talk.send_message("after the crash")
    assert len(talk.state.events) == before + 1
    assert talk.state.leaf_event_id == talk.state.events[-1].id
    talk.close()
    # The store answers as for any other conversation.
    store = files.store
    row = store.conversation(ID)
    assert (row.event_count, row.leaf_event_id) == (before + 1, talk.state.leaf_event_id)
    assert [line.text for line in store.transcript(ID)][-1] == "after the crash"
    assert store.search("crash")[0].conversation == ID
    assert store.verify().is_sound
    out = store.export(ID, tmp_path / "out")
    files_out = sorted((out / "events").glob("event-*.json"))
    for event, file in zip(talk.state.events, files_out, strict=True):
        assert SdkEvent.model_validate_json(file.read_text()).id == event.id
