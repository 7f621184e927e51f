// Generated of service/openapi.json, SHA-256 6b63b8e65a33a8c6864f0a7e07ad9bc526f2eef1235f0ebcfe5b566ede246cc7, by `npm run generate`.
export interface paths {
    "/index": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Add or replace items
         * @description Into the collection `default`, which the first add of vectors creates: kernel ngmm, dense or sparse as its first vector is.
         */
        post: operations["add_items_default"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/collections/{name}/index": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Add or replace items
         * @description One atomic transaction: 200 means durable and found by every worker.
         *
         *     The same upsert again changes nothing. For a day any add may be sent again with the header `Idempotency-Key` that it had: it is done
         *     once, and the answer is that of the first (`Idempotency-Replayed: true`). Without it, an `insert` that was done is refused when it is
         *     repeated, and a matrix without ids is added once more under new ones.
         *
         *     Lines with `stream=true` may be any number: they go in batches of at most 1,000, each one transaction, in order. The answer is lines
         *     as well: `{"lines", "indexed", "updated", "unchanged", "skipped", "count"}`, in sum, of what is durable; receipts are left out for a
         *     reader that is slow. The last line has `"done": true`, or `error`, a problem document. After an error, or a lost connection, send the
         *     lines that follow the last receipt, with `after` their number.
         */
        post: operations["add_items"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/collections/{name}/get": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Get items by id
         * @description Stored items with their payloads and vectors, or objects; ids that are not stored are listed as missing.
         */
        post: operations["get_items"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/collections/{name}/delete": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Delete items
         * @description By ids, or all that a filter matches, in one transaction. Ids that are not stored are no error.
         *
         *     With `if_versions` nothing is deleted unless every item has the version that is named for it (409 `version_conflict`).
         *
         *     More than 10,000 matches go in several transactions, and `atomic` is false: every item that is deleted matched when it was, and
         *     items that begin to match during the request may stay.
         */
        post: operations["delete_items"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/collections/{name}/scroll": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Read a collection page by page
         * @description Items in the order of their ids, or of a field; `next` is the `after` of the next page, asked for in the same order.
         */
        post: operations["scroll_items"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/collections/{name}/count": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Count items
         * @description All items, or those that a filter matches.
         */
        post: operations["count_items"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/collections/{name}/indexes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Add and drop payload indexes
         * @description Declared in one transaction, for every worker; built in the background, while filters read payloads as before.
         *
         *     The same again changes nothing. A field with an index of another kind is refused, unless that is dropped with the same request.
         */
        post: operations["change_indexes"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/collections/{name}/facets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Count the values of a field
         * @description Exact, with an index and without one. A list counts for each of its different values; objects are no values.
         */
        post: operations["count_facets"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/query": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Find the nearest items
         * @description In the collection `default`. `vector` and `id` give one answer; `queries` and a matrix give `answers`.
         */
        post: operations["query_default"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/collections/{name}/query": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Find the nearest items
         * @description Scores are exact kernel values; `recall_lower_bound` is proved, or null with the reason. `queries` and a matrix give `answers`.
         *
         *     With `Accept: application/vnd.kinbin.columns+json` these are columns, an array for each field, which are made and read several times
         *     as fast; answers with contents, groups, pages or `debug`, and to queries with options of their own, are objects all the same.
         */
        post: operations["query"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/collections/{name}/explain": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Tell why an item scores what it scores
         * @description Terms add up to the score that a query answers, or to what it is a function of, to 1e-9; bands and links tell what finds it.
         */
        post: operations["explain"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/collections/{name}/map": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Lay a sample out in the plane
         * @description Near items lie near each other, by the exact kernel of all pairs; the same state and seed give the same map. Takes scikit-learn.
         */
        post: operations["map_items"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/collections/{name}/duplicates": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Find near duplicates
         * @description All pairs that score so much, of one snapshot, with exact scores; or the clusters that they make (single linkage).
         *
         *     Each is overlooked with the probability `miss_probability` at most. With `Accept: application/x-ndjson` a pair or cluster is a line,
         *     sent while others are looked for, in a thread of its own and one such search at a time; the last line has `miss_probability`,
         *     `compared` and `complete`, or `error`, a problem document. A reader that takes nothing for 20 seconds is broken off. As JSON it takes
         *     as long as a search may, and has at most as many ids as an answer may have items. Of items with several vectors `field`
         *     says which is meant.
         */
        post: operations["find_duplicates"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/collections/{name}/tune": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Predict settings
         * @description Recall, work and time of bands of r hashes, and of walks, by a sample; nothing is changed. No body is `{}`.
         *
         *     Takes as long as `sample` exact scans, hashing of 8 · `sample` · `k` rows, and some 10 ms a setting; `sample` · `k` is at most 20,000.
         */
        post: operations["tune"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/collections/{name}/recall": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Measure recall on stored items
         * @description Every mode is asked for the neighbours of drawn rows, each without itself, and held against an exact scan of the same moment.
         */
        get: operations["sampled_recall"];
        put?: never;
        /**
         * Measure recall on given queries
         * @description The same for queries that are sent: those that users ask are seldom like the stored rows.
         */
        post: operations["given_recall"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/collections/{name}/rebuild": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Lay a collection out in other bands
         * @description Answered when it is done; queries and adds go on meanwhile. No body is `{}`: Kinbin chooses.
         *
         *     One such work, or snapshot, at a time in a worker; 429 says that another is under way. What was begun goes on when the client leaves.
         */
        post: operations["rebuild"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/collections/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Describe a collection
         * @description Configuration, number of items, and the runs of the index with the rows and bands that were chosen for them.
         */
        get: operations["get_collection"];
        /**
         * Create a collection
         * @description 201 when it was created, 200 when it exists alike, 409 when it exists with another configuration.
         */
        put: operations["create_collection"];
        post?: never;
        /**
         * Drop a collection
         * @description The collection and all its items are gone for every worker. One that is damaged is dropped only if that is asked for.
         */
        delete: operations["drop_collection"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/collections": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List collections
         * @description The names of all collections, sorted; for a key of some collections, theirs.
         */
        get: operations["list_collections"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/collections/{name}/compact": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Compact a collection
         * @description Seal and merge everything into one run; with `shrink` what lives is copied into a new file as well, which needs free disk.
         *
         *     Queries go on, and writes: with `shrink` these wait for some microseconds an item at the end. It is answered when it is done, goes on
         *     when the client leaves, and shares its turn with snapshots: one at a time in a worker, otherwise 429. No body is `{}`.
         */
        post: operations["compact_collection"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/collections/{name}/payload": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Replace or patch payloads
         * @description Of stored items, in one atomic transaction; vectors stay as they are. An id that is not stored refuses all of it (409).
         */
        post: operations["write_payloads"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/collections/{name}/limits": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Limits of a collection
         * @description What the collection may hold; null: as much as there is room for.
         */
        get: operations["get_limits"];
        /**
         * Limit a collection
         * @description At most so many items and bytes. Adds that would pass them are refused (422, `over_limit`); what is there stays.
         */
        put: operations["put_limits"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/aliases/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Set an alias
         * @description Another name leads to a collection, at once and for every worker, wherever it led before. All routes take it.
         */
        put: operations["put_alias"];
        post?: never;
        /**
         * Drop an alias
         * @description The alias is gone; its collection stays.
         */
        delete: operations["drop_alias"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/aliases": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List aliases
         * @description Collections by alias.
         */
        get: operations["list_aliases"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/collections/{name}/snapshots": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List snapshots
         * @description Those of a collection, which need not be there any more, the oldest first.
         */
        get: operations["list_snapshots"];
        put?: never;
        /**
         * Make a snapshot
         * @description A consistent copy of the collection as it is at one moment, made while others read and write it.
         *
         *     One at a time in a worker; 429 says that another is at work. What was begun goes on when the client leaves. No body is `{}`.
         */
        post: operations["create_snapshot"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/collections/{name}/snapshots/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Download a snapshot
         * @description The file, with its SHA-256 as ETag. One range of bytes may be asked for, to go on where a download broke off.
         */
        get: operations["get_snapshot"];
        put?: never;
        post?: never;
        /**
         * Delete a snapshot
         * @description The file is removed; the collection stays as it is.
         */
        delete: operations["delete_snapshot"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/collections/{name}/snapshots/{id}/verify": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Verify a snapshot
         * @description Reads all of it, and proves every record. One at a time in a worker, with the making of snapshots.
         */
        post: operations["verify_snapshot"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/restore": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Restore a snapshot into a new collection
         * @description Of one that the service keeps (JSON), or of an uploaded file (`?name=`): all of it is proved before anything is made.
         *
         *     The collection is there whole or not at all. Restore only files whose maker you trust: checksums do not prove who made one.
         */
        post: operations["restore"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/livez": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Is the worker alive
         * @description 200 as soon as the worker runs; 500 when it can never become ready and should be restarted.
         */
        get: operations["livez"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Does the worker take requests
         * @description 200 once the kernels that small collections need are loaded; 503 before that, and while the worker stops.
         *
         *     `compiling` names groups of kernels that are still being compiled or loaded: "small", without which nothing is answered, "bands"
         *     (collections of more than a thousand items) and "links". A request that needs one of them is answered when it is there.
         */
        get: operations["readyz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/healthz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Health in one word
         * @description The same as /livez: alive, with the state and the version.
         */
        get: operations["healthz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/limits": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Every limit of this server
         * @description One table: name, value, unit and reason. Problem answers name the limit that was passed.
         */
        get: operations["list_limits"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Metrics for Prometheus
         * @description Requests, refusals, queue, answers, commits, background work and collections, of all workers; the reference lists them.
         */
        get: operations["metrics"];
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
        /**
         * AddAnswer
         * @description The add is durable, and every worker finds it.
         */
        AddAnswer: {
            /**
             * Indexed
             * @description new items
             */
            indexed: number;
            /**
             * Updated
             * @description replaced items
             */
            updated: number;
            /**
             * Unchanged
             * @description items that were stored alike before
             */
            unchanged: number;
            /**
             * Count
             * @description items in the collection now
             */
            count: number;
            /**
             * Ids
             * @description the ids that were made, if none were given with a matrix
             */
            ids?: string[] | null;
            /**
             * Skipped
             * @description bad items that were left out; only there with on_error skip
             */
            skipped?: number | null;
            /**
             * Problems
             * @description of the first hundred of them; only there with on_error skip
             */
            problems?: components["schemas"]["SkippedItem"][] | null;
            /**
             * Took Ms
             * @description milliseconds from the parsed request to the answer, waiting for a thread included
             */
            took_ms: number;
        };
        /**
         * AddOptions
         * @description Options of an add whose body is a matrix or lines: parameters of the address.
         */
        AddOptions: {
            /**
             * Mode
             * @description insert takes new ids only, update stored ids only
             * @default upsert
             * @enum {string}
             */
            mode?: "upsert" | "insert" | "update";
            /**
             * On Error
             * @description skip: write the good items, and list the bad ones in the answer
             * @default reject
             * @enum {string}
             */
            on_error?: "reject" | "skip";
            /**
             * Stream
             * @description of lines: true takes any number of them, and answers with lines of receipts while they arrive
             * @default false
             * @enum {string}
             */
            stream?: "true" | "false";
            /**
             * After
             * @description of a stream that is resumed: how many lines were durable and are not sent again
             * @default 0
             */
            after?: number;
        };
        /**
         * AddRequest
         * @description Items to add or replace, in one transaction: all of them or none.
         * @example {
         *       "items": [
         *         {
         *           "id": "a",
         *           "payload": {
         *             "year": 2020
         *           },
         *           "vector": [
         *             0.1,
         *             0,
         *             2.5
         *           ]
         *         },
         *         {
         *           "id": "b",
         *           "vector": [
         *             0,
         *             1.5,
         *             2
         *           ]
         *         }
         *       ]
         *     }
         * @example {
         *       "items": [
         *         {
         *           "id": "b",
         *           "vector": {
         *             "indices": [
         *               3,
         *               70001
         *             ],
         *             "values": [
         *               1.5,
         *               2
         *             ]
         *           }
         *         }
         *       ],
         *       "mode": "insert"
         *     }
         * @example {
         *       "items": [
         *         {
         *           "id": "c",
         *           "vector": {
         *             "tokens": {
         *               "apple": 1,
         *               "red": 3
         *             }
         *           }
         *         }
         *       ]
         *     }
         * @example {
         *       "items": [
         *         {
         *           "id": "d",
         *           "vector": [
         *             "quick",
         *             "brown",
         *             "fox"
         *           ]
         *         }
         *       ]
         *     }
         */
        AddRequest: {
            /** Items */
            items: components["schemas"]["ItemIn"][];
            /**
             * Mode
             * @description insert takes new ids only, update stored ids only
             * @default upsert
             * @enum {string}
             */
            mode?: "upsert" | "insert" | "update";
            /**
             * On Error
             * @description skip: write the good items, and list the bad ones in the answer
             * @default reject
             * @enum {string}
             */
            on_error?: "reject" | "skip";
        };
        /**
         * AliasAnswer
         * @description An alias.
         */
        AliasAnswer: {
            /** Alias */
            alias: string;
            /** Collection */
            collection: string;
        };
        /**
         * AliasDroppedAnswer
         * @description The alias is gone; its collection stays.
         */
        AliasDroppedAnswer: {
            /** Dropped */
            dropped: string;
        };
        /**
         * AliasRequest
         * @description Where an alias leads.
         * @example {
         *       "collection": "photos-2"
         *     }
         */
        AliasRequest: {
            /**
             * Collection
             * @description name of a collection that is there
             */
            collection: string;
        };
        /**
         * AliasesAnswer
         * @description Collections by alias.
         */
        AliasesAnswer: {
            /** Aliases */
            aliases: {
                [key: string]: string;
            };
        };
        /**
         * BandsForecastAnswer
         * @description What a search by bands is expected to do if all rows lie in one run of these.
         */
        BandsForecastAnswer: {
            /** Rows */
            rows: number;
            /** Bands */
            bands: number;
            /**
             * Recall
             * @description of mode bands at the target
             */
            recall: number;
            /**
             * Recall Error
             * @description standard error of recall, as an estimate for all stored items
             */
            recall_error: number;
            /**
             * Uncertified
             * @description share of the queries that mode auto has to scan for
             */
            uncertified: number;
            /**
             * Postings
             * @description read by a query
             */
            postings: number;
            /**
             * Verified
             * @description rows scored for a query
             */
            verified: number;
            /**
             * Bytes Per Row
             * @description of the band tables alone
             */
            bytes_per_row: number;
            /**
             * Microseconds
             * @description a query in one thread, one of many that are asked together
             */
            microseconds: number;
        };
        /**
         * BandsOut
         * @description What bands make of the pair.
         */
        BandsOut: {
            /**
             * Rows
             * @description hashes a band
             */
            rows: number;
            /** Bands */
            bands: number;
            /**
             * Shared
             * @description bands that both have in common
             */
            shared: number;
            /**
             * Collision
             * @description the probability that a hash of both is the same, by the sampler's law; at least, for 0-bit GCWS: with fewer than about 20 features it agrees far more often, and always if both have one and the same feature alone
             */
            collision: number;
            /**
             * P Found
             * @description that a band at least is shared: 1 − (1 − collision^rows)^bands
             */
            p_found: number;
            /**
             * S Curve
             * @description scores, and the least probability that such a pair shares a band
             */
            s_curve?: [
                number,
                number
            ][] | null;
        };
        /**
         * BatchAnswer
         * @description The answers to many vectors, in their order.
         */
        BatchAnswer: {
            /** Answers */
            answers: components["schemas"]["OneAnswer"][];
            /**
             * Took Ms
             * @description milliseconds from the parsed request to the answer, waiting for a thread included
             */
            took_ms: number;
        };
        /**
         * CellOut
         * @description A cell of a grid of nested histograms: value = (1 − share) · kernel + share · product of the values of its four parts.
         */
        CellOut: {
            /** Level */
            level: number;
            /** Y */
            y: number;
            /** X */
            x: number;
            /**
             * Apart
             * @description ψ; kernel = exp(−ψ / lambda)
             */
            apart: number;
            /** Kernel */
            kernel: number;
            /** Value */
            value: number;
            /**
             * Share
             * @description epsilon of its level; 0: it is not divided
             */
            share: number;
        };
        /**
         * ChoiceIn
         * @description A setting to judge.
         */
        ChoiceIn: {
            /**
             * Rows
             * @description hashes a band
             */
            rows: number;
            /** Bands */
            bands: number;
        };
        /**
         * ClusterAnswer
         * @description Items that hang together by near pairs.
         */
        ClusterAnswer: {
            /**
             * Keep
             * @description the first of the ids
             */
            keep: string;
            /**
             * Ids
             * @description two or more, ascending
             */
            ids: string[];
            /**
             * Least
             * @description what the farthest of the pairs scores that joined them
             */
            least: number;
        };
        /**
         * ClustersAnswer
         * @description Clusters of one snapshot.
         */
        ClustersAnswer: {
            /** Clusters */
            clusters: components["schemas"]["ClusterAnswer"][];
            /**
             * Miss Probability
             * @description the most that the probability is, of each pair, to be overlooked
             */
            miss_probability: number;
            /**
             * Compared
             * @description pairs of different vectors that were scored
             */
            compared: number;
            /**
             * Complete
             * @description false: there are more than the limit
             */
            complete: boolean;
            /**
             * Took Ms
             * @description milliseconds from the parsed request to the answer, waiting for a thread included
             */
            took_ms: number;
        };
        /**
         * CollectionAnswer
         * @description A collection: its configuration, its size, and how its index is built.
         */
        CollectionAnswer: {
            /** Name */
            name: string;
            /**
             * Items
             * @description what the items are: vectors, strings, series, points or images
             */
            items: string;
            /**
             * Kernel
             * @description or distance; null, as the next five, where there are fields
             */
            kernel: string | null;
            /**
             * Parameters
             * @description of the kernel; empty if it has none
             */
            parameters: {
                [key: string]: number | string | number[];
            } | null;
            /** Dim */
            dim: number | null;
            /** Sampler */
            sampler: string | null;
            /** Bands */
            bands: number | null;
            /** Rows */
            rows: number | null;
            /**
             * Feature Names
             * @description by feature, those that were declared; only there if some were
             */
            feature_names?: {
                [key: string]: string;
            } | null;
            /**
             * Fields
             * @description only there if items have several vectors
             */
            fields?: {
                [key: string]: components["schemas"]["FieldAnswer"];
            } | null;
            /** Count */
            count: number;
            /** Stats */
            stats: {
                [key: string]: unknown;
            };
        };
        /**
         * CollectionRequest
         * @description The configuration of a collection. What is null, Kinbin chooses itself, run by run.
         * @example {
         *       "dim": 512,
         *       "kernel": "ngmm"
         *     }
         * @example {
         *       "kernel": "minmax"
         *     }
         * @example {
         *       "fields": {
         *         "colour": {
         *           "dim": 512,
         *           "kernel": "chi2"
         *         },
         *         "words": {}
         *       }
         *     }
         * @example {
         *       "dim": 512,
         *       "indexes": {
         *         "tag": "keyword",
         *         "year": "number"
         *       }
         *     }
         * @example {
         *       "distance": "levenshtein",
         *       "items": "strings"
         *     }
         * @example {
         *       "dim": 3,
         *       "distance": "dtw",
         *       "items": "series",
         *       "parameters": {
         *         "window": 0.1
         *       }
         *     }
         * @example {
         *       "dim": 2,
         *       "distance": "hausdorff",
         *       "items": "points"
         *     }
         * @example {
         *       "items": "images",
         *       "kernel": "nested",
         *       "parameters": {
         *         "base": "tv",
         *         "epsilon": 0.5,
         *         "levels": 3
         *       }
         *     }
         */
        CollectionRequest: {
            /**
             * Items
             * @description what the items are; objects have kernels, or distances, of their own
             * @default vectors
             * @enum {string}
             */
            items?: "vectors" | "strings" | "images" | "series" | "points";
            /**
             * Kernel
             * @description the similarity that scores are values of; gmm*acos is a product of two; null: ngmm, or that of the items
             * @default null
             */
            kernel?: ("minmax" | "gmm" | "ngmm" | "gint" | "tv" | "chi2" | "exp_chi2" | "acos_chi2" | "js" | "hellinger" | "cosine" | "acos" | "rbf" | "frbf" | "mm_acos" | "mm_acos_chi2" | "nested" | "levenshtein" | "damerau" | "indel" | "jaro_winkler" | "dtw" | "euclidean" | "hausdorff" | "modified_hausdorff") | string | null;
            /**
             * Distance
             * @description in the place of kernel, of one that prints distances
             * @default null
             */
            distance?: ("levenshtein" | "damerau" | "indel" | "jaro_winkler" | "dtw" | "euclidean" | "hausdorff" | "modified_hausdorff") | null;
            /**
             * Dim
             * @description length of dense vectors; null: sparse, with unbounded feature ids. Of series and points: their dimensions
             * @default null
             */
            dim?: number | null;
            /**
             * Sampler
             * @description how vectors are hashed
             * @default null
             */
            sampler?: string | null;
            /**
             * Bands
             * @description bands of a run
             * @default null
             */
            bands?: number | null;
            /**
             * Rows
             * @description hashes of a band
             * @default null
             */
            rows?: number | null;
            /**
             * Parameters
             * @description of the kernel, such as gamma; null, or left out: their defaults
             * @default null
             * @example {
             *       "gamma": 2
             *     }
             */
            parameters?: {
                [key: string]: number | string | number[];
            } | null;
            /**
             * Feature Names
             * @description names of features, which explanations tell: by feature id; or a list, of features 0, 1, … of vectors of a dimension, else of tokens
             * @default null
             * @example [
             *       "red",
             *       "green",
             *       "blue"
             *     ]
             */
            feature_names?: {
                [key: string]: string;
            } | string[] | null;
            /**
             * Indexes
             * @description fields of payloads to index, with their kinds; of a collection that is there, those that it lacks are added
             * @default null
             */
            indexes?: {
                [key: string]: "number" | "keyword" | "datetime" | "geo";
            } | null;
            /**
             * Seed
             * @description of the hashes; random and secret when null, and never returned
             * @default null
             */
            seed?: number | null;
            /**
             * Fields
             * @description for items of several vectors: each by its name; instead of kernel, dim, …
             * @default null
             */
            fields?: {
                [key: string]: components["schemas"]["FieldRequest"];
            } | null;
        };
        /**
         * CollectionsAnswer
         * @description The names of all collections, sorted.
         */
        CollectionsAnswer: {
            /** Collections */
            collections: string[];
        };
        /**
         * ColumnsAnswer
         * @description The answers to many vectors as columns: what `answers` hold, an array for each field. Hits lie query by query, best first.
         */
        ColumnsAnswer: {
            /**
             * Counts
             * @description of each query, how many hits it has; their sum is the length of ids
             */
            counts: number[];
            /** Ids */
            ids: string[];
            /**
             * Scores
             * @description of each hit
             * @default null
             */
            scores?: number[] | null;
            /**
             * Distances
             * @description in its place where the kernel prints distances
             * @default null
             */
            distances?: number[] | null;
            /**
             * Parts
             * @description where several fields were asked for, of each its scores
             * @default null
             */
            parts?: {
                [key: string]: number[];
            } | null;
            /**
             * Recall Lower Bounds
             * @description of each query; null: see no_bounds
             */
            recall_lower_bounds: (number | null)[];
            /** No Bounds */
            no_bounds: (string | null)[];
            /** Modes */
            modes: ("bands" | "links" | "exact" | "pool")[];
            /** Candidates */
            candidates: number[];
            /** Verified */
            verified: number[];
            /** Truncated */
            truncated: string[][];
            /** Steps */
            steps: string[][];
            /** Out Of Distribution */
            out_of_distribution: boolean[];
            /**
             * Took Ms
             * @description milliseconds from the parsed request to the answer, waiting for a thread included
             */
            took_ms: number;
        };
        /**
         * CompactAnswer
         * @description What it did to the files.
         */
        CompactAnswer: {
            /** Before Bytes */
            before_bytes: number;
            /** After Bytes */
            after_bytes: number;
            /**
             * Freed Bytes
             * @description below 0: the files grew
             */
            freed_bytes: number;
        };
        /**
         * CompactRequest
         * @description How to compact a collection.
         * @example {}
         * @example {
         *       "shrink": true
         *     }
         */
        CompactRequest: {
            /**
             * Shrink
             * @description give disk that nothing uses back as well
             * @default false
             */
            shrink?: boolean;
        };
        /**
         * ConstantOut
         * @description What is no feature's.
         */
        ConstantOut: {
            /** Name */
            name: string;
            /** Part */
            part: number;
        };
        /**
         * CountAnswer
         * @description How many items there are.
         */
        CountAnswer: {
            /** Count */
            count: number;
        };
        /**
         * CountRequest
         * @description How many items there are, or how many a filter matches.
         * @example {}
         * @example {
         *       "filter": {
         *         "year": 2020
         *       }
         *     }
         */
        CountRequest: {
            /**
             * Filter
             * @default null
             */
            filter?: {
                [key: string]: unknown;
            } | null;
        };
        /**
         * CurrentSettingAnswer
         * @description The bands that are there, predicted and measured with the same rows.
         */
        CurrentSettingAnswer: {
            /**
             * Rows
             * @description of the largest run
             */
            rows: number;
            /** Bands */
            bands: number;
            /** Runs */
            runs: number;
            /** Recall */
            recall: number;
            /** Measured Recall */
            measured_recall: number;
            /** Microseconds */
            microseconds: number;
            /** Measured Microseconds */
            measured_microseconds: number;
        };
        /**
         * DebugOut
         * @description What a search did.
         */
        DebugOut: {
            /** Candidates */
            candidates: number;
            /** Verified */
            verified: number;
            /** Truncated */
            truncated: string[];
            /** Steps */
            steps: components["schemas"]["StepOut"][];
        };
        /**
         * DeleteAnswer
         * @description How many items were deleted, and how many are left.
         */
        DeleteAnswer: {
            /** Deleted */
            deleted: number;
            /** Count */
            count: number;
            /**
             * Atomic
             * @description false: a filter matched more than 10,000 items, which went in several transactions
             */
            atomic: boolean;
        };
        /**
         * DeleteRequest
         * @description Items to delete: by id, or all that a filter matches.
         * @example {
         *       "ids": [
         *         "a"
         *       ]
         *     }
         * @example {
         *       "ids": [
         *         "a",
         *         "b"
         *       ],
         *       "if_versions": [
         *         0,
         *         null
         *       ]
         *     }
         * @example {
         *       "filter": {
         *         "year": {
         *           "$lt": 2000
         *         }
         *       }
         *     }
         */
        DeleteRequest: {
            /**
             * Ids
             * @default null
             */
            ids?: (string | number)[] | null;
            /**
             * Filter
             * @default null
             */
            filter?: {
                [key: string]: unknown;
            } | null;
            /**
             * If Versions
             * @description with ids: what each has to be, or nothing is deleted; null: any
             * @default null
             */
            if_versions?: (number | null)[] | null;
        };
        /**
         * DroppedAnswer
         * @description The collection is gone, with all its items.
         */
        DroppedAnswer: {
            /** Dropped */
            dropped: string;
        };
        /**
         * DuplicatesRequest
         * @description How near duplicates are. One of min_score and max_distance, as the kernel prints.
         * @example {
         *       "as": "clusters",
         *       "filter": {
         *         "year": 2020
         *       },
         *       "min_score": 0.9,
         *       "miss": 0.01
         *     }
         */
        DuplicatesRequest: {
            /**
             * Min Score
             * @description pairs score so much at least
             * @default null
             */
            min_score?: number | null;
            /**
             * Max Distance
             * @description pairs are so far apart at most, where the kernel prints distances
             * @default null
             */
            max_distance?: number | null;
            /**
             * As
             * @description clusters: what hangs together by such pairs (single linkage)
             * @default pairs
             * @enum {string}
             */
            as?: "pairs" | "clusters";
            /**
             * Miss
             * @description the most that the probability may be, of each pair, to be overlooked; 0: compare all
             * @default 0.01
             */
            miss?: number;
            /**
             * Filter
             * @default null
             */
            filter?: {
                [key: string]: unknown;
            } | null;
            /**
             * Field
             * @description of items with several vectors: the one that is meant
             * @default null
             */
            field?: string | null;
            /**
             * Limit
             * @description pairs or clusters at most; null: 1,000 in JSON, and all as lines
             * @default null
             */
            limit?: number | null;
        };
        /**
         * ExplainAnswer
         * @description Why an item scores what it scores. Of a product the terms stand in `factors`, and those beside them are empty.
         */
        ExplainAnswer: {
            /** Kernel */
            kernel: string;
            /** Formula */
            formula: string;
            /** Parameters */
            parameters: {
                [key: string]: unknown;
            };
            /**
             * Value
             * @description what the kernel prints: `outer` of x = `sum`, to 1e-9
             */
            value: number;
            /** Sum */
            sum: number;
            /**
             * Outer
             * @description a formula of x and the parameters; null: the value is the sum
             * @example sqrt(x)
             */
            outer: string | null;
            /**
             * Terms
             * @description the greatest parts first, whatever their signs
             */
            terms: components["schemas"]["TermOut"][];
            rest: components["schemas"]["RestOut"];
            /** Constants */
            constants: components["schemas"]["ConstantOut"][];
            /**
             * Cells
             * @description of nested histograms, the whole image last
             */
            cells?: components["schemas"]["CellOut"][] | null;
            /** Id */
            id: string;
            /**
             * Score
             * @description as a query answers it
             */
            score: number;
            /**
             * Ascending
             * @description whether it is a distance: lower is nearer
             */
            ascending: boolean;
            /**
             * Factors
             * @description of a product: their values multiplied are the score, to 1e-9
             */
            factors: components["schemas"]["FactorOut"][] | null;
            bands: components["schemas"]["BandsOut"] | null;
            /**
             * No Bound
             * @description why there are no bands
             */
            no_bound: string | null;
            /** @description null: nothing is linked */
            walk: components["schemas"]["WalkOut"] | null;
            /** Took Ms */
            took_ms: number;
        };
        /**
         * ExplainRequest
         * @description A query, by one of vector, an object under its key, and query_id; and the item that it is compared with.
         * @example {
         *       "id": "a",
         *       "vector": [
         *         0.1,
         *         0,
         *         2.5
         *       ]
         *     }
         * @example {
         *       "id": "a",
         *       "limit": 20,
         *       "query_id": "b",
         *       "s_curve": true
         *     }
         * @example {
         *       "feature_names": [
         *         "green"
         *       ],
         *       "id": "a",
         *       "vector": {
         *         "tokens": {
         *           "apple": 1,
         *           "red": 2
         *         }
         *       }
         *     }
         * @example {
         *       "id": "a",
         *       "string": "kitten"
         *     }
         * @example {
         *       "field": "colour",
         *       "id": "a",
         *       "query_id": "b"
         *     }
         */
        ExplainRequest: {
            /**
             * Vector
             * @default null
             */
            vector?: number[] | string[] | components["schemas"]["SparseVector"] | components["schemas"]["TokenVector"] | null;
            /**
             * String
             * @default null
             */
            string?: string | null;
            /**
             * Series
             * @default null
             */
            series?: (number[] | number[][]) | null;
            /**
             * Points
             * @default null
             */
            points?: number[][] | null;
            /**
             * Image
             * @default null
             */
            image?: string | null;
            /**
             * Query Id
             * @description query by the vector, or object, of this stored item
             * @default null
             */
            query_id?: string | number | null;
            /**
             * Id
             * @description of the item that is explained
             * @example a
             */
            id: string | number;
            /**
             * Field
             * @description of a collection with several: the one that is explained, whose vector is given
             * @default null
             */
            field?: string | null;
            /**
             * Limit
             * @description terms that are listed of each factor; the others are added up
             * @default 50
             */
            limit?: number;
            /**
             * K
             * @description neighbours of the walk that is asked for the item's place
             * @default 10
             */
            k?: number;
            /**
             * S Curve
             * @description with the curve of the bands
             * @default false
             */
            s_curve?: boolean;
            /**
             * Feature Names
             * @description names of features: by feature id; or a list, of features 0, 1, … where vectors have a length, else of tokens. Tokens of the query need no names
             * @default null
             */
            feature_names?: {
                [key: string]: string;
            } | string[] | null;
        };
        /**
         * FacetValueAnswer
         * @description A value, and how many items have it.
         */
        FacetValueAnswer: {
            /** Value */
            value: string | number | boolean | null;
            /** Count */
            count: number;
        };
        /**
         * FacetsAnswer
         * @description The values of a field, the most frequent first; ties by value: numbers, strings, false, true, null.
         */
        FacetsAnswer: {
            /** Field */
            field: string;
            /** Values */
            values: components["schemas"]["FacetValueAnswer"][];
            /**
             * Distinct
             * @description different values in all
             */
            distinct: number;
            /**
             * Items
             * @description items that were looked at: all, or those that the filter lets through
             */
            items: number;
        };
        /**
         * FacetsRequest
         * @description The values of a field to count.
         * @example {
         *       "field": "tag",
         *       "filter": {
         *         "year": 2020
         *       },
         *       "limit": 10
         *     }
         */
        FacetsRequest: {
            /**
             * Field
             * @description a field of payloads, with dots into objects
             */
            field: string;
            /**
             * Filter
             * @default null
             */
            filter?: {
                [key: string]: unknown;
            } | null;
            /**
             * Limit
             * @description values at most, the most frequent first
             * @default 20
             */
            limit?: number;
        };
        /**
         * FactorOut
         * @description A kernel: the parts of its terms, of the rest and of the constants add up to `sum`, to 1e-9.
         */
        FactorOut: {
            /** Kernel */
            kernel: string;
            /** Formula */
            formula: string;
            /** Parameters */
            parameters: {
                [key: string]: unknown;
            };
            /**
             * Value
             * @description what the kernel prints: `outer` of x = `sum`, to 1e-9
             */
            value: number;
            /** Sum */
            sum: number;
            /**
             * Outer
             * @description a formula of x and the parameters; null: the value is the sum
             * @example sqrt(x)
             */
            outer: string | null;
            /**
             * Terms
             * @description the greatest parts first, whatever their signs
             */
            terms: components["schemas"]["TermOut"][];
            rest: components["schemas"]["RestOut"];
            /** Constants */
            constants: components["schemas"]["ConstantOut"][];
            /**
             * Cells
             * @description of nested histograms, the whole image last
             */
            cells?: components["schemas"]["CellOut"][] | null;
        };
        /**
         * FieldAnswer
         * @description The configuration of one vector of items.
         */
        FieldAnswer: {
            /** Kernel */
            kernel: string;
            /**
             * Parameters
             * @description of the kernel; empty if it has none
             */
            parameters: {
                [key: string]: number | string | number[];
            };
            /** Dim */
            dim: number | null;
            /** Sampler */
            sampler: string | null;
            /** Bands */
            bands: number | null;
            /** Rows */
            rows: number | null;
            /**
             * Feature Names
             * @description by feature, those that were declared; only there if some were
             */
            feature_names?: {
                [key: string]: string;
            } | null;
        };
        /**
         * FieldRequest
         * @description The configuration of one vector. What is null, Kinbin chooses itself, run by run.
         */
        FieldRequest: {
            /**
             * Kernel
             * @description the similarity that scores are values of; gmm*acos is a product of two
             * @default ngmm
             */
            kernel?: ("minmax" | "gmm" | "ngmm" | "gint" | "tv" | "chi2" | "exp_chi2" | "acos_chi2" | "js" | "hellinger" | "cosine" | "acos" | "rbf" | "frbf" | "mm_acos" | "mm_acos_chi2" | "nested" | "levenshtein" | "damerau" | "indel" | "jaro_winkler" | "dtw" | "euclidean" | "hausdorff" | "modified_hausdorff") | string;
            /**
             * Dim
             * @description length of dense vectors; null: sparse, with unbounded feature ids
             * @default null
             */
            dim?: number | null;
            /**
             * Sampler
             * @description how vectors are hashed
             * @default null
             */
            sampler?: string | null;
            /**
             * Bands
             * @description bands of a run
             * @default null
             */
            bands?: number | null;
            /**
             * Rows
             * @description hashes of a band
             * @default null
             */
            rows?: number | null;
            /**
             * Parameters
             * @description of the kernel, such as gamma; null, or left out: their defaults
             * @default null
             * @example {
             *       "gamma": 2
             *     }
             */
            parameters?: {
                [key: string]: number | string | number[];
            } | null;
            /**
             * Feature Names
             * @description names of features, which explanations tell: by feature id; or a list, of features 0, 1, … of vectors of a dimension, else of tokens
             * @default null
             * @example [
             *       "red",
             *       "green",
             *       "blue"
             *     ]
             */
            feature_names?: {
                [key: string]: string;
            } | string[] | null;
        };
        /**
         * FieldsAddRequest
         * @description Items to add or replace in a collection with several fields, in one transaction: all of them or none.
         * @example {
         *       "items": [
         *         {
         *           "id": "a",
         *           "vectors": {
         *             "colour": [
         *               0.1,
         *               0,
         *               2.5
         *             ],
         *             "words": [
         *               "quick",
         *               "fox"
         *             ]
         *           }
         *         }
         *       ]
         *     }
         */
        FieldsAddRequest: {
            /** Items */
            items: components["schemas"]["FieldsItemIn"][];
            /**
             * Mode
             * @description insert takes new ids only, update stored ids only
             * @default upsert
             * @enum {string}
             */
            mode?: "upsert" | "insert" | "update";
            /**
             * On Error
             * @description skip: write the good items, and list the bad ones in the answer
             * @default reject
             * @enum {string}
             */
            on_error?: "reject" | "skip";
        };
        /**
         * FieldsItemIn
         * @description One item of an add to a collection with several fields.
         */
        FieldsItemIn: {
            /**
             * Id
             * @description unique in the collection, at most 255 bytes of UTF-8; a 64-bit integer is the id of its digits
             * @example a
             */
            id: string | number;
            /**
             * Vectors
             * @description by field
             * @example {
             *       "colour": [
             *         0.1,
             *         0,
             *         2.5
             *       ]
             *     }
             */
            vectors: {
                [key: string]: number[] | string[] | components["schemas"]["SparseVector"] | components["schemas"]["TokenVector"];
            };
            /**
             * Payload
             * @description any JSON object; filters look at its fields
             */
            payload?: {
                [key: string]: unknown;
            } | null;
            /** If Version */
            if_version?: number | null;
        };
        /**
         * FieldsQueryIn
         * @description One of many queries of a collection with several fields.
         */
        FieldsQueryIn: {
            /**
             * Vectors
             * @description by field
             * @example {
             *       "colour": [
             *         0.1,
             *         0,
             *         2.5
             *       ]
             *     }
             */
            vectors: {
                [key: string]: number[] | string[] | components["schemas"]["SparseVector"] | components["schemas"]["TokenVector"];
            };
        };
        /**
         * FieldsQueryRequest
         * @description One of vectors, id and queries, for a collection with several fields; and options.
         * @example {
         *       "k": 10,
         *       "vectors": {
         *         "colour": [
         *           0.1,
         *           0,
         *           2.5
         *         ],
         *         "words": [
         *           "fox"
         *         ]
         *       },
         *       "weights": {
         *         "colour": 0.7,
         *         "words": 0.3
         *       }
         *     }
         * @example {
         *       "combine": "product",
         *       "fields": [
         *         "colour",
         *         "words"
         *       ],
         *       "id": "a"
         *     }
         * @example {
         *       "queries": [
         *         {
         *           "vectors": {
         *             "colour": [
         *               0.1,
         *               0,
         *               2.5
         *             ]
         *           }
         *         },
         *         {
         *           "vectors": {
         *             "colour": [
         *               0,
         *               1.5,
         *               2
         *             ]
         *           }
         *         }
         *       ]
         *     }
         */
        FieldsQueryRequest: {
            /**
             * Vectors
             * @default null
             */
            vectors?: {
                [key: string]: number[] | string[] | components["schemas"]["SparseVector"] | components["schemas"]["TokenVector"];
            } | null;
            /**
             * Id
             * @description query by the vectors of this stored item
             * @default null
             */
            id?: string | number | null;
            /**
             * Queries
             * @description many, each of the same fields
             * @default null
             */
            queries?: components["schemas"]["FieldsQueryIn"][] | null;
            /**
             * Weights
             * @description of each field in the sum, used as they are; null: 1 / number of fields that are asked for
             * @default null
             */
            weights?: {
                [key: string]: number;
            } | null;
            /**
             * Combine
             * @description how the scores of fields become one; a product has no weights
             * @default sum
             * @enum {string}
             */
            combine?: "sum" | "product";
            /**
             * Fields
             * @description with id: the fields to compare; null: those that weights name, or all
             * @default null
             */
            fields?: string[] | null;
            /**
             * K
             * @description how many neighbours
             * @default 10
             */
            k?: number;
            /**
             * Target Recall
             * @description the recall that is wanted: bands are verified until so much is proved, walks are calibrated for it
             * @default 0.9
             */
            target_recall?: number;
            /**
             * Min Score
             * @description leave out neighbours with a lower score; most kernels' scores go from 0 to 1
             * @default null
             */
            min_score?: number | null;
            /**
             * Filter
             * @default null
             */
            filter?: {
                [key: string]: unknown;
            } | null;
            /**
             * Mode
             * @description auto takes what is expected to be fastest: a walk over links where there are any, bands, or an exact scan
             * @default auto
             * @enum {string}
             */
            mode?: "auto" | "bands" | "links" | "exact";
            /**
             * Certify
             * @description ask the bands for a bound on the recall of a walk, which has none by itself
             * @default false
             */
            certify?: boolean;
            /**
             * Include
             * @description what to return of each item: vector, payload, or fields of it, as payload.year
             * @default []
             */
            include?: (("vector" | "payload") | string)[];
            /**
             * Exclude
             * @description ids of items that are not answered
             * @default []
             */
            exclude?: (string | number)[];
            /**
             * Include Self
             * @description with a query by id: answer the item itself, too
             * @default false
             */
            include_self?: boolean;
            /**
             * Offset
             * @description leave out so many of the nearest: the next page of an answer
             * @default 0
             */
            offset?: number;
            /**
             * Cursor
             * @description answer page by page: empty for the first page, then the next of the page before
             * @default null
             */
            cursor?: string | null;
            /** @default null */
            group_by?: components["schemas"]["Grouping"] | null;
            /**
             * Debug
             * @description tell what was done, and how long each step took
             * @default false
             */
            debug?: boolean;
        };
        /**
         * GetAnswer
         * @description The items that are stored, in the order of their ids in the request, and the ids that are not.
         */
        GetAnswer: {
            /** Items */
            items: components["schemas"]["ItemOut"][];
            /** Missing */
            missing: string[];
        };
        /**
         * GetRequest
         * @description Items by id.
         * @example {
         *       "ids": [
         *         "a",
         *         "b"
         *       ],
         *       "include": [
         *         "vector",
         *         "payload"
         *       ]
         *     }
         */
        GetRequest: {
            /** Ids */
            ids: (string | number)[];
            /**
             * Include
             * @description what to return of each item: vector, payload, or fields of it, and version
             * @default [
             *       "vector",
             *       "payload"
             *     ]
             */
            include?: (("vector" | "payload" | "version") | string)[];
        };
        /**
         * GroupOut
         * @description The results of one value of the field that an answer is grouped by.
         */
        GroupOut: {
            /** Value */
            value: string | number | boolean;
            /**
             * Ids
             * @description best first
             */
            ids: string[];
        };
        /**
         * Grouping
         * @description The groups that an answer is made of.
         */
        Grouping: {
            /**
             * Field
             * @description of payloads; a dot goes into objects
             * @example shot
             */
            field: string;
            /**
             * Groups
             * @description how many; 10 if it is left out
             */
            groups?: number;
            /**
             * Size
             * @description items of each, at most; 1 if it is left out
             */
            size?: number;
        };
        /**
         * HistogramAnswer
         * @description How near the rows are to each other: by the probability that one hash of a pair agrees (of the min-max kernels, the score).
         */
        HistogramAnswer: {
            /**
             * Edges
             * @description borders of the bins, from 0 to 1
             */
            edges: number[];
            /**
             * Pairs
             * @description share of all pairs in each bin
             */
            pairs: number[];
            /**
             * Neighbours
             * @description share of the k nearest in each bin
             */
            neighbours: number[];
        };
        /**
         * Hit
         * @description One neighbour.
         */
        Hit: {
            /** Id */
            id: string;
            /**
             * Score
             * @description the exact kernel; higher is nearer
             */
            score?: number | null;
            /**
             * Distance
             * @description in its place where the kernel prints distances; lower is nearer
             */
            distance?: number | null;
            /**
             * Payload
             * @description if included
             */
            payload?: {
                [key: string]: unknown;
            } | null;
            /**
             * Vector
             * @description if included; of images, their counts of colours
             */
            vector?: number[] | components["schemas"]["SparseVector"] | null;
            /**
             * String
             * @description in its place, where items are strings
             */
            string?: string | null;
            /**
             * Series
             * @description in its place, where items are series
             */
            series?: number[] | number[][] | null;
            /**
             * Points
             * @description in its place, where items are point sets
             */
            points?: number[][] | null;
            /**
             * Parts
             * @description where several fields were asked for, the exact score of each
             */
            parts?: {
                [key: string]: number;
            } | null;
            /**
             * Vectors
             * @description in its place where there are several
             */
            vectors?: {
                [key: string]: number[] | components["schemas"]["SparseVector"];
            } | null;
        };
        /**
         * HoldsAnswer
         * @description What the collection may hold, and how many items it has.
         */
        HoldsAnswer: {
            /** Items */
            items: number | null;
            /** Bytes */
            bytes: number | null;
            /** Count */
            count: number;
        };
        /**
         * HoldsRequest
         * @description What a collection may hold.
         * @example {
         *       "bytes": null,
         *       "items": 1000000
         *     }
         */
        HoldsRequest: {
            /**
             * Items
             * @description at most; null: as many as there is room for
             * @default null
             */
            items?: number | null;
            /**
             * Bytes
             * @description at most; null: as many as there is room for
             * @default null
             */
            bytes?: number | null;
        };
        /**
         * IndexesAnswer
         * @description The payload indexes of a collection; null: none is declared.
         */
        IndexesAnswer: {
            /**
             * Indexes
             * @description fields: by name their kind, and whether they are ready in this worker; progress: of the building at hand, to 1
             */
            indexes: {
                [key: string]: unknown;
            } | null;
        };
        /**
         * IndexesRequest
         * @description Payload indexes to add and to drop, in one transaction.
         * @example {
         *       "add": {
         *         "tag": "keyword",
         *         "year": "number"
         *       }
         *     }
         * @example {
         *       "drop": [
         *         "year"
         *       ]
         *     }
         */
        IndexesRequest: {
            /**
             * Add
             * @description fields of payloads, with dots into objects, and their kinds
             * @default {}
             */
            add?: {
                [key: string]: "number" | "keyword" | "datetime" | "geo";
            };
            /**
             * Drop
             * @description fields whose indexes are dropped, before others are added
             * @default []
             */
            drop?: string[];
        };
        /**
         * ItemIn
         * @description One item of an add.
         */
        ItemIn: {
            /**
             * Id
             * @description unique in the collection, at most 255 bytes of UTF-8; a 64-bit integer is the id of its digits
             * @example a
             */
            id: string | number;
            /** Vector */
            vector: number[] | string[] | components["schemas"]["SparseVector"] | components["schemas"]["TokenVector"];
            /**
             * Payload
             * @description any JSON object; filters look at its fields
             */
            payload?: {
                [key: string]: unknown;
            } | null;
            /** If Version */
            if_version?: number | null;
        };
        /**
         * ItemOut
         * @description A stored item.
         */
        ItemOut: {
            /** Id */
            id: string;
            /**
             * Payload
             * @description if included
             */
            payload?: {
                [key: string]: unknown;
            } | null;
            /**
             * Vector
             * @description if included; tokens come back as hashed features
             */
            vector?: number[] | components["schemas"]["SparseVector"] | null;
            /**
             * String
             * @description in its place, where items are strings
             */
            string?: string | null;
            /**
             * Series
             * @description in its place, where items are series
             */
            series?: number[] | number[][] | null;
            /**
             * Points
             * @description in its place, where items are point sets
             */
            points?: number[][] | null;
            /**
             * Vectors
             * @description in its place where there are several
             */
            vectors?: {
                [key: string]: number[] | components["schemas"]["SparseVector"];
            } | null;
            /**
             * Version
             * @description if included; changes with vector and payload
             */
            version?: number | null;
        };
        /**
         * LimitAnswer
         * @description One limit.
         */
        LimitAnswer: {
            /** Name */
            name: string;
            /** Value */
            value: number;
            /** Unit */
            unit: string;
            /** Reason */
            reason: string;
        };
        /**
         * LimitsAnswer
         * @description Every limit of this server.
         */
        LimitsAnswer: {
            /** Limits */
            limits: components["schemas"]["LimitAnswer"][];
        };
        /**
         * MapAnswer
         * @description A sample of the items, near items near each other.
         */
        MapAnswer: {
            /** Method */
            method: string;
            /** Kernel */
            kernel: string;
            /**
             * Sample
             * @description points
             */
            sample: number;
            /**
             * Rows
             * @description different vectors that were drawn from
             */
            rows: number;
            /** Points */
            points: components["schemas"]["MapPointOut"][];
            /**
             * Explained
             * @description of kernel_pca, the share of the variance of each axis
             */
            explained: [
                number,
                number
            ] | null;
            /** Took Ms */
            took_ms: number;
        };
        /**
         * MapPointOut
         * @description An item in the plane; items with the same vector are one point.
         */
        MapPointOut: {
            /** Id */
            id: string;
            /** X */
            x: number;
            /** Y */
            y: number;
            /**
             * Payload
             * @description the fields that were asked for
             */
            payload?: {
                [key: string]: unknown;
            } | null;
        };
        /**
         * MapRequest
         * @description A sample of the items to lay out in the plane.
         * @example {
         *       "fields": [
         *         "label"
         *       ],
         *       "sample": 500
         *     }
         * @example {
         *       "filter": {
         *         "year": 2020
         *       },
         *       "method": "spectral"
         *     }
         * @example {
         *       "field": "colour"
         *     }
         */
        MapRequest: {
            /**
             * Sample
             * @description different vectors that are drawn, at most
             * @default 1000
             */
            sample?: number;
            /**
             * Method
             * @description how they are laid out, by scikit-learn
             * @default kernel_pca
             * @enum {string}
             */
            method?: "kernel_pca" | "spectral";
            /**
             * Field
             * @description of a collection with several: the one whose kernel is meant
             * @default null
             */
            field?: string | null;
            /**
             * Fields
             * @description of payloads, that come with the points
             * @default []
             */
            fields?: string[];
            /**
             * Seed
             * @description of the draw
             * @default 0
             */
            seed?: number;
            /**
             * Filter
             * @default null
             */
            filter?: {
                [key: string]: unknown;
            } | null;
        };
        /**
         * ModeRecallAnswer
         * @description What one mode found.
         */
        ModeRecallAnswer: {
            /** Mode */
            mode: string;
            /**
             * Recall
             * @description share of the k nearest that were found, by score; the mean of all queries. null: none has any, nothing to measure
             */
            recall: number | null;
            /**
             * Lowest
             * @description that of the query that fared worst
             */
            lowest: number | null;
            /**
             * Certificate
             * @description mean of the recall bounds that answers carried; null: none did
             */
            certificate: number | null;
            /**
             * Certified
             * @description share of the answers that carried one
             */
            certified: number;
            /**
             * Milliseconds
             * @description median of a query that is asked alone, without HTTP
             */
            milliseconds: number;
        };
        /**
         * ObjectItemIn
         * @description One item of an add to a collection of objects. It has one of string, series, points and image, as all items of the add.
         */
        ObjectItemIn: {
            /**
             * Id
             * @description unique in the collection, at most 255 bytes of UTF-8; a 64-bit integer is the id of its digits
             * @example a
             */
            id: string | number;
            /**
             * String
             * @description compared as it is: no normal form is made
             */
            string?: string;
            /**
             * Series
             * @description numbers, or steps of as many numbers as the collection has dimensions; at most 32,768 in all
             * @example [
             *       0.5,
             *       1,
             *       2.5,
             *       1
             *     ]
             */
            series?: number[] | number[][];
            /**
             * Points
             * @description points of as many numbers as the collection has dimensions; at most 32,768 in all
             * @example [
             *       [
             *         0,
             *         0.5
             *       ],
             *       [
             *         1,
             *         1
             *       ]
             *     ]
             */
            points?: number[][];
            /**
             * Image
             * @description a PNG, JPEG or WebP file of at most 50,000,000 pixels, in base64
             */
            image?: string;
            /**
             * Payload
             * @description any JSON object; filters look at its fields
             */
            payload?: {
                [key: string]: unknown;
            } | null;
            /** If Version */
            if_version?: number | null;
        };
        /**
         * ObjectQueryIn
         * @description One of many queries of a collection of objects: one of these, the same in all of them.
         */
        ObjectQueryIn: {
            /**
             * String
             * @description compared as it is: no normal form is made
             */
            string?: string;
            /**
             * Series
             * @description numbers, or steps of as many numbers as the collection has dimensions; at most 32,768 in all
             * @example [
             *       0.5,
             *       1,
             *       2.5,
             *       1
             *     ]
             */
            series?: number[] | number[][];
            /**
             * Points
             * @description points of as many numbers as the collection has dimensions; at most 32,768 in all
             * @example [
             *       [
             *         0,
             *         0.5
             *       ],
             *       [
             *         1,
             *         1
             *       ]
             *     ]
             */
            points?: number[][];
            /**
             * Image
             * @description a PNG, JPEG or WebP file of at most 50,000,000 pixels, in base64
             */
            image?: string;
        };
        /**
         * ObjectsAddRequest
         * @description Strings, series, point sets or images to add or replace, in one transaction: all of them or none.
         * @example {
         *       "items": [
         *         {
         *           "id": "a",
         *           "string": "kitten"
         *         },
         *         {
         *           "id": "b",
         *           "payload": {
         *             "year": 2020
         *           },
         *           "string": "sitting"
         *         }
         *       ]
         *     }
         * @example {
         *       "items": [
         *         {
         *           "id": "c",
         *           "series": [
         *             0.5,
         *             1,
         *             2.5,
         *             1
         *           ]
         *         }
         *       ]
         *     }
         * @example {
         *       "items": [
         *         {
         *           "id": "d",
         *           "points": [
         *             [
         *               0,
         *               0.5
         *             ],
         *             [
         *               1,
         *               1
         *             ],
         *             [
         *               2,
         *               0
         *             ]
         *           ]
         *         }
         *       ]
         *     }
         */
        ObjectsAddRequest: {
            /** Items */
            items: components["schemas"]["ObjectItemIn"][];
            /**
             * Mode
             * @description insert takes new ids only, update stored ids only
             * @default upsert
             * @enum {string}
             */
            mode?: "upsert" | "insert" | "update";
            /**
             * On Error
             * @description skip: write the good items, and list the bad ones in the answer
             * @default reject
             * @enum {string}
             */
            on_error?: "reject" | "skip";
        };
        /**
         * OneAnswer
         * @description The neighbours of one vector, and what is known of their completeness.
         */
        OneAnswer: {
            /** Results */
            results: components["schemas"]["Hit"][];
            /**
             * Recall Lower Bound
             * @description each of the true k nearest (with min_score: of those that reach it) is found with at least this probability over the secret seed of the collection, so mean recall is at least this; null: see no_bound
             */
            recall_lower_bound: number | null;
            /**
             * No Bound
             * @description why no bound can be stated; only there when it is null
             */
            no_bound?: string | null;
            /**
             * Mode
             * @description how it was searched
             * @enum {string}
             */
            mode: "bands" | "links" | "exact" | "pool";
            /**
             * Candidates
             * @description items that shared a band with the query or that a walk met; all of them for a scan
             */
            candidates: number;
            /**
             * Verified
             * @description items whose exact score was computed
             */
            verified: number;
            /**
             * Truncated
             * @description the caps that cut the search short
             */
            truncated: string[];
            /**
             * Steps
             * @description what was done for it, in order, and why
             * @example [
             *       "walk linked rows",
             *       "scan all rows: far"
             *     ]
             */
            steps: string[];
            /**
             * Groups
             * @description with group_by: which results belong together; these come group by group
             */
            groups?: components["schemas"]["GroupOut"][] | null;
            /**
             * Next
             * @description with cursor: that of the next page; null: this is the last
             */
            next?: string | null;
            /** @description with debug: what was done */
            debug?: components["schemas"]["DebugOut"] | null;
            /**
             * Out Of Distribution
             * @description only there when true: the query is unlike the stored items that walks were calibrated on; mode auto completes such an answer by bands or a scan
             * @default false
             */
            out_of_distribution?: boolean;
        };
        /**
         * PairAnswer
         * @description Two items; of several with the same vector the first stands for all, and is paired with each of them.
         */
        PairAnswer: {
            /** A */
            a: string;
            /**
             * B
             * @description comes after a
             */
            b: string;
            /**
             * Score
             * @description what the kernel prints, exactly: of kernels that print distances the distance
             */
            score: number;
        };
        /**
         * PairsAnswer
         * @description Pairs of one snapshot, as they are found.
         */
        PairsAnswer: {
            /** Pairs */
            pairs: components["schemas"]["PairAnswer"][];
            /**
             * Miss Probability
             * @description the most that the probability is, of each pair, to be overlooked
             */
            miss_probability: number;
            /**
             * Compared
             * @description pairs of different vectors that were scored
             */
            compared: number;
            /**
             * Complete
             * @description false: there are more than the limit
             */
            complete: boolean;
            /**
             * Took Ms
             * @description milliseconds from the parsed request to the answer, waiting for a thread included
             */
            took_ms: number;
        };
        /**
         * PayloadAnswer
         * @description The payloads are durable, and every worker sees them.
         */
        PayloadAnswer: {
            /** Updated */
            updated: number;
            /**
             * Unchanged
             * @description items whose payload was the same before
             */
            unchanged: number;
            /**
             * Count
             * @description items in the collection
             */
            count: number;
        };
        /**
         * PayloadIn
         * @description The payload, or the patch, of one item.
         */
        PayloadIn: {
            /**
             * Id
             * @description of a stored item
             * @example a
             */
            id: string | number;
            /**
             * Payload
             * @description any JSON object; null takes the payload away, and is no change as a patch
             */
            payload: {
                [key: string]: unknown;
            } | null;
            /** If Version */
            if_version?: number | null;
        };
        /**
         * PayloadRequest
         * @description Payloads of stored items, in one transaction: all of them or none.
         * @example {
         *       "items": [
         *         {
         *           "id": "a",
         *           "payload": {
         *             "year": 2021
         *           }
         *         }
         *       ]
         *     }
         * @example {
         *       "items": [
         *         {
         *           "id": "a",
         *           "payload": {
         *             "tags": {
         *               "new": true
         *             },
         *             "year": null
         *           }
         *         }
         *       ],
         *       "mode": "merge"
         *     }
         */
        PayloadRequest: {
            /** Items */
            items: components["schemas"]["PayloadIn"][];
            /**
             * Mode
             * @description merge: a patch (RFC 7396): null removes a field, objects are merged, all else replaces what was there
             * @default replace
             * @enum {string}
             */
            mode?: "replace" | "merge";
        };
        /**
         * ProblemAnswer
         * @description An error (RFC 9457), smaller than 2 kB; of what was sent it repeats names of fields, and ids of a conflict, at most.
         */
        ProblemAnswer: {
            /** Type */
            type: string;
            /** Title */
            title: string;
            /** Status */
            status: number;
            /**
             * Code
             * @description for programs; never changes
             */
            code: string;
            /** Detail */
            detail: string;
            /** Errors */
            errors: components["schemas"]["ProblemEntry"][];
            /**
             * Limit
             * @description the limit in /v1/limits that was passed
             */
            limit: string | null;
        };
        /**
         * ProblemEntry
         * @description One thing that is wrong with the body.
         */
        ProblemEntry: {
            /**
             * Pointer
             * @description JSON pointer as a URI fragment
             * @example #/items/3/vector
             */
            pointer: string;
            /** Detail */
            detail: string;
        };
        /**
         * QueryAnswer
         * @description The answer to one vector.
         */
        QueryAnswer: {
            /** Results */
            results: components["schemas"]["Hit"][];
            /**
             * Recall Lower Bound
             * @description each of the true k nearest (with min_score: of those that reach it) is found with at least this probability over the secret seed of the collection, so mean recall is at least this; null: see no_bound
             */
            recall_lower_bound: number | null;
            /**
             * No Bound
             * @description why no bound can be stated; only there when it is null
             */
            no_bound?: string | null;
            /**
             * Mode
             * @description how it was searched
             * @enum {string}
             */
            mode: "bands" | "links" | "exact" | "pool";
            /**
             * Candidates
             * @description items that shared a band with the query or that a walk met; all of them for a scan
             */
            candidates: number;
            /**
             * Verified
             * @description items whose exact score was computed
             */
            verified: number;
            /**
             * Truncated
             * @description the caps that cut the search short
             */
            truncated: string[];
            /**
             * Steps
             * @description what was done for it, in order, and why
             * @example [
             *       "walk linked rows",
             *       "scan all rows: far"
             *     ]
             */
            steps: string[];
            /**
             * Groups
             * @description with group_by: which results belong together; these come group by group
             */
            groups?: components["schemas"]["GroupOut"][] | null;
            /**
             * Next
             * @description with cursor: that of the next page; null: this is the last
             */
            next?: string | null;
            /** @description with debug: what was done */
            debug?: components["schemas"]["DebugOut"] | null;
            /**
             * Out Of Distribution
             * @description only there when true: the query is unlike the stored items that walks were calibrated on; mode auto completes such an answer by bands or a scan
             * @default false
             */
            out_of_distribution?: boolean;
            /**
             * Took Ms
             * @description milliseconds from the parsed request to the answer, waiting for a thread included
             */
            took_ms: number;
        };
        /**
         * QueryEntry
         * @description One of many queries, with options of its own; those that it lacks are the ones beside queries.
         */
        QueryEntry: {
            /**
             * Vector
             * @default null
             */
            vector?: number[] | string[] | components["schemas"]["SparseVector"] | components["schemas"]["TokenVector"] | null;
            /**
             * String
             * @default null
             */
            string?: string | null;
            /**
             * Series
             * @default null
             */
            series?: (number[] | number[][]) | null;
            /**
             * Points
             * @default null
             */
            points?: number[][] | null;
            /**
             * Image
             * @default null
             */
            image?: string | null;
            /**
             * Id
             * @description query by the vector, or object, of this stored item
             * @default null
             */
            id?: string | number | null;
            /**
             * Positive
             * @description examples to be near: ids, or vectors, or objects under their key. The score is the mean kernel with these, less the mean with the negative ones
             * @default null
             */
            positive?: (string | number | number[] | string[] | components["schemas"]["SparseVector"] | components["schemas"]["TokenVector"] | components["schemas"]["ObjectQueryIn"])[] | null;
            /**
             * Negative
             * @description examples to be far from, with positive
             * @default null
             */
            negative?: (string | number | number[] | string[] | components["schemas"]["SparseVector"] | components["schemas"]["TokenVector"] | components["schemas"]["ObjectQueryIn"])[] | null;
            /**
             * K
             * @description how many neighbours
             * @default 10
             */
            k?: number;
            /**
             * Target Recall
             * @description the recall that is wanted: bands are verified until so much is proved, walks are calibrated for it
             * @default 0.9
             */
            target_recall?: number;
            /**
             * Min Score
             * @description leave out neighbours with a lower score; most kernels' scores go from 0 to 1
             * @default null
             */
            min_score?: number | null;
            /**
             * Filter
             * @default null
             */
            filter?: {
                [key: string]: unknown;
            } | null;
            /**
             * Mode
             * @description auto takes what is expected to be fastest: a walk over links where there are any, bands, or an exact scan
             * @default auto
             * @enum {string}
             */
            mode?: "auto" | "bands" | "links" | "exact";
            /**
             * Certify
             * @description ask the bands for a bound on the recall of a walk, which has none by itself
             * @default false
             */
            certify?: boolean;
            /**
             * Include
             * @description what to return of each item: vector, payload, or fields of it, as payload.year
             * @default []
             */
            include?: (("vector" | "payload") | string)[];
            /**
             * Max Distance
             * @description leave out neighbours that are farther; for kernels that print distances, in the place of min_score
             * @default null
             */
            max_distance?: number | null;
            /**
             * Exclude
             * @description ids of items that are not answered
             * @default []
             */
            exclude?: (string | number)[];
            /**
             * Include Self
             * @description with a query by id: answer the item itself, too
             * @default false
             */
            include_self?: boolean;
            /**
             * Offset
             * @description leave out so many of the nearest: the next page of an answer
             * @default 0
             */
            offset?: number;
            /**
             * Cursor
             * @description answer page by page: empty for the first page, then the next of the page before
             * @default null
             */
            cursor?: string | null;
            /** @default null */
            group_by?: components["schemas"]["Grouping"] | null;
            /**
             * Debug
             * @description tell what was done, and how long each step took
             * @default false
             */
            debug?: boolean;
        };
        /**
         * QueryOptions
         * @description Options of a query. With a matrix as the body they are parameters of the address.
         */
        QueryOptions: {
            /**
             * K
             * @description how many neighbours
             * @default 10
             */
            k?: number;
            /**
             * Target Recall
             * @description the recall that is wanted: bands are verified until so much is proved, walks are calibrated for it
             * @default 0.9
             */
            target_recall?: number;
            /**
             * Min Score
             * @description leave out neighbours with a lower score; most kernels' scores go from 0 to 1
             * @default null
             */
            min_score?: number | null;
            /**
             * Mode
             * @description auto takes what is expected to be fastest: a walk over links where there are any, bands, or an exact scan
             * @default auto
             * @enum {string}
             */
            mode?: "auto" | "bands" | "links" | "exact";
            /**
             * Certify
             * @description ask the bands for a bound on the recall of a walk, which has none by itself
             * @default false
             */
            certify?: boolean;
            /**
             * Include
             * @description what to return of each item: vector, payload, or fields of it, as payload.year
             * @default []
             */
            include?: (("vector" | "payload") | string)[];
            /**
             * Max Distance
             * @description leave out neighbours that are farther; for kernels that print distances, in the place of min_score
             * @default null
             */
            max_distance?: number | null;
            /**
             * Offset
             * @description leave out so many of the nearest: the next page of an answer
             * @default 0
             */
            offset?: number;
            /**
             * Debug
             * @description tell what was done, and how long each step took
             * @default false
             */
            debug?: boolean;
        };
        /**
         * QueryRequest
         * @description One of vector, an object under its key, id and queries; and options.
         * @example {
         *       "filter": {
         *         "year": {
         *           "$gte": 2020
         *         }
         *       },
         *       "include": [
         *         "payload"
         *       ],
         *       "k": 10,
         *       "target_recall": 0.9,
         *       "vector": [
         *         0.1,
         *         0,
         *         2.5
         *       ]
         *     }
         * @example {
         *       "exclude": [
         *         "b"
         *       ],
         *       "id": "a",
         *       "k": 5
         *     }
         * @example {
         *       "id": "a",
         *       "include_self": true,
         *       "k": 5,
         *       "offset": 5
         *     }
         * @example {
         *       "mode": "exact",
         *       "queries": [
         *         [
         *           0.1,
         *           0,
         *           2.5
         *         ],
         *         [
         *           0,
         *           1.5,
         *           2
         *         ]
         *       ]
         *     }
         * @example {
         *       "include": [
         *         "vector"
         *       ],
         *       "k": 5,
         *       "max_distance": 3,
         *       "string": "kitten"
         *     }
         * @example {
         *       "k": 5,
         *       "negative": [
         *         "b"
         *       ],
         *       "positive": [
         *         "a",
         *         [
         *           0.1,
         *           0,
         *           2.5
         *         ]
         *       ]
         *     }
         * @example {
         *       "group_by": {
         *         "field": "shot",
         *         "groups": 5,
         *         "size": 2
         *       },
         *       "id": "a",
         *       "include": [
         *         "payload.shot"
         *       ]
         *     }
         * @example {
         *       "cursor": "",
         *       "debug": true,
         *       "id": "a"
         *     }
         * @example {
         *       "min_score": 0.1,
         *       "queries": [
         *         {
         *           "id": "a",
         *           "k": 3
         *         },
         *         {
         *           "filter": {
         *             "year": 2020
         *           },
         *           "vector": [
         *             0.1,
         *             0,
         *             2.5
         *           ]
         *         }
         *       ]
         *     }
         * @example {
         *       "queries": [
         *         {
         *           "points": [
         *             [
         *               0,
         *               0.5
         *             ],
         *             [
         *               1,
         *               1
         *             ]
         *           ]
         *         },
         *         {
         *           "points": [
         *             [
         *               2,
         *               0
         *             ]
         *           ]
         *         }
         *       ]
         *     }
         */
        QueryRequest: {
            /**
             * Vector
             * @default null
             */
            vector?: number[] | string[] | components["schemas"]["SparseVector"] | components["schemas"]["TokenVector"] | null;
            /**
             * String
             * @default null
             */
            string?: string | null;
            /**
             * Series
             * @default null
             */
            series?: (number[] | number[][]) | null;
            /**
             * Points
             * @default null
             */
            points?: number[][] | null;
            /**
             * Image
             * @default null
             */
            image?: string | null;
            /**
             * Id
             * @description query by the vector, or object, of this stored item
             * @default null
             */
            id?: string | number | null;
            /**
             * Positive
             * @description examples to be near: ids, or vectors, or objects under their key. The score is the mean kernel with these, less the mean with the negative ones
             * @default null
             */
            positive?: (string | number | number[] | string[] | components["schemas"]["SparseVector"] | components["schemas"]["TokenVector"] | components["schemas"]["ObjectQueryIn"])[] | null;
            /**
             * Negative
             * @description examples to be far from, with positive
             * @default null
             */
            negative?: (string | number | number[] | string[] | components["schemas"]["SparseVector"] | components["schemas"]["TokenVector"] | components["schemas"]["ObjectQueryIn"])[] | null;
            /**
             * Queries
             * @description many vectors, or objects, each of these under its key; or queries with options of their own, which go before those beside queries
             * @default null
             */
            queries?: (number[] | string[] | components["schemas"]["SparseVector"] | components["schemas"]["TokenVector"] | components["schemas"]["ObjectQueryIn"] | components["schemas"]["QueryEntry"])[] | null;
            /**
             * K
             * @description how many neighbours
             * @default 10
             */
            k?: number;
            /**
             * Target Recall
             * @description the recall that is wanted: bands are verified until so much is proved, walks are calibrated for it
             * @default 0.9
             */
            target_recall?: number;
            /**
             * Min Score
             * @description leave out neighbours with a lower score; most kernels' scores go from 0 to 1
             * @default null
             */
            min_score?: number | null;
            /**
             * Filter
             * @default null
             */
            filter?: {
                [key: string]: unknown;
            } | null;
            /**
             * Mode
             * @description auto takes what is expected to be fastest: a walk over links where there are any, bands, or an exact scan
             * @default auto
             * @enum {string}
             */
            mode?: "auto" | "bands" | "links" | "exact";
            /**
             * Certify
             * @description ask the bands for a bound on the recall of a walk, which has none by itself
             * @default false
             */
            certify?: boolean;
            /**
             * Include
             * @description what to return of each item: vector, payload, or fields of it, as payload.year
             * @default []
             */
            include?: (("vector" | "payload") | string)[];
            /**
             * Max Distance
             * @description leave out neighbours that are farther; for kernels that print distances, in the place of min_score
             * @default null
             */
            max_distance?: number | null;
            /**
             * Exclude
             * @description ids of items that are not answered
             * @default []
             */
            exclude?: (string | number)[];
            /**
             * Include Self
             * @description with a query by id: answer the item itself, too
             * @default false
             */
            include_self?: boolean;
            /**
             * Offset
             * @description leave out so many of the nearest: the next page of an answer
             * @default 0
             */
            offset?: number;
            /**
             * Cursor
             * @description answer page by page: empty for the first page, then the next of the page before
             * @default null
             */
            cursor?: string | null;
            /** @default null */
            group_by?: components["schemas"]["Grouping"] | null;
            /**
             * Debug
             * @description tell what was done, and how long each step took
             * @default false
             */
            debug?: boolean;
        };
        /**
         * RebuildAnswer
         * @description How the rows lie now.
         */
        RebuildAnswer: {
            /**
             * Rows
             * @description hashes a band of the largest run; null: there are no rows
             */
            rows: number | null;
            /** Bands */
            bands: number | null;
            /**
             * Count
             * @description different rows that lie so
             */
            count: number;
            /** Seconds */
            seconds: number;
        };
        /**
         * RebuildRequest
         * @description The bands in which all rows are to lie.
         * @example {
         *       "bands": 128,
         *       "rows": 3
         *     }
         */
        RebuildRequest: {
            /**
             * Rows
             * @description null: chosen by Kinbin, run by run
             * @default null
             */
            rows?: number | null;
            /**
             * Bands
             * @description null: chosen by Kinbin, run by run
             * @default null
             */
            bands?: number | null;
            /**
             * Field
             * @description of items with several vectors: the one that is meant
             * @default null
             */
            field?: string | null;
        };
        /**
         * RecallAnswer
         * @description Recall of each mode, against an exact scan of the same snapshot.
         */
        RecallAnswer: {
            /** Queries */
            queries: number;
            /** K */
            k: number;
            /** Target Recall */
            target_recall: number;
            /**
             * Sampled
             * @description whether queries are stored rows, each left out of its own answers
             */
            sampled: boolean;
            /** Modes */
            modes: components["schemas"]["ModeRecallAnswer"][];
            /** Took Ms */
            took_ms: number;
        };
        /**
         * RecallRequest
         * @description Queries to measure recall by.
         * @example {
         *       "k": 10,
         *       "queries": [
         *         {
         *           "indices": [
         *             0,
         *             2
         *           ],
         *           "values": [
         *             0.1,
         *             2.5
         *           ]
         *         }
         *       ]
         *     }
         */
        RecallRequest: {
            /**
             * Queries
             * @description vectors, or objects, each of these under its key
             */
            queries: (number[] | string[] | components["schemas"]["SparseVector"] | components["schemas"]["TokenVector"] | components["schemas"]["ObjectQueryIn"])[];
            /**
             * K
             * @default 10
             */
            k?: number;
            /**
             * Target Recall
             * @description the recall that queries ask for
             * @default 0.9
             */
            target_recall?: number;
            /**
             * Modes
             * @description those to measure; null: all that the collection has the means for
             * @default null
             */
            modes?: ("auto" | "bands" | "links" | "exact")[] | null;
        };
        /**
         * RestOut
         * @description The features that are not listed, together.
         */
        RestOut: {
            /** Features */
            features: number;
            /** Part */
            part: number;
            /** Min */
            min?: number | null;
            /** Max */
            max?: number | null;
        };
        /**
         * RestoreOptions
         * @description What is said in the address where the body is a snapshot.
         */
        RestoreOptions: {
            /**
             * Name
             * @description of the new collection
             */
            name: string;
        };
        /**
         * RestoreRequest
         * @description Make a new collection of a snapshot that the service keeps.
         * @example {
         *       "collection": "photos",
         *       "name": "photos-2",
         *       "snapshot": "20260131T120000000Z-4f1c09"
         *     }
         */
        RestoreRequest: {
            /**
             * Collection
             * @description the collection that the snapshot was made of, which need not be there any more
             */
            collection: string;
            /**
             * Snapshot
             * @description its id
             */
            snapshot: string;
            /**
             * Name
             * @description of the new collection
             */
            name: string;
        };
        /**
         * ScrollAnswer
         * @description One page; `next` is null on the last one.
         */
        ScrollAnswer: {
            /** Items */
            items: components["schemas"]["ItemOut"][];
            /** Next */
            next: string | null;
        };
        /**
         * ScrollRequest
         * @description One page of a collection, in the order of ids, or of a field of payloads.
         * @example {
         *       "after": null,
         *       "include": [
         *         "payload"
         *       ],
         *       "limit": 100
         *     }
         */
        ScrollRequest: {
            /**
             * After
             * @description the next of the page before; null for the first page
             * @default null
             */
            after?: string | null;
            /**
             * Limit
             * @default 100
             */
            limit?: number;
            /**
             * Filter
             * @default null
             */
            filter?: {
                [key: string]: unknown;
            } | null;
            /**
             * Include
             * @description what to return of each item: vector, payload, or fields of it, and version
             * @default [
             *       "payload"
             *     ]
             */
            include?: (("vector" | "payload" | "version") | string)[];
            /**
             * Order By
             * @description a field of payloads: its least value in each item first; items without a number or string are left out
             * @default null
             */
            order_by?: string | null;
            /**
             * Descending
             * @description with order_by: the greatest value in each item first
             * @default false
             */
            descending?: boolean;
        };
        /**
         * SkippedItem
         * @description An item that was left out.
         */
        SkippedItem: {
            /**
             * Pointer
             * @description JSON pointer as a URI fragment
             * @example #/items/3/vector
             */
            pointer: string;
            /**
             * Code
             * @description as of a refused add
             */
            code: string;
            /** Detail */
            detail: string;
        };
        /**
         * SnapshotAnswer
         * @description A snapshot on disk.
         */
        SnapshotAnswer: {
            /**
             * Id
             * @description among the snapshots of the collection, ascending with time
             */
            id: string;
            /** Collection */
            collection: string;
            /**
             * Created
             * @description UTC, ISO 8601
             */
            created: string;
            /** Items */
            items: number;
            /** Bytes */
            bytes: number;
            /**
             * Sha256
             * @description of the file, hexadecimal
             */
            sha256: string;
            /**
             * Grown Bytes
             * @description what the collection's files grew by while it was made
             */
            grown_bytes: number;
            /**
             * Problem
             * @description what is wrong with its file, as far as size and beginning show; empty: nothing. verify reads all
             */
            problem: string;
        };
        /**
         * SnapshotDeletedAnswer
         * @description The snapshot is gone.
         */
        SnapshotDeletedAnswer: {
            /**
             * Deleted
             * @description its id
             */
            deleted: string;
        };
        /**
         * SnapshotRequest
         * @description Make a snapshot.
         */
        SnapshotRequest: {
            /**
             * Keep
             * @description so many snapshots of the collection stay, the newest; older ones are deleted; null: all stay
             * @default null
             */
            keep?: number | null;
        };
        /**
         * SnapshotsAnswer
         * @description The snapshots of a collection, the oldest first.
         */
        SnapshotsAnswer: {
            /** Snapshots */
            snapshots: components["schemas"]["SnapshotAnswer"][];
        };
        /**
         * SparseVector
         * @description Values at feature ids; no feature twice. In a collection with a dimension, ids are below it.
         * @example {
         *       "indices": [
         *         3,
         *         70001
         *       ],
         *       "values": [
         *         1.5,
         *         2
         *       ]
         *     }
         */
        SparseVector: {
            /** Indices */
            indices: number[];
            /** Values */
            values: number[];
        };
        /**
         * StatusAnswer
         * @description The state of this worker.
         */
        StatusAnswer: {
            /**
             * Status
             * @enum {string}
             */
            status: "starting" | "ready" | "stopping";
            /** Version */
            version: string;
            /**
             * Compiling
             * @description Groups of kernels that are still being compiled
             * @example []
             * @example [
             *       "links"
             *     ]
             */
            compiling: string[];
            /**
             * Background
             * @description "failing" while sealing, merging or linking fails; requests are answered, and it is tried again
             * @enum {string}
             */
            background: "ok" | "failing";
        };
        /**
         * StepOut
         * @description One step of a search.
         */
        StepOut: {
            /** Step */
            step: string;
            /**
             * Ms
             * @description milliseconds that it took
             */
            ms: number;
        };
        /**
         * SuggestionAnswer
         * @description A setting for a rebuild.
         */
        SuggestionAnswer: {
            /** Rows */
            rows: number;
            /** Bands */
            bands: number;
            /** Why */
            why: string;
        };
        /**
         * TermOut
         * @description One feature, or of objects two elements that stand against each other. Fields that mean nothing here are left out.
         */
        TermOut: {
            /**
             * Part
             * @description of the sum
             */
            part: number;
            /** Feature */
            feature?: number | null;
            /**
             * Name
             * @description of the feature, where it is known
             */
            name?: string | null;
            /**
             * Query
             * @description what the query has, as it is compared: divided by its sum or length where the kernel does so
             */
            query: unknown;
            /**
             * Item
             * @description what the item has
             */
            item: unknown;
            /**
             * Min
             * @description where the kernel adds up minima
             */
            min?: number | null;
            /** Max */
            max?: number | null;
            /**
             * What
             * @description of objects: insert, delete, replace, swap, match, step, …
             */
            what?: string | null;
            /**
             * Query At
             * @description place of the element in the query, from 0 on
             */
            query_at?: number | null;
            /** Item At */
            item_at?: number | null;
            /**
             * Apart
             * @description how far two points are from each other
             */
            apart?: number | null;
        };
        /**
         * TokenVector
         * @description Counts (or weights) of tokens, or a list of tokens that count as often as they stand in it.
         *
         *     They are hashed to feature ids; for collections without a dimension.
         * @example {
         *       "tokens": {
         *         "apple": 1,
         *         "red": 3
         *       }
         *     }
         * @example {
         *       "tokens": [
         *         "quick",
         *         "brown"
         *       ]
         *     }
         */
        TokenVector: {
            /** Tokens */
            tokens: {
                [key: string]: number;
            } | string[];
        };
        /**
         * TuneAnswer
         * @description What is predicted.
         */
        TuneAnswer: {
            /** Sample */
            sample: number;
            /** K */
            k: number;
            /** Target Recall */
            target_recall: number;
            similarity_histogram: components["schemas"]["HistogramAnswer"];
            /** Bands */
            bands: components["schemas"]["BandsForecastAnswer"][];
            /**
             * Walks
             * @description empty: no links were built
             */
            walks: components["schemas"]["WalkForecastAnswer"][];
            current: components["schemas"]["CurrentSettingAnswer"];
            suggested: components["schemas"]["SuggestionAnswer"];
            /** Took Ms */
            took_ms: number;
        };
        /**
         * TuneRequest
         * @description Predict what bands and walks find and take, by a sample of the stored rows.
         * @example {
         *       "choices": [
         *         {
         *           "bands": 128,
         *           "rows": 3
         *         }
         *       ],
         *       "k": 10,
         *       "sample": 50,
         *       "target_recall": 0.9
         *     }
         */
        TuneRequest: {
            /**
             * K
             * @default 10
             */
            k?: number;
            /**
             * Target Recall
             * @description the recall that queries ask for
             * @default 0.9
             */
            target_recall?: number;
            /**
             * Sample
             * @description stored rows that are drawn, each as a query
             * @default 200
             */
            sample?: number;
            /**
             * Seed
             * @description of the draw of stored rows
             * @default 0
             */
            seed?: number;
            /**
             * Field
             * @description of items with several vectors: the one that is meant
             * @default null
             */
            field?: string | null;
            /**
             * Choices
             * @description null: all usual settings
             * @default null
             */
            choices?: components["schemas"]["ChoiceIn"][] | null;
        };
        /**
         * VerifiedAnswer
         * @description What reading all of a snapshot found.
         */
        VerifiedAnswer: {
            /**
             * Ok
             * @description every record is proved, and the file is the one that was made
             */
            ok: boolean;
            /**
             * Items
             * @description items that were proved
             */
            items: number;
            /** Problems */
            problems: string[];
        };
        /**
         * WalkForecastAnswer
         * @description What walks of one width find, as it was measured when the links were built.
         */
        WalkForecastAnswer: {
            /** Width */
            width: number;
            /** Recall */
            recall: number;
            /** Microseconds */
            microseconds: number;
        };
        /**
         * WalkOut
         * @description What links make of it.
         */
        WalkOut: {
            /**
             * Rank
             * @description place in the answer of a walk, without the item of query_id, from 1 on; null: it is not in it
             */
            rank: number | null;
            /** K */
            k: number;
            /**
             * Width
             * @description nodes that such a walk keeps; null of objects, whose pool has a width of its own
             */
            width: number | null;
        };
    };
    responses: {
        /** @description `bad_request`: The request is malformed. `bad_json`: The body is not JSON. `bad_encoding`: The body is not encoded as it says. `bad_npy`: The body is not an .npy matrix. `bad_multipart`: The body is not multipart/form-data with images. `key_in_query`: An API key does not belong into an address. */
        400: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["ProblemAnswer"];
            };
        };
        /** @description `unauthorized`: The API key is missing or wrong. */
        401: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["ProblemAnswer"];
            };
        };
        /** @description `forbidden`: The API key may not do this. `foreign_origin`: A web page of another host sent the request. */
        403: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["ProblemAnswer"];
            };
        };
        /** @description `not_found`: There is no such route. `collection_not_found`: There is no such collection. `alias_not_found`: There is no such alias. `snapshot_not_found`: There is no such snapshot. `unknown_id`: There is no such item. */
        404: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["ProblemAnswer"];
            };
        };
        /** @description `method_not_allowed`: The route has no such method. */
        405: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["ProblemAnswer"];
            };
        };
        /** @description `body_timeout`: The body took too long to arrive. `head_timeout`: The head of the request took too long to arrive. */
        408: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["ProblemAnswer"];
            };
        };
        /** @description `collection_exists`: A collection of this name exists. `item_conflict`: Items conflict with stored ones. `version_conflict`: Items have other versions. `key_reused`: The idempotency key came with another add. `alias_conflict`: A name is taken by an alias, or an alias by a collection. `cursor_expired`: The collection has changed since the cursor's page. `changed_meanwhile`: What was asked about has changed meanwhile. */
        409: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["ProblemAnswer"];
            };
        };
        /** @description `body_too_large`: The body is too large. */
        413: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["ProblemAnswer"];
            };
        };
        /** @description `unsupported_media_type`: The content type is not read here. `unsupported_encoding`: The content encoding is not read. */
        415: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["ProblemAnswer"];
            };
        };
        /** @description `range_not_satisfiable`: The range lies beyond the end. */
        416: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["ProblemAnswer"];
            };
        };
        /** @description `unknown_host`: The request names a host that is not this server's. */
        421: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["ProblemAnswer"];
            };
        };
        /** @description `invalid_field`: A field is missing, unknown or of the wrong type. `bad_string`: A string is not Unicode. `bad_id`: An id is not allowed. `bad_name`: A collection's name is not allowed. `bad_vector`: A vector is malformed. `bad_object`: A string, or another object, is malformed. `bad_payload`: A payload is not allowed. `bad_filter`: The filter is malformed. `bad_parameter`: A parameter is not allowed. `non_finite`: A number is not finite. `out_of_range`: A number is out of range. `zero_vector`: A vector has no value other than zero. `negative_value`: A value is negative in a collection that takes none. `dimension_mismatch`: A vector has the wrong dimension. `corrupt_snapshot`: The uploaded snapshot is damaged. `no_snapshot`: The uploaded file is no snapshot that is read here. `duplicate_feature`: A vector names a feature twice. `duplicate_id`: An id occurs twice in the batch. `over_limit`: A limit is passed. */
        422: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["ProblemAnswer"];
            };
        };
        /** @description `overloaded`: Too many requests wait already. */
        429: {
            headers: {
                /** @description seconds */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["ProblemAnswer"];
            };
        };
        /** @description `head_too_large`: The head of the request is too large. */
        431: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["ProblemAnswer"];
            };
        };
        /** @description `internal`: The service failed. `corrupt_data`: Stored data is damaged. `format_mismatch`: Stored data has another format. `storage_error`: The store failed. */
        500: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["ProblemAnswer"];
            };
        };
        /** @description `not_in_cluster`: A cluster does not offer this. */
        501: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["ProblemAnswer"];
            };
        };
        /** @description `not_ready`: The service is starting. `stopping`: The service is stopping. `too_many_connections`: Too many connections are open. `deadline`: The request waited too long. `search_deadline`: The search took too long. `buffers_full`: Too many bodies are being received. `storage_busy`: The store is busy. `closed`: The database is closed. `cancelled`: The search was given up. `shard_unavailable`: A part of the collection does not answer. `lagging`: No replica has applied the write yet. `outcome_unknown`: The write may have been done. */
        503: {
            headers: {
                /** @description seconds */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["ProblemAnswer"];
            };
        };
        /** @description `storage_full`: The storage is full. */
        507: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["ProblemAnswer"];
            };
        };
    };
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    add_items_default: {
        parameters: {
            query?: {
                /** @description insert takes new ids only, update stored ids only (not with a JSON body, which holds it itself) */
                mode?: "upsert" | "insert" | "update";
                /** @description skip: write the good items, and list the bad ones in the answer (not with a JSON body, which holds it itself) */
                on_error?: "reject" | "skip";
                /** @description of lines: true takes any number of them, and answers with lines of receipts while they arrive (not with a JSON body, which holds it itself) */
                stream?: "true" | "false";
                /** @description of a stream that is resumed: how many lines were durable and are not sent again (not with a JSON body, which holds it itself) */
                after?: number;
            };
            header?: {
                /**
                 * @description the ids of a matrix's rows, as a JSON array of strings or with commas; without it ids are made, sorted by time and row
                 * @example a,b
                 */
                "X-Kinbin-Ids"?: string;
                /**
                 * @description of this add: for 24 hours the same add with the same key is done once, and answered alike; 1 to 255 ASCII characters
                 * @example 6f1c1c0e-8a57-4f0b-9d0a-3a8f8e1f6f9b
                 */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AddRequest"] | components["schemas"]["FieldsAddRequest"] | components["schemas"]["ObjectsAddRequest"];
                "application/x-ndjson": string;
                "application/x-npy": string;
                "multipart/form-data": {
                    image: string[];
                    /** @description a JSON list of {"id", "payload"}, one for each image, in their order */
                    items?: string;
                };
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AddAnswer"];
                    "application/x-ndjson": string;
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            507: components["responses"]["507"];
        };
    };
    add_items: {
        parameters: {
            query?: {
                /** @description insert takes new ids only, update stored ids only (not with a JSON body, which holds it itself) */
                mode?: "upsert" | "insert" | "update";
                /** @description skip: write the good items, and list the bad ones in the answer (not with a JSON body, which holds it itself) */
                on_error?: "reject" | "skip";
                /** @description of lines: true takes any number of them, and answers with lines of receipts while they arrive (not with a JSON body, which holds it itself) */
                stream?: "true" | "false";
                /** @description of a stream that is resumed: how many lines were durable and are not sent again (not with a JSON body, which holds it itself) */
                after?: number;
            };
            header?: {
                /**
                 * @description the ids of a matrix's rows, as a JSON array of strings or with commas; without it ids are made, sorted by time and row
                 * @example a,b
                 */
                "X-Kinbin-Ids"?: string;
                /**
                 * @description of this add: for 24 hours the same add with the same key is done once, and answered alike; 1 to 255 ASCII characters
                 * @example 6f1c1c0e-8a57-4f0b-9d0a-3a8f8e1f6f9b
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description name of the collection */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AddRequest"] | components["schemas"]["FieldsAddRequest"] | components["schemas"]["ObjectsAddRequest"];
                "application/x-ndjson": string;
                "application/x-npy": string;
                "multipart/form-data": {
                    image: string[];
                    /** @description a JSON list of {"id", "payload"}, one for each image, in their order */
                    items?: string;
                };
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AddAnswer"];
                    "application/x-ndjson": string;
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            507: components["responses"]["507"];
        };
    };
    get_items: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["GetRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GetAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    delete_items: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DeleteRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeleteAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            507: components["responses"]["507"];
        };
    };
    scroll_items: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ScrollRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ScrollAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    count_items: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CountRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CountAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    change_indexes: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["IndexesRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IndexesAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            507: components["responses"]["507"];
        };
    };
    count_facets: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["FacetsRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FacetsAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    query_default: {
        parameters: {
            query?: {
                /** @description how many neighbours (not with a JSON body, which holds it itself) */
                k?: number;
                /** @description the recall that is wanted: bands are verified until so much is proved, walks are calibrated for it (not with a JSON body, which holds it itself) */
                target_recall?: number;
                /** @description leave out neighbours with a lower score; most kernels' scores go from 0 to 1 (not with a JSON body, which holds it itself) */
                min_score?: number | null;
                /** @description auto takes what is expected to be fastest: a walk over links where there are any, bands, or an exact scan (not with a JSON body, which holds it itself) */
                mode?: "auto" | "bands" | "links" | "exact";
                /** @description ask the bands for a bound on the recall of a walk, which has none by itself (not with a JSON body, which holds it itself) */
                certify?: boolean;
                /** @description what to return of each item: vector, payload, or fields of it, as payload.year (not with a JSON body, which holds it itself) */
                include?: (("vector" | "payload") | string)[];
                /** @description leave out neighbours that are farther; for kernels that print distances, in the place of min_score (not with a JSON body, which holds it itself) */
                max_distance?: number | null;
                /** @description leave out so many of the nearest: the next page of an answer (not with a JSON body, which holds it itself) */
                offset?: number;
                /** @description tell what was done, and how long each step took (not with a JSON body, which holds it itself) */
                debug?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["QueryRequest"] | components["schemas"]["FieldsQueryRequest"];
                "application/x-npy": string;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QueryAnswer"] | components["schemas"]["BatchAnswer"];
                    "application/vnd.kinbin.columns+json": components["schemas"]["ColumnsAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    query: {
        parameters: {
            query?: {
                /** @description how many neighbours (not with a JSON body, which holds it itself) */
                k?: number;
                /** @description the recall that is wanted: bands are verified until so much is proved, walks are calibrated for it (not with a JSON body, which holds it itself) */
                target_recall?: number;
                /** @description leave out neighbours with a lower score; most kernels' scores go from 0 to 1 (not with a JSON body, which holds it itself) */
                min_score?: number | null;
                /** @description auto takes what is expected to be fastest: a walk over links where there are any, bands, or an exact scan (not with a JSON body, which holds it itself) */
                mode?: "auto" | "bands" | "links" | "exact";
                /** @description ask the bands for a bound on the recall of a walk, which has none by itself (not with a JSON body, which holds it itself) */
                certify?: boolean;
                /** @description what to return of each item: vector, payload, or fields of it, as payload.year (not with a JSON body, which holds it itself) */
                include?: (("vector" | "payload") | string)[];
                /** @description leave out neighbours that are farther; for kernels that print distances, in the place of min_score (not with a JSON body, which holds it itself) */
                max_distance?: number | null;
                /** @description leave out so many of the nearest: the next page of an answer (not with a JSON body, which holds it itself) */
                offset?: number;
                /** @description tell what was done, and how long each step took (not with a JSON body, which holds it itself) */
                debug?: boolean;
            };
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["QueryRequest"] | components["schemas"]["FieldsQueryRequest"];
                "application/x-npy": string;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QueryAnswer"] | components["schemas"]["BatchAnswer"];
                    "application/vnd.kinbin.columns+json": components["schemas"]["ColumnsAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    explain: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ExplainRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExplainAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    map_items: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MapRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MapAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    find_duplicates: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DuplicatesRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PairsAnswer"] | components["schemas"]["ClustersAnswer"];
                    "application/x-ndjson": string;
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    tune: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TuneRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TuneAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    sampled_recall: {
        parameters: {
            query?: {
                /** @description stored rows that are drawn, each as a query */
                queries?: number;
                /** @description neighbours of each */
                k?: number;
                /** @description the recall that queries ask for */
                target_recall?: number;
                /** @description of the draw of stored rows */
                seed?: number;
                /** @description some of auto, bands, links and exact, with commas; all if it is absent */
                modes?: string | null;
            };
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RecallAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    given_recall: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RecallRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RecallAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    rebuild: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["RebuildRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RebuildAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            507: components["responses"]["507"];
        };
    };
    get_collection: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CollectionAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    create_collection: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CollectionRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CollectionAnswer"];
                };
            };
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CollectionAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            507: components["responses"]["507"];
        };
    };
    drop_collection: {
        parameters: {
            query?: {
                /** @description true also drops a collection whose files are damaged, or whose disk is full */
                damaged?: "true" | "false";
            };
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DroppedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            507: components["responses"]["507"];
        };
    };
    list_collections: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CollectionsAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            421: components["responses"]["421"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    compact_collection: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["CompactRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CompactAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            507: components["responses"]["507"];
        };
    };
    write_payloads: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PayloadRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PayloadAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            507: components["responses"]["507"];
        };
    };
    get_limits: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HoldsAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    put_limits: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["HoldsRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HoldsAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            507: components["responses"]["507"];
        };
    };
    put_alias: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the alias */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AliasRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AliasAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            507: components["responses"]["507"];
        };
    };
    drop_alias: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the alias */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AliasDroppedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            507: components["responses"]["507"];
        };
    };
    list_aliases: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AliasesAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            421: components["responses"]["421"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    list_snapshots: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SnapshotsAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    create_snapshot: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["SnapshotRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SnapshotAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            507: components["responses"]["507"];
        };
    };
    get_snapshot: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
                /** @description id of the snapshot */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The file */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": unknown;
                    "application/x-kinbin-snapshot": string;
                };
            };
            /** @description The part of it that Range names */
            206: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-kinbin-snapshot": string;
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            416: components["responses"]["416"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    delete_snapshot: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
                /** @description id of the snapshot */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SnapshotDeletedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    verify_snapshot: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the collection */
                name: string;
                /** @description id of the snapshot */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VerifiedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    restore: {
        parameters: {
            query?: {
                /** @description of the new collection (not with a JSON body, which holds it itself) */
                name?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RestoreRequest"];
                "application/x-kinbin-snapshot": string;
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CollectionAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            421: components["responses"]["421"];
            422: components["responses"]["422"];
            429: components["responses"]["429"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            507: components["responses"]["507"];
        };
    };
    livez: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StatusAnswer"];
                };
            };
            400: components["responses"]["400"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    readyz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StatusAnswer"];
                };
            };
            400: components["responses"]["400"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    healthz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StatusAnswer"];
                };
            };
            400: components["responses"]["400"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    list_limits: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LimitsAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            421: components["responses"]["421"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    metrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            421: components["responses"]["421"];
            431: components["responses"]["431"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
}
