"""What is done to a file: flipped bits, pages that are zeroed, lost, swapped, stale or foreign, values in the place of others, cuts."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass

from torture.pages import PAGE, Node, PageMap

__all__ = ["HARMS", "Harm", "flipped_numbers", "flips", "page_harms", "plain_cuts", "plain_flips"]


@dataclass(frozen=True, slots=True)
class Harm:
    """One change of a file: the bytes that replace others, and the length that is kept."""

    name: str
    """Its class: "flip", "zeroed page" …"""
    where: str
    """What was hit."""
    edits: tuple[tuple[int, bytes], ...]
    length: int | None = None

    def done_to(self, data: bytes) -> bytes:
        """The damaged file."""
        out = bytearray(data)
        for offset, new in self.edits:
            out[offset : offset + len(new)] = new
        return bytes(out if self.length is None else out[: self.length])


def flips(pages: PageMap, rng: random.Random, count: int) -> list[Harm]:
    """Single-bit flips, evenly over the kinds of pages; in branches and leaves half of them hit what LMDB itself reads."""
    kinds = pages.by_kind()
    # A free page says nothing; a few of them show that the harness tells so.
    names = sorted(kind for kind in kinds if kind != "free") * 8 + ["free"] * ("free" in kinds)
    return [_flip(pages, rng, kinds, rng.choice(names)) for _ in range(count)]


def _flip(pages: PageMap, rng: random.Random, kinds: dict[str, list[int]], kind: str) -> Harm:
    page = rng.choice(kinds[kind])
    byte = rng.randrange(PAGE)
    spot = "any"
    if kind == "meta":
        # What counts lies in the first 160 bytes.
        byte, spot = (rng.randrange(16, 16 + 136), "fields") if rng.random() < 0.9 else (byte, spot)
    elif kind.endswith((":leaf", ":branch")) and rng.random() < 0.6:
        byte, spot = _structural(pages, rng, page)
    bit = rng.randrange(8)
    offset = page * PAGE + byte
    return Harm("flip", f"{kind}, {spot}: page {page}, byte {byte}, bit {bit}", ((offset, bytes([pages.data[offset] ^ 1 << bit])),))


def _structural(pages: PageMap, rng: random.Random, page: int) -> tuple[int, str]:
    """A byte of the page's head, its slots, the head of a node or a key."""
    offsets = pages.node_offsets(page)
    choice = rng.randrange(4)
    if choice == 0 or not offsets:
        return rng.randrange(16), "head"
    slot = rng.randrange(len(offsets))
    if choice == 1:
        return 16 + 2 * slot + rng.randrange(2), "slot"
    node = offsets[slot]
    if choice == 2:
        return node + rng.randrange(8), "node"
    key_size = struct.unpack_from("<H", pages.data, page * PAGE + node + 6)[0]
    return node + (8 + rng.randrange(key_size) if key_size else rng.randrange(8)), "key"


def _page(pages: PageMap, rng: random.Random) -> tuple[int, str]:
    """A page that is used; kinds evenly."""
    kinds = {kind: some for kind, some in pages.by_kind().items() if kind != "free"}
    kind = rng.choice(sorted(kinds))
    return rng.choice(kinds[kind]), kind


def _zeroed(pages: PageMap, rng: random.Random) -> Harm:
    page, kind = _page(pages, rng)
    return Harm("zeroed page", f"{kind}: page {page}", ((page * PAGE, bytes(PAGE)),))


def _torn(pages: PageMap, rng: random.Random) -> Harm:
    """Some sectors of 512 bytes read as zeros."""
    page, kind = _page(pages, rng)
    sectors = [sector for sector in range(8) if rng.random() < 0.4] or [rng.randrange(8)]
    return Harm("zeroed sectors", f"{kind}: page {page}, {sectors}", tuple((page * PAGE + 512 * sector, bytes(512)) for sector in sectors))


def _lost_metas(pages: PageMap, rng: random.Random) -> Harm:
    """Neither meta page is left."""
    content = bytes(2 * PAGE) if rng.random() < 0.5 else rng.randbytes(2 * PAGE)
    return Harm("lost meta pages", "both", ((0, content),))


def _random(pages: PageMap, rng: random.Random) -> Harm:
    page, kind = _page(pages, rng)
    return Harm("random page", f"{kind}: page {page}", ((page * PAGE, rng.randbytes(PAGE)),))


