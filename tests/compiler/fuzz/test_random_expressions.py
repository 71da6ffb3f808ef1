"""Random expressions of elements of any value equal numpy's, in vectors on the CPU and on a GPU.

Integers wrap around; ``te_defined`` says which floats are compared. What fails prints the
expressions and the command that draws them again.
"""

import random

import ml_dtypes  # noqa: F401, numpy's bfloat16
import numpy as np
from emulated import TARGET
from extremes import Placed, extreme
from random_expressions import Expressions
from te_defined import undefined
from te_oracle import evaluate

import whet
from whet.compiler import te
from whet.compiler.emulator import emulator_options

SIZES = (1, 7, 37, 64)


class Program:
    """The expressions of a seed, their schedules and inputs."""

    def __init__(self, seed):
        self.seed, self.name = seed, f"expressions{seed}"
        pick = random.Random(seed).randint
        self.size = SIZES[pick(0, len(SIZES) - 1)]
        self.drawn = Expressions(pick, self.size)
        self.args = [*self.drawn.inputs, *self.drawn.outputs]
        self.lanes = pick(1, 8)

    def __str__(self):
        return f"seed {self.seed}, {self.lanes} lanes\n{te.graph_text(self.drawn.outputs)}"

    def function(self, gpu):
        """Its function: in vectors, or an element a thread."""
        s = te.create_schedule(self.drawn.outputs[0].op)
        stage = s[self.drawn.outputs[0]]
        outer, inner = stage.split(stage.op.axis[0], factor=self.lanes)
        if gpu:
            stage.bind(outer, te.thread_axis("threadIdx.x"))
        else:
            stage.vectorize(inner)
        return whet.lower(s, self.args, name=self.name)

    def inputs(self):
        """Small numbers and extreme ones."""
        rng = np.random.default_rng(self.seed)
        out = {}
        for t in self.drawn.inputs:
            low = 0 if t.dtype.startswith("u") else -9
            out[t] = extreme(rng, rng.integers(low, 10, self.size).astype(t.dtype))
        return out

    def check(self, kernel, gpu=False):
        """Compare a kernel's outputs with numpy's, wherever they are defined."""
        inputs = self.inputs()
        empty = [np.full(self.size, 7).astype(t.dtype) for t in self.drawn.outputs]
        arrays = [*inputs.values(), *empty]
        got = on_device(kernel, arrays) if gpu else anywhere(kernel, arrays, self.seed)
        outputs = self.drawn.outputs
        masks = undefined(outputs, inputs)
        wanted = evaluate(outputs, inputs)
        for k, t in enumerate(outputs):
            with np.errstate(all="ignore"):
                want = np.where(masks[k], 0, wanted[k]).astype(t.dtype)
            found = np.where(masks[k], np.zeros((), t.dtype), got[k - len(outputs)])
            wide = "float64" if "float" in t.dtype else t.dtype
            np.testing.assert_array_equal(
                found.astype(wide), want.astype(wide), f"{t.dtype} {t.op.body[k]}"
            )
        return float(np.mean(masks))


def anywhere(kernel, arrays, seed):
    """The outputs of a kernel, in arrays that begin anywhere."""
    placed = [Placed(np.random.default_rng(seed), a) for a in arrays]
    kernel(*(p.array for p in placed))
    for p in placed:
        p.check_surroundings()
    return [p.array for p in placed]


def on_device(kernel, arrays):
    """The outputs of a kernel in the emulator's memory."""
    device = whet.device("cuda-emulator")
    with emulator_options(checks=True):
        held = [whet.nd.array(a, device) for a in arrays]
        kernel(*held)
        return [h.numpy() for h in held]


def checked(programs, gpu, is_known):
    """Build programs as one module and check each."""
    target = TARGET if gpu else "llvm"
    module = whet.build([p.function(gpu) for p in programs], target=target)
    for p in programs:
        try:
            p.check(module[p.name], gpu)
        except Exception as error:
            if not is_known(str(p), error):
                error.add_note(str(p))
                raise


def test_expressions_in_vectors(seeds, is_known):
    for seed in seeds(60):
        checked([Program(seed)], False, is_known)


def test_expressions_on_a_gpu(seeds, is_known):
    programs = [Program(seed) for seed in seeds(12)]
    for first in range(0, len(programs), 12):
        checked(programs[first : first + 12], True, is_known)
