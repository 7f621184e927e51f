"""`kinbin query`: the neighbours of a vector, of a stored item, or of every row of a file, with a certificate for each answer."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

import kinbin
from kinbin_service.cli.asked import FIELDS, Asked, by_file, by_option, other_kind
from kinbin_service.cli.options import DEFAULT_COLLECTION, FilterOption, JsonOption, PlaceDataOption, UrlOption, parsed_json
from kinbin_service.cli.output import Failure, failing_in_one_line, output_console, print_json, tell
from kinbin_service.cli.place import ServicePlace, place
from kinbin_service.cli.service_target import for_client
from kinbin_service.cli.words import in_its_words

if TYPE_CHECKING:
    from kinbin_service.cli.place import Place

__all__ = ["Search", "certificate_line", "query_command"]


class Combine(StrEnum):
    """How scores of fields become one."""

    SUM = "sum"
    PRODUCT = "product"


class Search(StrEnum):
    """How a query is answered: the words of the option `mode`."""

    vars().update({word.upper(): word for word in kinbin.OPTIONS["mode"].known})


def _option(name: str, *flags: str) -> Any:
    """An option of a query as the library's table has it. What a limit says, the library or the service judges."""
    option = kinbin.OPTIONS[name]
    least = option.least if option.least is not None else option.above
    return typer.Option(*flags, min=least, max=option.most, help=f"{option.text[:1].upper()}{option.text[1:]}.")


def query_command(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Collection to search; the same as --collection.")] = None,
    data: PlaceDataOption = None,
    url: UrlOption = None,
    collection: Annotated[str | None, typer.Option(metavar="NAME", help=f"Collection to search; default: {DEFAULT_COLLECTION}.")] = None,
    vector: Annotated[
        str | None,
        typer.Option(metavar="JSON", help='The query: [0.1, 0, 2.5] or {"indices": [3], "values": [1.5]} or {"tokens": {"red": 3}}.'),
    ] = None,
    string: Annotated[str | None, typer.Option(metavar="TEXT", help="The query, in a collection of strings.")] = None,
    series: Annotated[str | None, typer.Option(metavar="JSON", help="The query, in one of series: [0.5, 1] or [[0, 1], [1, 2]].")] = None,
    points: Annotated[str | None, typer.Option(metavar="JSON", help="The query, in one of point sets: [[0, 0.5], [1, 1]].")] = None,
    image: Annotated[Path | None, typer.Option(metavar="FILE", help="The query, in one of images: a PNG, JPEG or WebP file.")] = None,
    identifier: Annotated[str | None, typer.Option("--id", metavar="ID", help="Query by the vector of this stored item.")] = None,
    positive: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Query by examples: near this stored item; may be repeated.")
    ] = None,
    negative: Annotated[list[str] | None, typer.Option(metavar="ID", help="And far from this one; may be repeated.")] = None,
    vectors: Annotated[
        str | None, typer.Option(metavar="JSON", help='The query, in one of several fields: {"colour": [0.1, 0, 2.5], "words": …}.')
    ] = None,
    weights: Annotated[str | None, typer.Option(metavar="JSON", help='How much each field weighs: {"colour": 0.7, "words": 0.3}.')] = None,
    combine: Annotated[Combine, typer.Option(help="How the scores of fields become one.")] = Combine.SUM,
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Queries in a file: a .npy of one vector (1-d) or many (2-d), a .txt of a string a line, or a .ndjson of "
            '{"vector"}, {"string"}, {"series"}, {"points"} or {"vectors"} a line.',
        ),
    ] = None,
    k: Annotated[int, _option("k", "-k", "--k")] = kinbin.OPTIONS["k"].default,
    target_recall: Annotated[float, _option("target_recall")] = kinbin.OPTIONS["target_recall"].default,
    min_score: Annotated[float | None, _option("min_score")] = kinbin.OPTIONS["min_score"].default,
    max_distance: Annotated[float | None, _option("max_distance")] = kinbin.OPTIONS["max_distance"].default,
    condition: FilterOption = kinbin.OPTIONS["filter"].default,
    mode: Annotated[Search, _option("mode")] = Search(kinbin.OPTIONS["mode"].default),  # noqa: B008  # immutable
    certify: Annotated[bool, _option("certify", "--certify")] = kinbin.OPTIONS["certify"].default,
    exclude: Annotated[list[str] | None, typer.Option(metavar="ID", help="Leave out the item of this id; may be repeated.")] = None,
    include_self: Annotated[bool, _option("include_self", "--include-self")] = kinbin.OPTIONS["include_self"].default,
    offset: Annotated[int, _option("offset")] = kinbin.OPTIONS["offset"].default,
    group_by: Annotated[
        str | None,
        typer.Option(metavar="JSON", help='The nearest of each value of a payload field: {"field": "shot", "groups": 5, "size": 2}.'),
    ] = None,
    debug: Annotated[bool, _option("debug", "--debug")] = kinbin.OPTIONS["debug"].default,
    as_json: JsonOption = False,
) -> None:
    """Find the nearest items of a vector, a string or another object, of a stored item, or of every row of a file.

    Scores and distances are exact. With each answer comes a proved lower bound on mean recall, or the reason why none can be stated.
    """
    if name is not None and collection is not None:
        raise typer.BadParameter("NAME and --collection both name the collection: give one of them")
    objects = {"vectors": vector, "strings": string, "series": series, "points": points, "images": image, FIELDS: vectors}
    given = [kind for kind, one in objects.items() if one is not None]
    if sum(one is not None for one in (identifier, file)) + len(given) + bool(positive) != 1:
        kinds = "--string, --series, --points, --image and --vectors"
        several = ", not several of them" if (identifier, file) != (None, None) or given or positive else ""
        raise typer.BadParameter(f"give one of --vector, --id and --file, or of {kinds}, or --positive{several}")
    if negative and not positive:
        raise typer.BadParameter("--negative goes with --positive")
    of_fields = {
        "weights": None if weights is None else parsed_json(weights, "--weights"),
        "combine": combine.value,
    }
    options = {
        "k": k,
        "target_recall": target_recall,
        "min_score": min_score,
        "max_distance": max_distance,
        "filter": None if condition is None else parsed_json(condition, "--filter"),
        "mode": mode.value,
        "certify": certify,
        "exclude": exclude or (),
        "include_self": include_self,
        "offset": offset,
        "group_by": None if group_by is None else parsed_json(group_by, "--group-by"),
        "debug": debug,
        "include": ("payload",),
    }
    with failing_in_one_line(as_json):
        asked: _Id | _Examples | Asked
        if positive:
            asked = _Examples((positive, negative or []))
        elif identifier is not None:
            asked = _Id(identifier)
        else:
            asked = by_file(file) if file is not None else by_option(given[0], objects[given[0]])
        with place(data, url) as there:
            began = perf_counter()
            try:
                answers = [_answer_json(one) for one in _ask(there, name or collection or DEFAULT_COLLECTION, asked, options, of_fields)]
            except kinbin.InvalidInput as error:
                problem = error.problems[0]
                where = f"{file}, row {problem.position}: " if file is not None and problem.position is not None else ""
                raise Failure(where + in_its_words(problem.detail), kind=problem.code) from None
            took_ms = (perf_counter() - began) * 1_000
    many = isinstance(asked, Asked) and asked.many
    if as_json:
        took = {"took_ms": round(took_ms, 3)}
        print_json({"answers": answers, **took} if many else {**answers[0], **took})
        return
    for position, answer in enumerate(answers):
        _show_answer(answer, f"Query {position}" if many else None)


