"""What goes wrong between the lanes of a warp, in words."""

from __future__ import annotations

from typing import Any

# As ``LaneFault`` in ``fibers.h``.
_OWN_NOT_NAMED, _NOT_NAMED, _NOT_THERE, _ENDED, _ANOTHER_CALL, _FEWER_TIMES, _WIDTH = range(7)


def lanes_in_words(r: Any) -> tuple[str, str]:
    """Why lanes cannot exchange what they ask for, and the way out.

    Args:
        r: the report of a launch.
    """
    what, lane, mask = r.text.decode(), r.index, f"0x{r.count & 0xFFFFFFFF:08x}"
    other = f"lane {lane}, thread {tuple(r.other_thread)},"
    if r.reason == _WIDTH:
        return f"{what} with the width {lane}", "a width is 1, 2, 4, 8, 16 or 32"
    if r.reason == _OWN_NOT_NAMED:
        return (
            f"it is lane {lane}, and comes by {what} with the mask {mask}, which does not name it",
            "let only the lanes of the mask come by, or name this one, too",
        )
    if r.reason == _ANOTHER_CALL:
        at = f"{r.other_text.decode()} at line {r.other_line}"
        return (
            f"its {what} has the mask {mask}, and {other} which that names, is at {at}",
            "all lanes of a mask come by the same call: take it out of the branch or the loop, or "
            "name only those lanes that are there (__ballot_sync before the branch)",
        )
    if r.reason == _FEWER_TIMES:
        return (
            f"its {what} has the mask {mask}, and {other} which that names, has come by this call "
            "before, and has ended",
            "let all lanes of the mask come by as often, with it, or name only those that do",
        )
    absent = {
        _NOT_NAMED: f"which the mask {mask} does not name",
        _NOT_THERE: "which is not there: the block ends before it",
        _ENDED: f"thread {tuple(r.other_thread)}, which has ended",
    }[r.reason]
    return (
        f"its {what} reads lane {lane}, {absent}: it gives no value",
        "read only lanes of the mask that come by; a width helps: __shfl_down_sync(mask, v, 8, 16)",
    )
