"""Every limit on what Kinbin takes, as one table: name, value, unit, reason. Imports nothing of Kinbin.

The service returns this table at `/v1/limits` and adds its own; messages name the limit that was passed.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LIMITS", "Limit", "limit"]


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit: its value in `unit`, and why it is there."""

    name: str
    value: int | float
    unit: str
    reason: str


LIMITS: dict[str, Limit] = {
    item.name: item
    for item in (
        Limit("id_bytes", 255, "bytes of UTF-8", "ids are keys of the store, whose keys hold 511 bytes"),
        Limit("payload_bytes", 65_536, "bytes of JSON", "payloads travel with answers"),
        Limit("payload_depth", 32, "levels", "deeper JSON is a mistake or an attack"),
        Limit("dimension", 4_194_304, "features", "more belongs in a sparse collection, whose feature ids are unbounded"),
        Limit("feature_names", 65_536, "named features of a collection", "they are one record, read when the collection is opened"),
        Limit("feature_name", 255, "characters a name of a feature", "names are shown in tables"),
        Limit("nonzeros", 1_048_576, "nonzeros a vector", "one row has to fit a block"),
        Limit("feature_id", 2**63 - 1, "largest feature id", "ids are stored as 64-bit integers"),
        Limit("value", 1e15, "absolute value", "sums of squares and ratios stay finite in every kernel"),
        Limit("value_min", 1e-30, "absolute value", "smaller values have no full precision in float32; they are taken as zero"),
        Limit("image_bytes", 33_554_432, "bytes of a file", "an image is decoded in memory"),
        Limit("image_pixels", 50_000_000, "pixels an image", "it takes three bytes a pixel while its colours are counted"),
        Limit("string_length", 16_384, "characters a string", "the distance of two such strings takes 20 ms"),
        Limit("series_numbers", 32_768, "numbers a series", "the distance of two such series takes 0.7 s without a window"),
        Limit("object_numbers", 32_768, "numbers or bytes an object", "of what an encoder makes of it: it is one row"),
        Limit("points_numbers", 32_768, "numbers a point set", "the distance of two such sets takes up to a tenth of a second"),
        Limit("batch_items", 10_000, "items an add, ids a delete or a get", "one add is one transaction, which holds other writers up"),
        Limit("batch_nonzeros", 16_777_216, "nonzeros an add", "one add is one transaction, held in memory"),
        Limit("batch_queries", 10_000, "queries a batch", "one batch is answered from one snapshot"),
        Limit("k", 1_000, "neighbours", "more is an export: scroll"),
        Limit("examples", 100, "examples a query", "each row is scored with every one"),
        Limit("exclude", 1_000, "ids a query", "each costs as much as a larger k"),
        Limit("include", 64, "names to include", "each is looked up in every payload that is answered"),
        Limit("offset", 10_000, "neighbours that are left out", "a page at an offset costs what all before it do: more is an export"),
        Limit("map_sample", 2_000, "points a map", "all pairs are scored, and held in memory: 160 MB"),
        Limit("page", 1_000, "items a page", "one page is read from one short snapshot"),
        Limit("filter_depth", 8, "levels", "deeper filters are a mistake or an attack"),
        Limit("filter_terms", 256, "conditions and listed values", "every one is evaluated on every payload"),
        Limit("name_length", 63, "characters of a collection's name", "names are shown in paths and metrics"),
        Limit("collections", 1_000, "collections a database", "each is an open file"),
        Limit("aliases", 1_000, "aliases a database", "all of them are read at once"),
        Limit("idempotency_keys", 1_000_000, "keys a collection and day", "each answer is kept for a day"),
        Limit("fields", 16, "fields a collection", "each is a store of its own, which every write waits for"),
        Limit("indexes", 32, "payload indexes a collection", "each is held in memory, and brought forward after every write"),
        Limit("tuned_rows", 5_000, "sampled rows or queries of tune and recall", "each is searched for by an exact scan"),
        Limit("tuned_k", 100, "neighbours that tune looks at", "eight times as many are hashed for each sampled row"),
        Limit("tuned_choices", 256, "settings that tune judges", "each takes some 10 ms"),
        Limit("postings", 400_000, "postings read a query", "bounds the time of a query on degenerate data; answers tell"),
        Limit(
            "postings_per_row", 2, "postings read a query and stored row, where that is more", "a scan costs as much as 20 postings a row"
        ),
    )
}


def limit(name: str) -> float:
    """The value of a limit."""
    return LIMITS[name].value
