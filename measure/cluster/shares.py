"""Searches that use one cluster at the same time: each has its share of the devices and builders.

Nobody deals them out. Each search reads from the names of actors who else is there, and computes
the same shares as the others do; what it has too much it gives up once it is done with what runs
there, and who gets that waits for it.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

_NAME = re.compile(r"whet (measure|build) .*\bfor ([^ ]*) \((\d+)\.([0-9a-f]+)\.\d+\)")


@dataclass(frozen=True)
class Search:
    """A search that runs on a cluster.

    Attributes:
        uid: its own, hex digits that begin with the time at which it began.
        kinds: the devices on which it measures, ascending.
    """

    uid: str
    kinds: tuple[str, ...]


def new_uid() -> str:
    """The uid of a search that begins now; later ones come after it in order."""
    return f"{time.time_ns():016x}{secrets.token_hex(3)}"


def actor_name(words: str, search: Search, pid: int, number: int) -> str:
    """The name of an actor, from which others read whose it is.

    >>> actor_name("whet build 3 @host", Search("0a1b", ("cpu-ab12",)), 4711, 5)
    'whet build 3 @host for cpu-ab12 (4711.0a1b.5)'
    """
    return f"{words} for {','.join(search.kinds)} ({pid}.{search.uid}.{number})"


def searches_of(names: Iterable[str]) -> dict[str, Search]:
    """The searches whose actors have these names, by their uids.

    >>> searches_of(["whet build 3 @host for cpu-a,cpu-b (4711.0a1b.5)", "somebody's actor"])
    {'0a1b': Search(uid='0a1b', kinds=('cpu-a', 'cpu-b'))}
    """
    found = (_NAME.fullmatch(name) for name in names)
    return {one[4]: Search(one[4], tuple(one[2].split(","))) for one in found if one}


@dataclass(frozen=True)
class Working:
    """A search, as the names of its actors show it.

    Attributes:
        search: its uid and kinds.
        pid: of its process.
        measurers, builders: how many of its actors are up.
    """

    search: Search
    pid: int
    measurers: int
    builders: int


def at_work(names: Iterable[str]) -> list[Working]:
    """The searches whose actors have these names, the oldest first.

    >>> at_work(["whet build 3 @host for cpu-a (4711.0a1b.5)"])[0].builders
    1
    """
    found = [one for one in map(_NAME.fullmatch, names) if one]
    stages = Counter((one[4], one[1]) for one in found)
    pids = {one[4]: int(one[3]) for one in found}
    return [
        Working(search, pids[uid], stages[uid, "measure"], stages[uid, "build"])
        for uid, search in sorted(searches_of(one[0] for one in found).items())
    ]


def shares(places: Collection[str], searches: Collection[str]) -> dict[str, str]:
    """The search that each place belongs to.

    Args:
        places: devices, or cores for builders, by any names.
        searches: their uids; each gets as many places as any other, or one more. What cannot be
            divided goes to those that began first.

    Each place has an order of preference among the searches, by a digest of both names. So few
    change hands when a search comes or ends.

    >>> sorted(shares(["a", "b", "c", "d"], ["1", "2"]).values())
    ['1', '1', '2', '2']
    """
    if not searches:
        return {}
    least, more = divmod(len(places), len(searches))
    room = {search: least + (k < more) for k, search in enumerate(sorted(searches))}
    owner: dict[str, str] = {}
    for place in sorted(places, key=_digest):
        having_room = [search for search, left in room.items() if left]
        owner[place] = mine = max(having_room, key=lambda search: _digest(f"{search} {place}"))
        room[mine] -= 1
    return owner


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()
