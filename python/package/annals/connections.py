"""Connections of Python's own `sqlite3` to a file that is open here.

Python has a copy of SQLite, and this module another one. SQLite's locks belong to a process: when one copy closes the file,
the locks of the other one are gone (<https://sqlite.org/howtocorrupt.html>, 2.2.1). On Linux the locks of this module are of
another sort, which nothing else in the process can release. So there it makes connections that read; everywhere it refuses
others, which a program rather opens by mistake.
"""

from __future__ import annotations

import atexit
import os
import sqlite3
import sys
import threading
import weakref
from collections import Counter
from urllib.parse import unquote, urlsplit

from annals.errors import InvalidError

Identity = tuple[int, int]

_open: Counter[Identity] = Counter()
"""How many stores have a file open, by its device and inode."""

_own = threading.local()
"""Whether this thread makes a connection of `connect` now."""

_made: weakref.WeakSet[Connection] = weakref.WeakSet()
"""The connections that may be open."""

_hook_is_set = False
_lock = threading.Lock()


class Connection(sqlite3.Connection):
    """A connection that a store can forget: it has weak references."""


def opened(path: str) -> Identity:
    """Notes that a store has a file open. Returns what `closed` takes."""
    global _hook_is_set
    found = os.stat(path)
    identity = (found.st_dev, found.st_ino)
    with _lock:
        _open[identity] += 1
        if not _hook_is_set:
            # A hook of this sort cannot be removed.
            sys.addaudithook(_refuse)
            os.register_at_fork(after_in_child=_open.clear)
            _hook_is_set = True
    return identity


def closed(identity: Identity) -> None:
    """Notes that a store was closed."""
    with _lock:
        _open[identity] -= 1
        if _open[identity] <= 0:
            del _open[identity]


def connect(path: str) -> Connection:
    """Makes a connection that only reads."""
    _own.makes = True
    try:
        address = f"file:{_quoted(path)}?mode=ro"
        connection = sqlite3.connect(address, uri=True, check_same_thread=False, factory=Connection)
    finally:
        _own.makes = False
    connection.execute("PRAGMA query_only = ON")
    _made.add(connection)
    return connection


@atexit.register
def _close_all() -> None:
    # Before the stores are closed, which is registered earlier: the last one to close a file leaves it alone whole.
    for connection in list(_made):
        connection.close()


def _quoted(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _refuse(event: str, args: tuple[object, ...]) -> None:
    if event != "sqlite3.connect" or not _open or getattr(_own, "makes", False):
        return
    database = args[0]
    if not isinstance(database, (str, bytes, os.PathLike)):
        return
    name = os.fsdecode(database)
    names = [name, unquote(urlsplit(name).path)] if name.startswith("file:") else [name]
    for path in names:
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            continue
        if (found.st_dev, found.st_ino) in _open:
            raise InvalidError(
                f"{path!r} is open here as a store, and a second SQLite in this process may harm it: use "
                "store.connect(), which is a connection of sqlite3 that only reads, or store.query(), or another process"
            )
