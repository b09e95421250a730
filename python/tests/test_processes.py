"""Several processes, and several copies of SQLite in one of them."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import annals
from annals.locks import hold

WAYS = ["fork", "spawn", "forkserver"]


def message(name: str) -> dict[str, object]:
    return {"id": name, "kind": "MessageEvent", "source": "user"}


def append(path: str, name: str) -> str:
    """What a worker of a pool does: it opens the file, appends and closes it."""
    try:
        with annals.open(path) as store:
            store.append(name, message(name), expected="empty")
    except annals.Error as error:
        return str(error)
    return "appended"


POOL = """
import multiprocessing, sys
sys.path.insert(0, sys.argv[1])
from test_processes import append
if __name__ == "__main__":
    _, _, way, path = sys.argv
    with multiprocessing.get_context(way).Pool(2) as pool:
        print(pool.starmap(append, [(path, f"w{number}") for number in range(6)]) == ["appended"] * 6)
"""


@pytest.mark.parametrize("way", WAYS)
def test_a_worker_opens_a_store_of_its_own_if_its_parent_had_none(tmp_path: Path, way: str) -> None:
    # A process of its own: here other tests may have left a store open.
    path, program = str(tmp_path / "a.db"), tmp_path / "pool.py"
    annals.open(path).close()
    program.write_text(POOL)
    command = [sys.executable, str(program), str(Path(__file__).parent), way, path]
    assert subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout == b"True\n"
    with annals.open(path) as store:
        assert store.last_position == 6 and store.verify().is_sound


@pytest.mark.parametrize("way", WAYS)
def test_a_forked_worker_is_refused_while_its_parent_has_a_store_open(tmp_path: Path, way: str) -> None:
    path = str(tmp_path / "a.db")
    with annals.open(path) as store:
        store.append("talk", message("parent"))
        with multiprocessing.get_context(way).Pool(1) as pool:
            answer = pool.apply(append, (path, "worker"))
        if way == "fork":
            assert "forked while its parent had a store open" in answer and "spawn" in answer
        else:
            assert answer == "appended"
        store.append("talk", message("after"))
        assert store.count("talk") == 2 and store.verify().is_sound


def test_a_prefork_server_that_opens_its_store_too_early_is_told_so_by_every_worker(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    store = annals.open(path)
    store.append("talk", message("early"))
    read, write = os.pipe()
    workers = []
    for number in range(3):
        worker = os.fork()
        if worker == 0:
            inherited = "none"
            try:
                store.append("talk", message(f"inherited-{number}"))
            except annals.Error as error:
                inherited = str(error)
            both = "forked" in inherited and "forked" in append(path, f"w{number}")
            os.write(write, b"refused\n" if both else b"let in\n")
            os._exit(0)
        workers.append(worker)
    os.close(write)
    assert [os.waitpid(worker, 0)[1] for worker in workers] == [0, 0, 0]
    with os.fdopen(read) as answers:
        assert answers.read() == "refused\n" * 3
    store.append("talk", message("late"))
    assert [event.id for event in store.events("talk")] == ["early", "late"]
    store.close()


def test_sqlite3_is_refused_on_an_open_store_under_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a b.db"
    (tmp_path / "link.db").symlink_to(path)
    monkeypatch.chdir(tmp_path)
    names: list[tuple[object, bool]] = [
        (path, False),
        (str(path), False),
        (bytes(path), False),
        ("a b.db", False),
        ("link.db", False),
        ("file:a%20b.db?mode=ro", True),
        (f"file:{path}?mode=ro&immutable=1", True),
    ]
    with annals.open(path):
        for name, uri in names:
            with pytest.raises(annals.InvalidError, match=r"store\.connect\(\)"):
                sqlite3.connect(name, uri=uri)  # type: ignore[arg-type]
        # Others are not.
        sqlite3.connect(":memory:").close()
        sqlite3.connect(tmp_path / "other.db").close()
    for name, uri in names:
        sqlite3.connect(name, uri=uri).close()  # type: ignore[arg-type]


def test_a_connection_of_a_store_reads_beside_it_and_ends_with_it(tmp_path: Path) -> None:
    store = annals.open(tmp_path / "a?b#c%d.db")
    store.append("talk", [message("a"), message("b")])
    connection = store.connect()
    count = "SELECT count(*) FROM events"
    assert connection.execute(count).fetchone() == (2,)
    store.append("talk", message("c"))
    assert connection.execute(count).fetchone() == (3,)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("DELETE FROM event")
    seen: list[object] = []
    thread = threading.Thread(target=lambda: seen.append(connection.execute(count).fetchone()))
    thread.start()
    thread.join()
    assert seen == [(3,)]
    store.close()
    with pytest.raises(sqlite3.ProgrammingError):
        connection.execute(count)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a?b#c%d.db"], "the file alone is whole"
    with pytest.raises(annals.InvalidError):
        store.connect()
    with annals.in_memory() as memory, pytest.raises(annals.InvalidError):
        memory.connect()


def test_pandas_reads_a_frame_from_a_connection(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    with annals.open(tmp_path / "a.db") as store:
        store.append("talk", [message(f"e{number}") for number in range(3)])
        frame = pandas.read_sql("SELECT sequence, kind FROM events ORDER BY sequence", store.connect())
        assert list(frame["sequence"]) == [0, 1, 2]


WRITER = """
import sys, threading, annals
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = annals.open(path)
done = threading.Event()
def beside():
    while not done.is_set():
        if name == "beside":
            connection = store.connect()
            connection.execute("SELECT count(*) FROM events").fetchone()
            connection.close()
            for ending in "", "-wal", "-shm":
                open(path + ending, "rb").read()
thread = threading.Thread(target=beside)
thread.start()
for number in range(count):
    store.append(name, {"id": f"{name}-{number}", "kind": "MessageEvent"}, expected=number)
done.set()
thread.join()
store.close()
"""


def test_two_writers_lose_nothing_beside_connections_and_plain_reads_in_one_of_them(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    annals.open(path).close()
    visit = "import sqlite3, sys\nfor _ in range(50): sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM event').fetchone()"
    programs = [
        [sys.executable, "-c", WRITER, path, "beside", "200"],
        [sys.executable, "-c", WRITER, path, "other", "200"],
        [sys.executable, "-c", visit, path],
    ]
    running = [subprocess.Popen(program) for program in programs]
    assert [program.wait() for program in running] == [0, 0, 0]
    copy = str(tmp_path / "copy.db")
    shutil.copy(path, copy)
    with annals.open(copy) as store:
        assert (store.count("beside"), store.count("other")) == (200, 200) and store.verify().is_sound


def test_a_lock_of_a_store_has_one_name_whatever_its_path_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link.db").symlink_to("a.db")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with annals.open("a.db") as one, annals.open("link.db") as two:
        monkeypatch.chdir("elsewhere")
        with hold(one, "talk", 0), pytest.raises(TimeoutError), hold(two, "talk", 0):
            pass
        with hold(two, "talk", 0):
            pass
    assert list((tmp_path / "elsewhere").iterdir()) == []
