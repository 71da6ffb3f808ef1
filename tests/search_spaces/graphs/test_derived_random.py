"""Random computations get tasks whose random configs compute what the plain schedule does.

``pytest tests/search_spaces/graphs/test_derived_random.py --draws 400`` draws more of them. What
fails prints the computation, the config and the command that draws it again.
"""

import random
import sys
from pathlib import Path

import numpy as np

import whet
from whet import te

sys.path.append(str(Path(__file__).parents[2] / "compiler"))

from extremes import Placed, extreme
from random_programs import EDGES, SIZES, Graph
from te_defined import undefined
from te_oracle import evaluate

TARGET = "llvm -num-threads=2"
DRAWS, CONFIGS = 14, 2


class Derivable(Graph):
    """A random computation that a space is derived for."""

    def recurrences(self):
        return ()

    def triangles(self):
        return ()


class Program:
    """The random computation of a seed, a task of it, and its inputs.

    Attributes:
        task, args: the task, and the arguments of all its kernels.
        arrays: of integers, and sometimes of the extremes of a type; outputs poisoned.
    """

    def __init__(self, seed):
        self.seed = seed
        odd = random.Random(f"odd {seed}").random
        sizes, self.extremes = EDGES if odd() < 0.25 else SIZES, odd() < 0.5
        self.graph = Derivable(random.Random(seed).randint, sizes=sizes)
        self.task = whet.create_task(outputs=self.graph.outputs, target=TARGET)
        (known,) = self.task.template.func.graphs.values()
        self.args, self.outputs = list(known.args), list(known.outputs)
        self.arrays = [self._drawn(t) for t in self.args]

    def _drawn(self, tensor):
        rng = np.random.default_rng([self.seed, self.args.index(tensor)])
        shape = [int(d) for d in tensor.shape]
        if tensor in self.outputs:
            return np.full(shape, np.nan if "float" in tensor.dtype else 77).astype(tensor.dtype)
        low = -8 if tensor.dtype.startswith("float") else 0
        values = rng.integers(low, 9, shape).astype(tensor.dtype)
        return extreme(rng, values) if self.extremes else values

    def run(self, schedule, args):
        """The outputs of a schedule's kernel, on arrays that begin anywhere."""
        rng = np.random.default_rng(self.seed)
        kernel = whet.build(schedule, args, target=self.task.target)
        placed = [Placed(rng, a) for a in self.arrays]
        kernel(*(p.array for p in placed))
        for p in placed:
            p.check_surroundings()
        return [p.array for p, t in zip(placed, self.args) if t in self.outputs]

    def wanted(self):
        """(tensor, numpy's values, which of them are undefined) of each output."""
        tensors = [t for t in self.args if t in self.outputs]
        inputs = {t: a for t, a in zip(self.args, self.arrays) if t not in self.outputs}
        inputs |= self.graph.twins
        return list(zip(tensors, evaluate(tensors, inputs), undefined(tensors, inputs)))

    def __str__(self):
        text = te.graph_text(self.graph.outputs)
        return f"seed {self.seed}, extremes: {self.extremes}\n{text}"


def same(got, wanted):
    """The outputs of a kernel are numpy's, exactly, wherever they are defined."""
    for g, (t, want, unknown) in zip(got, wanted):
        with np.errstate(all="ignore"):
            want = np.where(unknown, 0, want).astype(t.dtype)
        np.testing.assert_array_equal(np.where(unknown, np.zeros_like(g), g), want, t.name)


def test_random_configs_of_random_graphs_equal_the_plain_schedule(seeds, is_known):
    for seed in seeds(DRAWS):
        program, config = Program(seed), None
        try:
            wanted = program.wanted()
            plain = te.create_schedule(list(dict.fromkeys(t.op for t in program.outputs)))
            same(program.run(plain, program.args), wanted)
            space, rng = program.task.config_space, np.random.default_rng(seed)
            for config in (space.default, *(space.sample(rng) for _ in range(CONFIGS))):
                same(program.run(*program.task.instantiate(config)), wanted)
        except Exception as error:
            if not is_known(str(program), error):
                error.add_note(f"{program}\n{config}")
                raise