class _Id(str):
    """The id of a stored item that is asked for, which is no string to compare."""

    __slots__ = ()


class _Examples(tuple[list[str], list[str]]):
    """Ids of positive and of negative examples."""

    __slots__ = ()


def _ask(there: Place, name: str, asked: _Id | _Examples | Asked, options: dict[str, Any], of_fields: dict[str, Any]) -> list[Any]:
    """The answers of the library or of the client."""
    collection = there.collection(name)
    about = collection.config if hasattr(collection, "config") else collection.info()
    fields = getattr(about, "fields", None) is not None
    items = FIELDS if fields else about.items
    if not fields and of_fields != {"weights": None, "combine": "sum"}:
        raise Failure("--weights and --combine are for collections with several fields, and this one has none")
    if fields and isinstance(there, ServicePlace):
        collection = there.client.fields_collection(name)
    told = options | of_fields if fields else options
    # The id of a string is often a line number, which tells nobody anything.
    told |= {"include": ("payload", "vector") if items == "strings" else ("payload",)}
    if fields and told.pop("max_distance") is not None:
        raise Failure("--max-distance: fields print scores, use --min-score")
    if isinstance(asked, _Id):
        return [collection.query_id(str(asked), **told)]
    if isinstance(asked, _Examples):
        if fields:
            raise Failure("--positive: collections with several fields take no examples")
        return [collection.query_examples(*asked, **told)]
    if items != asked.kind:
        raise other_kind(items, asked.kind)
    queries = asked.queries
    if isinstance(there, ServicePlace) and isinstance(queries, list):
        queries = [{key: for_client(of) for key, of in one.items()} if fields else for_client(one) for one in queries]
    if not asked.many:
        return [collection.query(queries[0], **told)]
    return list(collection.query_batch(_by_field(queries) if fields else queries, **told))


