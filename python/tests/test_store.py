"""What a Python program does with a file."""

from __future__ import annotations

import json
import sqlite3
import threading
from pathlib import Path

import pytest

import annals
from annals import errors
from conftest import GOLDEN


def message(name: str, **more: object) -> dict[str, object]:
    return {"id": name, "kind": "MessageEvent", "source": "user", **more}


def test_events_come_back_as_they_were_appended(store: annals.Store) -> None:
    text = '{"id": "a", "kind": "MessageEvent",  "source":"user", "n": 1.50, "text": "\\u00e9"}'
    first, second = store.append("talk", [text, message("b", text="é")], expected="empty")
    assert (first.sequence, second.sequence, second.known) == (0, 1, False)
    assert second.position == store.last_position == 2
    one, two = store.events("talk")
    assert (one.json, one.kind, one.source, one.conversation) == (text, "MessageEvent", "user", "talk")
    assert two.payload == message("b", text="é") and "é" in two.json
    assert store.event("talk", "b").sequence == 1
    assert "talk" in store and "other" not in store and 5 not in store
    assert store.event_ids("talk") == ["a", "b"] and store.event_ids("talk", start=1) == ["b"]


def test_an_append_may_be_repeated_and_never_overwrites(store: annals.Store) -> None:
    store.append("talk", message("a"), expected="empty")
    [again] = store.append("talk", message("a"))
    assert again.known and store.count("talk") == 1
    with pytest.raises(errors.ConflictError, match="exists at sequence 0"):
        store.append("talk", message("a", text="changed"))
    with pytest.raises(errors.ConflictError) as raised:
        store.append("talk", message("b"), expected=5)
    assert not raised.value.is_transient and isinstance(raised.value, annals.Error)
    assert isinstance(raised.value, annals.ConflictError) and raised.value.found == 1
    with pytest.raises(annals.InvalidError, match="expected is -1; a number from 0"):
        store.append("talk", message("b"), expected=-1)
    with pytest.raises(errors.InvalidError):
        store.append("talk", '{"kind": "MessageEvent"}')
    with pytest.raises(errors.InvalidError):
        store.append("talk", message("b"), expected="some")  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        store.append("../talk", message("b"))
    assert store.count("talk") == 1


@pytest.mark.parametrize("count", [0, 1, 500, 501, 1200])
def test_pages_join_to_all_events(store: annals.Store, count: int) -> None:
    if count:
        store.append("talk", [message(f"e{number}") for number in range(count)])
        names = [f"e{number}" for number in range(count)]
        assert [event.id for event in store.events("talk")] == names
        assert [event.id for event in store.events("talk", descending=True)] == names[::-1]
        assert [event.id for event in store.events("talk", start=3, stop=count - 1)] == names[3 : count - 1]
        assert list(store.events("talk", start=count)) == []
        assert list(store.events("talk", stop=0)) == []
    else:
        with pytest.raises(LookupError):
            list(store.events("talk"))


def test_large_payloads_take_several_pages(store: annals.Store) -> None:
    for number in range(4):
        store.append("talk", message(f"e{number}", text="x" * (3 << 20)))
    assert [event.id for event in store.events("talk")] == ["e0", "e1", "e2", "e3"]


def test_conversations_are_listed_and_filtered(store: annals.Store) -> None:
    for name in ("one", "two", "three"):
        store.append(name, message("a", text=name))
    store.set_title("two", "A title")
    assert {row.id for row in store.conversations()} == {"one", "two", "three"}
    assert [row.id for row in store.conversations(order="created")] == ["one", "two", "three"]
    assert [row.id for row in store.conversations(title="A title")] == ["two"]
    assert list(store.conversations(created_before="7d")) == []
    # One name is not its letters.
    status = store.conversation("one").status
    assert len(list(store.conversations(statuses=status))) == len(list(store.conversations(statuses=[status]))) == 3
    assert len(list(store.events("one", kinds="MessageEvent", sources="user"))) == 1
    assert len(store.search("one", kinds="MessageEvent")) == len(store.search("one", kinds=["MessageEvent"]))
    with pytest.raises(errors.InvalidError, match="is not a time"):
        list(store.conversations(created_from="yesterday-ish"))
    row = store.conversation("two")
    assert (row.title, row.event_count, row.is_imported) == ("A title", 1, False)
    assert store.resolve("thr") == "three"
    assert store.delete("one") == 1 and "one" not in store
    with pytest.raises(errors.MissingError):
        store.conversation("one")


