"""The store: one file with many conversations."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
import weakref
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from annals import _annals, connections
from annals._annals import (
    Appended,
    Attachment,
    Conversation,
    Event,
    Hit,
    Imported,
    Line,
    Usage,
    Verification,
)
from annals.errors import InvalidError, UnusableError
from annals.rows import Rows, Value

Expected = int | Literal["any", "empty", "exists"]
"""How many events a conversation has to have for an append: a number, any, none, or at least one."""

Order = Literal["created", "-created", "updated", "-updated"]

_PAGE = 500
_WAIT_SECONDS = 0.25


def open(  # noqa: A001
    path: str | os.PathLike[str],
    *,
    read_only: bool = False,
    create: bool = True,
    durable: bool = True,
    user: str | None = None,
) -> Store:
    """Opens a file. It is created if it does not exist, unless `create` is false.

    With `durable`, an append returns once it is on the disk. Without it, the last appends before a power cut may be
    lost; a crash of the program loses nothing. `user` is the name that the audit trail has for changes that are made
    here. Several processes may open the same file, each of them for reading and writing.

    Raises `MissingError` if there is no file and none is created, `UnusableError` if the file is not one of Annals, or of
    a newer version.
    """
    native = _annals.Store(Path(path), read_only=read_only, create=create, durable=durable, user=user)
    return Store(native)


def in_memory() -> Store:
    """Opens a store that is kept in memory alone. For tests."""
    return Store(_annals.Store(None, read_only=False, create=True, durable=False, user=None))


def _names(given: str | Iterable[str]) -> list[str]:
    """One name or several. A single text is one name, and not its letters."""
    return [given] if isinstance(given, str) else list(given)


class Store:
    """An open file. `annals.open` makes it. It may be used by several threads at once.

    Ids of conversations are texts of up to 200 bytes. Sequences count the events of a conversation from 0; positions
    count all events of the file from 1.
    """

    __slots__ = ("__weakref__", "_connections", "_identity", "_locks", "_native", "_real_path")

    def __init__(self, native: _annals.Store) -> None:
        self._native = native
        # The path is resolved once: the working directory may change.
        self._real_path = None if native.path is None else os.path.realpath(native.path)
        self._identity = None if self._real_path is None else connections.opened(self._real_path)
        self._connections: weakref.WeakSet[connections.Connection] = weakref.WeakSet()
        # The locks of `annals.locks`, for a store that is kept in memory.
        self._locks: dict[str, threading.Lock] = {}

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        identity = getattr(self, "_identity", None)
        if identity is not None:
            self._identity = None
            connections.closed(identity)

    def close(self) -> None:
        """Closes the file, so that it alone is whole, and the connections of `connect`. Closing twice is allowed.

        Any later call raises `InvalidError`, and so does the next step of every iterator. Calls of other threads that are
        under way have a second to end. The interpreter's end closes what is still open.
        """
        for connection in list(self._connections):
            connection.close()
        try:
            self._native.close()
        finally:
            self._forget()

    def connect(self) -> sqlite3.Connection:
        """A connection of Python's own `sqlite3` that only reads, for pandas, SQLAlchemy and notebooks.

        It sees what was appended before each of its statements, through the documented views, and any thread may use it. While
        it is in a transaction, the write-ahead log cannot begin anew. `sqlite3.connect` itself is refused while the store is
        open: a second SQLite in the process could harm it.

        Raises `UnusableError` on systems other than Linux, where the store's locks cannot be protected from it, and
        `InvalidError` if the store is kept in memory or is closed.
        """
        if self.is_closed or self._real_path is None:
            raise InvalidError("only an open store in a file has connections of sqlite3")
        if not self._native.locks_are_own:
            raise UnusableError("a second SQLite in this process would harm the store: use query(), or another process")
        connection = connections.connect(self._real_path)
        self._connections.add(connection)
        return connection

    @property
    def is_closed(self) -> bool:
        """Whether the store is closed."""
        return self._native.is_closed

    @property
    def path(self) -> str | None:
        """The file. `None` if the store is kept in memory."""
        return self._native.path

    # Conversations

    def conversations(
        self,
        *,
        statuses: str | Iterable[str] = (),
        title: str | None = None,
        workspace: str | None = None,
        source: str | None = None,
        model: str | None = None,
        started_by: str | None = None,
        created_from: str | None = None,
        created_before: str | None = None,
        order: Order = "-updated",
    ) -> Iterator[Conversation]:
        """All conversations that fit, the last changed first unless `order` says otherwise.

        Times are RFC 3339, a date, or how long ago: `7d`, `12h`.
        """
        after: str | None = None
        fits = _names(statuses)
        while True:
            page, after = self._native.conversations(
                statuses=fits,
                title=title,
                workspace=workspace,
                source=source,
                model=model,
                started_by=started_by,
                created_from=created_from,
                created_before=created_before,
                order_by=order,
                after=after,
                limit=_PAGE,
            )
            yield from page
            if after is None:
                return

    def conversation(self, conversation: str) -> Conversation:
        """The catalogue's row of a conversation. Raises `MissingError`."""
        return self._native.conversation(conversation)

    def __contains__(self, conversation: object) -> bool:
        return isinstance(conversation, str) and self._native.contains(conversation)

    def resolve(self, prefix: str) -> str:
        """The id that begins with `prefix`. Raises `MissingError`, and `InvalidError` if several ids do."""
        return self._native.resolve(prefix)

    def set_title(self, conversation: str, title: str | None) -> None:
        """Sets the title. `None` removes it; then the first message is shown instead."""
        self._native.set_title(conversation, title)

    def delete(self, conversation: str) -> int:
        """Deletes a conversation with all it has. Returns the number of events. The audit trail keeps that it was there."""
        return self._native.delete(conversation)

    # Events

    def events(
        self,
        conversation: str,
        *,
        start: int = 0,
        stop: int | None = None,
        kinds: str | Iterable[str] = (),
        sources: str | Iterable[str] = (),
        tool: str | None = None,
        descending: bool = False,
    ) -> Iterator[Event]:
        """The events of a conversation in order, from sequence `start` up to but without `stop`.

        They are read in pages, so a conversation of any length takes little memory. Raises `MissingError`.
        """
        low: int | None = start
        high: int | None = None if stop is None else stop - 1
        if high is not None and high < start:
            return
        kind_list, source_list = _names(kinds), _names(sources)
        while True:
            page, following = self._native.events(
                conversation,
                start=low,
                stop=high,
                kinds=kind_list,
                sources=source_list,
                tool=tool,
                descending=descending,
                limit=_PAGE,
            )
            yield from page
            if following is None:
                return
            low, high = (low, following) if descending else (following, high)

    def event(self, conversation: str, event: str) -> Event:
        """An event by its id. Raises `MissingError`."""
        return self._native.event(conversation, event)

    def count(self, conversation: str) -> int:
        """The number of events of a conversation; 0 if it does not exist."""
        return self._native.count(conversation)

    def append(
        self,
        conversation: str,
        events: Iterable[Mapping[str, Any] | str] | Mapping[str, Any] | str,
        *,
        expected: Expected = "any",
    ) -> list[Appended]:
        """Appends one event or several: all of them or none. The conversation is created if it does not exist.

        An event is a JSON object with an `id` and a `kind`, as a mapping or as text; text is stored byte for byte.
        An event that is there already with the same content is not stored twice, and is returned with `known` set.
        So a call may be repeated when its outcome is unknown.

        Raises `ConflictError` if the conversation has another length than `expected`, or another event with this id;
        `InvalidError` if an event is not valid.
        """
        if isinstance(events, (str, Mapping)):
            events = [events]
        payloads = [
            event if isinstance(event, str) else json.dumps(event, ensure_ascii=False, separators=(",", ":"))
            for event in events
        ]
        return self._native.append(conversation, payloads, expected)

    def append_at(self, conversation: str, sequence: int, event: str, payload: str) -> Appended:
        """Appends one event that is known to be the event `event`, at `sequence`.

        If it is there already with the same content, it is returned with `known` set and its own sequence. Raises
        `InvalidError` if the payload has another id, `ConflictError` if the conversation has another length.
        """
        return self._native.append_at(conversation, sequence, event, payload)

    def event_ids(self, conversation: str, *, start: int = 0) -> list[str]:
        """The ids of all events in order, from sequence `start` on. Raises `MissingError`."""
        return self._native.event_ids(conversation, start)

    def follow(
        self,
        *,
        after: int = 0,
        conversation: str | None = None,
        kinds: str | Iterable[str] = (),
        seconds_max: float | None = None,
    ) -> Iterator[Event]:
        """All events after a position, and then those that any process appends, as they come.

        With `conversation`, `after` counts its events: the number that was read already. The iterator waits for the
        next event. It ends if none came for `seconds_max`; without that it never ends by itself. `event.position` of
        the last event that was handled is where to begin the next time.
        """
        follower = self._follower(after, conversation, kinds)
        waited = 0.0
        while seconds_max is None or waited <= seconds_max:
            wait = _WAIT_SECONDS if seconds_max is None else min(_WAIT_SECONDS, seconds_max - waited)
            page = follower.next_page(_PAGE, wait)
            yield from page
            waited = 0.0 if page else waited + max(wait, 0.001)

    async def follow_async(
        self,
        *,
        after: int = 0,
        conversation: str | None = None,
        kinds: str | Iterable[str] = (),
    ) -> AsyncIterator[Event]:
        """The same for `async for`. It waits in a thread, so the loop goes on. Ends when its task is cancelled."""
        follower = self._follower(after, conversation, kinds)
        while True:
            for event in await asyncio.to_thread(follower.next_page, _PAGE, _WAIT_SECONDS):
                yield event

    def _follower(self, after: int, conversation: str | None, kinds: str | Iterable[str]) -> _annals.Follower:
        of = None if conversation is None else (conversation, after - 1 if after > 0 else None)
        return self._native.follow(after=after, conversation=of, kinds=_names(kinds))

    @property
    def last_position(self) -> int:
        """The position of the last event of the file; 0 if there is none."""
        return self._native.last_position

    # Questions

    def transcript(self, conversation: str) -> Iterator[Line]:
        """What was said and done, a line for each event that has text for people. Raises `MissingError`."""
        start = 0
        while lines := self._native.transcript(conversation, start, _PAGE):
            yield from lines
            start = lines[-1].sequence + 1

    def search(
        self,
        text: str,
        *,
        conversation: str | None = None,
        kinds: str | Iterable[str] = (),
        tool: str | None = None,
        workspace: str | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int = 50,
    ) -> list[Hit]:
        """Events whose text has all these words, the newest first. The first search builds the index."""
        return self._native.search(
            text,
            conversation=conversation,
            kinds=_names(kinds),
            tool=tool,
            workspace=workspace,
            since=since,
            until=until,
            limit=limit,
        )

    def query(
        self,
        sql: str,
        parameters: Mapping[str, Value] | None = None,
        *,
        rows_max: int | None = None,
        seconds_max: float | None = None,
    ) -> Rows:
        """Answers one SELECT over the documented views (`annals query --schema` lists them).

        `parameters` has a value for each `:name`. The statement can change nothing, and it ends at its limits of
        time, memory, rows and bytes. Raises `InvalidError` with what is wrong and a hint.
        """
        given = None if parameters is None else dict(parameters)
        return Rows(*self._native.query(sql, given, rows_max, seconds_max))

    def usage(self, conversation: str | None = None) -> list[Usage]:
        """Tokens and cost for each model, of one conversation or of all. What is unknown is `None`, never 0."""
        return self._native.usage(conversation)

    def verify(self, conversation: str | None = None) -> Verification:
        """Checks the hash chains, and without `conversation` the whole file. Findings are returned, not raised."""
        return self._native.verify(conversation)

    # What lies beside the events

    def base_state(self, conversation: str) -> dict[str, Any] | None:
        """The base state with HEAD. `None` if there is none. Raises `MissingError`."""
        text = self.base_state_text(conversation)
        return None if text is None else json.loads(text)

    def base_state_text(self, conversation: str) -> str | None:
        """The same as JSON text."""
        return self._native.base_state(conversation)

    def put_base_state(self, conversation: str, document: Mapping[str, Any] | str) -> int:
        """Stores a whole base state. Only the fields that differ are changed. Returns its version."""
        text = document if isinstance(document, str) else json.dumps(document, ensure_ascii=False)
        return self._native.put_base_state(conversation, text)

    def attachments(self, conversation: str) -> list[Attachment]:
        """The files that are stored beside the events."""
        return self._native.attachments(conversation)

    def attach(self, conversation: str, path: str, content: bytes) -> None:
        """Stores a file beside the events. It replaces the file at this path."""
        self._native.attach(conversation, path, content)

    def detach(self, conversation: str, path: str) -> None:
        """Removes a file that is stored beside the events. Raises `MissingError`."""
        self._native.detach(conversation, path)

    def read_attachment(self, conversation: str, path: str) -> bytes:
        """The content of a file. Raises `MissingError`."""
        return self._native.read_attachment(conversation, path)

    # In and out

    def import_path(self, path: str | os.PathLike[str], *, dry_run: bool = False) -> Sequence[Imported]:
        """Imports a folder or file of OpenHands, Claude Code, Codex and others, or a folder of many.

        Done twice, it adds what is new. With `dry_run` nothing is written.
        """
        return self._native.import_path(Path(path), dry_run)

    def export(self, conversation: str, folder: str | os.PathLike[str], *, upgrade: bool = False) -> Path:
        """Writes a conversation into `folder` as the SDK's files, byte for byte as they came in.

        With `upgrade` they are in today's form. Returns the conversation's folder. Raises `UnusableError` if something
        else is in its place.
        """
        return Path(self._native.export(conversation, Path(folder), upgrade))
