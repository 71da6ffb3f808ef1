"""Opening a pool: on this machine, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from whet.compiler.errors import MeasureError
from whet.measure.pool.base import check_count
from whet.measure.pool.protocol import Known, Pool
from whet.measure.values import Json, MeasureInput, MeasureOptions


def open_pool(
    workers: int | str | Pool | None = None,
    *,
    options: MeasureOptions | None = None,
    reference: MeasureInput | None = None,
    known: Known | None = None,
    device: str | Mapping[str, str] = "cpu",
) -> Pool:
    """Open a pool.

    Args:
        workers: None or ``"local"``: this machine; a number: that many builders on this machine;
            ``"ray"``: Ray, on the cluster of this process or a new local one; ``"ray://host:port"``
            or ``"host:port"``: that cluster; a pool: itself.
        options: how to measure.
        reference: a default config, whose numbers are taken for right.
        known: asked with a program's hash and its kind of device before it is measured; an earlier
            result is used instead. It is called from the pool's threads.
        device: measures the candidates: ``"cpu"``, ``"cuda:0"``, ``"cuda-emulator"``; here
            ``"cuda:0,cuda:1"`` or ``"cuda:*"`` are several GPUs, on Ray ``"cuda"`` is every GPU
            that the cluster offers, and a processor's fingerprint is every one of that kind.
            Several kinds: each of them by the name that ``MeasureInput.device`` has for it.

    Raises:
        MeasureError: ``workers`` is none of these.
    """
    check_workers(workers)
    common: Any = {"options": options, "reference": reference, "known": known, "device": device}
    if workers is None or workers == "local" or isinstance(workers, int):
        from whet.measure.pool.local import LocalPool

        return LocalPool(workers if isinstance(workers, int) else None, **common)
    if isinstance(workers, str):
        from whet.measure.pool.ray_pool import RayPool

        return RayPool(None if workers == "ray" else workers, **common)
    return workers


def check_workers(workers: object) -> None:
    """Refuse ``workers`` as :func:`open_pool` would, before anything is started.

    Raises:
        MeasureError: ``workers`` is no number, name, address or pool.
    """
    if isinstance(workers, str):
        known = workers in ("local", "ray") or ":" in workers
    else:
        known = isinstance(workers, int | Pool | None) and not isinstance(workers, bool)
    if not known:
        raise MeasureError(
            f"workers={workers!r}",
            "no such pool",
            'None, "local", a number of builders, "ray", "ray://host:port", or a pool',
        )
    check_count(workers if isinstance(workers, int) else None)


def describe_remote_gpu(workers: str, stack: ExitStack) -> Json:
    """The description of the GPUs of a Ray cluster, as a log keeps it.

    Args:
        workers: as of :func:`open_pool`: ``"ray"``, or an address.
        stack: holds the connection to the cluster.

    Raises:
        MeasureError: no GPU is free, or its machine cannot use it.
    """
    from whet.measure.pool import ray_cluster, ray_crew

    address = None if workers == "ray" else workers
    return ray_crew.describe_remote_gpu(stack.enter_context(ray_cluster.connected(address)))


def describe_remote_cpu(workers: Any, device: str, kinds: Sequence[str], stack: ExitStack) -> Json:
    """The description of the processors of a Ray cluster on which a search measures.

    Args:
        workers: as of :func:`open_pool`: ``"ray"``, an address, or a pool on Ray.
        device: a kind of them, by its fingerprint; any other word: the only one of the cluster.
        kinds: of targets: their canonical form there is in ``"targets"``, as JSON.
        stack: holds the connection to the cluster.

    Raises:
        MeasureError: there is none of the kind, or there are several to choose from.
    """
    from whet.measure.pool import ray_cluster, ray_pool

    if isinstance(workers, ray_pool.RayPool):
        return workers.describe(kinds, device)
    address = None if workers == "ray" else workers
    ray = stack.enter_context(ray_cluster.connected(address))
    return ray_pool.describe_remote_cpu(ray, device, kinds)
