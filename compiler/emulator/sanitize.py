"""Kernels run in several orders of threads, everything looked at: what `whet check-kernel` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whet.compiler.emulator.launch_text import read_launch
from whet.compiler.emulator.options import emulator_options
from whet.compiler.emulator.run import run_kernel
from whet.compiler.errors import ArgumentError, KernelError
from whet.compiler.target import Target

_CLOSE = {2: 2e-2, 4: 1e-3, 8: 1e-9}  # bytes of a float -> how far results may be apart


@dataclass(frozen=True, slots=True)
class Checked:
    """What was run without a fault.

    Attributes:
        kernel: its name.
        orders: the orders of threads.
        compared: how many arrays were compared with a computation without GPU.
    """

    kernel: str
    orders: tuple[str | int, ...]
    compared: int = 0


def orders_of(count: int) -> tuple[str | int, ...]:
    """Forwards, backwards, then drawn ones; ``count`` of them, at least one."""
    return ("forwards", "backwards", *range(2, count))[: max(count, 1)]


def check_launch(source: str, launch: str, orders: int = 4, seed: int = 0) -> Checked:
    """Run a launch of CUDA C with all checks, once for each order of threads.

    Args:
        source: the text.
        launch: as in CUDA C, with arrays by their types: ``"f<<<4, 256>>>(float32[1000], 2.0)"``.
        orders: how many orders.
        seed: of what the arrays hold.

    Raises:
        ArgumentError: the launch is none, or not one of this kernel.
        CodegenError: the text does not compile.
        EmulatorError: the kernel does what it must not do.
        KernelError: its results depend on the order of threads.
    """
    read = read_launch(launch)
    first: list[np.ndarray] | None = None
    for order in orders_of(orders):
        with emulator_options(checks=True, order=order):
            found = run_kernel(
                source, read.kernel, read.grid, read.block, read.values(seed), read.shared_bytes
            )
        first = found if first is None else first
        if not all(map(_close, found, first)):
            raise KernelError(
                f"checking {launch}",
                f"its results with threads in the order {order!r} are not those with threads "
                "forwards",
                "a result may not depend on which thread runs first",
            )
    return Checked(read.kernel, orders_of(orders))


def check_schedule(
    s: Any,
    args: Sequence[Any],
    target: Target | str = "cuda",
    orders: int = 4,
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
    name: str = "main",
) -> Checked:
    """Build a schedule for a GPU, run it with all checks, and compare with its plain loops.

    Args:
        s: the schedule.
        args: its arguments.
        target: of kind ``cuda``.
        orders: how many orders of threads.
        seed: of what the inputs hold.
        sizes: the values of symbols.
        name: the function's name.

    Raises:
        LowerError, CodegenError: it cannot be built.
        EmulatorError: a kernel does what it must not do.
        KernelError: the numbers are not those of the plain loops.
    """
    from whet.compiler import driver, te
    from whet.compiler.runtime import nd

    kernel = driver.build(s, list(args), target, name=name)
    values = _values(args, dict(sizes or {}), seed)
    outputs = [k for k, a in enumerate(args) if _is_output(a)]
    device = nd.device("cuda-emulator")
    results = []
    for order in orders_of(orders):
        with emulator_options(checks=True, order=order):
            held = [
                (nd.empty(v.shape, v.dtype, device) if k in outputs else nd.array(v, device))
                if isinstance(v, np.ndarray)
                else v
                for k, v in enumerate(values)
            ]
            kernel(*held)
            results.append([held[k].numpy() for k in outputs])
    # last: without threads nothing looks at what it reads
    plain = te.create_schedule([args[k].op for k in outputs])
    driver.build(plain, list(args), "llvm", name=name)(*values)
    for order, result in zip(orders_of(orders), results):
        for k, found in zip(outputs, result):
            if not _close(found, values[k]):
                raise _wrong(args[k].op.name, found, values[k], order)
    return Checked(name, orders_of(orders), len(outputs))


def _is_output(arg: Any) -> bool:
    from whet.compiler import te

    return isinstance(arg, te.Tensor) and not isinstance(arg.op, te.PlaceholderOp)


def _values(args: Sequence[Any], sizes: dict[str, int], seed: int) -> list[Any]:
    """An array for each tensor, a number for each variable."""
    rng = np.random.default_rng(seed)
    return [_of(a, sizes, rng) for a in args]


def _of(arg: Any, sizes: dict[str, int], rng: np.random.Generator) -> Any:
    from whet.compiler import tir
    from whet.compiler.arith import Analyzer

    if isinstance(arg, tir.Var):
        return _size(arg.name, sizes)
    shape = []
    for extent in arg.shape:
        values = {v: tir.const(_size(v.name, sizes), v.dtype) for v in tir.variables(extent)}
        shape.append(int(Analyzer().simplify(tir.substitute(extent, values))))
    dtype = np.dtype("uint16" if arg.dtype == "bfloat16" else arg.dtype)
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 2 if dtype.kind == "b" else 8, shape).astype(dtype)


def _size(name: str, sizes: dict[str, int]) -> int:
    if name not in sizes:
        raise ArgumentError(
            "checking the schedule", f"the size {name} is not known", f"--size {name}=37"
        )
    return sizes[name]


def _close(found: np.ndarray, wanted: np.ndarray) -> bool:
    if found.dtype.kind != "f":
        return bool(np.array_equal(found, wanted))
    near = _CLOSE[found.dtype.itemsize]
    scale = float(np.max(np.abs(wanted), initial=1.0, where=np.isfinite(wanted)))
    return bool(np.allclose(found, wanted, rtol=near, atol=near * scale, equal_nan=True))


def _wrong(name: str, found: np.ndarray, wanted: np.ndarray, order: str | int) -> KernelError:
    far = np.abs(found.astype("float64") - wanted.astype("float64"))
    far = np.where(np.isnan(far), np.inf, far)
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(far)), far.shape))
    return KernelError(
        "checking the schedule",
        f"{name}[{', '.join(map(str, at))}] is {found[at]}, and {wanted[at]} without threads "
        f"(order {order!r})",
        "the schedule makes another computation",
    )