def _by_field(queries: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Many queries as the vectors of each field. Raises Failure where one has other fields than the first."""
    for position, one in enumerate(queries):
        if one.keys() != queries[0].keys():
            raise Failure(f"query {position} has the fields {', '.join(one)}, and the first one {', '.join(queries[0])}")
    return {name: [one[name] for one in queries] for name in queries[0]}


def _answer_json(answer: Any) -> dict[str, Any]:
    """An answer of the library or of the client in the form of `POST /query`."""
    items = answer.items if hasattr(answer, "items") else answer.results
    number = "distance" if answer.distances is not None else "score"
    results: list[dict[str, Any]] = [
        {"id": item.id, number: float(score), "payload": item.payload} for item, score in zip(items, answer.scores, strict=True)
    ]
    for result, item in zip(results, items, strict=True):
        if isinstance(item.object, str):
            result["string"] = item.object
    if (parts := _parts(answer)) is not None:
        for result, of in zip(results, parts, strict=True):
            result["parts"] = of
    bound: dict[str, Any] = {"recall_lower_bound": answer.recall_lower_bound}
    if answer.recall_lower_bound is None:
        bound["no_bound"] = answer.no_bound
    work = {"mode": answer.mode, "candidates": answer.candidates, "verified": answer.verified}
    work |= {"truncated": list(answer.truncated), "steps": list(answer.steps)}
    if answer.out_of_distribution:
        work["out_of_distribution"] = True
    if answer.groups is not None:
        work["groups"] = [{"value": group.value, "ids": group.ids} for group in answer.groups]
    if steps := _steps(answer):
        work["debug"] = {"steps": steps}
    return {"results": results, **bound, **work}


def _steps(answer: Any) -> list[dict[str, Any]]:
    """The steps of an answer of the library or of the client, and their times."""
    if hasattr(answer, "times"):
        return [{"step": step, "ms": round(ms, 4)} for step, ms in answer.times or ()]
    return [] if answer.debug is None else [{"step": one.step, "ms": one.ms} for one in answer.debug.steps]


def _parts(answer: Any) -> list[dict[str, float]] | None:
    """Of each hit, the exact scores of the fields; None where there are none."""
    hits = list(answer)
    return None if not hits or hits[0].parts is None else [dict(hit.parts) for hit in hits]


def _show_answer(answer: dict[str, Any], title: str | None) -> None:
    from rich.table import Table
    from rich.text import Text

    console = output_console()
    number = "distance" if any("distance" in hit for hit in answer["results"]) else "score"
    strings = any("string" in hit for hit in answer["results"])
    fields = list(answer["results"][0].get("parts", ())) if answer["results"] else []
    table = Table(
        "rank",
        "id",
        number,
        *fields,
        *(("string",) if strings else ()),
        "payload",
        title=title,
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    table.columns[0].justify = table.columns[2].justify = "right"
    for rank, hit in enumerate(answer["results"], 1):
        shown = "" if hit["payload"] is None else orjson.dumps(hit["payload"]).decode()
        text = (Text(hit["string"], overflow="ellipsis", no_wrap=True),) if strings else ()
        parts = [f"{hit['parts'][name]:.6f}" for name in fields]
        table.add_row(str(rank), Text(hit["id"]), f"{hit[number]:.6f}", *parts, *text, Text(shown, overflow="ellipsis", no_wrap=True))
    console.print(table)
    line = certificate_line(answer["recall_lower_bound"], answer.get("no_bound"), answer["mode"], answer["verified"], answer["candidates"])
    tell(console, line, "dim")
    for step in answer.get("debug", {}).get("steps", ()):
        tell(console, f"{step['ms']:10.3f} ms  {step['step']}", "dim")
    if answer["truncated"]:
        tell(console, f"truncated: {', '.join(answer['truncated'])}", "yellow")


def certificate_line(bound: float | None, no_bound: str | None, mode: str, verified: int, candidates: int) -> str:
    """What is known about the completeness of an answer, in words."""
    proved = f"no bound on recall: {no_bound}" if bound is None else f"mean recall is at least {bound:.3f}, proved"
    return f"{proved}; mode {mode}, {verified:,} of {candidates:,} candidates scored"
