-- The journal: sessions, their turns, events, and leases for background workers.
-- Times are milliseconds since 1970 (UTC). Hashes are 16 bytes, big-endian.

-- `key` keeps what is active together: the rows and index entries of running sessions share a few pages.
CREATE TABLE sessions (
    key        INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    agent      TEXT,
    started    INTEGER NOT NULL,
    last       INTEGER NOT NULL,
    ended      INTEGER,
    end_reason TEXT,
    turns      INTEGER NOT NULL DEFAULT 0,  -- user turns seen
    requests   INTEGER NOT NULL DEFAULT 0,  -- journal rows: steps and side calls included
    title      TEXT,                        -- the first words the user said
    private    INTEGER NOT NULL DEFAULT 0   -- 1: never used for learning
) STRICT;

-- Injected texts. The same skills are added again and again; their text is kept once.
CREATE TABLE blocks (
    id   INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,                   -- xxh3-128 of the text
    text TEXT NOT NULL
) STRICT;

-- One row per finished request. Small columns first: a scan that does not ask for the bodies never reads their pages.
CREATE TABLE turns (
    id               INTEGER PRIMARY KEY,        -- given by the writer, in commit order
    session          INTEGER NOT NULL REFERENCES sessions (key) ON DELETE CASCADE,
    agent            TEXT,
    kind             TEXT NOT NULL,              -- 'main', or what side call it was: 'title', 'heartbeat', …
    turn_no          INTEGER NOT NULL,           -- user turn within the session, from 1
    step             INTEGER NOT NULL,           -- request within the user turn, from 0
    started          INTEGER NOT NULL,
    first_byte       INTEGER,
    finished         INTEGER NOT NULL,
    outcome          TEXT NOT NULL,              -- 'ok', 'error', 'cancelled', 'cut'
    status           INTEGER,                    -- HTTP status given to the client
    dialect          TEXT NOT NULL,
    upstream_dialect TEXT NOT NULL,
    upstream         TEXT,
    model_asked      TEXT,
    model_sent       TEXT,
    stop             TEXT,
    usage_input      INTEGER,
    usage_output     INTEGER,
    usage_cache_read INTEGER,
    usage_cache_write INTEGER,
    usage_reasoning  INTEGER,
    prior_state      BLOB,                       -- conversation state this request continued
    state            BLOB,                       -- conversation state after the answer
    weight_version   INTEGER,
    skill_generation INTEGER,
    next_turn        INTEGER,                    -- the turn in which the user answered this one
    user_id          TEXT,
    workspace_id     TEXT,
    memory_scope     TEXT,
    block_hash       BLOB,                       -- message the injected block stands in
    block_nth        INTEGER,                    -- which occurrence of that message, from 0
    body_base        INTEGER,                    -- turn whose body the delta stands on; NULL: keyframe
    body_depth       INTEGER NOT NULL,           -- deltas between this row and its keyframe
    body_prefix      INTEGER NOT NULL,
    body_suffix      INTEGER NOT NULL,
    body_len         INTEGER NOT NULL,
    body_hash        INTEGER NOT NULL,           -- xxh3-64 of the whole body
    body_codec       INTEGER NOT NULL,           -- middle as it is (0) or zstd (1)
    error            TEXT,
    additions        TEXT,                       -- JSON: what was added, and why
    headers          TEXT,                       -- JSON: kept request headers
    sampling         TEXT,                       -- JSON: sampling parameters, where we sampled ourselves
    block            INTEGER REFERENCES blocks (id), -- the injected text, byte for byte
    user_text        TEXT,
    answer_text      TEXT,
    answer           TEXT,                       -- JSON: the whole answer
    body             BLOB NOT NULL,              -- the middle of the request body
    prompt_ids       BLOB,                       -- u32, little-endian
    sampled_ids      BLOB,                       -- u32, little-endian
    sampled_logprobs BLOB                        -- f32, little-endian
) STRICT;

CREATE INDEX turns_session ON turns (session);
CREATE INDEX turns_block ON turns (block) WHERE block IS NOT NULL;
CREATE INDEX turns_state ON turns (state) WHERE state IS NOT NULL;

-- The highest turn number that was ever deleted, so that no number is used twice.
CREATE TABLE deleted_turns (highest INTEGER NOT NULL) STRICT;

INSERT INTO deleted_turns VALUES (0);

CREATE TABLE events (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    session TEXT REFERENCES sessions (id) ON DELETE CASCADE,
    json    TEXT NOT NULL
) STRICT;

CREATE INDEX events_kind ON events (kind, id);
CREATE INDEX events_session ON events (session) WHERE session IS NOT NULL;

-- Who works on what, until when. `fence` grows with every new holder, so that a late one can be told apart.
CREATE TABLE leases (
    name   TEXT NOT NULL,
    item   TEXT NOT NULL,
    holder TEXT NOT NULL,
    until  INTEGER NOT NULL,
    fence  INTEGER NOT NULL,
    PRIMARY KEY (name, item)
) STRICT, WITHOUT ROWID;
