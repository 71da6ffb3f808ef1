"""Templates for GPUs under drawn configs, run in the emulator or step by step, against numpy."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import named_cases
import numpy as np
from cpu_conv_checks import convolved
from cpu_gemm_checks import after

import whet
from whet.bench.arguments import call_of
from whet.compiler.codegen.cuda import nvrtc
from whet.compiler.emulator import emulator_options
from whet.search_spaces.operators.arguments import each
from whet.search_spaces.template import instantiate
from whet.search_spaces.values import Config

TARGET = "cuda -arch=sm_90"
ARCHITECTURES = ("sm_80", "sm_90")
COMPILED = 3
"""Of so many kernels, NVIDIA's compiler compiles one, by its text; --gpu-full: all."""
_NEAR = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-10, "int32": 0}


@dataclass(frozen=True)
class Case:
    """A template, its arguments, and what numpy makes of its inputs in float64."""

    name: str
    args: tuple
    reference: Callable[..., np.ndarray]


def gemm(name: str, args: tuple, epilogue: tuple = (), dtype: str = "float32") -> Case:
    """A GEMM; ``args`` up to the transposes."""
    flags = {"matmul": args[3:5], "batch_matmul": args[4:6], "dense": (False, True)}[name]
    turn_a, turn_b = (*flags, False, False)[:2]

    def reference(a: np.ndarray, b: np.ndarray, *extras: np.ndarray) -> np.ndarray:
        a, b = (np.swapaxes(x, -1, -2) if turn else x for x, turn in ((a, turn_a), (b, turn_b)))
        return after(epilogue, a @ b, list(extras))

    whole = args if name == "dense" else (*args, *(False, False)[len(flags) :])
    return Case(name, (*whole, dtype, epilogue), reference)


def convolution(name: str, args: tuple, epilogue: tuple = (), dtype: str = "float32") -> Case:
    """A convolution; ``args`` up to the groups, or the multiplier of a depthwise one."""
    depthwise, last = name.startswith("depthwise"), name.endswith("nhwc")
    head = 6 if depthwise else 7
    strides, padding, dilation, rest = [*args[head:], *(1, 0, 1, 1)[len(args) - head :]]
    wide = isinstance(padding, tuple) and len(padding) == 4
    both = padding if wide else each("", "padding", padding, 2, 0) * 2
    groups = args[1] if depthwise else rest

    def reference(x: np.ndarray, w: np.ndarray, *extras: np.ndarray) -> np.ndarray:
        if last:
            x, w = np.moveaxis(x, 3, 1), w.transpose(2, 3, 0, 1) if depthwise else w
            w = w if depthwise else np.moveaxis(w, (3, 2), (0, 1))
        w = w.reshape(-1, 1, *w.shape[2:]) if depthwise else w
        plain = convolved(
            x, w, each("", "strides", strides, 2, 1), [(both[k], both[2 + k]) for k in range(2)],
            each("", "dilation", dilation, 2, 1), groups,
        )  # fmt: skip
        moved = [e if e.ndim == 1 or last else np.moveaxis(e, 1, -1) for e in extras]
        made = after(epilogue, np.moveaxis(plain, 1, -1), moved)
        return made if last else np.moveaxis(made, -1, 1)

    return Case(name, (*args[:head], strides, padding, dilation, rest, dtype, epilogue), reference)


def packed(case: Case) -> Case:
    """A case whose weights are packed ahead; its last argument but that is the epilogue."""
    return Case(case.name, (*case.args, True), case.reference)


def by_numpy(name: str, args: tuple) -> Case:
    """A named template beside numpy's answer, as `whet bench` has it."""
    return Case(name, args, named_cases.Case(name, args).reference)


def configs_of(case: Case, count: int, only: dict[str, Any] | None = None) -> list[Config]:
    """The default config and ``count`` others, drawn by the case; or those with given choices."""
    space = whet.create_task(case.name, args=case.args, target=TARGET).config_space
    rng = np.random.default_rng(zlib.crc32(repr((case.name, case.args)).encode()))
    many = 60 * count if only else count
    drawn = [space.default, *(space.decode(p) for p in space.valid_points.sample(rng, many))]
    if not only:
        return drawn
    found = [c for c in drawn if all(c[k].val == v for k, v in only.items())]
    assert found, only
    return found[: count + 1]


def compiles(source: str, full: bool) -> bool:
    """Let NVIDIA's compiler, where it is installed, compile a text; whether it did.

    Args:
        full: every text, not a sample by their contents.
    """
    chosen = full or zlib.crc32(source.encode()) % COMPILED == 0
    if not chosen or not nvrtc.available():
        return False
    for arch in ARCHITECTURES:
        assert len(nvrtc.compile_cubin(source, arch).resources) == source.count("__global__")
    return True


def check(case: Case, config: Config, device: str = "cuda-emulator", full: bool = False) -> None:
    """Compare a kernel with numpy, outputs poisoned; for a GPU, it compiles, too.

    Args:
        device: where it runs; ``"cpu"``: its threads one after the other, which any schedule with
            right indices survives.
        full: whether NVIDIA's compiler gets the text in any case.
    """
    task = whet.create_task(case.name, args=case.args, target=TARGET)
    with task.target:
        s, tensors = instantiate(task.workload, config)
    f = whet.build(s, tensors, "llvm" if device == "cpu" else task.target)
    rng = np.random.default_rng(7)
    given = [_drawn(rng, t) for t in tensors[:-1]]
    shape, dtype = tuple(int(d) for d in tensors[-1].shape), tensors[-1].dtype
    out = np.full(shape, 77, dtype)
    if device == "cpu":
        call_of(f, (*given, out))()
    else:
        compiles(f.get_source("cuda"), full)
        where = whet.device(device)
        held = [whet.nd.array(x, where) for x in (*given, out)]
        with emulator_options(checks=True, order="backwards"):
            call_of(f, held)()
        out = held[-1].numpy()
    exact = (x if x.dtype.kind == "i" else x.astype(np.float64) for x in given)
    right = np.asarray(case.reference(*exact))
    near = _NEAR[dtype]
    scale = max(1.0, np.abs(right).max(initial=0))
    np.testing.assert_allclose(out, right, near, near * scale, err_msg=f"{case.name} {config}")


def _drawn(rng: np.random.Generator, t: Any) -> np.ndarray:
    shape = tuple(int(d) for d in t.shape)
    if t.dtype == "int32":  # also places in what is gathered
        return rng.integers(0, 6, shape).astype(t.dtype)
    found = rng.standard_normal(shape)
    return (np.abs(found) if t.op.name == "variance" else found).astype(t.dtype)
