-- What a judge made of answers with and without a learned skill to turns that had to do without it. None of the words.
CREATE TABLE skill_replays (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    at        INTEGER NOT NULL,
    name      TEXT NOT NULL,
    version   TEXT NOT NULL,              -- hash of the text
    model     TEXT NOT NULL,              -- the judge
    better    INTEGER NOT NULL,
    worse     INTEGER NOT NULL,
    same      INTEGER NOT NULL,
    exposures INTEGER NOT NULL,           -- turns that were known of it then
    tokens    INTEGER NOT NULL,           -- estimated, both ways
    turns     TEXT NOT NULL DEFAULT '[]'  -- JSON: rows of the journal, each with its verdict
) STRICT;

CREATE INDEX skill_replays_name ON skill_replays (name, version);
