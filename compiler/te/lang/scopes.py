"""Storage scopes and thread tags: which exist, and which threads share what is kept where."""

from __future__ import annotations

import re

from whet.compiler.tir import expr as e

#: the rank of a scope: a thread's loop shares it when the scope's rank is at most the thread's
_RANKS = {"global": 0, "shared": 1, "warp": 2, "local": 3}
_OTHERS = ("wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator", "texture")
_GLOBAL = re.compile(r"global\.[A-Za-z_][\w.]*")

SCOPES = ("global", "global.*", "shared", "shared.dyn", "local", "warp", *_OTHERS)
TAGS = (
    *(f"{unit}.{d}" for unit in ("blockIdx", "threadIdx") for d in "xyz"),
    *("vthread", "cthread"),
)


def is_scope(scope: object) -> bool:
    """Whether this names a place to keep a tensor."""
    if not isinstance(scope, str):
        return False
    known = scope in _RANKS or scope in _OTHERS or scope == "shared.dyn"
    return known or _GLOBAL.fullmatch(scope) is not None


def is_virtual(tag: str) -> bool:
    """Whether a tag names virtual threads, of which a stage may have several axes."""
    return tag.startswith("vthread") or tag == "cthread"


def is_tag(tag: object) -> bool:
    """Whether this names a thread axis."""
    if not isinstance(tag, str):
        return False
    return tag in TAGS or re.fullmatch(r"vthread(\.[xyz])?", tag) is not None


def thread_rank(tag: str) -> int:
    """0 for blocks, 1 for the threads of a block and for virtual ones."""
    return 0 if tag.startswith("blockIdx") else 1


def is_shared(scope: str, tag: str) -> bool:
    """Whether the threads of a tag see one and the same buffer of this scope."""
    if scope == "warp" and tag == "threadIdx.x":
        return True  # the lanes of a warp
    rank = _RANKS.get(scope.split(".")[0], 4)
    return rank <= thread_rank(tag)


def default_scope(tags: list[str]) -> str:
    """Where a stage inside loops over these threads is kept when nobody says."""
    if not tags:
        return "global"
    return "local" if max(thread_rank(t) for t in tags) else "shared"


def is_thread(axis: object) -> bool:
    """Whether this is a thread axis."""
    return isinstance(axis, e.IterVar) and axis.iter_type == e.THREAD_INDEX
