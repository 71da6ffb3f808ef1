"""Triton's kernels as calls: its autotuner fits them to each shape."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from whet.bench.operators.operator import Call, Tensor

Configs = Sequence[tuple[dict[str, int], int, int]]
"""Of each config the sizes of blocks, the warps and the stages."""
Grid = tuple[int, ...] | Callable[[dict[str, int]], tuple[int, ...]]


def launched(
    name: str,
    key: Sequence[str],
    configs: Configs,
    grid: Grid,
    out: Tensor,
    *arguments: Any,
    **constants: Any,
) -> Call:
    """A call of a kernel.

    Args:
        name: of the kernel in ``triton_kernels``.
        key: the arguments that it is tuned for.
        configs: the autotuner's.
        grid: blocks, or these from a config's sizes.
        out: what the call returns.
        arguments, constants: the kernel's.
    """
    run = _tuned(name, key, configs)

    def call() -> Tensor:
        run[grid](*arguments, **constants)
        return out

    return call


def _tuned(name: str, key: Sequence[str], configs: Configs) -> Any:
    import triton

    from whet.bench.operators import triton_kernels

    kernel = getattr(triton_kernels, name)
    more = {} if isinstance(kernel, triton.runtime.JITFunction) else {"do_bench": _by_the_host}
    options = [triton.Config(sizes, num_warps=w, num_stages=s) for sizes, w, s in configs]
    return triton.autotune(configs=options, key=list(key), **more)(kernel)


def _by_the_host(call: Callable[[], Any], quantiles: Sequence[float] = (), **more: Any) -> Any:
    """Milliseconds by the host's clock: Triton's interpreter has no device to ask."""
    start = time.perf_counter()
    call()
    spent = (time.perf_counter() - start) * 1e3
    return [spent] * len(quantiles) if quantiles else spent


def blocks(size: int, block: int) -> int:
    """How many blocks cover ``size`` elements."""
    return -(-size // block)
