-- Which write-ahead log goes on from the file. One row: eight random bytes of the log that the file has last taken up, and
-- eight of the log before that. The first commit of a log writes its own, so that a log that lies beside a file of another age,
-- or beside another file, is told from the file's own (`src/store/file/other_log.rs`). It says nothing about the content.
CREATE TABLE write_log (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    generation BLOB    NOT NULL CHECK (length(generation) = 16)
) STRICT;

-- Zeros: no log came before.
INSERT INTO write_log (one, generation) VALUES (1, CAST(randomblob(8) || zeroblob(8) AS BLOB));

CREATE TRIGGER write_log_insert_guard BEFORE INSERT ON write_log
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals names its write-ahead logs');
END;

CREATE TRIGGER write_log_update_guard BEFORE UPDATE ON write_log
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals names its write-ahead logs');
END;

CREATE TRIGGER write_log_delete_guard BEFORE DELETE ON write_log
WHEN NOT only_annals_appends_to_the_log()
BEGIN
    SELECT RAISE(FAIL, 'annals: only annals names its write-ahead logs');
END;
