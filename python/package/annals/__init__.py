"""The history of AI-agent conversations, in one SQLite file.

    import annals

    with annals.open("agents.db") as store:
        store.append("talk", {"id": "a", "kind": "MessageEvent", "source": "user"}, expected="empty")
        for event in store.events("talk"):
            print(event.sequence, event.kind, event.payload)
"""

from annals import errors
from annals._annals import (
    Appended,
    Attachment,
    Conversation,
    Event,
    Finding,
    Hit,
    Imported,
    Line,
    Usage,
    Verification,
    __version__,
)
from annals.errors import (
    BusyError,
    CancelledError,
    ConflictError,
    DamagedError,
    Error,
    FullError,
    InvalidError,
    MissingError,
    TooLargeError,
    UnusableError,
)
from annals.rows import Rows
from annals.store import Expected, Order, Store, in_memory, open

__all__ = [
    "Appended",
    "Attachment",
    "BusyError",
    "CancelledError",
    "ConflictError",
    "Conversation",
    "DamagedError",
    "Error",
    "Event",
    "Expected",
    "Finding",
    "FullError",
    "Hit",
    "Imported",
    "InvalidError",
    "Line",
    "MissingError",
    "Order",
    "Rows",
    "Store",
    "TooLargeError",
    "UnusableError",
    "Usage",
    "Verification",
    "__version__",
    "errors",
    "in_memory",
    "open",
]
