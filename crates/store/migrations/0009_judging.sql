-- A judge's score of a turn is waited for before what came of the turn is settled, where a judge is asked.
ALTER TABLE skill_turns ADD COLUMN scored INTEGER NOT NULL DEFAULT 0; -- 1: the judge has said what it has to say of it

-- What MetaClaw asked models for on its own account.
CREATE TABLE spending (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    at     INTEGER NOT NULL,
    what   TEXT NOT NULL,              -- 'compare', 'score', 'learn'
    tokens INTEGER NOT NULL            -- estimated, both ways
) STRICT;

CREATE INDEX spending_at ON spending (at, what);

INSERT INTO spending (at, what, tokens) SELECT at, 'compare', tokens FROM skill_replays;
