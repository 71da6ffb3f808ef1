"""The main job on this machine: tune three computations, build them from the log, compare.

Two are operators that come with Whet. The third is a computation of one's own, as a user writes it:
no template, no schedule. Its space is derived from what it computes.

    python -m whet.quickstart --trials 100 --log whet.db

Run it twice: the second run finds every trial in the log and is done in seconds.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import click

from whet.bench.turns import WARM_UPS, HostClock, interleaved, library_threads, on_cores

if TYPE_CHECKING:
    import numpy as np

    from whet.autotune import Task
    from whet.compiler.runtime.module import Module
    from whet.compiler.te import Tensor

MATMUL = ("matmul", (1024, 1024, 1024))
CONVOLUTION = ("conv2d_nchw", (1, 64, 56, 56, 64, 3, 3, 1, 1))
"""A layer of ResNet-50: 64 channels in and out, 56x56 pixels, a 3x3 window, stride 1, padding 1."""

CODES = (1024, 1024, 32)
"""Pairs of binary codes, each of 32 words of 32 bits: in how many bits do they differ?"""

ONE_THREAD = "llvm -num_threads=1"
ROUNDS = 25
"""Rounds of the comparison; each runs everything once, so that a slow moment strikes all alike."""
ROUND_SECONDS = 0.02
"""Time that each of them gets in a round, at least one call."""


@dataclass
class Contender:
    """One program of the comparison.

    Attributes:
        task: what it computes.
        label: which program it is.
        call: runs it once.
        kept: whether it is the default config again: the search found nothing faster.
        seconds: per call, one figure a round.
    """

    task: Task
    label: str
    call: Callable[[], object]
    kept: bool = False
    seconds: Sequence[float] = ()

    @property
    def cost(self) -> float:
        """Seconds per call, the median of the rounds."""
        return statistics.median(self.seconds)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--trials", type=int, default=100, show_default=True, help="For each kernel.")
@click.option("--log", default="whet.db", show_default=True, help="Where every trial goes.")
def command(trials: int, log: str) -> None:
    """Tune a matmul, a convolution and a computation of one's own, and compare before and after."""
    # Before numpy is imported: all programs here run on one thread, its BLAS as well.
    library_threads(1)
    import whet

    contenders: list[Contender] = []
    operators = [
        whet.create_task(name, args=args, target=ONE_THREAD) for name, args in (MATMUL, CONVOLUTION)
    ]
    own = whet.create_task(outputs=[differing_bits(*CODES)], target=ONE_THREAD)
    for task in (*operators, own):
        click.echo(f"{task.workload}: {task.config_space.size} programs to choose from")
        result = whet.tune(task, trials=trials, log=log)
        click.echo(result)
        kept = result.best is not None and result.best.is_default
        contenders += candidates(task, whet.build(task), whet.build(task, log=log), kept)
    click.echo(f"comparing, {ROUNDS} interleaved rounds on one core ...")
    with on_cores(1):
        peak = compare(contenders)
    show(contenders, peak)
    say_worth(contenders)


def differing_bits(n: int, m: int, words: int) -> Tensor:
    """The computation of one's own: Hamming distances between two sets of binary codes.

    Args:
        n, m: how many codes, int32 of shapes (n, words) and (m, words).
        words: of 32 bits, in a code.

    Returns:
        The distances, int32 of shape (n, m).
    """
    from whet import te

    A = te.placeholder((n, words), "int32", name="A")
    B = te.placeholder((m, words), "int32", name="B")
    k = te.reduce_axis((0, words), name="k")
    return te.compute(
        (n, m), lambda i, j: te.sum(te.popcount(A[i, k] ^ B[j, k]), axis=k), name="differing_bits"
    )


def candidates(task: Task, default: Module, tuned: Module, kept: bool) -> list[Contender]:
    """The programs for one task, each checked against numpy's float64 result.

    Args:
        task: what they compute.
        default, tuned: its kernels.
        kept: whether the tuned one is of the default config, too.

    Raises:
        WhetError: a result is wrong.
    """
    import numpy as np

    rng = np.random.default_rng(0)
    *inputs, output = (drawn(rng, array.shape, array.dtype) for array in task.kernel_args)
    exact, terms, scale = reference(task, inputs)
    contenders = []
    for label, built in (("default config", default), ("tuned", tuned)):
        result = np.full_like(output, POISON)
        call = partial(built, *inputs, result)
        call()
        check(f"{task.workload}, {label}", result, exact, terms, scale)
        contenders.append(Contender(task, label, call, kept and label == "tuned"))
    by_numpy = {"matmul": np.matmul, "conv2d_nchw": None}.get(task.name, distances_by_numpy)
    if by_numpy is not None:
        contenders.append(Contender(task, "numpy", partial(by_numpy, *inputs)))
    return contenders


def drawn(rng: np.random.Generator, shape: tuple[Any, ...], dtype: str) -> np.ndarray:
    """Random values: normal floats, or integers with all bits."""
    import numpy as np

    if dtype.startswith("int"):
        bounds = np.iinfo(dtype)
        return rng.integers(bounds.min, bounds.max, shape, dtype, endpoint=True)
    return rng.standard_normal(shape).astype(dtype)


