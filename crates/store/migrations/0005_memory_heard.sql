-- Passages of the user's words that facts have not been taken from yet, when passages were said, and facts that are told
-- always.

ALTER TABLE memory_windows ADD COLUMN heard INTEGER NOT NULL DEFAULT 0;

-- So far, facts were taken from every passage as it was written.
UPDATE memory_windows SET heard = 1;

CREATE INDEX memory_windows_unheard ON memory_windows (session, turn_no)
    WHERE heard = 0 AND fact IS NULL AND speaker = 'user';

CREATE INDEX memory_facts_pinned ON memory_facts (scope) WHERE pinned = 1;

CREATE INDEX memory_windows_at ON memory_windows (scope, at) WHERE fact IS NULL;
