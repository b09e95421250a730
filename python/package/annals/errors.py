"""What can go wrong. All names are in `annals`, too. Every error of the store is an `Error`, and its text says what to do about it."""


class Error(Exception):
    """Any error of the store."""

    is_transient = False
    """Whether the same call may succeed later without a change by the caller."""


class MissingError(Error, LookupError):
    """What the call names does not exist: a conversation, an event, a file."""


class ConflictError(Error):
    """The store is not in the state that the call expects. Read it again, then decide."""

    found: int | None = None
    """How many events the conversation has, if an append expected another number."""


class InvalidError(Error, ValueError):
    """The call or its input is invalid."""


class TooLargeError(InvalidError):
    """The input is over a limit."""


class CancelledError(Error):
    """The call was ended before it was done."""


class BusyError(Error):
    """The store has too much to do. The same call may succeed later."""

    is_transient = True


class FullError(Error, OSError):
    """The disk is full. The same call may succeed once there is room."""

    is_transient = True


class UnusableError(Error):
    """A file, the machine or the setup is not what the call needs. Nothing is broken."""


class DamagedError(Error):
    """Something is damaged or failed. `annals doctor FILE` says what, and mends what can be derived again."""
