-- Projections: tables derived from the log, caught up from a checkpoint, rebuilt at any time.
-- None of them refers to `event` by a foreign key: SQLite would then look for its rows at every append.

CREATE TABLE projection (
    name     TEXT    PRIMARY KEY,
    version  INTEGER NOT NULL,                   -- of the code that filled it
    position INTEGER NOT NULL                    -- it has read the log up to here
) STRICT, WITHOUT ROWID;

-- One row an event: who speaks, and where in the payload the text is.
CREATE TABLE transcript_line (
    position INTEGER PRIMARY KEY,
    role     TEXT    NOT NULL,                   -- system, user, assistant, tool, environment
    parts    TEXT    NOT NULL                    -- JSON: [start, bytes, start, bytes, ...] of string literals in the payload
) STRICT;

-- One row a tool call, keyed by the action's position.
CREATE TABLE tool_call (
    position     INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    tool         TEXT    NOT NULL,
    outcome      TEXT    NOT NULL,               -- pending, ok, error, rejected
    result       INTEGER, -- the first event that answers it
    exit_code    INTEGER,
    risk         TEXT,                           -- UNKNOWN, LOW, MEDIUM, HIGH
    path         TEXT                            -- the file it touches
) STRICT;

CREATE INDEX tool_call_pending ON tool_call (conversation, position) WHERE outcome = 'pending';
CREATE INDEX tool_call_by_path ON tool_call (path, position) WHERE path IS NOT NULL;

-- What model calls cost: rows add up, nothing is counted twice.
CREATE TABLE usage_entry (
    conversation       INTEGER NOT NULL REFERENCES conversation (key),
    usage_id           TEXT    NOT NULL,         -- what the model was used for
    model              TEXT    NOT NULL,
    response_id        TEXT,                     -- the call, where it is known
    position           INTEGER,                  -- the event that told it; NULL: the base state
    at                 INTEGER,                  -- microseconds since 1970 UTC, where it is known
    prompt_tokens      INTEGER NOT NULL,
    completion_tokens  INTEGER NOT NULL,
    cache_read_tokens  INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    reasoning_tokens   INTEGER NOT NULL,
    cost               REAL    NOT NULL,         -- in the price table's currency, US dollars as a rule
    latency            REAL                      -- seconds
) STRICT;

CREATE INDEX usage_entry_by_conversation ON usage_entry (conversation, usage_id);

-- The last cumulative figures that events told, to tell the next ones apart.
CREATE TABLE usage_total (
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    usage_id     TEXT    NOT NULL,
    figures      TEXT    NOT NULL,               -- JSON: [prompt, completion, cache read, cache write, reasoning, cost]
    PRIMARY KEY (conversation, usage_id)
) STRICT, WITHOUT ROWID;

-- Conversations whose base state tells new figures.
CREATE TABLE usage_stale (
    conversation INTEGER PRIMARY KEY REFERENCES conversation (key)
) STRICT;

-- The newest task list of each conversation.
CREATE TABLE task (
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    place        INTEGER NOT NULL,               -- 0-based
    title        TEXT    NOT NULL,
    notes        TEXT    NOT NULL,
    status       TEXT    NOT NULL,               -- todo, in_progress, done
    position     INTEGER NOT NULL,               -- the event that told it
    PRIMARY KEY (conversation, place)
) STRICT, WITHOUT ROWID;

-- Full-text index over the transcript; rowid is the event's position. Empty until someone first searches.
-- CJK characters and the parts of camel-case names are words of their own (docs/format.md).
-- Without `contentless_delete`: an SQLite older than 3.43 could not read the schema with it, and tools that
-- look at every table, such as Datasette, would refuse the file.
CREATE VIRTUAL TABLE transcript_search USING fts5 (
    text,
    content = '',
    tokenize = "unicode61 remove_diacritics 2"
);