def reference(task: Task, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, int, Any]:
    """The result in float64, the number of products in an element, and the sums of their sizes."""
    from whet.bench.operators.table import expected

    exact = expected(task, inputs)
    if exact is None:
        return distances(*inputs), 0, 0  # integers: nothing is rounded
    (scale,) = expected(task, [abs(x) for x in inputs]) or ()
    return exact[0], inputs[1].size // exact[0].shape[1], scale


def distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Hamming distances by numpy: the set bits of all pairs' differences, from tables of bytes."""
    import numpy as np

    bits = np.array([byte.bit_count() for byte in range(256)], np.uint8)
    return np.stack([bits[(row ^ b).view(np.uint8)].sum(axis=1, dtype=np.int64) for row in a])


def distances_by_numpy(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The same as one writes it for speed, a row of results at a time, to stay in the cache."""
    import numpy as np

    if not hasattr(np, "bitwise_count"):  # numpy 1
        return distances(a, b)
    a, b = a.view(np.uint32), b.view(np.uint32)  # of negative numbers it counts others
    return np.stack([np.bitwise_count(row ^ b).sum(axis=1, dtype=np.int32) for row in a])


POISON = -77
"""The numbers of an output before a kernel writes it."""


def check(what: str, result: np.ndarray, exact: Any, terms: int, scale: Any) -> None:
    """Refuse a result that rounding alone cannot explain.

    A sum of n products, in whatever order, is off by at most n * u * (sum of their sizes), where u
    is the unit roundoff (Higham, Accuracy and Stability of Numerical Algorithms, 3.1).
    """
    import numpy as np

    from whet.compiler.errors import MeasureError

    off = abs(result - exact)
    rounding = np.finfo(result.dtype).eps if result.dtype.kind == "f" else 0
    allowed = terms * rounding * scale
    if not np.all(off <= allowed):  # also where the result is not a number
        raise MeasureError(
            f"check {what} against numpy",
            f"{np.count_nonzero(~(off <= allowed))} of {off.size} elements are wrong",
            "a compiler's error: please report it, with the config",
        )
    click.echo(f"  {what}: agrees with numpy, largest difference {off.max():.1e}")


def compare(contenders: list[Contender]) -> float:
    """Time all programs in turns; returns the FLOP/s that the core can do, timed in turn too."""
    from whet.compiler.target.machine.fma import fma_peak

    began = time.monotonic()
    peaks = []

    def peak() -> None:
        nonlocal began
        peaks.append(fma_peak("float32", ROUND_SECONDS))
        if time.monotonic() - began > 2:
            began = time.monotonic()
            click.echo(f"  {len(peaks) - WARM_UPS} of {ROUNDS} rounds")

    calls = {str(k): contender.call for k, contender in enumerate(contenders)}
    samples = interleaved({**calls, "FMA peak": peak}, ROUNDS, HostClock(ROUND_SECONDS))
    for contender, key in zip(contenders, calls):
        contender.seconds = samples[key].seconds
    return statistics.median(peaks[WARM_UPS:])


def show(contenders: list[Contender], peak: float) -> None:
    """Print what came out."""
    from rich.console import Console
    from rich.table import Table

    from whet.compiler.target.machine import host
    from whet.search_spaces.values.counted import duration

    caption = (
        f"one thread; its FMA peak is {peak / 1e9:.1f} GFLOP/s; medians of {ROUNDS} rounds\n"
        "GFLOP/s count the operations of the direct algorithm; Winograd's needs fewer"
    )
    table = Table(title=str(host.describe()["cpu"]), caption=caption)
    table.add_column("kernel")
    table.add_column("program")
    for name in ("time", "GFLOP/s", "of the peak", "speed-up"):
        table.add_column(name, justify="right")
    base = contenders[0]
    for contender in contenders:
        rate = contender.task.flop / contender.cost
        first = contender.label == "default config"
        if first:
            base = contender
            table.add_section()
        table.add_row(
            str(contender.task.workload) if first else "",
            "tuned: the default" if contender.kept else contender.label,
            duration(contender.cost),
            f"{rate / 1e9:.1f}",
            f"{rate / peak:.0%}" if contender.task.dtype == "float32" else "-",
            f"{base.cost / contender.cost:.2f}x",
        )
    # A pipe has no width: there, a line may be as long as it is.
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def say_worth(contenders: list[Contender]) -> None:
    """The last lines: what the search was worth on each task, from the same rounds.

    Where the default config won, both are one program, and what their times differ in is noise.
    """
    click.echo("what the search was worth:")
    for default, tuned in pairwise(contenders):
        if default.task is not tuned.task or tuned.label != "tuned":
            continue
        faster = default.cost / tuned.cost
        words = f"{faster:.2f}x"
        if tuned.kept or faster < 1.02:
            words = "nothing"
        rest = [c for c in contenders if c.task is tuned.task and c.label == "numpy"]
        numpy = f", {rest[0].cost / tuned.cost:.2f}x numpy" if rest else ""
        own = "" if tuned.task.name in (MATMUL[0], CONVOLUTION[0]) else " (without a template)"
        click.echo(f"  {tuned.task.workload}{own}: {words} over the default config{numpy}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the quickstart; returns the exit code, as the command line's."""
    from whet.cli import run

    return run(command, arguments, "quickstart")


if __name__ == "__main__":
    sys.exit(main())
