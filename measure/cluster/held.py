"""Cores that this process holds, so that no other worker of the machine gives them, too."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from whet.compiler.errors import MeasureError
from whet.measure.stage.lock_file import lock_path, opened


@contextlib.contextmanager
def holding(cores: Iterable[int]) -> Iterator[None]:
    """Hold cores while this process lives, or the block runs.

    Args:
        cores: their numbers.

    Raises:
        MeasureError: another worker holds one of them.
    """
    with contextlib.ExitStack() as held:
        for core in sorted(cores):
            held.enter_context(_locked(core))
        yield


@contextlib.contextmanager
def _locked(core: int) -> Iterator[None]:
    purpose = f"whet worker on core {core}"
    with opened(lock_path(f"core-{core}.lock"), purpose) as lock:
        if not lock.take():
            raise MeasureError(
                purpose,
                f"another worker of this machine, process {lock.holder()}, gives it already",
                "each of them needs --cores of its own",
            )
        lock.sign()
        yield
