"""`kinbin query`: the neighbours of a vector, of a stored item, or of every row of a file, with a certificate for each answer."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kinbin_service.cli.options import DEFAULT_COLLECTION, DEFAULT_DATA, DataOption, JsonOption, existing_database
from kinbin_service.cli.output import Failure, failing_in_one_line, print_json, tell

if TYPE_CHECKING:
    from numpy.typing import NDArray

    import kinbin

__all__ = ["Search", "certificate_line", "query_command"]


class Search(StrEnum):
    """How a query is answered."""

    AUTO = "auto"
    BANDS = "bands"
    LINKS = "links"
    EXACT = "exact"


def query_command(
    data: DataOption = DEFAULT_DATA,
    collection: Annotated[str, typer.Option(metavar="NAME", help="Collection to search.")] = DEFAULT_COLLECTION,
    vector: Annotated[
        str | None,
        typer.Option(metavar="JSON", help='The query: [0.1, 0, 2.5] or {"indices": [3], "values": [1.5]} or {"tokens": {"red": 3}}.'),
    ] = None,
    identifier: Annotated[str | None, typer.Option("--id", metavar="ID", help="Query by the vector of this stored item.")] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="Q.npy", help="Query by one vector (1-d) or many (2-d, one a row) in a .npy file.")
    ] = None,
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="Neighbours to find.")] = 10,
    target_recall: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="The recall that is wanted: what bands prove, what walks over links are calibrated for.")
    ] = 0.9,
    min_score: Annotated[float | None, typer.Option(help="Leave out neighbours that score less.")] = None,
    condition: Annotated[
        str | None, typer.Option("--filter", metavar="JSON", help='Only items whose payload fits, such as {"year": {"$gte": 2020}}.')
    ] = None,
    mode: Annotated[
        Search, typer.Option(help="bands: by hash tables; links: by the neighbour graph; exact: a full scan; auto: whichever suits.")
    ] = Search.AUTO,
    certify: Annotated[
        bool, typer.Option("--certify", help="Ask the bands for a bound on recall where links answer, which have none by themselves.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Find the nearest items of a vector, of a stored item, or of every row of a file.

    Scores are exact. With each answer comes a proved lower bound on its recall, or the reason why none can be stated.
    """
    import kinbin

    if sum(given is not None for given in (vector, identifier, file)) != 1:
        raise typer.BadParameter("give one of --vector, --id and --file")
    options = {
        "k": k,
        "target_recall": target_recall,
        "min_score": min_score,
        "filter": None if condition is None else _parse_json(condition, "--filter"),
        "mode": mode.value,
        "certify": certify,
    }
    with failing_in_one_line(), existing_database(data) as database:
        searched = database.collection(collection)
        began = perf_counter()
        try:
            many, answers = _answers(searched, vector, identifier, file, options)
        except kinbin.InvalidInput as error:
            problem = error.problems[0]
            where = f"{file}, row {problem.position}: " if file is not None and problem.position is not None else ""
            raise Failure(where + problem.detail) from None
        took_ms = (perf_counter() - began) * 1_000
        payloads = _payloads(searched, answers)
    if as_json:
        found = [_answer_json(answer, payloads) for answer in answers]
        took = {"took_ms": round(took_ms, 3)}
        print_json({"answers": found, **took} if many else {**found[0], **took})
        return
    for position, answer in enumerate(answers):
        _show_answer(answer, payloads, f"Query {position}" if many else None)


def _answers(
    collection: kinbin.Collection, vector: str | None, identifier: str | None, file: Path | None, options: dict[str, Any]
) -> tuple[bool, list[kinbin.Answer]]:
    """The answers, and whether there may be many of them."""
    from kinbin_service.importing import parse_vector

    if identifier is not None:
        return False, [collection.query_id(identifier, **options)]
    if file is not None:
        queries = _load_queries(file)
        return (
            (True, list(collection.query_batch(queries, **options)))
            if queries.ndim == 2
            else (False, [collection.query(queries, **options)])
        )
    try:
        parsed = parse_vector(_parse_json(vector or "", "--vector"))
    except ValueError as error:
        raise Failure(f"--vector: {error}", 2) from None
    return False, [collection.query(parsed, **options)]


def _load_queries(file: Path) -> NDArray[Any]:
    import numpy as np

    try:
        with file.open("rb") as opened:
            queries = np.lib.format.read_array(opened, allow_pickle=False)
    except (ValueError, EOFError, MemoryError) as error:
        raise Failure(f"{file}: not an array in .npy format ({error})") from None
    if queries.ndim not in {1, 2} or queries.dtype.kind not in "fiub":
        raise Failure(f"{file}: expected one vector (1-d) or a matrix of them (2-d) of real numbers in .npy format")
    return queries if queries.dtype == np.float32 else queries.astype(np.float64)


def _parse_json(text: str, option: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise typer.BadParameter(f"{option} is not JSON ({error.msg}, column {error.colno}): put it in single quotes") from None


def _payloads(collection: kinbin.Collection, answers: Iterable[kinbin.Answer]) -> dict[str, Any]:
    """The payload of every item in the answers."""
    import kinbin

    ids = list(dict.fromkeys(identifier for answer in answers for identifier in answer.ids))
    page = int(kinbin.LIMITS["page"].value)
    parts = (collection.get(ids[start : start + page], include=("payload",)) for start in range(0, len(ids), page))
    return {item.id: item.payload for part in parts for item in part if item is not None}


def _answer_json(answer: kinbin.Answer, payloads: dict[str, Any]) -> dict[str, Any]:
    """An answer in the form of `POST /query`."""
    results = [
        {"id": identifier, "score": score, "payload": payloads.get(identifier)}
        for identifier, score in zip(answer.ids, answer.scores.tolist(), strict=True)
    ]
    bound: dict[str, Any] = {"recall_lower_bound": answer.recall_lower_bound}
    if answer.recall_lower_bound is None:
        bound["no_bound"] = answer.no_bound
    work = {"mode": answer.mode, "candidates": answer.candidates, "verified": answer.verified, "truncated": answer.truncated}
    return {"results": results, **bound, **work}


def _show_answer(answer: kinbin.Answer, payloads: dict[str, Any], title: str | None) -> None:
    console = Console()
    table = Table("rank", "id", "score", "payload", title=title, title_justify="left", box=None, pad_edge=False)
    table.columns[0].justify = table.columns[2].justify = "right"
    for rank, (identifier, score) in enumerate(zip(answer.ids, answer.scores.tolist(), strict=True), 1):
        payload = payloads.get(identifier)
        shown = "" if payload is None else orjson.dumps(payload).decode()
        table.add_row(str(rank), Text(identifier), f"{score:.6f}", Text(shown, overflow="ellipsis", no_wrap=True))
    console.print(table)
    tell(console, certificate_line(answer.recall_lower_bound, answer.no_bound, answer.mode, answer.verified, answer.candidates), "dim")
    if answer.truncated:
        tell(console, f"truncated: {', '.join(answer.truncated)}", "yellow")


def certificate_line(bound: float | None, no_bound: str | None, mode: str, verified: int, candidates: int) -> str:
    """What is known about the completeness of an answer, in words."""
    proved = f"no bound on recall: {no_bound}" if bound is None else f"mean recall is at least {bound:.3f}, proved"
    return f"{proved}; mode {mode}, {verified:,} of {candidates:,} candidates scored"
