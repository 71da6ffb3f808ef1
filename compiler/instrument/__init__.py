"""Observers between the passes: print, compare, time, verify. ``PassContext(instruments=[...])``.

An instrument that fails on entering a context disables all of them, those that entered already
leave; the error goes on. One that fails on leaving keeps the others from leaving. What
``should_run``, ``run_before_pass`` or ``run_after_pass`` raises ends the pass, and every instrument
still leaves. (So it is in TVM.)
"""

from whet.compiler.instrument.base import PassInstrument, pass_instrument
from whet.compiler.instrument.printing import (
    DumpToFolder,
    PrintAfterAll,
    PrintBeforeAll,
    PrintChanged,
)
from whet.compiler.instrument.timing import PassProfile, PassTimingInstrument
from whet.compiler.instrument.verifying import VerifyEach

__all__ = [
    "DumpToFolder",
    "PassInstrument",
    "PassProfile",
    "PassTimingInstrument",
    "PrintAfterAll",
    "PrintBeforeAll",
    "PrintChanged",
    "VerifyEach",
    "pass_instrument",
]
