-- Projections of a host's own: which tables are theirs. Every Annals clears these tables of what is deleted or redacted,
-- also one that does not know the projection.

CREATE TABLE host_table (
    name       TEXT PRIMARY KEY CHECK (name GLOB 'own_*'),
    projection TEXT NOT NULL CHECK (projection GLOB '*.*'), -- its checkpoint is the row `own:` and this of `projection`
    scope      TEXT NOT NULL CHECK (scope IN ('conversation', 'log')) -- conversation: the column `conversation` has the id
) STRICT, WITHOUT ROWID;

-- Conversations whose rows were removed from a projection and are made again from their events.
CREATE TABLE host_stale (
    projection   TEXT NOT NULL,
    conversation TEXT NOT NULL CHECK (length(conversation) > 0), -- its id
    PRIMARY KEY (projection, conversation)
) STRICT, WITHOUT ROWID;
