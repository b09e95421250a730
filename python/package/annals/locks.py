"""Locks by name, for the threads and processes that have one file open."""

from __future__ import annotations

import hashlib
import os
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from annals.errors import UnusableError

if TYPE_CHECKING:
    from annals.store import Store

_SHORTEST_WAIT = 0.001
_LONGEST_WAIT = 0.05


@contextmanager
def hold(store: Store, name: str, seconds_max: float) -> Iterator[None]:
    """Holds the lock `name` of this store. It is not reentrant.

    For a file, the lock is a byte of `FILE-locks`, held for an open file description (Linux): the system releases it
    when its process ends, and threads of one process exclude each other too.

    Raises `TimeoutError` after `seconds_max`, and `UnusableError` on systems without such locks.
    """
    path = store._real_path
    if path is None:
        lock = store._locks.setdefault(name, threading.Lock())
        if not lock.acquire(timeout=max(seconds_max, 0)):
            raise TimeoutError(f"{name!r} was not free within {seconds_max} s")
        try:
            yield
        finally:
            lock.release()
        return
    if sys.platform != "linux":
        raise UnusableError("locks between processes need Linux: let one process at a time write a conversation")
    import fcntl

    offset = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 2
    # struct flock: type, whence, start, length, process (0 for these locks).
    byte = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, offset, 1, 0)
    file = os.open(f"{path}-locks", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        deadline = time.monotonic() + seconds_max
        wait = _SHORTEST_WAIT
        while True:
            try:
                fcntl.fcntl(file, fcntl.F_OFD_SETLK, byte)
                break
            except (BlockingIOError, PermissionError):
                if time.monotonic() >= deadline:
                    raise TimeoutError(f"{name!r} was not free within {seconds_max} s") from None
            time.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT)
        yield
    finally:
        os.close(file)
