"""Storage scopes and thread tags: which exist, and which threads share what is kept where."""

from __future__ import annotations

import re

from whet.compiler.tir.expr import THREAD_INDEX, IterVar

#: the rank of a scope: a thread's loop shares it when the scope's rank is at most the thread's
_RANKS = {"global": 0, "shared": 1, "warp": 2, "local": 3}
_OTHERS = ("wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator", "texture")
#: a scope with a tag: a special memory of this rank, where a target has one, else as without it
_TAGGED = re.compile(r"(global|shared|warp|local|texture)\.[A-Za-z_][\w.-]*")

SCOPES = ("global", "shared", "shared.dyn", "local", "warp", *_OTHERS)
TAGS = (
    *(f"{unit}.{d}" for unit in ("blockIdx", "threadIdx") for d in "xyz"),
    *("vthread", "cthread"),
)


def is_scope(scope: object) -> bool:
    """True for the name of a storage scope, with a tag or without: ``"global.vtcm"``."""
    if not isinstance(scope, str):
        return False
    return scope in _RANKS or scope in _OTHERS or _TAGGED.fullmatch(scope) is not None


def is_virtual(tag: str) -> bool:
    """True if a tag names virtual threads, of which a stage may have several axes."""
    return tag.startswith("vthread") or tag == "cthread"


def is_tag(tag: object) -> bool:
    """True for the tag of a thread axis."""
    if not isinstance(tag, str):
        return False
    return tag in TAGS or re.fullmatch(r"vthread(\.[xyz])?", tag) is not None


def thread_rank(tag: str) -> int:
    """0 for blocks, 1 for the threads of a block and for virtual ones."""
    return 0 if tag.startswith("blockIdx") else 1


def is_shared(scope: str, tag: str) -> bool:
    """True if the threads of a tag see one and the same buffer of this scope."""
    memory = scope.split(".")[0]
    if memory == "warp" and tag == "threadIdx.x":
        return True  # the lanes of a warp
    rank = _RANKS.get(memory, 4)
    return rank <= thread_rank(tag)


def default_scope(tags: list[str]) -> str:
    """The default storage scope of a stage inside loops over these threads."""
    if not tags:
        return "global"
    return "local" if max(thread_rank(t) for t in tags) else "shared"


def is_thread(axis: object) -> bool:
    """True for a thread axis."""
    return isinstance(axis, IterVar) and axis.iter_type == THREAD_INDEX