def _swapped(pages: PageMap, rng: random.Random) -> Harm:
    """Two pages change places, as after a misdirected write."""
    (one, first), (other, second) = _page(pages, rng), _page(pages, rng)
    content = pages.data[one * PAGE :][:PAGE], pages.data[other * PAGE :][:PAGE]
    return Harm("swapped pages", f"{first} and {second}: pages {one} and {other}", ((one * PAGE, content[1]), (other * PAGE, content[0])))


def _misdirected(pages: PageMap, rng: random.Random) -> Harm:
    """A page holds a copy of another one, under its own number: what a lost write leaves, or a stale mirror."""
    (one, first), (other, second) = _page(pages, rng), _page(pages, rng)
    content = pages.data[one * PAGE :][:8] + pages.data[other * PAGE + 8 :][: PAGE - 8]
    return Harm("copied page", f"{second} over {first}: page {other} over {one}", ((one * PAGE, content),))


def _foreign(pages: PageMap, rng: random.Random) -> Harm:
    """A page of another file that was written alike, mostly that of the same number."""
    page, kind = _page(pages, rng)
    data = rng.choice(pages.others)
    source = page if rng.random() < 0.8 and (page + 1) * PAGE <= len(data) else rng.randrange(2, len(data) // PAGE)
    content = (pages.data if source != page else data)[page * PAGE :][:8] + data[source * PAGE + 8 :][: PAGE - 8]
    return Harm("foreign page", f"{kind}: page {page}, page {source} of another file", ((page * PAGE, content),))


def flipped_numbers(pages: PageMap) -> list[Harm]:
    """All flips of one bit of the number of a page, in a branch or in the record of a tree, that give another page of the file."""
    places = [(node.value_at + 40, 8, f"root of {node.key.decode()}") for page in pages.leaves["main"] for node in pages.nodes(page)]
    for page, kind in pages.kinds.items():
        if kind.endswith(":branch"):
            places += [(page * PAGE + at, 6, f"{kind} {page}") for at in pages.node_offsets(page)]
    found = []
    for at, size, where in places:
        number = int.from_bytes(pages.data[at : at + size], "little")
        for bit in range(20):
            other = number ^ 1 << bit
            if 2 <= other <= pages.last_page:
                told = f"{where}: page {number} is {other}, {pages.kinds[other]}"
                found.append(Harm("led elsewhere", told, ((at + bit // 8, bytes([pages.data[at + bit // 8] ^ 1 << bit % 8])),)))
    return found


def _led_elsewhere(pages: PageMap, rng: random.Random) -> Harm:
    """What leads to a page leads to another one."""
    return rng.choice(flipped_numbers(pages) or [_zeroed(pages, rng)])


def _free_copy(pages: PageMap, rng: random.Random) -> Harm:
    """A page that is free stands in the place of one that is used, as it is, with its number."""
    free = [page for page, kind in pages.kinds.items() if kind == "free" and any(pages.data[page * PAGE :][:PAGE])]
    if not free:
        return _misdirected(pages, rng)
    page, kind = _page(pages, rng)
    other = rng.choice(free)
    return Harm("free page copied", f"{kind}: page {other} over {page}", ((page * PAGE, pages.data[other * PAGE :][:PAGE]),))


def _earlier(pages: PageMap, rng: random.Random) -> Harm:
    """A page is what it was before, as if a write of it had been lost; mostly one that was of the same kind then."""
    found = []
    for before in map(PageMap.of, pages.earlier):
        for page, kind in pages.kinds.items():
            old = before.data[page * PAGE :][:PAGE]
            if kind not in ("free", "meta") and len(old) == PAGE and old != pages.data[page * PAGE :][:PAGE]:
                found.append((before.kinds.get(page) == kind, page, kind, old))
    alike = [one for one in found if one[0]]
    if not found:
        return _zeroed(pages, rng)
    _, page, kind, old = rng.choice(alike if alike and rng.random() < 0.7 else found)
    return Harm("earlier page", f"{kind}: page {page}", ((page * PAGE, old),))


def _large_nodes(pages: PageMap) -> list[Node]:
    return [node for leaves in pages.leaves.values() for page in leaves for node in pages.nodes(page) if node.big]


def _foreign_value(pages: PageMap, rng: random.Random) -> Harm:
    """A large value of another file in the place of that of its key, or of one of its size."""
    there = PageMap.of(rng.choice(pages.others))
    own, strange = (_large_nodes(one) for one in (pages, there))
    pairs = [(mine, other) for mine in own for other in strange if mine.pages == other.pages]
    alike = [(mine, other) for mine, other in pairs if mine.key == other.key]
    some = alike if alike and rng.random() < 0.7 else pairs
    if not some:
        return _swapped_values(pages, rng)
    mine, other = rng.choice(some)
    return Harm("foreign value", f"{other.key!r} of another file over {mine.key!r}", ((_body(pages, mine)[0], _body(there, other)[1]),))


def _pair(pages: PageMap, rng: random.Random) -> tuple[Node, Node] | None:
    """Two large values that fit in each other's place, of one part of runs if they are values of runs; None: there are none."""
    kinds: dict[tuple[str, bytes, int], list[Node]] = {}
    for tree, leaves in pages.leaves.items():
        for node in (node for page in leaves for node in pages.nodes(page) if node.big):
            kinds.setdefault((tree, node.key[4:5] if tree == "runs" else b"", node.pages), []).append(node)
    some = [nodes for _, nodes in sorted(kinds.items()) if len(nodes) > 1]
    if not some:
        return None
    one, other = rng.sample(rng.choice(some), 2)
    return one, other


def _body(pages: PageMap, node: Node, page: int = 0) -> tuple[int, bytes]:
    """Where the bytes of a value's pages begin, behind the head, and these; or those of one page amid it."""
    first = node.value_at + (page * PAGE - 16 if page else 0)
    return first, pages.data[first : first + PAGE if page else node.value_at - 16 + node.pages * PAGE]


def _swapped_values(pages: PageMap, rng: random.Random) -> Harm:
    """Two large values change places, each sound in itself; heads of pages stay."""
    pair = _pair(pages, rng)
    if pair is None:
        return _swapped(pages, rng)
    (a, one), (b, other) = (_body(pages, node) for node in pair)
    return Harm("swapped values", f"{pair[0].key!r} and {pair[1].key!r}", ((a, other), (b, one)))


def _copied_value(pages: PageMap, rng: random.Random) -> Harm:
    """A value, or one page amid it, stands in the place of another as well, as after a lost write to pages that were used before."""
    pair = _pair(pages, rng)
    if pair is None:
        return _misdirected(pages, rng)
    page = rng.randrange(1, pair[0].pages) if pair[0].pages > 1 and rng.random() < 0.5 else 0
    (at, _), (_, content) = (_body(pages, node, page) for node in pair)
    return Harm("copied value", f"{pair[1].key!r} over {pair[0].key!r}, {f'page {page}' if page else 'all'}", ((at, content),))


def _cut(pages: PageMap, rng: random.Random) -> Harm:
    """The file ends early, anywhere, or by a few pages."""
    least = 2 * PAGE
    length = len(pages.data) - PAGE * rng.randrange(1, 8) if rng.random() < 0.5 else rng.randrange(least, len(pages.data))
    if rng.random() < 0.2:
        length = rng.randrange(0, least + 1)
    return Harm("truncated", f"to {length} of {len(pages.data)} bytes", (), max(length, 0))


HARMS: dict[str, Callable[[PageMap, random.Random], Harm]] = {
    "zeroed page": _zeroed, "zeroed sectors": _torn, "random page": _random, "lost meta pages": _lost_metas,
    "led elsewhere": _led_elsewhere, "free page copied": _free_copy,
    "swapped pages": _swapped, "copied page": _misdirected, "swapped values": _swapped_values, "copied value": _copied_value,
    "truncated": _cut,
}  # fmt: skip
"""By name, what happens to whole pages."""
FOREIGN: dict[str, Callable[[PageMap, random.Random], Harm]] = {"foreign page": _foreign, "foreign value": _foreign_value}
"""The same where there are other files."""
EARLIER: dict[str, Callable[[PageMap, random.Random], Harm]] = {"earlier page": _earlier}
"""The same where it is known what the file was before."""


def page_harms(pages: PageMap, rng: random.Random, count: int) -> list[Harm]:
    """Damage of whole pages, evenly over its classes."""
    harms = HARMS | (FOREIGN if pages.others else {}) | (EARLIER if pages.earlier else {})
    names = sorted(harms)
    return [harms[names[i % len(names)]](pages, rng) for i in range(count)]


def plain_flips(data: bytes, rng: random.Random, count: int) -> list[Harm]:
    """Single-bit flips of a file without pages."""
    found = []
    for _ in range(count):
        byte, bit = rng.randrange(len(data)), rng.randrange(8)
        found.append(Harm("flip", f"file, any: byte {byte}, bit {bit}", ((byte, bytes([data[byte] ^ 1 << bit])),)))
    return found


def plain_cuts(data: bytes, rng: random.Random, count: int) -> list[Harm]:
    """Ends of a file without pages."""
    return [Harm("truncated", f"file: to {length} of {len(data)} bytes", (), length) for length in rng.choices(range(len(data)), k=count)]
