// Generated from crates/engine/openapi.json by `npm run api`. Not edited by hand.

export interface paths {
    "/api/v1/config": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All settings. */
        get: operations["config"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/config/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One setting. */
        get: operations["setting"];
        /** Changes one setting in the file; comments, order and everything else stay. */
        put: operations["settingPut"];
        post?: never;
        /** Removes one setting from the file, so that its default counts again. */
        delete: operations["settingUnset"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/config/validate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** What is wrong or odd; no `error` among the findings = it can be used. */
        post: operations["configValidate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/doctor": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Checks config, home, port, key, provider, skills and journal. */
        get: operations["doctor"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Kept events, newest first. */
        get: operations["events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/events/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Everything that happens from now on, as server-sent events: `event:` is the kind, `data:` the event as JSON. A
         *     listener that falls too far behind gets an event `missed` with the number of events it did not hear.
         */
        get: operations["eventStream"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/logs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lines of the log file. Secrets were masked when it was written. */
        get: operations["logs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memory": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Memories, the last learned first. */
        get: operations["memories"];
        put?: never;
        /** Remembers something by the user's hand. */
        post: operations["memoryAdd"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memory/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One memory, whole. */
        get: operations["memory"];
        put?: never;
        post?: never;
        /**
         * Forgets a memory for good: every version of it, its place in the index, and its words in the journal. It is not learned
         *     again.
         */
        delete: operations["memoryForget"];
        options?: never;
        head?: never;
        /** Changes a fact. */
        patch: operations["memoryEdit"];
        trace?: never;
    };
    "/api/v1/memory/{id}/accept": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Lets a memory be recalled that was kept back. To refuse it, forget it. */
        post: operations["memoryAccept"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memory/{id}/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All versions of what a fact is about, the newest first. */
        get: operations["memoryHistory"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memory/{id}/undo": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Takes back that a memory gave way to another that says the same or the opposite. The two are left alone from then on. */
        post: operations["memoryUndo"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memory/backup": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Writes a copy of the whole database, journal included, as of now. */
        post: operations["memoryBackup"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memory/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Facts as JSON lines, the oldest first. */
        get: operations["memoryExport"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memory/import": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Imports memories. The file is only read. */
        post: operations["memoryImport"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memory/maintain": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Reads what is unread, takes the facts that wait, settles those that say the same or the opposite, archives what has
         *     expired, deletes what is over its time.
         */
        post: operations["memoryMaintain"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memory/policy": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The settings and weights of recall. */
        get: operations["memoryPolicy"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memory/scopes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Every scope in figures. */
        get: operations["memoryScopes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memory/scopes/{scope}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Erases a scope for good: facts, passages, index, and the conversations of the journal they come from. */
        delete: operations["memoryErase"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memory/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Searches memory: everything that fits, or exactly what a turn with these words would get. */
        post: operations["memorySearch"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memory/stats": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Memory in figures. */
        get: operations["memoryStats"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/models": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The models that are here and those that can be fetched. */
        get: operations["models"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/models/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Removes a model's file. */
        delete: operations["modelRemove"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/models/fetch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Begins to fetch a model, after a yes. Progress stands in the list of models. */
        post: operations["modelFetch"];
        /** Calls off the fetch under way. What has come stays for the next time. */
        delete: operations["modelFetchCancel"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/providers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All providers known by name. */
        get: operations["providers"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/providers/local": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Model servers that answer on this machine. */
        get: operations["localServers"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/providers/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Asks a provider for its models and for one word. */
        post: operations["providerTest"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/restart": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Ends the service and starts it again with the same options. Refused, and nothing ends, if the start would fail:
         *     the config file cannot be used, or its address cannot be had.
         */
        post: operations["restart"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Sessions, the last active first. */
        get: operations["sessions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One session. */
        get: operations["session"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/setup": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** How far the setup is. */
        get: operations["setup"];
        put?: never;
        /** Writes answers into the config file; everything else in it stays. */
        post: operations["setupAnswer"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/skills": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All skills. */
        get: operations["skills"];
        put?: never;
        /** Adds skills. */
        post: operations["skillAdd"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/skills-effects": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What every skill does that fitted a turn, each in the text it has now, the most used first. */
        get: operations["skillEffects"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/skills-evolutions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Times the model was asked, newest first, with its answers. */
        get: operations["skillEvolutions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/skills-evolve": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Looks through a session for something to learn. Asks the model, so it takes its time. */
        post: operations["skillsEvolve"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/skills-export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Copies skills out. */
        post: operations["skillsExport"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/skills-import": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Offers skills from elsewhere. Each waits for your yes. */
        post: operations["skillsImport"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/skills-learned-log": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What was learned, as `evolution_history.jsonl` has it. Lines that cannot be read are passed over. */
        get: operations["skillsLearnedLog"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/skills-learning": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether skills are learned, and those that were. */
        get: operations["skillsLearning"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/skills-log": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Changes of the library, newest first. */
        get: operations["skillLog"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/skills-proposals": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Proposals, newest first. */
        get: operations["skillProposals"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/skills-proposals/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One proposal, whole. */
        get: operations["skillProposal"];
        /** Gives a waiting proposal another text. */
        put: operations["skillProposalEdit"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/skills-proposals/{id}/approve": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Says yes to a proposal: a new skill goes on trial, a suggestion is made in your file. */
        post: operations["skillProposalApprove"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/skills-proposals/{id}/reject": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Says no to a proposal. */
        post: operations["skillProposalReject"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/skills-search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** What a turn with these words would get, and why. Works while skills are switched off, too. */
        post: operations["skillSearch"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/skills-undo": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Takes back the last change of the library. */
        post: operations["skillUndo"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/skills-validate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** The findings; no `error` among them = everything can be used. */
        post: operations["skillValidate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/skills/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One skill, whole. */
        get: operations["skill"];
        /** Writes a skill's text; the old version goes to the trash. */
        put: operations["skillUpdate"];
        post?: never;
        /** Takes a skill out of the library; it can be brought back. */
        delete: operations["skillRemove"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/skills/{name}/diff": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What changed between two texts of a skill. */
        get: operations["skillDiff"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/skills/{name}/disable": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Keeps a skill but does not use it. */
        post: operations["skillDisable"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/skills/{name}/effect": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What a skill does. */
        get: operations["skillEffect"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/skills/{name}/enable": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Uses a skill again. */
        post: operations["skillEnable"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/skills/{name}/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Every text of a skill, newest first. */
        get: operations["skillHistory"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/skills/{name}/revert": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Brings an older text of a skill back. */
        post: operations["skillRevert"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The state of the service. */
        get: operations["status"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/stop": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Ends the service: running answers are finished, at most for some seconds, and everything is recorded. */
        post: operations["stop"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/turns": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Turns, newest first. */
        get: operations["turns"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/turns/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One turn, whole. */
        get: operations["turn"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/turns/{id}/diff": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What MetaClaw changed in a turn's request. */
        get: operations["turnDiff"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/turns/{id}/request": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A turn's request body, byte for byte. */
        get: operations["turnRequest"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description The request was taken; the service ends within ten seconds. */
        Accepted: {
            /**
             * Format: int32
             * @description Process that ends or restarts.
             */
            pid: number;
        };
        /** @description One thing that was added to a request. */
        Addition: {
            /** @description Skill name or memory id. */
            id: string;
            /** @description `skill` or `memory`. */
            kind: string;
            /**
             * Format: float
             * @description Retrieval score.
             */
            score: number;
            /**
             * Format: int32
             * @description Estimated tokens it cost.
             */
            tokens: number;
            /** @description Why it was picked. */
            why: string;
        };
        /** @description Whether skills, or memories, are found by meaning. */
        ByMeaning: {
            /**
             * Format: int64
             * @description Turns of this run that were searched by their words alone, since the model was late or failed.
             */
            missed: number;
            /** @description The model that makes the vectors. */
            model: string;
            /**
             * Format: int32
             * @description … of so many.
             */
            of: number;
            /** @description It is done. */
            on: boolean;
            /**
             * Format: int32
             * @description Skills, or passages and facts, that have theirs, …
             */
            ready: number;
            /** @description Why they are found by their words though it is wanted. */
            reason?: string | null;
            /** @description The settings want it (`skills.retrieval_mode`, `memory.retrieval_mode`). */
            wanted: boolean;
        };
        /** @description One changed place. */
        Change: {
            /** @description Exactly the text that was added, where text was added. */
            added?: string | null;
            /** @description The value after, in the same form. */
            after?: string | null;
            /** @description Where, as a path from the top: `messages[3].content`. */
            at: string;
            /** @description The value before, cut to 2,000 characters; text for strings, JSON for everything else. */
            before?: string | null;
            /** @description How. */
            kind: components["schemas"]["ChangeKind"];
            /** @description The role of the message it is in. */
            role?: string | null;
        };
        /**
         * @description How a place changed.
         * @enum {string}
         */
        ChangeKind: "added" | "changed" | "removed";
        /** @description One check of the doctor. */
        Check: {
            /** @description How it ended. */
            grade: components["schemas"]["Grade"];
            /** @description What to do. */
            hint?: string | null;
            /** @description What was looked at: `config`, `home`, `service`, `port`, `key`, `provider`, `skills`, `journal`, `later`. */
            id: string;
            /** @description What was found. */
            message: string;
        };
        /**
         * @description What kind of problem it is.
         * @enum {string}
         */
        Code: "invalid" | "not_found" | "not_configured" | "not_running" | "conflict" | "unauthorized" | "forbidden" | "upstream" | "unavailable" | "internal";
        /** @description A text to check; absent = the file as it stands. */
        ConfigCheck: {
            /** @description The whole text of a config file. */
            text?: string | null;
        };
        /** @description A finding about the config file. */
        ConfigFinding: {
            /** @description What to do. */
            fix?: string | null;
            /** @description The key. */
            key: string;
            /** @description Line, from 1; 0 = the file as a whole. */
            line: number;
            /** @description What is wrong. */
            message: string;
            /** @description `error` or `warning`. */
            severity: string;
        };
        /** @description Something that happened. */
        Event: {
            /**
             * Format: int64
             * @description When, ms since 1970.
             */
            at_ms: number;
            /** @description The facts of this kind of event. */
            data: Record<string, unknown>;
            /**
             * Format: int64
             * @description Number in the journal; absent for events that are not kept (turns are kept as turns).
             */
            id?: number | null;
            /** @description What: `service_started`, `config_changed`, `turn_finished`, … */
            kind: string;
        };
        /** @description One time the model was asked. */
        Evolution: {
            /** @description Whose. */
            agent: string;
            /**
             * Format: int64
             * @description When, ms since 1970.
             */
            at_ms: number;
            /**
             * Format: int32
             * @description The first user turn it saw.
             */
            first_turn: number;
            /**
             * Format: int64
             * @description Its number.
             */
            id: number;
            /**
             * Format: int32
             * @description The last one.
             */
            last_turn: number;
            /** @description The model. */
            model: string;
            /** @description Why, in words. */
            note: string;
            /** @description `nothing`, `proposed`, `refused` or `malformed`. */
            outcome: string;
            /** @description What it said, as it came. */
            reply: string;
            /** @description About which session. */
            session: string;
            /** @description `turns`, `end` or `hand`. */
            trigger: string;
        };
        /** @description What to look through. */
        EvolveAsk: {
            /** @description The session; absent = the last one. */
            session?: string | null;
        };
        /** @description What came of it. */
        Evolved: {
            /** @description Skills that are on trial now. */
            moved: components["schemas"]["SkillMoved"][];
            /** @description In words. */
            note: string;
            /** @description `nothing`, `proposed`, `refused` (what was proposed cannot be used) or `malformed`. */
            outcome: string;
            /** @description Numbers of the proposals. */
            proposals: number[];
            /** @description The session. */
            session: string;
            /** @description Those that wait for you. */
            waiting: number[];
        };
        /** @description A yes to a fetch. */
        FetchOrder: {
            /** @description The person was shown name, size, source and licence and said yes. Without that nothing is fetched. */
            agreed?: boolean;
            /** @description The offer. */
            id: string;
        };
        /**
         * @description What a fetch is doing.
         * @enum {string}
         */
        FetchStage: "download" | "unpack";
        /** @description A fetch. */
        FetchState: {
            /**
             * Format: int64
             * @description Bytes so far.
             */
            done: number;
            /** @description The offer. */
            id: string;
            /** @description Why it failed. */
            problem?: string | null;
            /** @description It is under way. */
            running: boolean;
            /** @description Where it comes from. */
            source: string;
            /** @description What it is doing, or did last. */
            stage: components["schemas"]["FetchStage"];
            /**
             * Format: int64
             * @description Bytes in all.
             */
            total: number;
        };
        /**
         * @description How a check ended.
         * @enum {string}
         */
        Grade: "good" | "warn" | "bad" | "skipped";
        /** @description A header that was kept with the request; never a credential. */
        Header: {
            /** @description Name. */
            name: string;
            /** @description Value. */
            value: string;
        };
        /** @description A model on this machine. */
        KeptModel: {
            /** @description Its file or folder. */
            file: string;
            /** @description What stands in the settings. */
            id: string;
            /** @description The configuration asks for it. */
            in_use: boolean;
            /** @description What it is for. */
            purpose: components["schemas"]["ModelPurpose"];
            /**
             * Format: int64
             * @description Bytes.
             */
            size: number;
        };
        /** @description Something that is accepted but does nothing in this release. */
        Later: {
            /** @description What comes later. */
            note: string;
            /** @description The setting or mode. */
            what: string;
        };
        /** @description The old history. */
        LearnedLog: {
            /** @description There is one. */
            exists: boolean;
            /** @description The file. */
            path: string;
            /** @description The newest of them, oldest first. */
            records: components["schemas"]["LearnedRecord"][];
            /** @description Records in it. */
            total: number;
        };
        /** @description One record of `evolution_history.jsonl`, which old versions of MetaClaw write, too. */
        LearnedRecord: {
            /**
             * @description The ends of what the user said.
             * @default []
             */
            failure_prompts: string[];
            /**
             * Format: int64
             * @description User turns that were looked at.
             * @default 0
             */
            num_failures_analyzed: number;
            /**
             * Format: int64
             * @description Skills that came of it.
             * @default 0
             */
            num_skills_generated: number;
            /**
             * @description Their names.
             * @default []
             */
            skill_names: string[];
            /**
             * @description The skills.
             * @default []
             */
            skills: components["schemas"]["LearnedText"][];
            /**
             * @description When, in local time.
             * @default
             */
            timestamp: string;
        };
        /** @description A learned skill and where it stands. */
        LearnedSkill: {
            /** @description The agent it is for; empty = all. */
            agent: string;
            /** @description Its name. */
            name: string;
            /** @description Why. */
            reason: string;
            /** @description The session it comes from. */
            session?: string | null;
            /**
             * Format: int64
             * @description Since when, ms since 1970.
             */
            since_ms: number;
            /** @description Whose words it is made of. */
            source: string;
            /** @description `trial`, `active` or `retired`. */
            state: string;
            /**
             * Format: int64
             * @description Number of its text.
             */
            version: number;
        };
        /** @description A skill as the old history has it. */
        LearnedText: {
            /**
             * @description `general`, `coding`, …
             * @default
             */
            category: string;
            /**
             * @description Markdown.
             * @default
             */
            content: string;
            /**
             * @description What it is for.
             * @default
             */
            description: string;
            /**
             * @description Its name.
             * @default
             */
            name: string;
        };
        /** @description What is learned, in figures. */
        Learning: {
            /**
             * Format: int64
             * @description The number of the last change of what agents can get; absent without a service.
             */
            generation?: number | null;
            /** @description Learned skills. */
            skills: components["schemas"]["LearnedSkill"][];
            /** @description Whether anything is. */
            state: components["schemas"]["LearningState"];
            /**
             * Format: int32
             * @description Proposals that wait for you.
             */
            waiting: number;
        };
        /** @description Whether skills are learned from conversations. */
        LearningState: {
            /** @description The model that judges answers of learned skills; absent = none is asked. */
            judge?: string | null;
            /** @description It compares answers with and without a learned skill before that counts as proven. */
            judge_compares?: boolean;
            /** @description Why it is not asked at the moment. */
            judge_reason?: string | null;
            /** @description It scores answers while a learned skill is measured by them. */
            judge_scores?: boolean;
            /** @description The model that is asked. */
            model?: string | null;
            /** @description It is done. */
            on: boolean;
            /** @description Why nothing is learned though it is wanted. */
            reason?: string | null;
            /** @description The settings want it (`skills.auto_evolve`). */
            wanted: boolean;
        };
        /** @description A server on this machine. */
        LocalServer: {
            /** @description Its address. */
            api_base: string;
            /** @description Its name for people. */
            label: string;
            /** @description The models it has; empty = it runs, but no model is loaded. */
            models: string[];
            /** @description Id of the preset. */
            provider: string;
            /**
             * Format: int64
             * @description How long it took to answer, ms.
             */
            took_ms: number;
        };
        /** @description Lines of the log. */
        LogLines: {
            /** @description Whole lines, oldest first. */
            lines: string[];
            /**
             * Format: int64
             * @description Pass as `after` to get what follows.
             */
            next: number;
            /** @description The file. */
            path: string;
        };
        /** @description A memory: a fact, or a passage as it was said. */
        Memory: {
            /**
             * Format: double
             * @description 0–1.
             * @default 0
             */
            confidence: number;
            /**
             * @description What is remembered.
             * @default
             */
            content: string;
            /**
             * Format: int64
             * @description When it will be archived, ms since 1970.
             * @default null
             */
            expires_ms: number | null;
            /**
             * @description Why it gave way, where nobody said so: `same` (it said the same), `opposite` (the opposite was said later), `newer` (another
             *     answer was given later). It can be undone.
             * @default null
             */
            gave_way: string | null;
            /**
             * @description Its id; passages begin with `w`.
             * @default
             */
            id: string;
            /**
             * Format: double
             * @description 0–1.
             * @default 0
             */
            importance: number;
            /**
             * @description `episodic`, `semantic`, `preference`, `project_state`, `working_summary`, `procedural_observation`.
             * @default
             */
            kind: string;
            /**
             * @description `journal` (a passage), `rule`, `model`, `user`, `import`, `legacy`.
             * @default
             */
            origin: string;
            /**
             * @description Always told first.
             * @default false
             */
            pinned: boolean;
            /**
             * @description The words it was taken from.
             * @default
             */
            quote: string;
            /**
             * Format: int64
             * @description When it was learned, ms since 1970.
             * @default 0
             */
            recorded_ms: number;
            /**
             * @description Whose it is.
             * @default
             */
            scope: string;
            /**
             * @description Session it comes from.
             * @default
             */
            session: string;
            /**
             * @description Who said it.
             * @default
             */
            speaker: string;
            /**
             * @description `active`, `superseded`, `archived`, `quarantined`.
             * @default
             */
            status: string;
            /**
             * @description Which memory took its place.
             * @default null
             */
            superseded_by: string | null;
            /**
             * @description Labels.
             * @default []
             */
            tags: string[];
            /**
             * Format: int32
             * @description User turn within the session.
             * @default 0
             */
            turn: number;
            /**
             * Format: int64
             * @description Row of the journal, for `turns show`.
             * @default null
             */
            turn_id: number | null;
            /**
             * Format: int64
             * @description When it was changed by hand or by a newer statement, ms since 1970.
             * @default 0
             */
            updated_ms: number;
            /**
             * Format: int64
             * @description From when it holds, ms since 1970.
             * @default 0
             */
            valid_from_ms: number;
            /**
             * Format: int64
             * @description Until when it held, ms since 1970; absent = still.
             * @default null
             */
            valid_to_ms: number | null;
        };
        /** @description Something to remember. */
        MemoryAdd: {
            /** @description What. */
            content: string;
            /**
             * Format: double
             * @description 0–1.
             */
            importance?: number | null;
            /** @description Its type; empty = as the words say. */
            kind?: string;
            /** @description Always told first. */
            pinned?: boolean;
            /** @description Whose; empty = the default scope. */
            scope?: string;
            /** @description Labels. */
            tags?: string[];
        };
        /** @description Where a copy goes. */
        MemoryBackup: {
            /** @description A file that is not there yet; absolute. */
            path: string;
        };
        /** @description What a change of memory did. */
        MemoryChange: {
            /**
             * Format: int64
             * @description Facts that are gone.
             */
            facts?: number;
            /** @description The memory it touched, if it is one. */
            id?: string | null;
            /** @description What was done, as a sentence. */
            message: string;
            /**
             * Format: int64
             * @description Passages that are gone.
             */
            passages?: number;
            /** @description Bytes of it are still on disk, until whoever reads the database has done. */
            pending?: boolean;
            /**
             * Format: int64
             * @description Rows of the journal whose words were taken out.
             */
            turns?: number;
        };
        /** @description Changes of a fact; what is absent stays. */
        MemoryEdit: {
            /** @description New words. */
            content?: string | null;
            /**
             * Format: int64
             * @description When it is to be archived, ms since 1970; 0 = never.
             */
            expires_ms?: number | null;
            /**
             * Format: double
             * @description 0–1.
             */
            importance?: number | null;
            /** @description New type. */
            kind?: string | null;
            /** @description Always told first, or not. */
            pinned?: boolean | null;
            /** @description `active` or `archived`. */
            status?: string | null;
            /** @description All labels. */
            tags?: string[] | null;
        };
        /** @description A memory that fits. */
        MemoryHit: {
            /**
             * Format: int64
             * @description When, ms since 1970.
             */
            at_ms: number;
            /** @description What was said, whole. */
            content: string;
            /** @description Its id. */
            id: string;
            /** @description Its type. */
            kind: string;
            /** @description As it would be put into a prompt. */
            line: string;
            /**
             * Format: int64
             * @description When a newer statement took its place, ms since 1970.
             */
            outdated_ms?: number | null;
            /** @description Kept back until you accept it. */
            quarantined: boolean;
            /**
             * Format: float
             * @description Higher is better; comparable within one question.
             */
            score: number;
            /** @description Session it comes from. */
            session: string;
            /** @description Who said it. */
            speaker: string;
            /**
             * Format: int32
             * @description Estimated tokens.
             */
            tokens: number;
            /**
             * Format: int32
             * @description User turn within it.
             */
            turn: number;
            /**
             * Format: int64
             * @description Row of the journal.
             */
            turn_id?: number | null;
            /** @description The matched words. */
            why: string;
        };
        /** @description What is imported. */
        MemoryImport: {
            /**
             * @description A file: an export (JSON lines or JSON), an old memory.db or a copy of one, an old policy.json; absolute. Empty =
             *     the database of an old install, where `memory.store_path` or `memory.dir` say.
             */
            path?: string;
            /** @description Put everything into this scope instead of its own. */
            scope?: string | null;
            /** @description Instead: an export as text. */
            text?: string | null;
        };
        /** @description How an import went. */
        MemoryImported: {
            /** @description New memories. */
            added: number;
            /** @description What was read. */
            from: string;
            /** @description What was done, as a sentence. */
            message: string;
            /** @description Settings that were taken over. */
            settings: string[];
            /** @description Known already, forgotten before, or not active any more. */
            skipped: number;
            /** @description New ones that you should look at: old installs could turn their sense round. They have the label `unverified`. */
            unverified: number;
        };
        /** @description What a round of maintenance did, or would do. */
        MemoryMaintained: {
            /**
             * @description Facts that gave way to others that say the same, or the opposite later.
             * @default 0
             */
            closed: number;
            /**
             * @description Nothing was changed.
             * @default false
             */
            dry_run: boolean;
            /**
             * Format: int64
             * @description Facts that expired.
             * @default 0
             */
            expired: number;
            /**
             * @description New facts.
             * @default 0
             */
            facts: number;
            /**
             * @description Some of the facts that would go; of a dry run only.
             * @default []
             */
            going: components["schemas"]["Memory"][];
            /**
             * @description What was done, as a sentence.
             * @default
             */
            message: string;
            /**
             * @description What was over its time, and is deleted.
             * @default {
             *       "facts": 0,
             *       "passages": 0,
             *       "turns": 0,
             *       "sessions": 0,
             *       "pinned": 0
             *     }
             */
            retired: components["schemas"]["MemoryRetired"];
            /**
             * @description Sessions that facts were taken from.
             * @default 0
             */
            sessions: number;
        };
        /** @description A page of memories. */
        MemoryPage: {
            /** @description The last learned first. */
            memories: components["schemas"]["Memory"][];
            /**
             * Format: int64
             * @description `before` of the next page; absent = this is the last.
             */
            next?: number | null;
        };
        /** @description How recall weighs and what it may add. */
        MemoryPolicy: {
            /**
             * Format: int32
             * @description After how many turns of a session facts are taken.
             */
            flush_every: number;
            /**
             * Format: int32
             * @description Tokens of memories per turn at most.
             */
            max_injected_tokens: number;
            /** @description Memories per turn at most. */
            max_injected_units: number;
            /** @description How memories are found. */
            retrieval_mode: string;
            /** @description The weights, each with what it does. */
            weights: components["schemas"]["MemoryWeight"][];
        };
        /** @description What memory has to say. */
        MemoryPreview: {
            /** @description The section as it would be put into a prompt. */
            block: string;
            /**
             * Format: int32
             * @description The budget.
             */
            budget: number;
            /** @description Fitting memories, best first. */
            hits: components["schemas"]["MemoryHit"][];
            /**
             * Format: int32
             * @description Estimated tokens of it.
             */
            tokens: number;
        };
        /** @description What is over its time by `memory.retention_days` and `journal.retention_days`. */
        MemoryRetired: {
            /**
             * Format: int64
             * @description Facts.
             * @default 0
             */
            facts: number;
            /**
             * Format: int64
             * @description Passages.
             * @default 0
             */
            passages: number;
            /**
             * Format: int64
             * @description Pinned facts of that age, which stay.
             * @default 0
             */
            pinned: number;
            /**
             * Format: int64
             * @description Sessions that go whole.
             * @default 0
             */
            sessions: number;
            /**
             * Format: int64
             * @description Rows of the journal whose words go, or that go whole.
             * @default 0
             */
            turns: number;
        };
        /** @description A question to memory. */
        MemorySearch: {
            /**
             * Format: int64
             * @description What held at this moment, ms since 1970.
             */
            as_of_ms?: number | null;
            /** @description Exactly what a turn with these words would get, and nothing else. */
            as_turn?: boolean;
            /** @description At most so many; 0 = 20, or as many as a turn would get with `as_turn`. */
            limit?: number;
            /** @description Whose memory; empty = the default scope. */
            scope?: string;
            /** @description The words. */
            text: string;
        };
        /** @description Memory in figures. */
        MemoryStats: {
            /** @description Active facts by type. */
            active_by_kind: {
                [key: string]: number;
            };
            /** @description Facts by status. */
            by_status: {
                [key: string]: number;
            };
            /**
             * Format: int64
             * @description Bytes of the whole database.
             */
            db_bytes: number;
            /** @description Conversations are remembered and recalled. */
            enabled: boolean;
            /**
             * Format: int64
             * @description When the oldest passage was said, ms since 1970.
             */
            first_ms?: number | null;
            /**
             * Format: int64
             * @description What was forgotten for good and will not be learned again.
             */
            forgotten: number;
            /**
             * Format: int64
             * @description When the newest was said, ms since 1970.
             */
            last_ms?: number | null;
            /**
             * Format: int64
             * @description Passages.
             */
            passages: number;
            /**
             * Format: int64
             * @description Pinned facts.
             */
            pinned: number;
            /**
             * Format: int64
             * @description Facts and passages that wait for the user's decision.
             */
            quarantined: number;
            /** @description The scope they are of; absent = all. */
            scope?: string | null;
            /**
             * Format: int64
             * @description Sessions they come from.
             */
            sessions: number;
            /**
             * Format: int64
             * @description Turns that are not read into memory yet; they are recalled all the same.
             */
            unread: number;
            /**
             * Format: int64
             * @description Sessions that facts are still to be taken from.
             */
            waiting: number;
        };
        /** @description One weight of recall. */
        MemoryWeight: {
            /** @description Its name. */
            name: string;
            /** @description What it does. */
            note: string;
            /**
             * Format: float
             * @description Its value.
             */
            value: number;
        };
        /** @description What became of a model. */
        ModelChange: {
            /** @description As a sentence. */
            message: string;
        };
        /** @description A model that can be fetched. */
        ModelOffer: {
            /** @description What to expect of it. */
            about: string;
            /** @description What stands in the settings. */
            id: string;
            /** @description It is on this machine already. */
            kept: boolean;
            /** @description Its name for people. */
            label: string;
            /** @description Its licence, as SPDX writes it. */
            licence: string;
            /** @description What it is for. */
            purpose: components["schemas"]["ModelPurpose"];
            /**
             * Format: int64
             * @description Bytes of its files.
             */
            size: number;
            /** @description Where it comes from, in the order in which it is tried. */
            sources: string[];
        };
        /**
         * @description What a model is for.
         * @enum {string}
         */
        ModelPurpose: "chat" | "search";
        /** @description Models that run on this machine. */
        Models: {
            /** @description The folder they are in. */
            dir: string;
            fetching?: components["schemas"]["FetchState"] | null;
            /** @description The models that are there. */
            kept: components["schemas"]["KeptModel"][];
            /** @description The models that can be fetched. */
            offers: components["schemas"]["ModelOffer"][];
            running?: components["schemas"]["RunningModel"] | null;
            /** @description The id of the offer to take first of those that answer, where that was looked for: the best whose source answers. */
            suggested?: string | null;
        };
        /** @description An error as every route answers it. */
        Problem: {
            /** @description What kind of problem it is. */
            code: components["schemas"]["Code"];
            /** @description What to do about it. */
            hint?: string | null;
            /** @description What happened and where, one or two sentences. */
            message: string;
        };
        /** @description A skill that was proposed, or a change of one. */
        Proposal: {
            /** @description The agent it is for; empty = all. */
            agent: string;
            /**
             * Format: int64
             * @description When, ms since 1970.
             */
            at_ms: number;
            /**
             * Format: int64
             * @description When it was decided, ms since 1970.
             */
            decided_ms?: number | null;
            /**
             * @description Why it waits: `quarantine` (its content comes from outside, or is dangerous), `suggestion` (the file is yours),
             *     `review` (the settings want it), `full`.
             */
            hold?: string | null;
            /**
             * Format: int64
             * @description Its number.
             */
            id: number;
            /** @description `create`, `revise` or `import`. */
            kind: string;
            /** @description The skill's name. */
            name: string;
            /** @description Why, in the model's words. */
            reason: string;
            /** @description `waiting`, `taken` or `rejected`. */
            state: string;
        };
        /** @description For whom a skill is. */
        ProposalApproval: {
            /** @description The agents; empty = all, absent = as it says. */
            agents?: string[] | null;
        };
        /** @description A proposal with everything that is known about it. */
        ProposalDetail: components["schemas"]["Proposal"] & {
            /** @description What changes, as a unified diff. */
            diff: string;
            /** @description What the linter says. */
            findings: components["schemas"]["SkillFinding"][];
            /** @description The model that wrote it. */
            model?: string | null;
            /** @description What the model said, as it came. */
            reply?: string | null;
            /** @description The session it comes from. */
            session?: string | null;
            /** @description Whose words it is made of: `user`, `assistant`, `tool` or `import`. */
            source: string;
            /** @description The SKILL.md as it would be. */
            text: string;
            /** @description The rows of the journal that taught it. */
            turns: number[];
        };
        /** @description A text by a person's hand. */
        ProposalText: {
            /** @description The whole SKILL.md; its name must stay. */
            text: string;
        };
        /** @description A provider known by name. */
        Provider: {
            /** @description Its address; empty where the person must say. */
            api_base: string;
            /** @description `openai-chat`, `openai-responses` or `anthropic-messages`. */
            dialect: string;
            /** @description What stands in `llm.provider`. */
            id: string;
            /** @description The variable in which people keep its key. */
            key_env?: string | null;
            /** @description That variable is set where the service runs. */
            key_env_set: boolean;
            /** @description Where a key is made. */
            key_url?: string | null;
            /** @description Its name for people. */
            label: string;
            /** @description Why it cannot be used yet. */
            later?: string | null;
            /** @description Runs on this machine and needs no key. */
            local: boolean;
            /** @description A model to start with; empty where the person must say. */
            model_id: string;
        };
        /** @description How a test ended. */
        ProviderReport: {
            /** @description The address that was asked. */
            base_url: string;
            /** @description As a sentence: what came back, or who said no and what to do. */
            message: string;
            /** @description The model that was called. */
            model?: string | null;
            /** @description The models the provider lists; empty if it does not. */
            models: string[];
            /** @description Everything that was asked for worked. */
            ok: boolean;
            /**
             * Format: int32
             * @description HTTP status of a refusal.
             */
            status?: number | null;
            /**
             * Format: int64
             * @description How long the call took, ms.
             */
            took_ms?: number | null;
            /** @description What the model said. */
            words?: string | null;
        };
        /** @description The provider that answers. */
        ProviderState: {
            /** @description Its address, version path included. */
            base_url?: string | null;
            /** @description The dialect it speaks. */
            dialect?: string | null;
            /** @description Id of the preset. */
            id: string;
            /** @description The model that is asked. */
            model?: string | null;
            /** @description Set if the agents' own credentials are passed on. */
            passthrough: boolean;
        };
        /** @description What to test. What is absent comes from the config. */
        ProviderTest: {
            /** @description Its address. */
            api_base?: string | null;
            /** @description The key, or a reference: `env:NAME`, `file:PATH`, `keychain:NAME`. Not stored. */
            api_key?: string | null;
            /** @description How it is shown who asks: `api_key` or `passthrough`. */
            auth_method?: string | null;
            /** @description Its dialect. */
            dialect?: string | null;
            /** @description The model. */
            model_id?: string | null;
            /** @description Only ask for the list of models; no call that costs tokens. */
            models_only?: boolean;
            /** @description Id of the preset. */
            provider?: string | null;
        };
        /** @description One turn that was answered again. */
        ReplayedTurn: {
            /**
             * Format: int64
             * @description Its first row in the journal.
             */
            turn: number;
            /** @description `better`, `worse` or `same`. */
            verdict: string;
        };
        /** @description What the built-in model is doing. */
        RunningModel: {
            /** @description The file in memory. */
            file?: string | null;
            /** @description `away`, `loading`, `idle` or `busy`. */
            phase: string;
            /**
             * Format: double
             * @description Tokens per second of the last answer.
             */
            speed?: number | null;
            /**
             * Format: int32
             * @description Requests that wait behind the one that is answered.
             */
            waiting: number;
        };
        /**
         * @description Whether the service runs and can answer.
         * @enum {string}
         */
        ServiceState: "running" | "first_run" | "stopping" | "unreachable" | "stopped";
        /** @description A session. */
        Session: {
            /** @description The agent, where known. */
            agent?: string | null;
            /** @description `explicit`, `idle` or `user`. */
            end_reason?: string | null;
            /**
             * Format: int64
             * @description When it ended, ms since 1970; absent while open.
             */
            ended_ms?: number | null;
            /** @description Session id. */
            id: string;
            /**
             * Format: int64
             * @description Last answer, ms since 1970.
             */
            last_ms: number;
            /** @description Never used for learning. */
            private: boolean;
            /**
             * Format: int32
             * @description Requests: tool steps and side calls included.
             */
            requests: number;
            /**
             * Format: int64
             * @description First request, ms since 1970.
             */
            started_ms: number;
            /** @description The first words the user said. */
            title?: string | null;
            /**
             * Format: int32
             * @description User turns.
             */
            turns: number;
        };
        /** @description One setting. */
        Setting: {
            /** @description What may stand there, in words. */
            allowed: string;
            /** @description What holds when the file does not say. */
            default: unknown;
            /** @description What it does. */
            doc: string;
            /** @description Dotted path. */
            key: string;
            /** @description What may stand there, for a form: `{"type": "integer", "min": 0, "max": 10}`. */
            kind: Record<string, unknown>;
            /** @description Line of the config file that sets it; absent = default. */
            line?: number | null;
            /** @description A change counts from the next start. */
            needs_restart: boolean;
            /** @description The note to `later` and `accepted`. */
            note?: string | null;
            /** @description Its value is not shown. */
            secret: boolean;
            /** @description What it does in this release. */
            state: components["schemas"]["SettingState"];
            /** @description The value in force; a secret as `(set)`, as its reference, or empty. */
            value: unknown;
        };
        /** @description A setting that an answer changes. */
        SettingChange: {
            /** @description What stands there then. Secrets are masked. */
            after?: string | null;
            /** @description What stood in the file; absent = nothing. Secrets are masked. */
            before?: string | null;
            /** @description Its key. */
            key: string;
        };
        /** @description All settings. */
        Settings: {
            /** @description It exists. */
            exists: boolean;
            /** @description What is wrong or odd in the file as it stands. */
            findings: components["schemas"]["ConfigFinding"][];
            /** @description The config file. */
            path: string;
            /**
             * @description All settings, in the order of the starter file. Values are those in force: while the file has errors, the last
             *     good ones.
             */
            settings: components["schemas"]["Setting"][];
        };
        /**
         * @description What a key does in this release.
         * @enum {string}
         */
        SettingState: "live" | "later" | "accepted";
        /** @description A new value: text as it would be typed, or JSON of the setting's kind. */
        SettingValue: {
            /** @description The value. */
            value: unknown;
        };
        /** @description Answers to write. */
        SetupAnswers: {
            /**
             * @description Config keys with values, nested or dotted; or the short names `provider`, `model`, `base_url`, `api_key`, `port`,
             *     `host`, `agent`, `skills`. Keys that are not named stay as they are. `fetch_model: yes` agrees to the download of
             *     a model that the built-in provider lacks.
             */
            answers: Record<string, unknown>;
            /** @description Only say what would change. */
            dry_run?: boolean;
            /** @description Make a test call before writing; if it fails, nothing is written. */
            test?: boolean;
        };
        /** @description What the answers did. */
        SetupReport: {
            /** @description What changed. */
            changes: components["schemas"]["SettingChange"][];
            /** @description The config file. */
            config: string;
            /** @description It did not exist before. */
            created: boolean;
            /** @description What is still missing before a provider can be asked. */
            missing?: string | null;
            test?: components["schemas"]["ProviderReport"] | null;
            /** @description The file was written. */
            written: boolean;
        };
        /** @description How far the setup is. */
        SetupState: {
            /** @description `llm.api_base` */
            api_base: string;
            /** @description `claw_type` */
            claw_type: string;
            /** @description The config file. */
            config: string;
            /** @description A provider can be asked. */
            configured: boolean;
            /** @description It exists. */
            exists: boolean;
            /** @description `llm.api_key` is set, or refers to where it is kept. */
            key_set: boolean;
            /** @description What is missing for that. */
            missing?: string | null;
            /** @description `mode` */
            mode: string;
            /** @description `llm.model_id` */
            model_id: string;
            /**
             * Format: int32
             * @description `proxy.port`
             */
            port: number;
            /** @description Nobody else listens on that port (a running MetaClaw does not count). */
            port_free: boolean;
            /** @description `llm.provider`, if the file names one. */
            provider?: string | null;
            /** @description `skills.enabled` */
            skills: boolean;
        };
        /** @description A whole skill. */
        Skill: components["schemas"]["SkillRow"] & {
            /** @description The Markdown after the front matter. */
            body: string;
            /** @description What is wrong with the file. */
            findings: components["schemas"]["SkillFinding"][];
            /**
             * Format: int32
             * @description Line of the file where the body begins, from 1.
             */
            line_of_body: number;
            /** @description The whole SKILL.md. */
            text: string;
        };
        /** @description A skill to take into the library: from a folder of this machine, or as text. */
        SkillAdd: {
            /** @description A SKILL.md (that file alone), its folder with all files, or a folder of such folders; absolute. */
            path?: string | null;
            /** @description Replace a skill of the same name; the old one goes to the trash. */
            replace?: boolean;
            /** @description Instead: the text of a SKILL.md. */
            text?: string | null;
        };
        /** @description What a change of the library did. */
        SkillChange: {
            /** @description What was done, as a sentence. */
            message: string;
            /** @description Names of the skills it touched. */
            names: string[];
            /** @description It can be undone. */
            undo: boolean;
        };
        /** @description What to check: a text as it is being written, or a path; neither = the whole library. */
        SkillCheck: {
            /** @description A SKILL.md, its folder, or a folder of such folders; absolute. */
            path?: string | null;
            /** @description The text of a SKILL.md. */
            text?: string | null;
        };
        /** @description What a skill does: turns with it against turns that fitted it and had to do without it. */
        SkillEffect: {
            /** @description The agent; empty = all. */
            agent: string;
            /**
             * Format: int32
             * @description Turns that had to do without it.
             */
            control: number;
            /**
             * Format: int32
             * @description Of them, the good ones.
             */
            control_wins: number;
            /**
             * Format: int32
             * @description Of all uses, those for which a lot was drawn: only these are compared with turns without it.
             */
            drawn: number;
            /**
             * Format: int32
             * @description Of them, the good ones.
             */
            drawn_wins: number;
            /**
             * Format: double
             * @description The difference it makes to the share of good turns, −1 to 1; absent until there are turns on both sides.
             */
            effect?: number | null;
            /**
             * Format: double
             * @description The same for harm.
             */
            for_harm: number;
            /**
             * Format: double
             * @description How far the proof that it helps is; 20 proves it.
             */
            for_help: number;
            /**
             * Format: double
             * @description Probability that it helps.
             */
            helps?: number | null;
            /**
             * Format: double
             * @description Upper end.
             */
            high?: number | null;
            /**
             * Format: double
             * @description Lower end of its 95 % credible interval.
             */
            low?: number | null;
            /** @description Its name. */
            name: string;
            /** @description What a judge said of answers with it and without it, newest first. Only where one skill is asked for. */
            replays?: components["schemas"]["SkillReplay"][];
            /**
             * Format: int64
             * @description Estimated tokens it has cost.
             */
            tokens: number;
            /**
             * Format: int32
             * @description Turns that had it, those included that were given it without a lot being drawn.
             */
            uses: number;
            /** @description `open`, `helps`, `harms` or `no_use`. */
            verdict: string;
            /**
             * Format: int32
             * @description Of them, the good ones.
             */
            wins: number;
        };
        /** @description Where skills go. */
        SkillExport: {
            /** @description The skills; empty = all but the built-in ones as they came. */
            names?: string[];
            /** @description A path that does not exist yet, absolute: a zip if it ends in `.zip`, else a folder. */
            path: string;
        };
        /** @description Skills in a few figures. */
        SkillFigures: {
            /**
             * Format: int32
             * @description Usable skills.
             */
            count: number;
            /**
             * Format: int32
             * @description Of them, switched off.
             */
            disabled: number;
            /** @description Skills are added to turns. */
            enabled: boolean;
            /**
             * Format: int32
             * @description Files that cannot be used.
             */
            unusable: number;
        };
        /** @description A finding about a skill file. */
        SkillFinding: {
            /** @description The file. */
            file: string;
            /** @description What to do. */
            fix: string;
            /**
             * Format: int32
             * @description Line, from 1.
             */
            line?: number | null;
            /** @description What is wrong. */
            message: string;
            /** @description `error` (cannot be used), `warning` or `note`. */
            severity: string;
        };
        /** @description A skill that fits. */
        SkillHit: {
            /** @description Its name. */
            name: string;
            /**
             * Format: float
             * @description How well it fits; higher is better.
             */
            score: number;
            /**
             * Format: int32
             * @description Estimated tokens.
             */
            tokens: number;
            /** @description It would be added; false = it fits, but no longer into the budget. */
            used: boolean;
            /** @description The matched words. */
            why: string;
        };
        /** @description Where skills come from. */
        SkillImport: {
            /** @description A skill's folder, a folder of such folders, or a zip of either; absolute. */
            path: string;
        };
        /** @description What an import brought. */
        SkillImported: {
            /** @description What was not taken, and what to look at before you say yes. */
            findings: components["schemas"]["SkillFinding"][];
            /** @description Names of the skills. */
            names: string[];
            /** @description Numbers of the proposals, one for each skill. */
            proposals: number[];
        };
        /** @description The library. */
        SkillList: {
            /** @description The folder. */
            dir: string;
            /** @description Skills are added to turns at all. */
            enabled: boolean;
            /** @description What is wrong in the folder. */
            findings: components["schemas"]["SkillFinding"][];
            /** @description All skills, by name. */
            skills: components["schemas"]["SkillRow"][];
        };
        /** @description A change that was made to the library. */
        SkillLogEntry: {
            /**
             * Format: int64
             * @description When, ms since 1970.
             */
            at_ms: number;
            /** @description What was done, as a sentence. */
            message: string;
            /** @description Names of the skills it touched. */
            names: string[];
            /** @description It can be brought back. */
            undo: boolean;
        };
        /** @description A learned skill that went from one state to another. */
        SkillMoved: {
            /** @description Its name. */
            name: string;
            /** @description Why. */
            reason: string;
            /** @description `trial`, `active`, `retired`, or `user`: it is yours. */
            state: string;
        };
        /** @description What a turn with these words would get. */
        SkillPreview: {
            /** @description Exactly the text that would be added; empty if nothing would be. */
            block: string;
            /**
             * Format: int32
             * @description The budget.
             */
            budget: number;
            /** @description Fitting skills, best first. */
            hits: components["schemas"]["SkillHit"][];
            /**
             * Format: int32
             * @description Estimated tokens of the block.
             */
            tokens: number;
        };
        /** @description Past turns that had to do without a skill, answered again with it and without it, and a judge's word on the answers. */
        SkillReplay: {
            /**
             * Format: int64
             * @description When, ms since 1970.
             */
            at_ms: number;
            /**
             * Format: int32
             * @description Turns whose answer with it was liked better, whichever was shown first.
             */
            better: number;
            /** @description The judge. */
            model: string;
            /**
             * Format: int32
             * @description Turns in which neither was.
             */
            same: number;
            /**
             * Format: int64
             * @description Estimated tokens, of questions and answers.
             */
            tokens: number;
            /** @description The turns. */
            turns: components["schemas"]["ReplayedTurn"][];
            /**
             * Format: int32
             * @description Turns whose answer without it was.
             */
            worse: number;
        };
        /** @description What to bring back. */
        SkillRevert: {
            /** @description Also take back what was learned from it. */
            descendants?: boolean;
            /**
             * Format: int64
             * @description The text; absent = the one before, and a learned skill without one goes.
             */
            version?: number | null;
        };
        /** @description What a revert did. */
        SkillReverted: {
            /** @description Learned skills that were made from it, or in turns that it was shown in, and are in use. */
            descendants: string[];
            /** @description What was brought back or taken out of use. */
            moved: components["schemas"]["SkillMoved"][];
        };
        /** @description A skill as lists show it. */
        SkillRow: {
            /** @description The agents it is for; empty = all. */
            agents: string[];
            /** @description `general`, `coding`, … */
            category: string;
            /** @description What it does and when to use it. */
            description: string;
            /** @description It can be added to turns. */
            enabled: boolean;
            /** @description Only on the user's own request, never by search. */
            manual: boolean;
            /** @description Its name, and its folder's. */
            name: string;
            /** @description `builtin`, `builtin_edited` or `user`. */
            origin: string;
            /** @description The SKILL.md file. */
            path: string;
            /**
             * Format: int32
             * @description Estimated tokens it costs when added.
             */
            tokens: number;
        };
        /** @description Words to search with. */
        SkillSearch: {
            /** @description As this agent. */
            agent?: string | null;
            /** @description The user's words. */
            text: string;
        };
        /** @description The new text of a skill. */
        SkillText: {
            /** @description The whole SKILL.md; its name must stay. */
            text: string;
        };
        /** @description The state of the service and of its home. */
        Status: {
            /** @description What agents use as base URL for the OpenAI dialects. For Anthropic's, leave out `/v1`. */
            base_url?: string | null;
            /** @description Whether skills are found by meaning. */
            by_meaning?: components["schemas"]["ByMeaning"];
            /** @description The config file. */
            config: string;
            /** @description Why the config file, as it stands now, is not in use; the last good one is. */
            config_problem?: string | null;
            /** @description A provider is configured. */
            configured: boolean;
            /** @description The folder. */
            home: string;
            /** @description The key agents must send is set. */
            key_required: boolean;
            /** @description What is asked for but comes with a later release. */
            later: components["schemas"]["Later"][];
            /** @description Whether new skills are learned. */
            learning?: components["schemas"]["LearningState"];
            /** @description Why it listens elsewhere than the config says. */
            listen_note?: string | null;
            /** @description The log file. */
            log?: string | null;
            /** @description Whether memories are found by meaning. */
            memory_by_meaning?: components["schemas"]["ByMeaning"];
            /** @description What is missing for that. */
            missing?: string | null;
            /** @description `auto`, `rl` or `skills_only`, as this run has it. */
            mode: string;
            /** @description Set if `--mode` overruled the config. */
            mode_overruled: boolean;
            /**
             * Format: int32
             * @description Process id.
             */
            pid?: number | null;
            /**
             * Format: int32
             * @description Port for agents.
             */
            port: number;
            /** @description The provider. */
            provider: components["schemas"]["ProviderState"];
            /** @description Settings that changed since the start and count from the next start. */
            restart_for: string[];
            /**
             * Format: int64
             * @description When it started, ms since 1970.
             */
            since_ms?: number | null;
            /** @description Skills. */
            skills: components["schemas"]["SkillFigures"];
            /** @description Whether it runs. */
            state: components["schemas"]["ServiceState"];
            /** @description Address of the window's pages in a browser, without the token. */
            ui_url?: string | null;
            /** @description Version of the program that answers. */
            version: string;
            /** @description What needs the person: turns that do not get into the journal, and what is odd in the config file. */
            warnings: string[];
        };
        /** @description How the answer of a user turn was taken: what learned skills are measured by. */
        Taken: {
            /** @description It counts as good. */
            good: boolean;
            /**
             * Format: double
             * @description The judge's score, 0 (it served nobody) to 1; absent = it was not asked, or had nothing to say.
             */
            judge?: number | null;
            /** @description What the user said next: `correction`, `thanks` or `none`. */
            reaction: string;
            /**
             * Format: int32
             * @description Answers that were asked for once more.
             */
            regenerations: number;
            /**
             * Format: int32
             * @description Requests that failed and came again.
             */
            retries: number;
            /**
             * Format: int32
             * @description Tools that failed on the way.
             */
            tool_errors: number;
        };
        /** @description Tokens as the provider counted them; absent where it did not say. */
        Tokens: {
            /**
             * Format: int64
             * @description Prompt tokens read from the provider's cache.
             */
            cache_read?: number | null;
            /**
             * Format: int64
             * @description Prompt tokens written to the provider's cache.
             */
            cache_write?: number | null;
            /**
             * Format: int64
             * @description Prompt tokens, cached ones included.
             */
            input?: number | null;
            /**
             * Format: int64
             * @description Answer tokens, reasoning included.
             */
            output?: number | null;
            /**
             * Format: int64
             * @description Answer tokens spent on reasoning.
             */
            reasoning?: number | null;
        };
        /** @description A whole turn. */
        Turn: components["schemas"]["TurnRow"] & {
            /** @description The whole answer in the neutral form: blocks, stop reason, tokens. */
            answer?: Record<string, unknown> | null;
            /** @description The answer's text. */
            answer_text?: string | null;
            /** @description The block this turn added first, exactly as it went to the provider. */
            block?: string | null;
            /** @description Request headers that were kept. */
            headers: components["schemas"]["Header"][];
            taken?: components["schemas"]["Taken"] | null;
        };
        /** @description What MetaClaw changed in a request. */
        TurnDiff: {
            /** @description The changes, in document order. Empty = forwarded byte for byte. */
            changes: components["schemas"]["Change"][];
            /**
             * Format: int64
             * @description Length of what went to the provider.
             */
            forwarded_bytes: number;
            /**
             * Format: int64
             * @description Number of the turn.
             */
            id: number;
            /**
             * Format: int64
             * @description Length of the agent's request.
             */
            sent_bytes: number;
            /** @description True if the agent's and the provider's dialects differ: `changes` then shows what was changed before translation. */
            translated: boolean;
        };
        /** @description A turn's row: one request and its answer. A user turn with tool calls has several, told apart by `step`. */
        TurnRow: {
            /** @description What was added, and why. */
            additions: components["schemas"]["Addition"][];
            /** @description The agent, where known. */
            agent?: string | null;
            /** @description The agent's dialect. */
            dialect: string;
            /** @description What went wrong. */
            error?: string | null;
            /**
             * Format: int64
             * @description When the answer was complete, ms since 1970.
             */
            finished_ms: number;
            /**
             * Format: int64
             * @description When the first byte of the answer left, ms since 1970.
             */
            first_byte_ms?: number | null;
            /** @description Learned skills that fitted and were left out, to see what they do. */
            held_out?: components["schemas"]["Addition"][];
            /**
             * Format: int64
             * @description Number of the row.
             */
            id: number;
            /** @description `main`, or the name of a side call: `title`, `heartbeat`, `compaction`, … */
            kind: string;
            /** @description The model the agent asked for. */
            model_asked?: string | null;
            /** @description The model the provider was asked for. */
            model_sent?: string | null;
            /** @description `ok`, `error`, `cancelled` (the agent went away) or `cut` (the provider broke off). */
            outcome: string;
            /** @description The provider. */
            provider?: string | null;
            /**
             * Format: int64
             * @description Length of the agent's request in bytes.
             */
            request_bytes: number;
            /** @description Session id. */
            session: string;
            /**
             * Format: int64
             * @description The number of the last change of the skills that the agent could get.
             */
            skill_generation?: number | null;
            /**
             * Format: int64
             * @description When the request arrived, ms since 1970.
             */
            started_ms: number;
            /**
             * Format: int32
             * @description HTTP status the agent got.
             */
            status?: number | null;
            /**
             * Format: int32
             * @description Request within the user turn, from 0.
             */
            step: number;
            /** @description Why the model stopped. */
            stop?: string | null;
            /** @description Tokens. */
            tokens: components["schemas"]["Tokens"];
            /**
             * Format: int32
             * @description User turn within the session, from 1.
             */
            turn: number;
            /** @description The provider's dialect. */
            upstream_dialect: string;
            /** @description The user's own words. */
            user_text?: string | null;
            /**
             * Format: int64
             * @description Weights that answered, where they are ours.
             */
            weight_version?: number | null;
        };
        /** @description One text of a skill. */
        Version: {
            /**
             * Format: int64
             * @description When it was first seen, ms since 1970.
             */
            at_ms: number;
            /** @description The text that is in use. */
            current: boolean;
            /**
             * Format: int64
             * @description Its number.
             */
            id: number;
            /** @description The model that wrote it. */
            model?: string | null;
            /** @description `builtin`, `user`, `evolved` or `import`. */
            origin: string;
            /**
             * Format: int64
             * @description The text it was made from.
             */
            parent?: number | null;
            /** @description The session it comes from. */
            session?: string | null;
            /** @description Whose words it is made of; empty = not known. */
            source: string;
            /** @description The whole SKILL.md. */
            text: string;
            /** @description The rows of the journal that taught it. */
            turns: number[];
        };
        /** @description What changed between two texts. */
        VersionDiff: {
            /** @description As a unified diff; empty = nothing. */
            diff: string;
            /**
             * Format: int64
             * @description The older text; absent = there was none.
             */
            from?: number | null;
            /**
             * Format: int64
             * @description The newer text.
             */
            to: number;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    config: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Settings"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    setting: {
        parameters: {
            query?: {
                /** @description `true`: show the value even if it is a secret. */
                reveal?: boolean;
            };
            header?: never;
            path: {
                /** @description Dotted path */
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Setting"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    settingPut: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Dotted path */
                key: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SettingValue"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Setting"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    settingUnset: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Dotted path */
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Setting"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    configValidate: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ConfigCheck"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ConfigFinding"][];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    doctor: {
        parameters: {
            query?: {
                /** @description `true`: make a real test call to the provider. */
                live?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Check"][];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    events: {
        parameters: {
            query?: {
                /** @description Older than this one. */
                before?: number;
                /** @description Of this kind. */
                kind?: string;
                /** @description At most so many; 50 if absent, 1,000 at most. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Event"][];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    eventStream: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": components["schemas"]["Event"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    logs: {
        parameters: {
            query?: {
                /** @description Instead: everything after this place. */
                after?: number;
                /** @description The last so many; 200 if absent, 10,000 at most. */
                lines?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LogLines"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    memories: {
        parameters: {
            query?: {
                /** @description What held at this moment, ms since 1970. */
                as_of_ms?: number;
                /** @description `next` of the page before. */
                before?: number;
                /** @description Of this type. */
                kind?: string;
                /** @description At most so many; 50 if absent, 1,000 at most. */
                limit?: number;
                /** @description Passages instead of facts, of this session if it is not empty. */
                passages?: string;
                /** @description Pinned ones, or the others. */
                pinned?: boolean;
                /** @description Of this scope. */
                scope?: string;
                /** @description With this status; `quarantined` lists passages as well. */
                status?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    memoryAdd: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MemoryAdd"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    memory: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the memory */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Memory"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    memoryForget: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the memory */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    memoryEdit: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the memory */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MemoryEdit"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    memoryAccept: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the memory */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    memoryHistory: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the memory */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Memory"][];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    memoryUndo: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the memory that gave way */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    memoryBackup: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MemoryBackup"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    memoryExport: {
        parameters: {
            query?: {
                /** @description Superseded, archived and quarantined ones as well. */
                all?: boolean;
                /** @description Of this scope; absent = all. */
                scope?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": string;
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    memoryImport: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MemoryImport"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryImported"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    memoryMaintain: {
        parameters: {
            query?: {
                /** @description Nothing is changed; the answer says what would go. */
                dry_run?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryMaintained"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    memoryPolicy: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryPolicy"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    memoryScopes: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryStats"][];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    memoryErase: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The scope string */
                scope: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    memorySearch: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MemorySearch"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryPreview"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    memoryStats: {
        parameters: {
            query?: {
                /** @description Of this scope; absent = all. */
                scope?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryStats"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    models: {
        parameters: {
            query?: {
                /** @description See whether the hub answers, to say which offer to take. Takes up to four seconds. */
                look?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Models"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    modelRemove: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The model */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    modelFetch: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["FetchOrder"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FetchState"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    modelFetchCancel: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    providers: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Provider"][];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    localServers: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LocalServer"][];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    providerTest: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ProviderTest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProviderReport"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    restart: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Accepted"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    sessions: {
        parameters: {
            query?: {
                /** @description Of this agent. */
                agent?: string;
                /** @description Last active before, ms since 1970: the `last_ms` of the last one of the page before. */
                before_ms?: number;
                /** @description At most so many; 50 if absent, 1,000 at most. */
                limit?: number;
                /** @description Only open (`true`) or only ended ones (`false`). */
                open?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Session"][];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    session: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Session id */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Session"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    setup: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SetupState"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    setupAnswer: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SetupAnswers"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SetupReport"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skills: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillList"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skillAdd: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SkillAdd"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skillEffects: {
        parameters: {
            query?: {
                /** @description Only this agent's; absent = all. */
                agent?: string;
                /** @description All texts the skill ever had together; else only the present one. */
                all?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillEffect"][];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skillEvolutions: {
        parameters: {
            query?: {
                /** @description At most so many; 50 if absent. */
                limit?: number;
                /** @description Of this session. */
                session?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Evolution"][];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skillsEvolve: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EvolveAsk"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Evolved"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skillsExport: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SkillExport"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skillsImport: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SkillImport"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillImported"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skillsLearnedLog: {
        parameters: {
            query?: {
                /** @description Another file of the same form; absolute. */
                file?: string;
                /** @description At most so many, the newest; 10 if absent. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LearnedLog"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skillsLearning: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Learning"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skillLog: {
        parameters: {
            query?: {
                /** @description At most so many; 50 if absent. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillLogEntry"][];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skillProposals: {
        parameters: {
            query?: {
                /** @description At most so many; 50 if absent. */
                limit?: number;
                /** @description `waiting`, `taken` or `rejected`; absent = all. */
                state?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Proposal"][];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skillProposal: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Number of the proposal */
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProposalDetail"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skillProposalEdit: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Number of the proposal */
                id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ProposalText"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Proposal"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skillProposalApprove: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Number of the proposal */
                id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ProposalApproval"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillMoved"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skillProposalReject: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Number of the proposal */
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Proposal"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skillSearch: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SkillSearch"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillPreview"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skillUndo: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skillValidate: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SkillCheck"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillFinding"][];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skill: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the skill */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Skill"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skillUpdate: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the skill */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SkillText"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skillRemove: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the skill */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skillDiff: {
        parameters: {
            query?: {
                /** @description The older text; absent = the one before `to`. */
                from?: number;
                /** @description The newer text; absent = the newest. */
                to?: number;
            };
            header?: never;
            path: {
                /** @description Name of the skill */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VersionDiff"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skillDisable: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the skill */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skillEffect: {
        parameters: {
            query?: {
                /** @description Only this agent's; absent = all. */
                agent?: string;
                /** @description All texts the skill ever had together; else only the present one. */
                all?: boolean;
            };
            header?: never;
            path: {
                /** @description Name of the skill */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillEffect"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skillEnable: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the skill */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillChange"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skillHistory: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the skill */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Version"][];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    skillRevert: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the skill */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SkillRevert"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillReverted"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    status: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Status"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    stop: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Accepted"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    turns: {
        parameters: {
            query?: {
                /** @description Newer than this one, oldest first. */
                after?: number;
                /** @description Of this agent. */
                agent?: string;
                /** @description Older than this one (the last id of the page before). */
                before?: number;
                /** @description `main` or the name of a side call. */
                kind?: string;
                /** @description At most so many; 50 if absent, 1,000 at most. */
                limit?: number;
                /** @description `ok`, `error`, `cancelled` or `cut`. */
                outcome?: string;
                /** @description Of this session. */
                session?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TurnRow"][];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    turn: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Number of the turn, or `last` */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Turn"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    turnDiff: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Number of the turn, or `last` */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TurnDiff"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    turnRequest: {
        parameters: {
            query?: {
                /** @description `sent` (if absent) or `forwarded`. */
                form?: "sent" | "forwarded";
            };
            header?: never;
            path: {
                /** @description Number of the turn, or `last` */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The body */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": string;
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
}
