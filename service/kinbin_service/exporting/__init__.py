"""Collections into files: NDJSON and .npz, as streams of pages, which `kinbin import` reads back to the same bits.

items.py     items of a collection, page by page, from the library or the client
ndjson.py    one item a line                     npz.py     arrays
run.py       a file that is whole or not there
"""

from kinbin_service.exporting.run import FORMATS, Exported, export_items

__all__ = ["FORMATS", "Exported", "export_items"]
