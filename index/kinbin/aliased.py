"""Aliases of collections: what a database does with other names. See `storage.aliases` for what is on disk."""

from __future__ import annotations

from contextlib import AbstractContextManager

from kinbin.errors import AliasConflict, CollectionNotFound
from kinbin.rows.identity import check_name
from kinbin.storage.aliases import Aliases

__all__ = ["Aliased"]


class Aliased:
    """The aliases of a database, which inherits this."""

    _aliases: Aliases
    _lock: AbstractContextManager[object]

    def _check_open(self) -> None:
        raise NotImplementedError

    def _removing(self) -> AbstractContextManager[None]:
        """Alone over all processes: no collection is made, removed or given another name meanwhile."""
        raise NotImplementedError

    def _is_there(self, name: str) -> bool:
        raise NotImplementedError

    def _not_found(self, name: str) -> CollectionNotFound:
        raise NotImplementedError

    def _meant(self, name: str) -> str:
        """The collection that a name means. No alias has the name of a collection: its own needs no list of them, which may be damaged."""
        return name if self._is_there(name) else self._aliases.target(name)

    def alias(self, name: str, collection: str) -> None:
        """Let another name lead to a collection, instead of where it may lead so far: one atomic step, for every process.

        An alias stands for its collection wherever a collection is opened. What was begun before goes on with the old one.

        Raises:
            CollectionNotFound. AliasConflict: a collection has the name, or `collection` is an alias itself.
        """
        check_name(name)
        check_name(collection, "collection")
        self._check_open()
        with self._lock, self._removing():
            self._aliases.refuse_alias(collection)
            if not self._is_there(collection):
                raise self._not_found(collection)
            if self._is_there(name):
                raise AliasConflict(f"a collection is named {name!r}: an alias takes a name that is free")
            self._aliases.put(name, collection)

    def aliases(self) -> dict[str, str]:
        """Collections by alias, in the order of aliases."""
        self._check_open()
        return dict(sorted(self._aliases.all().items()))

    def drop_alias(self, name: str) -> None:
        """Remove an alias; its collection stays.

        Raises:
            AliasNotFound.
        """
        check_name(name)
        self._check_open()
        with self._lock, self._removing():
            self._aliases.drop(name)
