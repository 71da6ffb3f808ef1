"""Random programs for the CPU: drawn, built with and without their schedule, run and compared."""

import random

import numpy as np
from extremes import Placed, extreme
from random_programs import EDGES, SIZES, Graph
from random_schedules import RandomSchedule
from te_check import evaluate_size
from te_defined import undefined
from te_oracle import evaluate, evaluate_expr

from whet.compiler import driver, te, tir
from whet.compiler.errors import WhetError

# what a random attachment may run into, and a user may, too
ILLEGAL = (
    "runs outside",
    "further out",
    "no longer a loop",
    "no argument gives",
    "not a constant",
    "nothing gives it",
    "a part at a time",
    "is inlined",
    "is attached",
    "each of these threads has its own",
    "outside all threads",
    "in its own memory",  # the first steps of a recurrence as an argument
    "rolling_buffer(",
    "has strides of its own",  # and is laid out, too
    "transform_layout(",
    "the extents of its axes depend on each other",  # of a tile
    "the domain of k depends",  # and is not known for all elements together
    "is also read outside of that loop",  # of a script
    "as rows in memory",  # a script, of what has a layout of its own
    "depends on data",  # a prefetch of what an inlined stage gathers
)


class Program:
    """A random program.

    Attributes:
        seed: what its numbers are drawn from.
        graph, made: the computation and its schedule.
        extremes: whether infinities, NaN and the largest integers are among its inputs.
        binds: argument -> its buffer, where that leaves the strides to the caller.
    """

    def __init__(self, pick, seed, symbolic=False, edges=False, extremes=False, strides=False):
        self.seed, self.extremes = seed, extremes
        self.graph = Graph(pick, symbolic=symbolic, sizes=EDGES if edges else SIZES)
        self.made = RandomSchedule(self.graph, pick)
        self.binds = self._any_strides() if strides else {}

    def _any_strides(self):
        rng = random.Random(self.seed)
        return {
            t: tir.decl_buffer(
                t.shape,
                t.dtype,
                f"{t.name}_buffer",
                strides=[te.var(f"s{k}") for k in range(t.ndim)],
            )
            for t in self.made.args
            if rng.random() < 0.5
        }

    def __str__(self):
        strides = ", ".join(t.name for t in self.binds)
        return (
            f"seed {self.seed}, extremes: {self.extremes}, strides of: {strides}\n"
            f"{te.graph_text(self.graph.outputs)}\n{self.graph.symbols}\n{self.made.s.trace}"
        )

    def compiled(self):
        """Its kernel, and (arguments, kernel) without a schedule; None if the schedule is refused.

        Its trace replays to the same program.
        """
        graph, made = self.graph, self.made
        try:
            module = driver.lower(made.s, made.args, binds=self.binds)
            kernel = driver.build(made.s, made.args, binds=self.binds)
        except WhetError as error:
            assert any(why in str(error) for why in ILLEGAL), error
            return None
        assert str(driver.lower(made.s, made.args, binds=self.binds)) == str(module)
        replayed = made.s.trace.replay(made.s.outputs)
        same = {t: t if t in graph.inputs else _same(made.s, replayed, t) for t in made.args}
        binds = {same[t]: b for t, b in self.binds.items()}
        again = driver.lower(replayed, list(same.values()), binds=binds)
        assert str(again) == str(module), "the trace replays to another program"
        plain = te.create_schedule(list(dict.fromkeys(t.op for t in graph.outputs)))
        known = [t for t in graph.inputs if t.op in plain.stage_map] + graph.outputs
        try:
            return kernel, (known, driver.build(plain, known))
        except WhetError as error:  # a size that only an intermediate gave
            assert "no argument gives" in str(error), error
            return None

    def arrays(self, tensors):
        """Integers, so that the order of additions hardly matters; outputs poisoned."""
        rng = np.random.default_rng(self.seed)
        odd = np.random.default_rng([self.seed, 1])
        out = {}
        for t in self.graph.inputs:
            low = 0 if t.dtype.startswith("u") else -4
            out[t] = rng.integers(low, 5, self._shape(t)).astype(t.dtype)
            if self.extremes:
                out[t] = extreme(odd, out[t])
        for t in tensors:
            if t not in out:
                poison = np.nan if "float" in t.dtype else True if t.dtype == "bool" else 77
                out[t] = np.full(self._shape(t), poison, t.dtype)
        return out

    def _twins(self):
        """Tensors of te.compute for the outputs of scripts, as they were given and as they are."""
        scripts = (x for x in self.made.s.stages if x.origin_op in self.graph.twins)
        return self.graph.twins | {x.op: self.graph.twins[x.origin_op] for x in scripts}

    def _shape(self, t):
        return [int(evaluate_size(d, self.graph.symbols)) for d in t.shape]

    def _places(self, t, array):
        """For each place of an argument as it is laid out the number of its element; -1: none."""
        out, shape = np.arange(array.size).reshape(array.shape), t.shape
        for m in self.made.s[t].layout_transforms:
            env = dict(zip(m.initial_indices, np.indices(out.shape)))
            at = [np.broadcast_to(evaluate_expr(x, env), out.shape) for x in m.final_indices]
            shape = m.map_shape(shape)
            laid = np.full([int(evaluate_size(n, self.graph.symbols)) for n in shape], -1)
            laid[tuple(at)] = out
            out = laid
        return out

    def _laid(self, t, array, places):
        flat = array.reshape(-1)
        padding = np.full((), 3, array.dtype)
        return (
            np.where(places >= 0, flat[places], padding)
            if flat.size
            else array.reshape(places.shape)
        )

    def _read(self, got, places, before):
        """The elements of an argument; its padding is as it was."""
        np.testing.assert_array_equal(got[places < 0], before[places < 0], "padding was written")
        out = np.empty(int((places >= 0).sum()), got.dtype)
        out[places[places >= 0]] = got[places >= 0]
        return out

    def run(self, kernel, plain, wall=None):
        """Run the kernel on arrays that begin anywhere; compare it with numpy and the plain one.

        With a ``wall`` they end (or begin) where a touch is a segfault.
        """
        args, graph = self.made.args, self.graph
        arrays = self.arrays(args)
        rng = np.random.default_rng([self.seed, 2])
        places = {t: self._places(t, arrays[t]) for t in args}
        arrays = {**arrays, **{t: self._laid(t, arrays[t], places[t]) for t in args}}
        placed = {t: Placed(rng, arrays[t], t in self.binds, wall) for t in args}
        kernel(*(placed[t].array for t in args))
        for t in args:
            placed[t].check_surroundings()
            if t in graph.inputs:
                np.testing.assert_array_equal(placed[t].array, arrays[t], f"{t.name} was written")
        computed = [t for t in args if t not in graph.inputs]
        inputs = {t: x for t, x in self.arrays(args).items() if t in graph.inputs}
        inputs |= self._twins()
        results = {
            t: self._read(placed[t].array, places[t], arrays[t]).reshape(self._shape(t))
            for t in computed
        }
        with np.errstate(all="ignore"):
            wanted = evaluate(computed, inputs, graph.symbols)
        masks = (
            undefined(computed, inputs, graph.symbols) if self.extremes else [None] * len(wanted)
        )
        for t, want, mask in zip(computed, wanted, masks):
            same(results[t], want, t, mask)
        known, kernel = plain
        again = self.arrays(known)
        kernel(*[again[t] for t in known])
        for t, mask in zip(computed, masks):
            if t in graph.outputs:
                same(results[t], again[t], t, mask)


def _same(s, replayed, tensor):
    """The tensor that takes a tensor's place in a replayed schedule."""
    stage = replayed.stages[s.stages.index(s[tensor])]
    return stage.op.output(tensor.value_index)


def same(got, want, tensor, mask=None):
    """Equal; floats beyond the integers that they hold exactly, but for rounding.

    With a mask of what is undefined, all else is exact, zeros of either sign.
    """
    with np.errstate(all="ignore"):  # the oracle has float64
        want = np.asarray(want).astype(tensor.dtype)
    if mask is not None:
        defined = np.zeros((), tensor.dtype)
        got, want = np.where(mask, defined, got), np.where(mask, defined, want)
    if "float" in tensor.dtype and mask is None:
        finite = want[np.isfinite(want)]
        scale = max(1.0, float(np.max(np.abs(finite), initial=0.0)))
        exact = scale < (2**23 if tensor.dtype == "float32" else 2**52)
        atol = 0.0 if exact else 1e-4 * scale
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=atol, err_msg=tensor.name)
    else:
        np.testing.assert_array_equal(got, want, err_msg=tensor.name)
