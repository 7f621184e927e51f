"""`--field`: which of several fields a command is about, in a database and behind a service alike."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kinbin_service.cli.output import Failure

__all__ = ["FieldOption", "config_of", "meant"]

FieldOption = Annotated[str | None, typer.Option("--field", metavar="FIELD", help="Of several fields the one that is meant.")]


def config_of(collection: Any) -> Any:
    """What a collection was created with, of the library or of the client; `fields` of it are None or absent where there is one vector."""
    return collection.config if hasattr(collection, "config") else collection.info()


def meant(config: Any, field: str | None, done: str) -> dict[str, str]:
    """What a call about one vector of each item takes besides. config: see `config_of`; done: what is done with the field.

    Raises Failure: one too many, or none.
    """
    several = getattr(config, "fields", None)
    if several is None and field is not None:
        raise Failure("--field is for collections with several fields, and this one has none")
    if several is not None and field is None:
        raise Failure(f"--field says which field is {done}: {', '.join(several)}")
    return {} if field is None else {"field": field}
