"""Kernels run in several orders of threads, everything looked at: what `whet check-kernel` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whet.compiler.abi.layout import numpy_dtype
from whet.compiler.emulator.handwritten.adapt import adapt
from whet.compiler.emulator.handwritten.functions import instance, with_kernels
from whet.compiler.emulator.handwritten.macros import with_macros
from whet.compiler.emulator.options import emulator_options
from whet.compiler.emulator.report import EmulatorError
from whet.compiler.emulator.sanitizer.expectations import Expectations, compare
from whet.compiler.emulator.sanitizer.launch_text import read_launch
from whet.compiler.emulator.sanitizer.run import Unwritten, parameters_of, run_kernel
from whet.compiler.errors import ArgumentError, KernelError
from whet.compiler.target import Target


@dataclass(frozen=True, slots=True)
class Checked:
    """A launch or a schedule that ran without a fault.

    Attributes:
        kernel: its name.
        orders: the orders of threads.
        compared: how many arrays were compared with a computation without GPU.
        unwatched: memory of the text whose accesses were computed and not looked at.
        numbers: what they were compared with, in words.
    """

    kernel: str
    orders: tuple[str | int, ...]
    compared: int = 0
    unwatched: tuple[str, ...] = ()
    numbers: str = "numbers as without threads"


def orders_of(count: int) -> tuple[str | int, ...]:
    """Forwards, backwards, then drawn ones; ``count`` of them, at least one."""
    return ("forwards", "backwards", *range(2, count))[: max(count, 1)]


def check_launch(
    source: str,
    launch: str,
    orders: int = 4,
    seed: int = 0,
    defines: Mapping[str, str] | None = None,
    expected: Expectations | None = None,
) -> Checked:
    """Run a launch of CUDA C with all checks, once for each order of threads.

    Args:
        source: the text.
        launch: as in CUDA C, with arrays by their types: ``"f<<<4, 256>>>(float32[1000], 2.0)"``,
            ``"f<32, float><<<4, 256>>>(..)"`` of a template.
        orders: how many orders.
        seed: of what the arrays hold.
        defines: macros that are defined before the text, as by ``nvcc -D``.
        expected: what arrays shall hold afterwards.

    Raises:
        ArgumentError: the launch is none, or not one of this kernel, or what is expected cannot be.
        CodegenError: the text does not compile.
        EmulatorError: the kernel does what it must not do.
        KernelError: its results depend on the order of threads, or are not what is expected.
    """
    read = read_launch(launch)
    source = with_kernels(source, [read.kernel])
    if read.template:
        source = instance(source, read.kernel, read.template)
    source = with_macros(source, defines or {})
    given = read.values(seed)
    names = parameters_of(source, read.kernel)
    arrays = [n for n, g in zip(names, given) if isinstance(g, (np.ndarray, Unwritten))]
    wanted = expected.values(names, given) if expected is not None else {}
    first: list[np.ndarray] | None = None
    for order in orders_of(orders):
        with emulator_options(checks=True, order=order):
            try:
                left = run_kernel(
                    source, read.kernel, read.grid, read.block, given, read.shared_bytes
                )
            except EmulatorError as error:
                raise _with_words_on_out(error, launch) from None
        if expected is not None:
            expected.check(wanted, dict(zip(arrays, left)), launch)
        first = left if first is None else first
        if any(compare(a, b, scaled=True)[0] for a, b in zip(left, first)):
            raise KernelError(
                f"checking {launch}",
                f"its results with threads in the order {order!r} are not those with threads "
                "forwards",
                "a result may not depend on which thread runs first",
            )
    return Checked(
        read.kernel, orders_of(orders), len(wanted), adapt(source).unwatched, "numbers as expected"
    )


def _with_words_on_out(error: EmulatorError, launch: str) -> EmulatorError:
    """An error of an array that the launch calls unwritten says that it does."""
    if error.fault == "unwritten memory" and error.scope == "global":
        subject, why, way_out = error.args
        word = f"or, if it holds numbers before the launch, leave out its 'out' in {launch}"
        error.args = subject, why, f"{way_out}\n{word}"
    return error


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
    from whet.compiler.runtime.arrays import nd

    kernel = driver.build(s, list(args), target, name=name)
    values = values_for(args, dict(sizes or {}), seed, [stage.op for stage in s.stages])
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
        for k, array in zip(outputs, result):
            different, farthest = compare(array, values[k], scaled=True)
            if different:
                raise KernelError(
                    "checking the schedule",
                    f"{args[k].op.name}{farthest} without threads (order {order!r})",
                    "the schedule makes another computation",
                )
    return Checked(name, orders_of(orders), len(outputs))


def _is_output(arg: Any) -> bool:
    from whet.compiler import te

    return isinstance(arg, te.Tensor) and not isinstance(arg.op, te.PlaceholderOp)


def values_for(
    args: Sequence[Any], sizes: dict[str, int], seed: int, ops: Sequence[Any]
) -> list[Any]:
    """An array for each tensor, a number for each variable.

    Args:
        args: of the schedule.
        sizes: the values of symbols.
        seed: of the values.
        ops: the operations; integers that may be indices are not negative.
    """
    rng = np.random.default_rng(seed)
    lowest = -8 if all(map(_takes_negative, ops)) else 0
    return [_of(a, sizes, rng, lowest) for a in args]


def _takes_negative(op: Any) -> bool:
    """True of an operation that neither indexes nor shifts by values that it reads."""
    from whet.compiler import te
    from whet.compiler.tir import expr as e
    from whet.compiler.tir.visit.rewrite import post_order_visit

    def nodes(expression: Any) -> list[Any]:
        visited: list[Any] = []
        post_order_visit(expression, visited.append)
        return visited

    if not isinstance(op, te.ComputeOp):
        return isinstance(op, te.PlaceholderOp)
    read = [n for body in op.body for n in nodes(body)]
    indices = [i for n in read if isinstance(n, e.ProducerLoad) for i in n.indices]
    return not (
        any(isinstance(n, e.Call) and "shift" in str(n.op) for n in read)
        or any(isinstance(n, e.ProducerLoad) for index in indices for n in nodes(index))
    )


def _of(arg: Any, sizes: dict[str, int], rng: np.random.Generator, lowest: int) -> Any:
    from whet.compiler import tir
    from whet.compiler.arith import Analyzer

    if isinstance(arg, tir.Var):
        return _size(arg.name, sizes)
    shape = []
    for extent in arg.shape:
        values = {v: tir.const(_size(v.name, sizes), v.dtype) for v in tir.variables(extent)}
        shape.append(int(Analyzer().simplify(tir.substitute(extent, values))))
    dtype, limits = numpy_dtype(arg.dtype), getattr(arg.op, "value_range", None)
    if "float" in arg.dtype:
        drawn = rng.uniform(limits[0], limits[1], shape) if limits else rng.standard_normal(shape)
        return drawn.astype(dtype)
    low, high = limits or (lowest if dtype.kind == "i" else 0, 1 if dtype.kind == "b" else 7)
    return rng.integers(int(low), int(high), shape, endpoint=True).astype(dtype)


def _size(name: str, sizes: dict[str, int]) -> int:
    if name not in sizes:
        raise ArgumentError(
            "checking the schedule", f"the size {name} is not known", f"--size {name}=37"
        )
    return sizes[name]