def test_real_conversations_answer_questions(store: annals.Store) -> None:
    reports = store.import_path(GOLDEN)
    assert all(report.status == "imported" for report in reports) and len(reports) > 3
    assert all(report.status == "unchanged" for report in store.import_path(GOLDEN))
    for report in reports:
        assert report.id is not None
        assert store.count(report.id) == report.events == len(list(store.events(report.id)))
        texts = [line.text for line in store.transcript(report.id)]
        assert all(isinstance(text, str) for text in texts)
    counted = store.query("SELECT sum(event_count) FROM conversations").scalar()
    assert counted == sum(report.events for report in reports)
    [hit, *_] = store.search("hello")
    assert hit.conversation in store and hit.snippet[slice(*hit.marks[0])].lower().startswith("hello")
    assert any(total.prompt_tokens > 0 for total in store.usage())
    seen = store.verify()
    assert seen.is_sound and seen.events == counted and seen.findings == []


def test_damage_is_a_finding(path: Path) -> None:
    with annals.open(path) as store:
        store.append("talk", [message("a"), message("b")])
    db = sqlite3.connect(path)
    db.execute("DROP TRIGGER IF EXISTS event_is_never_changed")
    for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'event'").fetchall():
        db.execute(f'DROP TRIGGER "{name}"')
    db.execute("UPDATE event SET payload = replace(payload, 'user', 'uses') WHERE id = 'a'")
    db.commit()
    db.close()
    with annals.open(path, read_only=True) as store:
        seen = store.verify()
        assert not seen.is_sound and any(finding.conversation == "talk" for finding in seen.findings)


def test_a_folder_comes_out_as_it_came_in(store: annals.Store, tmp_path: Path) -> None:
    source = GOLDEN / "hello-two-turns"
    [report] = store.import_path(source)
    assert report.id is not None
    out = store.export(report.id, tmp_path / "out")
    for file in sorted(source.rglob("*")):
        if file.is_file():
            assert (out / file.relative_to(source)).read_bytes() == file.read_bytes()


def test_base_state_and_files(store: annals.Store) -> None:
    assert store.put_base_state("talk", {"id": "talk", "tags": {"a": "b"}}) == 1
    assert store.put_base_state("talk", {"tags": {"a": "b"}, "id": "talk"}) == 1
    assert store.conversation("talk").tags == {"a": "b"}
    state = store.base_state("talk")
    assert state is not None and state["tags"] == {"a": "b"}
    store.attach("talk", "notes/a.bin", b"\x00\xff")
    [file] = store.attachments("talk")
    assert (file.path, file.bytes, store.read_attachment("talk", "notes/a.bin")) == ("notes/a.bin", 2, b"\x00\xff")
    store.detach("talk", "notes/a.bin")
    assert store.attachments("talk") == []
    for read in (store.detach, store.read_attachment):
        with pytest.raises(LookupError):
            read("talk", "notes/a.bin")
    assert store.verify().is_sound


def test_a_closed_store_and_a_read_only_one_refuse(path: Path) -> None:
    store = annals.open(path)
    store.append("talk", message("a"))
    store.close()
    store.close()
    assert store.is_closed
    with pytest.raises(errors.InvalidError, match="closed"):
        store.count("talk")
    with annals.open(path, read_only=True) as reader:
        assert reader.count("talk") == 1
        with pytest.raises(errors.ConflictError):
            reader.append("talk", message("b"))
    with pytest.raises(annals.Error):
        annals.open(path.parent / "none.db", create=False)
    other = path.parent / "text.db"
    other.write_text("this is no database, but it is long enough to have a header" * 40)
    with pytest.raises(errors.UnusableError):
        annals.open(other)
    assert other.read_text().startswith("this is no database")


def test_threads_append_at_once(store: annals.Store) -> None:
    def work(thread: int) -> None:
        for number in range(50):
            store.append(f"talk-{thread % 4}", message(f"{thread}-{number}"))

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(store.count(f"talk-{number}") for number in range(4)) == 400
    assert store.verify().is_sound


def test_the_user_is_in_the_audit_trail(path: Path) -> None:
    with annals.open(path, user="maria") as store:
        store.append("talk", message("a"))
        store.delete("talk")
        rows = store.query("SELECT * FROM admin_log").dicts()
    assert "maria" in json.dumps(rows)


def test_errors_say_what_to_do(store: annals.Store, tmp_path: Path) -> None:
    with pytest.raises(annals.InvalidError, match="no such column: tol.*did you mean tool"):
        store.query("SELECT tol FROM tool_calls")
    with pytest.raises(annals.InvalidError, match="a query may only read.*annals redact"):
        store.query("DELETE FROM events")
    with pytest.raises(annals.MissingError):
        store.import_path(tmp_path / "missing")
    with pytest.raises(annals.MissingError):
        annals.open(tmp_path / "missing.db", create=False)
    names = {name for name in dir(errors) if name.endswith("Error")}
    assert names == {name for name in annals.__all__ if name.endswith("Error")}
