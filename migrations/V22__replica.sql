-- What a shared log has of this file. No row: the file is on its own.
--
-- With a row, the file is a replica: a server's database decides what happens to the store, and in which order
-- (`src/shared/`). Only a store that is opened on that log may write.
CREATE TABLE replica (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    log_id TEXT    NOT NULL,                                -- UUID of the shared log
    entry  INTEGER NOT NULL CHECK (entry >= 0),             -- its last entry that is in this file
    chain  BLOB    NOT NULL CHECK (length(chain) = 32)      -- the hash over its entries up to that one
) STRICT;
