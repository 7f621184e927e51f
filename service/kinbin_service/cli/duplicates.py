"""`kinbin duplicates`: near pairs of a collection, or the clusters that they make."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import typer

from kinbin_service.cli.meant import FieldOption, config_of, meant
from kinbin_service.cli.options import DEFAULT_COLLECTION, FilterOption, JsonOption, PlaceDataOption, UrlOption, parsed_json
from kinbin_service.cli.output import Failure, error_console, failing_in_one_line, print_json
from kinbin_service.cli.place import DatabasePlace, place

__all__ = ["duplicates_command"]


def duplicates_command(
    data: PlaceDataOption = None,
    url: UrlOption = None,
    collection: Annotated[str, typer.Option(metavar="NAME", help="Collection to look through.")] = DEFAULT_COLLECTION,
    min_score: Annotated[float | None, typer.Option(metavar="SCORE", help="Pairs score so much at least.")] = None,
    max_distance: Annotated[
        float | None, typer.Option(metavar="D", help="Pairs are so far apart at most, if distances are printed.")
    ] = None,
    clusters: Annotated[bool, typer.Option("--clusters", help="Tell what hangs together by such pairs (single linkage).")] = False,
    miss: Annotated[float, typer.Option(metavar="P", help="Most probability that a pair is overlooked; 0 compares all.")] = 0.01,
    field: FieldOption = None,
    condition: FilterOption = None,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Pairs or clusters at most.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Find near duplicates: a line for each pair (score, id, id), or for each cluster (least score, ids, the first being kept).

    Scores are exact; all of it is of one moment. Items of the same vector count as one: the first is paired with each of the others.
    """
    from kinbin_service.importing import watch

    filter = None if condition is None else parsed_json(condition, "--filter")
    asked: dict[str, Any] = {"miss": miss, "filter": filter}
    form = "clusters" if clusters else "pairs"
    with failing_in_one_line(as_json), place(data, url) as there:
        handle = there.collection(collection)
        asked |= meant(config_of(handle), field, "looked through")
        if field is None:
            asked["max_distance"] = max_distance
        elif max_distance is not None:
            raise Failure("fields print scores: give --min-score, not --max-distance")
        if isinstance(there, DatabasePlace):
            with watch(error_console()) as bar:
                stages: list[str] = []

                def progress(stage: str, done: int, rows: int) -> None:
                    if stage not in stages:
                        stages.append(stage)
                        bar.start(f"{collection}: {stage}", rows, 0)
                    bar.advance(done, 0)

                with handle.duplicates(min_score, form, **asked, progress=progress) as answer:
                    found = list(islice(answer, limit))
                    complete = next(answer, None) is None
        else:
            stream = handle.duplicates_stream(min_score, form, **asked, limit=limit)
            found = list(stream)
            answer, complete = stream.summary, stream.summary.complete
    told = {"miss_probability": answer.miss_probability, "compared": answer.compared, "complete": complete}
    _show(collection, form, found, told, as_json)


def _show(collection: str, form: str, found: list[Any], told: dict[str, Any], as_json: bool) -> None:
    if as_json:
        listed = [
            {"a": one.a, "b": one.b, "score": one.score}
            if form == "pairs"
            else {"keep": one.keep, "ids": list(one.ids), "least": one.least}
            for one in found
        ]
        print_json({"collection": collection, form: listed, **told})
        return
    for one in found:
        typer.echo("\t".join([f"{one.score:.6f}", one.a, one.b] if form == "pairs" else [f"{one.least:.6f}", *one.ids]))
    more = "" if told["complete"] else ", and there are more"
    typer.echo(
        f"{len(found):,} {form}{more}; {told['compared']:,} pairs were compared; each is overlooked with probability"
        f" {told['miss_probability']:.2g} at most",
        err=True,
    )
