-- The log of one store that several machines share. It lies in a schema of its own, which the search path names.
--
-- With each change of these tables this file gets the next number: a log with other tables is refused and not misread.
--
-- Every row of the truth is here once, as it is now, with the entry that wrote it last. `docs/shared.md` says what may be
-- asked here, and what may not be changed.

-- What this schema is. One row.
CREATE TABLE log (
    one            boolean     PRIMARY KEY DEFAULT true CHECK (one),
    log_id         text        NOT NULL,               -- UUID of the log
    file_schema    bigint      NOT NULL,               -- the schema of the files that share it
    made_at        timestamptz NOT NULL DEFAULT now()
);

-- The last entry. Its row is locked by the transaction that writes the next one: so entries have no gaps and one order.
CREATE TABLE log_end (
    one            boolean     PRIMARY KEY DEFAULT true CHECK (one),
    entry          bigint      NOT NULL CHECK (entry >= 0),
    chain          bytea       NOT NULL CHECK (length(chain) = 32),
    round          bigint      NOT NULL DEFAULT 0      -- grows when a store says that an entry of its was not written: the
                                                       -- statement may still be on its way, and finds another round then
) WITH (fillfactor = 10);

-- One row a commit.
CREATE TABLE entry (
    number         bigint      PRIMARY KEY,            -- 1, 2, 3, … without a gap
    node           text        NOT NULL,               -- the store that wrote it: a UUID of its process
    made_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    heads          bytea       NOT NULL,               -- the ends of the chains of the conversations that it changed, as JSON
    chain          bytea       NOT NULL CHECK (length(chain) = 32) -- SHA-256 over the chain before it, number, node and heads
);

-- The conversations, by the key that events name.
CREATE TABLE conversation (
    key            bigint      PRIMARY KEY,
    id             text        NOT NULL                -- U+0000 is written as U+2400
);

-- One row an event.
CREATE TABLE event (
    position       bigint      PRIMARY KEY,
    entry          bigint      NOT NULL,               -- that wrote it last: a redaction writes it again
    conversation   bigint      NOT NULL,
    sequence       bigint      NOT NULL,
    id             text        NOT NULL,               -- here and below: U+0000 is written as U+2400
    kind           text        NOT NULL,
    source         text,
    "timestamp"    text,
    parent_id      text,
    tool_call_id   text,
    action_id      text,
    llm_response_id text,
    tool_name      text,
    recorded_at    bigint      NOT NULL,               -- microseconds since 1970 UTC, the clock of the node
    hash           bytea       NOT NULL,
    redacted_digest bytea,
    payload        text        NOT NULL,               -- byte for byte; a stub if it is archived
    exact          bytea,                              -- all columns, if one of them has U+0000
    UNIQUE (conversation, sequence)
);
CREATE INDEX event_by_entry ON event (entry, position);

-- One row for each other row of the truth, and for each that was removed.
CREATE TABLE other_row (
    of_table       text        NOT NULL,
    key            bytea       NOT NULL,
    conversation   bigint,                             -- that it belongs to
    entry          bigint      NOT NULL,               -- that wrote it last
    content        bytea,                              -- NULL: it was removed
    PRIMARY KEY (of_table, key)
);
CREATE INDEX other_row_by_entry ON other_row (entry, of_table, key);
CREATE INDEX other_row_by_conversation ON other_row (conversation) WHERE conversation IS NOT NULL;

CREATE VIEW events AS
SELECT c.id AS conversation_id, e.sequence, e.position, e.id AS event_id, e.kind, e.source, e."timestamp", e.parent_id,
       e.tool_call_id, e.action_id, e.llm_response_id, e.tool_name, e.recorded_at, e.redacted_digest IS NOT NULL AS is_redacted,
       e.payload
FROM event AS e
JOIN conversation AS c ON c.key = e.conversation;

-- The right to run a conversation. One node has it, until its time is up; the server's clock decides. A row stays when the
-- right was given back, so that generations only grow.
CREATE TABLE lease (
    conversation   text        PRIMARY KEY,            -- its id; U+0000 is written as U+2400
    node           text        NOT NULL,               -- the file that holds it, on its machine
    generation     bigint      NOT NULL,               -- an entry of an older generation is refused
    until          timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Where a conversation is open: other servers pass there what they are asked about it. It decides nothing.
CREATE TABLE home (
    name           text        PRIMARY KEY,            -- a conversation's id; U+0000 is written as U+2400
    node           text        NOT NULL,               -- the file of the server, on its machine
    address        text        NOT NULL,               -- of the server, for other servers
    until          timestamptz NOT NULL
) WITH (fillfactor = 50);

-- The server's statistics have samples of what a column holds. Content must be in the tables only, where a purge reaches it.
ALTER TABLE event ALTER COLUMN payload SET STATISTICS 0;
ALTER TABLE event ALTER COLUMN exact SET STATISTICS 0;
ALTER TABLE other_row ALTER COLUMN content SET STATISTICS 0;
