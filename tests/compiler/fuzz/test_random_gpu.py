"""Random computations under random schedules for GPUs equal numpy, in several orders of threads.

``pytest tests/compiler/fuzz/test_random_gpu.py --draws 500`` draws more. Some at a time are built
as one module and run in the emulator with all its checks. What fails prints the computation, the
trace that replays its schedule, and the command that draws it again.
"""

import random
from contextlib import contextmanager

import ml_dtypes
import numpy as np
import pytest
from emulated import TARGET
from extremes import extreme
from random_gpu import GpuGraph, GpuSchedule, evenly
from random_programs import EDGES, SIZES
from te_check import evaluate_size
from te_defined import EXACT, undefined
from te_oracle import evaluate

import whet
from whet.compiler import te
from whet.compiler.codegen.cuda.nvrtc import available, compile_cubin
from whet.compiler.emulator import emulator_options
from whet.compiler.errors import WhetError

BATCH = 12
ORDERS = ("forwards", "backwards", 5)
# what a random schedule may run into, and a user's may, too
ILLEGAL = (
    "runs outside",
    "further out",
    "no order there",
    "a barrier is needed inside",
    "its size is not known when the code is made",
    "outside all threads",
    "a kernel uses it that does not make it",
    "no argument gives",
    "are not all known",
    "the parts overlap",
    "each of these threads has its own",
    "would not come together",
    "fewer steps",
    "its own, and computes it alone",
    "at most 64 there",
)
#: seeds of programs that gave wrong numbers once
WRONG_ONCE = (98700034,)
ROUNDING = {"float16": 2**-10, "bfloat16": 2**-7, "float32": 1e-4, "float64": 1e-9}
#: stages whose result jumps when an operand is rounded otherwise
JUMPS = {"several", "position", "converted"}


class Program:
    """A random program for a GPU: what it computes, its schedule and its arrays.

    Attributes:
        name: of its function.
        graph, made: the computation and its schedule.
        extremes: whether infinities, NaN and the largest integers are among its inputs.
    """

    def __init__(self, seed):
        self.seed, self.name = seed, f"program{seed}"
        odd = random.Random(f"odd {seed}").random
        sizes, self.extremes = EDGES if odd() < 0.25 else SIZES, odd() < 0.5
        pick = evenly(seed)
        self.graph = GpuGraph(pick, symbolic=pick(0, 3) == 0, sizes=sizes)
        self.made = GpuSchedule(self.graph, pick)

    def lowered(self):
        """Its function."""
        return whet.lower(self.made.s, self.made.args, name=self.name)

    def __str__(self):
        text = te.graph_text(self.graph.outputs)
        head = f"seed {self.seed}, extremes: {self.extremes}\n{text}"
        return f"{head}\n{self.graph.symbols}\n{self.made.s.trace}"

    def inputs(self):
        """Its arrays of integers: sums of few bits are exact, whatever their order."""
        rng = np.random.default_rng(self.seed)
        odd = np.random.default_rng([self.seed, 1])
        out = {}
        for t in self.graph.inputs:
            shape = self._shape(t)
            if t in self.graph.tables:
                out[t] = rng.integers(-4, 5, shape).astype(t.dtype)
                continue
            most = 1 if "float16" in t.dtype else 4
            low = 0 if t.dtype.startswith("u") else -most
            out[t] = rng.integers(low, most + 1, shape).astype(_numpy(t.dtype))
            if self.extremes:
                out[t] = extreme(odd, out[t])
        return out

    def _shape(self, t):
        return tuple(int(evaluate_size(d, self.graph.symbols)) for d in t.shape)

    def run(self, kernel, order):
        """The outputs of a call in the emulator."""
        device = whet.device("cuda-emulator")
        arrays = self.inputs()
        placed = {t: whet.nd.array(a, device) for t, a in arrays.items()}
        for t in self.graph.outputs:
            placed[t] = whet.nd.empty(self._shape(t), t.dtype, device)
        with emulator_options(checks=True, order=order):
            kernel(*(placed[t] for t in self.made.args))
        for t in self.made.args[: -len(self.graph.outputs)]:
            assert placed[t].numpy().tobytes() == arrays[t].tobytes(), f"{t.name} was written"
        return [placed[t].numpy() for t in self.graph.outputs]

    def check(self, kernel, orders=ORDERS):
        """Compare the outputs with numpy's in each order; whether they could be."""
        made = list(dict.fromkeys([*self.graph.tensors, *self.graph.outputs]))
        values = dict(zip(made, evaluate(made, self.inputs(), self.graph.symbols)))
        if self.extremes:
            tolerances = dict.fromkeys(EXACT, 0.0)
            masks = undefined(self.graph.outputs, self.inputs(), self.graph.symbols)
        else:
            tolerances, masks = self._tolerances(values), [False] * len(self.graph.outputs)
        for order in orders:
            got = self.run(kernel, order)
            for t, g, mask in zip(self.graph.outputs, got, masks):
                if tolerances is not None:
                    _same(g, values[t], t, tolerances, mask)
        return tolerances is not None

    def _tolerances(self, values):
        """dtype -> how far floats may be off; None where a rounding may decide a comparison."""
        tolerances = dict.fromkeys(EXACT, 0.0)
        for t, v in values.items():
            if t.dtype in EXACT:
                peak = 17 * 17 * float(np.max(np.abs(v), initial=0.0, where=np.isfinite(v)))
                if peak >= EXACT[t.dtype]:
                    off = ROUNDING[t.dtype] * peak
                    tolerances = {k: max(x, off) for k, x in tolerances.items()}
        jumps = any(tolerances.values()) and JUMPS.intersection(self.graph.made)
        return None if jumps else tolerances


