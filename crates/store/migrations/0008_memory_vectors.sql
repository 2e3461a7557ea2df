-- What passages and facts mean, as vectors of one model, for recall by meaning. All of it can be made anew from the texts.
CREATE TABLE memory_vectors (
    window INTEGER PRIMARY KEY REFERENCES memory_windows (id) ON DELETE CASCADE,
    scope  INTEGER NOT NULL,
    made   INTEGER NOT NULL,   -- `memory_meaning.made` when it was written; another number: of another model
    data   BLOB NOT NULL       -- a signed byte per number, behind their scale
) STRICT;

-- The model, and how far it has come: every window from `low` to `high` has its vector, unless it could not have one.
CREATE TABLE memory_meaning (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    model  TEXT NOT NULL,
    made   INTEGER NOT NULL,              -- grows with every change of the model
    low    INTEGER NOT NULL,
    high   INTEGER NOT NULL,
    stale  INTEGER NOT NULL DEFAULT 0,    -- vectors of an earlier model are left
    common BLOB NOT NULL                  -- the model's vectors of commonplaces, which every question is measured by
) STRICT;
