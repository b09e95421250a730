"""The native part. Use `annals` instead."""

from pathlib import Path
from typing import Any, Literal

from annals.rows import Value
from annals.store import Expected

__version__: str

class Conversation:
    """A row of the catalogue. Times are RFC 3339."""

    id: str
    title: str | None
    status: str
    event_count: int
    payload_bytes: int
    created_at: str
    updated_at: str
    tags: dict[str, str]
    leaf_event_id: str | None
    parent: str | None
    forked_from: str | None
    is_imported: bool
    is_archived: bool
    chain_head: str

class Event:
    """An event of the log. `json` is its text as it was appended; `payload` parses it at each access."""

    conversation: str
    sequence: int
    position: int
    id: str
    kind: str
    source: str | None
    timestamp: str | None
    recorded_at: str
    parent_id: str | None
    tool_name: str | None
    tool_call_id: str | None
    is_redacted: bool
    json: str
    @property
    def payload(self) -> dict[str, Any]: ...

class Appended:
    """Where an event was stored. `known`: it was there already."""

    sequence: int
    position: int
    known: bool

class Line:
    """A line of a transcript. `role` is user, assistant, tool, system or environment."""

    sequence: int
    event_id: str
    role: str
    kind: str
    tool: str | None
    timestamp: str | None
    text: str

class Hit:
    """An event that a search found. `marks` has the begin and end of each word found, in characters of `snippet`."""

    conversation: str
    sequence: int
    position: int
    event_id: str
    kind: str
    timestamp: str | None
    snippet: str
    marks: list[tuple[int, int]]

class Usage:
    """What the calls of one model used. Costs are US dollars; `None` where they are unknown."""

    model: str
    usage_id: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    cost: float | None
    estimated_cost: float | None
    latency_seconds: float | None

class Attachment:
    """A file that is stored beside the events."""

    path: str
    bytes: int
    sha256: str

class Finding:
    """One thing that a verification found, and where."""

    conversation: str | None
    sequence: int | None
    what: str

class Verification:
    """What was checked, and what was found. `notes` are known changes, such as redactions."""

    conversations: int
    events: int
    payload_bytes: int
    attachments: int
    redacted: int
    findings: list[Finding]
    notes: list[Finding]
    @property
    def is_sound(self) -> bool: ...

class Imported:
    """What an import did with one conversation. A problem is a path, what is wrong, and what was done about it."""

    path: str
    id: str | None
    format: str
    status: Literal["imported", "updated", "unchanged", "partial", "unread", "conflict", "failed"]
    events: int
    added: int
    problems: list[tuple[str, str, str]]

class Follower:
    """A place in the log, and what follows it."""

    def next_page(self, limit: int, seconds: float) -> list[Event]: ...
    @property
    def place(self) -> int | None: ...

class Store:
    """An open file."""

    def __init__(
        self, path: Path | None, *, read_only: bool, create: bool, durable: bool, user: str | None
    ) -> None: ...
    def close(self) -> None: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def path(self) -> str | None: ...
    @property
    def locks_are_own(self) -> bool: ...
    @property
    def last_position(self) -> int: ...
    def conversations(
        self,
        *,
        statuses: list[str],
        title: str | None,
        workspace: str | None,
        source: str | None,
        model: str | None,
        started_by: str | None,
        created_from: str | None,
        created_before: str | None,
        order_by: str,
        after: str | None,
        limit: int,
    ) -> tuple[list[Conversation], str | None]: ...
    def conversation(self, conversation: str) -> Conversation: ...
    def contains(self, conversation: str) -> bool: ...
    def resolve(self, prefix: str) -> str: ...
    def count(self, conversation: str) -> int: ...
    def events(
        self,
        conversation: str,
        *,
        start: int | None,
        stop: int | None,
        kinds: list[str],
        sources: list[str],
        tool: str | None,
        descending: bool,
        limit: int,
    ) -> tuple[list[Event], int | None]: ...
    def event(self, conversation: str, event: str) -> Event: ...
    def event_ids(self, conversation: str, start: int) -> list[str]: ...
    def append(self, conversation: str, payloads: list[str], expected_length: Expected) -> list[Appended]: ...
    def append_at(self, conversation: str, sequence: int, event: str, payload: str) -> Appended: ...
    def transcript(self, conversation: str, start: int, limit: int) -> list[Line]: ...
    def search(
        self,
        text: str,
        *,
        conversation: str | None,
        kinds: list[str],
        tool: str | None,
        workspace: str | None,
        since: str | None,
        until: str | None,
        limit: int,
    ) -> list[Hit]: ...
    def query(
        self,
        sql: str,
        parameters: dict[str, Value] | None,
        rows_max: int | None,
        seconds_max: float | None,
    ) -> tuple[list[str], list[tuple[Value, ...]], str | None]: ...
    def usage(self, conversation: str | None) -> list[Usage]: ...
    def verify(self, conversation: str | None) -> Verification: ...
    def follow(
        self, *, after: int, conversation: tuple[str, int | None] | None, kinds: list[str]
    ) -> Follower: ...
    def base_state(self, conversation: str) -> str | None: ...
    def put_base_state(self, conversation: str, document: str) -> int: ...
    def set_title(self, conversation: str, title: str | None) -> None: ...
    def attachments(self, conversation: str) -> list[Attachment]: ...
    def attach(self, conversation: str, path: str, content: bytes) -> None: ...
    def detach(self, conversation: str, path: str) -> None: ...
    def read_attachment(self, conversation: str, path: str) -> bytes: ...
    def import_path(self, path: Path, dry_run: bool) -> list[Imported]: ...
    def export(self, conversation: str, folder: Path, upgrade: bool) -> str: ...
    def delete(self, conversation: str) -> int: ...