def _numpy(dtype):
    return np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)


def _same(got, want, tensor, tolerances, mask):
    got, want = (np.where(mask, np.zeros((), x.dtype), x) for x in (got, np.asarray(want)))
    if tensor.dtype not in EXACT:
        np.testing.assert_array_equal(got, want, err_msg=tensor.name)
        return
    got, off = got.astype("float64"), tolerances[tensor.dtype]
    with np.errstate(all="ignore"):
        want = want.astype(_numpy(tensor.dtype)).astype("float64")
    np.testing.assert_allclose(got, want, rtol=0, atol=off, err_msg=tensor.name)


def built(programs):
    """The kernels of programs, one module; each alone if that fails, so that it is known which."""
    functions = [f for _, f in programs]
    try:
        module = whet.build(functions, target=TARGET)
        return module, [module[p.name] for p, _ in programs]
    except Exception:
        for p, f in programs:
            with noted(p):
                whet.build([f], target=TARGET)
        raise


def _accepted(module):
    """NVIDIA's compiler takes the text, too, where there is one."""
    if available():
        for arch in ("sm_80", "sm_90"):
            assert compile_cubin(module.get_source("cuda"), arch).cubin[:4] == b"\x7fELF"


@contextmanager
def noted(program):
    """A failure inside names the program."""
    try:
        yield
    except Exception as error:
        error.add_note(str(program))
        raise


def legal(seeds, is_known=lambda *_: False):
    """Programs that can be built, with their functions; others are refused in known words."""
    for seed in seeds:
        p = Program(seed)
        try:
            function = p.lowered()
            whet.build([function], target=TARGET)
        except Exception as error:
            refused = isinstance(error, WhetError) and any(why in str(error) for why in ILLEGAL)
            if not refused and not is_known(str(p), error):
                error.add_note(str(p))
                raise
        else:
            yield p, function


def test_any_schedule_for_gpus_gives_the_same_numbers(seeds, is_known):
    some = seeds(24)
    ran, compared, applied = 0, 0, set()
    programs = list(legal(some, is_known))
    for first in range(0, len(programs), BATCH):
        batch = programs[first : first + BATCH]
        module, kernels = built(batch)
        if first == 0:
            _accepted(module)
        for (p, _), kernel in zip(batch, kernels):
            ran += 1
            applied |= p.made.applied
            try:
                compared += p.check(kernel)
            except Exception as error:
                if not is_known(str(p), error):
                    error.add_note(str(p))
                    raise
    assert ran >= len(some) // 2 and compared >= ran * 3 // 4, (len(some), ran, compared)
    assert len(applied) >= 10 or len(some) < 24, applied


@pytest.mark.parametrize("seed", WRONG_ONCE)
def test_programs_that_were_wrong_once(seed):
    ((p, function),) = legal([seed])
    with noted(p):
        assert p.check(whet.build([function], target=TARGET)[p.name])


def test_the_check_can_fail():
    (p, function), *_ = legal([0])
    kernel = whet.build([function], target=TARGET)[p.name]
    assert p.check(kernel, ORDERS[:1])

    def broken(*arrays):
        kernel(*arrays)
        changed = arrays[-1].numpy()
        changed.reshape(-1)[-1] += 1
        arrays[-1].copyfrom(changed)

    with pytest.raises(AssertionError, match="Mismatched elements"):
        p.check(broken, ORDERS[:1])
