-- What is too old is found without reading everything; and what tidying up has done with facts, so that it can be undone.

CREATE INDEX memory_facts_updated ON memory_facts (updated) WHERE pinned = 0;

CREATE INDEX memory_facts_superseded ON memory_facts (superseded_by) WHERE superseded_by IS NOT NULL;

-- Up to which fact it has been looked whether others say the same or the opposite.
CREATE TABLE memory_tidied (fact INTEGER NOT NULL) STRICT;

INSERT INTO memory_tidied VALUES (0);

-- Numbers of deleted facts may be given again.
CREATE TRIGGER memory_tidied_stays AFTER DELETE ON memory_facts BEGIN
    UPDATE memory_tidied SET fact = ifnull((SELECT max(key) FROM memory_facts), 0)
    WHERE fact > ifnull((SELECT max(key) FROM memory_facts), 0);
END;

-- A fact that was closed because another one says the same, or the opposite later. None of the words.
CREATE TABLE memory_merges (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    why     TEXT NOT NULL,                 -- 'same', 'opposite', 'newer'
    closed  INTEGER NOT NULL REFERENCES memory_facts (key) ON DELETE CASCADE,
    by      INTEGER NOT NULL REFERENCES memory_facts (key) ON DELETE CASCADE,
    held_to INTEGER,                       -- until when the closed one was said to hold before
    undone  INTEGER                        -- when the user took it back; then this pair is left alone
) STRICT;

CREATE INDEX memory_merges_closed ON memory_merges (closed);
CREATE INDEX memory_merges_by ON memory_merges (by);
