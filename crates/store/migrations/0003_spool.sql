-- How far the spool (the file of finished turns beside the database) has been taken over. `db` names this database, so that
-- the spool of another one that lay here before is not taken for its own.
CREATE TABLE spool (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    db   INTEGER NOT NULL,
    done INTEGER NOT NULL
) STRICT;

INSERT INTO spool VALUES (1, random(), 0);
