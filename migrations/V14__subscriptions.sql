-- How far named followers of the log have come: they go on from there, in whatever process.

CREATE TABLE subscription (
    name            TEXT    PRIMARY KEY CHECK (length(name) > 0),
    position        INTEGER NOT NULL CHECK (position >= 0), -- everything up to here is acknowledged
    began_at        INTEGER NOT NULL,            -- microseconds since 1970 UTC, this machine's clock
    acknowledged_at INTEGER                      -- likewise; NULL: nothing was acknowledged yet
) STRICT, WITHOUT ROWID;

CREATE VIEW subscriptions AS
SELECT s.name                                                           AS name,
       s.position                                                       AS position,
       max(0, max(coalesce((SELECT max(position) FROM event), 0), (SELECT position_floor FROM log))
              - s.position)                                             AS behind,
       strftime('%Y-%m-%dT%H:%M:%S', s.began_at / 1000000, 'unixepoch')
           || printf('.%06dZ', s.began_at % 1000000)                    AS began_at,
       strftime('%Y-%m-%dT%H:%M:%S', s.acknowledged_at / 1000000, 'unixepoch')
           || printf('.%06dZ', s.acknowledged_at % 1000000)             AS acknowledged_at
FROM subscription AS s;
