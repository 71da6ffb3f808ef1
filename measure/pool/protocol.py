"""The protocol of all pools, and the one function that opens them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

from whet.compiler.errors import MeasureError
from whet.measure.values import MeasureInput, MeasureOptions, MeasureResult

Known = Callable[[str], MeasureResult | None]
Rounds = Callable[[list[list[float]]], Iterable[int]]
"""Who is measured in the next round, by their places: a function of the costs of each one so far.
Nobody ends the measurement."""


@runtime_checkable
class Pool(Protocol):
    """Measures candidates of any workloads; each submitted one comes back exactly once.

    Attributes:
        capacity: how many candidates to keep in flight so that nothing waits.
        best_costs: by ``workload.key``, seconds per call of the best so far; the pool lowers it,
            its user may set it (when a run is resumed). A slower candidate is timed less often.
        busy_s: seconds so far in which at least one candidate was being built or measured.
    """

    capacity: int
    best_costs: dict[str, float]

    @property
    def busy_s(self) -> float: ...

    def compare_with(self, reference: MeasureInput) -> None:
        """Take the numbers of a candidate for right, and check its workload's others by them.

        Args:
            reference: the default config of a workload; the latest one of a workload counts.
        """

    def submit(self, inp: MeasureInput) -> int:
        """Queue a candidate; its ticket, counted from 0."""

    def collect(self, timeout: float | None = None) -> list[tuple[int, MeasureResult]]:
        """Wait for at least one result.

        Args:
            timeout: seconds; None waits as long as anything is in flight.

        Returns: finished ``(ticket, result)`` pairs, each once, in the order in which they
        finished; empty when nothing is in flight or the time is up.

        Raises:
            MeasureError: the pool is closed.
        """

    def remeasure(self, inputs: list[MeasureInput], rounds: int | Rounds) -> list[MeasureResult]:
        """Measure candidates in turns, so that drift harms all alike.

        Args:
            inputs: the candidates.
            rounds: how many rounds, each of all of them; or a function that says before each round
                who takes part in it, from the costs so far. Who was left out stays out.

        Returns: one result an input, in order, with a cost for each round that it took part in.
        """

    def close(self) -> None:
        """End all workers at once; what is in flight is dropped. May be called again."""

    def __enter__(self) -> Pool: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def open_pool(
    workers: int | str | Pool | None = None,
    *,
    options: MeasureOptions | None = None,
    reference: MeasureInput | None = None,
    known: Known | None = None,
    device: str = "cpu",
) -> Pool:
    """Open the pool that a user asked for.

    Args:
        workers: None or ``"local"``: this machine; a number: that many builders on this machine;
            ``"ray"``: Ray, on the cluster of this process or a new local one; ``"ray://host:port"``
            or ``"host:port"``: that cluster; a pool: itself.
        options: how to measure.
        reference: a default config, whose numbers are taken for right.
        known: asked with a program's hash before it is measured; an earlier result is used
            instead. It is called from the pool's threads.
        device: what is measured on: ``"cpu"``, ``"cuda:0"``, ``"cuda-emulator"``; on this machine
            ``"cuda:0,cuda:1"`` or ``"cuda:*"`` are several GPUs, on Ray ``"cuda"`` is every GPU
            that the cluster offers.

    Raises:
        MeasureError: ``workers`` is none of these.
    """
    check_workers(workers)
    common: dict[str, Any] = {
        "options": options,
        "reference": reference,
        "known": known,
        "device": device,
    }
    if workers is None or workers == "local":
        from whet.measure.pool.local import LocalPool

        return LocalPool(**common)
    if isinstance(workers, int):
        from whet.measure.pool.local import LocalPool

        return LocalPool(workers, **common)
    if isinstance(workers, str):
        from whet.measure.pool.ray_pool import RayPool

        return RayPool(None if workers == "ray" else workers, **common)
    return workers


def check_workers(workers: object) -> None:
    """Refuse what :func:`open_pool` would refuse, before anything is started.

    Raises:
        MeasureError: ``workers`` is no number, name, address or pool.
    """
    if isinstance(workers, bool) or not isinstance(workers, int | str | Pool | None):
        raise _unknown(workers)
    if isinstance(workers, int) and workers < 1:
        raise MeasureError(f"workers={workers}", "at least one builder is needed")
    if isinstance(workers, str) and workers not in ("local", "ray") and ":" not in workers:
        raise _unknown(workers)


def _unknown(workers: object) -> MeasureError:
    return MeasureError(
        f"workers={workers!r}",
        "no such pool",
        'None, "local", a number of builders, "ray", "ray://host:port", or a pool',
    )
