-- Long-term memory: what can be recalled (windows), what was understood (facts), and the inverted index over both.
-- Everything but facts, tombstones and quarantine decisions can be rebuilt from the journal.

CREATE TABLE memory_scopes (
    key     INTEGER PRIMARY KEY,
    id      TEXT NOT NULL UNIQUE,         -- the scope as the spec writes it: 'default', 'user:U|workspace:W', …
    indexed INTEGER NOT NULL DEFAULT 0    -- windows in `memory_postings`
) STRICT;

-- How far the journal has been read. Moves in the transaction that writes what was read.
CREATE TABLE memory_cursor (turn INTEGER NOT NULL) STRICT;

INSERT INTO memory_cursor VALUES (0);

-- A statement with its subject, its source and the time in which it holds. Nothing is overwritten: a newer statement
-- about the same slot closes `valid_to` of the older one.
CREATE TABLE memory_facts (
    key           INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    scope         INTEGER NOT NULL REFERENCES memory_scopes (key) ON DELETE CASCADE,
    kind          TEXT NOT NULL,                -- 'episodic', 'semantic', 'preference', 'project_state', …
    status        TEXT NOT NULL,                -- 'active', 'superseded', 'archived', 'quarantined'
    content       TEXT NOT NULL,
    summary       TEXT NOT NULL DEFAULT '',
    quote         TEXT NOT NULL DEFAULT '',     -- the words it was taken from, as the journal has them
    subject       TEXT NOT NULL DEFAULT 'user',
    slot          TEXT,                         -- what it answers; one active fact for each
    value         TEXT,
    negative      INTEGER NOT NULL DEFAULT 0,
    modality      TEXT NOT NULL DEFAULT 'stated',
    speaker       TEXT NOT NULL DEFAULT 'user',
    origin        TEXT NOT NULL,                -- 'rule', 'model', 'user', 'import'
    session       TEXT NOT NULL DEFAULT '',
    turn          INTEGER,                      -- journal row
    turn_start    INTEGER NOT NULL DEFAULT 0,   -- user turns within the session
    turn_end      INTEGER NOT NULL DEFAULT 0,
    importance    REAL NOT NULL DEFAULT 0.5,
    confidence    REAL NOT NULL DEFAULT 0.7,
    pinned        INTEGER NOT NULL DEFAULT 0,
    valid_from    INTEGER NOT NULL,
    valid_to      INTEGER,
    recorded      INTEGER NOT NULL,
    updated       INTEGER NOT NULL,
    expires       INTEGER,
    superseded_by TEXT,
    hash          INTEGER NOT NULL,             -- of the folded words, for exact duplicates
    entities      TEXT NOT NULL DEFAULT '[]',
    topics        TEXT NOT NULL DEFAULT '[]',
    tags          TEXT NOT NULL DEFAULT '[]'
) STRICT;

CREATE INDEX memory_facts_hash ON memory_facts (scope, hash);
CREATE INDEX memory_facts_slot ON memory_facts (scope, slot) WHERE slot IS NOT NULL;
CREATE INDEX memory_facts_turn ON memory_facts (turn) WHERE turn IS NOT NULL;
CREATE INDEX memory_facts_session ON memory_facts (session);

-- One passage that can be recalled: of a turn's user words, of its answer, or a fact (then the text is the fact's).
CREATE TABLE memory_windows (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    scope       INTEGER NOT NULL REFERENCES memory_scopes (key) ON DELETE CASCADE,
    fact        INTEGER REFERENCES memory_facts (key) ON DELETE CASCADE,
    session     TEXT NOT NULL,
    turn        INTEGER REFERENCES turns (id) ON DELETE CASCADE,  -- NULL: not from the journal
    turn_no     INTEGER NOT NULL,
    part        INTEGER NOT NULL,             -- passage within the turn, from 0
    speaker     TEXT NOT NULL,                -- 'user', 'assistant', a tool's or a person's name
    at          INTEGER NOT NULL,
    quarantined INTEGER NOT NULL DEFAULT 0,
    indexed     INTEGER NOT NULL DEFAULT 0,
    hash        INTEGER NOT NULL,             -- of the text
    text        TEXT NOT NULL,
    terms       BLOB NOT NULL                 -- term (u32) and impact (u8), by term
) STRICT;

CREATE INDEX memory_windows_tail ON memory_windows (scope) WHERE indexed = 0;
CREATE INDEX memory_windows_turn ON memory_windows (turn) WHERE turn IS NOT NULL;
CREATE INDEX memory_windows_session ON memory_windows (session, turn_no);
CREATE INDEX memory_windows_fact ON memory_windows (fact) WHERE fact IS NOT NULL;

-- Windows of 16,384 numbers are a chunk: what is written together lies together, what is asked is one row per chunk and term.
CREATE TABLE memory_postings (
    scope INTEGER NOT NULL,
    chunk INTEGER NOT NULL,
    term  INTEGER NOT NULL,
    n     INTEGER NOT NULL,
    data  BLOB NOT NULL,
    PRIMARY KEY (scope, chunk, term)
) STRICT, WITHOUT ROWID;

-- Deleted windows that the index still names.
CREATE TABLE memory_removed (
    id    INTEGER PRIMARY KEY,
    scope INTEGER NOT NULL,
    terms BLOB NOT NULL
) STRICT;

CREATE TRIGGER memory_windows_removed AFTER DELETE ON memory_windows WHEN old.indexed = 1 BEGIN
    INSERT INTO memory_removed (id, scope, terms) VALUES (old.id, old.scope, old.terms);
END;

-- What was forgotten and must not be learned again: hashes only.
CREATE TABLE memory_tombstones (
    scope INTEGER NOT NULL,
    hash  INTEGER NOT NULL,
    at    INTEGER NOT NULL,
    PRIMARY KEY (scope, hash)
) STRICT, WITHOUT ROWID;
