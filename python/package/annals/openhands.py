"""Conversations of the OpenHands SDK in a file of Annals, without a server.

    from openhands.sdk.conversation import LocalConversation
    from annals.openhands import AnnalsFileStore

    conversation = LocalConversation(
        agent=agent, workspace=folder, conversation_id=name, file_store=AnnalsFileStore("agents.db", name)
    )

The SDK sees a folder: `events/event-00000-ID.json` is the event with this sequence, `base_state.json` the base state
with HEAD, and every other file an attachment of the conversation. So all that `annals` answers about other conversations
it answers about these too, while they run and afterwards.
"""

from __future__ import annotations

import os
import posixpath
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from openhands.sdk.io import FileStore

from annals._annals import Event
from annals.errors import ConflictError, MissingError
from annals.locks import hold
from annals.store import Store
from annals.store import open as open_store

__all__ = ["AnnalsFileStore"]

_BASE_STATE: Final = "base_state.json"
_EVENTS: Final = "events"
_EVENT: Final = re.compile(r"^events/event-(\d{5,})-(.+)\.json$")
# The SDK's event log keeps its length in the name of an empty file. Here the length is known without one.
_MARKER: Final = re.compile(r"^events/\.eventlog-len-(\d+)\.marker$")


class AnnalsFileStore(FileStore):
    """A `FileStore` of the SDK whose files are one conversation of a file of Annals.

    `store` is the path of the file, which is created if it does not exist, or an open `annals.Store` that several
    conversations share. `conversation` is the conversation's id.

    Each write is on the disk when it returns. An event can be written once: writing other content to its path, or
    deleting it, raises `ConflictError`, because the log is append-only.
    """

    def __init__(self, store: Store | str | os.PathLike[str], conversation: uuid.UUID | str) -> None:
        self._store = store if isinstance(store, Store) else open_store(store)
        self._conversation = str(conversation)

    @property
    def store(self) -> Store:
        """The open file, for everything else that can be asked of it."""
        return self._store

    def write(self, path: str, contents: str | bytes) -> None:
        """Writes a file. An event needs the sequence that follows the last one.

        Raises `ConflictError` if the path is that of another event, or not the next one; `InvalidError` if an event or
        a base state is not valid.
        """
        path = _relative(path)
        if (event := _EVENT.match(path)) is not None:
            self._write_event(int(event[1]), event[2], _text(contents))
        elif path == _BASE_STATE:
            self._store.put_base_state(self._conversation, _text(contents))
        elif _MARKER.match(path) is None:
            if self._is_folder(path) or path in ("", _EVENTS):
                raise IsADirectoryError(path)
            if self._conversation not in self._store:
                self._store.append(self._conversation, [])
            content = contents.encode() if isinstance(contents, str) else contents
            self._store.attach(self._conversation, path, content)

    def _write_event(self, sequence: int, event: str, text: str) -> None:
        place = self._store.append_at(self._conversation, sequence, event, text)
        if place.sequence != sequence:
            raise ConflictError(f"the event {event} of {self._conversation} is at {place.sequence} already")

    def read(self, path: str) -> str:
        """Reads a file. Raises `FileNotFoundError`."""
        path = _relative(path)
        try:
            if (event := _EVENT.match(path)) is not None:
                stored = self._stored(int(event[1]))
                if stored.id == event[2]:
                    return stored.json
            elif path == _BASE_STATE:
                if (text := self._store.base_state_text(self._conversation)) is not None:
                    return text
            elif _MARKER.match(path) is not None:
                if self.exists(path):
                    return ""
            else:
                return self._store.read_attachment(self._conversation, path).decode()
        except (MissingError, IndexError):
            pass
        raise FileNotFoundError(path)

    def list(self, path: str) -> list[str]:
        """The files and folders within a folder, folders with a `/` at the end. Empty if it does not exist."""
        folder = _relative(path)
        if self._conversation not in self._store:
            return []
        if folder and not self._is_folder(folder) and folder != _EVENTS:
            return [path] if self.exists(folder) else []
        names: dict[str, None] = {}
        if folder == "":
            if self.exists(_BASE_STATE):
                names[_BASE_STATE] = None
            if self._store.count(self._conversation) > 0:
                names[f"{_EVENTS}/"] = None
        if folder == _EVENTS:
            for sequence, event in enumerate(self._store.event_ids(self._conversation)):
                names[posixpath.basename(_event_path(sequence, event))] = None
        prefix = f"{folder}/" if folder else ""
        for file in self._store.attachments(self._conversation):
            if file.path.startswith(prefix):
                name, slash, _ = file.path[len(prefix) :].partition("/")
                names[name + slash] = None
        return [posixpath.join(path, name) for name in names]

    def delete(self, path: str) -> None:
        """Deletes a file, or a folder with all within it. What does not exist is deleted already.

        Raises `ConflictError` for an event and for the base state: `annals.Store.delete` deletes a conversation.
        """
        path = _relative(path)
        if _MARKER.match(path) is not None or self._conversation not in self._store:
            return
        if path in ("", _BASE_STATE, _EVENTS) or _EVENT.match(path) is not None:
            if self.exists(path):
                raise ConflictError(f"{path or 'the folder'} of {self._conversation} belongs to its log")
            return
        for file in self._store.attachments(self._conversation):
            if file.path == path or file.path.startswith(f"{path}/"):
                self._store.detach(self._conversation, file.path)

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder at this path."""
        path = _relative(path)
        if (marker := _MARKER.match(path)) is not None:
            return self._store.count(self._conversation) == int(marker[1])
        if self._conversation not in self._store:
            return False
        if path == "":
            return True
        if path == _EVENTS:
            return self._store.count(self._conversation) > 0 or self._is_folder(path)
        if path == _BASE_STATE:
            return self._store.base_state_text(self._conversation) is not None
        if (event := _EVENT.match(path)) is not None:
            sequence = int(event[1])
            return sequence < self._store.count(self._conversation) and self._stored(sequence).id == event[2]
        files = self._store.attachments(self._conversation)
        return any(file.path == path or file.path.startswith(f"{path}/") for file in files)

    def get_absolute_path(self, path: str) -> str:
        """Where the file would be beside the database, if it were one. There is no such file."""
        within = _relative(path)
        root = f"{self._store.path or ':memory:'}.d/{self._conversation}"
        return os.path.abspath(posixpath.join(root, within))

    @contextmanager
    def lock(self, path: str, timeout: float = 30.0) -> Iterator[None]:
        """Holds the lock of this path, against other threads and other processes.

        The system releases it when its process ends in any way. Raises `TimeoutError` after `timeout` seconds.
        """
        with hold(self._store, f"{self._conversation}\0{_relative(path)}", timeout):
            yield

    def _stored(self, sequence: int) -> Event:
        for event in self._store.events(self._conversation, start=sequence, stop=sequence + 1):
            return event
        raise IndexError(sequence)

    def _is_folder(self, path: str) -> bool:
        if self._conversation not in self._store:
            return False
        return any(
            file.path.startswith(f"{path}/") for file in self._store.attachments(self._conversation)
        )


def _event_path(sequence: int, event: str) -> str:
    return f"{_EVENTS}/event-{sequence:05d}-{event}.json"


def _relative(path: str) -> str:
    """The path within the conversation, with `/` between its parts. Raises `ValueError` if it is not within it."""
    normal = posixpath.normpath(path.replace("\\", "/").lstrip("/"))
    if normal == ".":
        return ""
    if normal == ".." or normal.startswith("../") or "\0" in normal:
        raise ValueError(f"{path} is not within the conversation")
    return normal


def _text(contents: str | bytes) -> str:
    return contents if isinstance(contents, str) else contents.decode()
