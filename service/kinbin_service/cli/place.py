"""Where collections are: in a database of this machine (--data), or behind a running service (--url). Commands ask both alike."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import typer

from kinbin.errors import suggestion
from kinbin_service.cli.options import DEFAULT_COLLECTION, DEFAULT_DATA, existing_database
from kinbin_service.cli.output import Failure
from kinbin_service.cli.service_target import connected

if TYPE_CHECKING:
    import kinbin
    from kinbin_client import Client

__all__ = ["DatabasePlace", "Place", "ServicePlace", "chosen_data", "missing", "place"]

CONFIGURATION = ("items", "kernel", "parameters", "dim", "sampler", "bands", "rows")


class Place(Protocol):
    """Collections by name. Raises what the library or the client raises, and Failure for a collection that is not there."""

    where: str
    """The directory or the address."""

    def names(self) -> list[str]:
        """The names of all collections, sorted."""
        ...

    def create(self, name: str, **config: Any) -> bool:
        """Make a collection, or find the one that is alike; whether it was made."""
        ...

    def drop(self, name: str, *, damaged: bool = False) -> None:
        """Remove a collection and all its items."""
        ...

    def collection(self, name: str) -> Any:
        """The collection: `kinbin.Collection` or `kinbin_client.Collection`, whose methods are alike."""
        ...

    def described(self, name: str) -> dict[str, Any]:
        """Its configuration and the number of its items."""
        ...

    def aliases(self) -> dict[str, str]:
        """Collections by alias."""
        ...

    def alias(self, name: str, collection: str) -> None:
        """Let an alias lead to a collection."""
        ...

    def drop_alias(self, name: str) -> None:
        """Remove an alias."""
        ...


class DatabasePlace:
    """An open database."""

    def __init__(self, database: kinbin.Database, where: str) -> None:
        self.database, self.where = database, where

    def names(self) -> list[str]:
        """The names of all collections, sorted."""
        return self.database.collections()

    def create(self, name: str, **config: Any) -> bool:
        """Make a collection, or find the one that is alike; whether it was made."""
        there = name in self.names()
        self.database.create_collection(name, **config, exist_ok=True)
        return not there

    def drop(self, name: str, *, damaged: bool = False) -> None:
        """Remove a collection and all its items. damaged: see `Database.drop_collection`."""
        if not damaged:
            self.collection(name)
        self.database.drop_collection(name, damaged=damaged)

    def collection(self, name: str) -> Any:
        """The collection."""
        if name not in (names := self.names()) and name not in self.aliases():
            raise missing(name, self.where, names)
        return self.database.collection(name)

    def aliases(self) -> dict[str, str]:
        """Collections by alias."""
        return self.database.aliases()

    def alias(self, name: str, collection: str) -> None:
        """Let an alias lead to a collection."""
        self.database.alias(name, collection)

    def drop_alias(self, name: str) -> None:
        """Remove an alias."""
        self.database.drop_alias(name)

    def described(self, name: str) -> dict[str, Any]:
        """Its configuration and the number of its items."""
        collection = self.collection(name)
        about = _plain(collection.config) | {"count": collection.count()}
        fields = getattr(collection.config, "fields", None)
        return about if fields is None else about | {"fields": {one: _plain(config) for one, config in fields.items()}}


class ServicePlace:
    """A running service."""

    def __init__(self, client: Client, where: str) -> None:
        self.client, self.where = client, where

    def names(self) -> list[str]:
        """The names of all collections, sorted."""
        return self.client.collections()

    def create(self, name: str, **config: Any) -> bool:
        """Make a collection, or find the one that is alike; whether it was made."""
        there = name in self.names()
        self.client.create_collection(name, **config, exist_ok=True)
        return not there

    def drop(self, name: str, *, damaged: bool = False) -> None:
        """Remove a collection and all its items."""
        self.client.drop_collection(name, damaged=damaged)

    def collection(self, name: str) -> Any:
        """The collection. What the key may not list is left to the service, which says whether there is one."""
        from kinbin_client import Forbidden, NotFound

        found, names = self.client.collection(name), None
        try:
            there = name in (names := self.names()) or name in self.aliases()
        except Forbidden:
            there = names is None
        if not there:
            # Only admins may list aliases: it may be one.
            try:
                found.count()
            except NotFound:
                raise missing(name, self.where, names or []) from None
        return found

    def aliases(self) -> dict[str, str]:
        """Collections by alias."""
        return self.client.aliases()

    def alias(self, name: str, collection: str) -> None:
        """Let an alias lead to a collection."""
        self.client.alias(name, collection)

    def drop_alias(self, name: str) -> None:
        """Remove an alias."""
        self.client.drop_alias(name)

    def described(self, name: str) -> dict[str, Any]:
        """Its configuration and the number of its items."""
        info = self.collection(name).info()
        about = _plain(info) | {"count": info.count} | ({"cluster": info.cluster} if info.cluster else {})
        return about if info.fields is None else about | {"fields": info.fields}


def _plain(config: Any) -> dict[str, Any]:
    names = getattr(config, "feature_names", None) or {}
    told = {key: getattr(config, key, None) for key in CONFIGURATION}
    return told | {"feature_names": {str(feature): name for feature, name in names.items()}} if names else told


def missing(name: str, where: str, names: list[str]) -> Failure:
    """The error about a collection that is not there."""
    there = f"it holds {', '.join(names[:8])}{', …' if len(names) > 8 else ''}" if names else "it holds none"
    meant = suggestion(name, names)
    # Of the default nobody knows who gave no name.
    advice = "; --collection NAME says which" if name == DEFAULT_COLLECTION and names else ""
    text = f'no collection "{name}" in {where}{f"{meant} {there}" if meant else f": {there}"}{advice}'
    return Failure(text, kind="collection_not_found")


def chosen_data(data: Path | None, url: str | None) -> Path:
    """The directory to work on where no URL is given. An environment's directory gives way to a URL; the option does not."""
    if url is not None and _given(data, "KINBIN_DATA_DIR"):
        raise typer.BadParameter("give --data or --url, not both")
    return data or DEFAULT_DATA


def _given(path: Path | None, variable: str) -> bool:
    """Whether a path was given by an option, and is not that of the environment."""
    usual = os.environ.get(variable)
    return path is not None and not (usual and path == Path(usual))


@contextmanager
def place(data: Path | None, url: str | None, *, make: bool = False, snapshots: Path | None = None) -> Iterator[Place]:
    """For the block, the service at `url`, else the database in `data`, which has to be there unless it may be made.

    snapshots: where that keeps them; None: in its directory.
    """
    import kinbin

    directory = chosen_data(data, url)
    if url is not None:
        if _given(snapshots, "KINBIN_SNAPSHOTS_DIR"):
            raise typer.BadParameter("--snapshots is about a database of this machine: the service at --url has its own")
        with connected(url) as client:
            yield ServicePlace(client, url)
        return
    with kinbin.open(directory, snapshots) if make else existing_database(directory, snapshots) as database:
        yield DatabasePlace(database, str(directory))
