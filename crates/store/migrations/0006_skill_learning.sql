-- How skills are learned and measured: every text of every skill, what was proposed and why, which turns had which skill
-- or had to do without it, and what came of those turns.

-- Skills that fitted and were left out, to see what they do (JSON, as `additions`).
ALTER TABLE turns ADD COLUMN held_out TEXT;

-- So far this named a set of skills; from here on it is a number that only grows.
UPDATE turns SET skill_generation = NULL WHERE skill_generation IS NOT NULL;

-- How far the journal has been read. What was said before this version is never learned from without being asked.
CREATE TABLE skill_cursor (turn INTEGER NOT NULL) STRICT;

INSERT INTO skill_cursor SELECT ifnull(max(id), 0) FROM turns;

-- One row per user turn of a main conversation, none of private sessions.
CREATE TABLE skill_turns (
    turn          INTEGER PRIMARY KEY REFERENCES turns (id) ON DELETE CASCADE,
    session       TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    turn_no       INTEGER NOT NULL,
    agent         TEXT NOT NULL DEFAULT '',
    settled       INTEGER,               -- in which order outcomes became known; NULL: not yet
    reaction      TEXT,                  -- what the user said next: 'correction', 'thanks', 'none'
    tool_errors   INTEGER NOT NULL DEFAULT 0,
    retries       INTEGER NOT NULL DEFAULT 0,
    regenerations INTEGER NOT NULL DEFAULT 0,
    judge         REAL,                  -- 0–1, where a judge is configured
    good          INTEGER,               -- 1: nothing spoke against it
    looked        INTEGER NOT NULL DEFAULT 0, -- 1: it was looked through for something to learn
    UNIQUE (session, turn_no)
) STRICT;

CREATE INDEX skill_turns_unsettled ON skill_turns (turn) WHERE settled IS NULL;
CREATE INDEX skill_turns_unlooked ON skill_turns (session) WHERE looked = 0;
CREATE UNIQUE INDEX skill_turns_settled ON skill_turns (settled) WHERE settled IS NOT NULL;

-- A skill that fitted a turn, and whether it was there.
CREATE TABLE skill_exposures (
    turn     INTEGER NOT NULL REFERENCES skill_turns (turn) ON DELETE CASCADE,
    name     TEXT NOT NULL,
    version  TEXT NOT NULL,              -- hash of the text
    held_out INTEGER NOT NULL,
    share    REAL NOT NULL,              -- how likely it was to be held out
    tokens   INTEGER NOT NULL,
    PRIMARY KEY (turn, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX skill_exposures_name ON skill_exposures (name, version);

-- Every text that a skill ever had.
CREATE TABLE skill_versions (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    name    TEXT NOT NULL,
    hash    TEXT NOT NULL,               -- xxh3-128 of the text, hexadecimal
    text    TEXT NOT NULL,
    origin  TEXT NOT NULL,               -- 'builtin', 'user', 'evolved', 'import'
    source  TEXT NOT NULL DEFAULT '',    -- where the content comes from: 'user', 'assistant', 'tool', 'import'
    parent  INTEGER REFERENCES skill_versions (id),
    session TEXT,
    turns   TEXT NOT NULL DEFAULT '[]',  -- JSON: rows of the journal it was made from
    model   TEXT,
    at      INTEGER NOT NULL,
    UNIQUE (name, hash)
) STRICT;

CREATE INDEX skill_versions_parent ON skill_versions (parent) WHERE parent IS NOT NULL;

-- Each time the model was asked what is to be learned.
CREATE TABLE skill_evolutions (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    at         INTEGER NOT NULL,
    session    TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    agent      TEXT NOT NULL DEFAULT '',
    trigger    TEXT NOT NULL,            -- 'turns', 'end', 'hand'
    first_turn INTEGER NOT NULL,
    last_turn  INTEGER NOT NULL,
    model      TEXT NOT NULL DEFAULT '',
    reply      TEXT NOT NULL DEFAULT '', -- as it came
    outcome    TEXT NOT NULL,            -- 'nothing', 'proposed', 'refused', 'malformed'
    note       TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE INDEX skill_evolutions_session ON skill_evolutions (session);

CREATE TABLE skill_proposals (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    at        INTEGER NOT NULL,
    evolution INTEGER REFERENCES skill_evolutions (id) ON DELETE SET NULL,
    kind      TEXT NOT NULL,             -- 'create', 'revise', 'import'
    name      TEXT NOT NULL,
    version   INTEGER NOT NULL REFERENCES skill_versions (id),
    base      INTEGER REFERENCES skill_versions (id), -- the text that it revises
    agent     TEXT NOT NULL DEFAULT '',
    state     TEXT NOT NULL,             -- 'waiting', 'taken', 'rejected'
    hold      TEXT,                      -- why it waits: 'quarantine', 'suggestion', 'review', 'full'
    findings  TEXT NOT NULL DEFAULT '[]',
    reason    TEXT NOT NULL DEFAULT '',  -- the model's words
    decided   INTEGER
) STRICT;

CREATE INDEX skill_proposals_state ON skill_proposals (state, id);
CREATE INDEX skill_proposals_evolution ON skill_proposals (evolution) WHERE evolution IS NOT NULL;

-- Where a learned skill stands. Skills that are not here are the user's or built in: always used.
CREATE TABLE skill_states (
    name    TEXT PRIMARY KEY,
    state   TEXT NOT NULL,               -- 'trial', 'active', 'retired'
    version INTEGER NOT NULL REFERENCES skill_versions (id),
    agent   TEXT NOT NULL DEFAULT '',    -- whose it is; '' = everybody's
    since   INTEGER NOT NULL,
    reason  TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

-- The number of the last change of the set of skills that an agent can get; '' = the set that all share.
CREATE TABLE skill_generations (
    agent       TEXT PRIMARY KEY,
    number      INTEGER NOT NULL,
    fingerprint TEXT NOT NULL
) STRICT, WITHOUT ROWID;
