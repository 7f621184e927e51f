"""Near duplicates among the texts of a file: reading it, and writing what is kept of it."""

from kinbin_service.deduplicating.files import documents
from kinbin_service.deduplicating.run import Deduplicated, deduplicate
from kinbin_service.deduplicating.source import Documents

__all__ = ["Deduplicated", "Documents", "deduplicate", "documents"]
