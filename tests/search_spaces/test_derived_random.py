"""Random computations get tasks whose random configs compute what the plain schedule does.

``pytest tests/search_spaces/test_derived_random.py --draws 400`` draws more of them. What fails
prints the computation and the config.
"""

import random
import sys
from pathlib import Path

import numpy as np

import whet
from whet import te

sys.path.append(str(Path(__file__).parents[1] / "compiler"))

from random_programs import Graph

TARGET = "llvm -num-threads=2"
DRAWS, CONFIGS = 14, 2


def drawn(tensor, rng):
    """Small whole numbers: sums of them are exact in every type, in every order."""
    shape = [int(d) for d in tensor.shape]
    low = -8 if tensor.dtype.startswith("float") else 0
    if tensor.dtype == "bool":
        return np.zeros(shape, bool)
    return rng.integers(low, 9, shape).astype(tensor.dtype)


def run(schedule, args, target, arrays):
    """What a schedule's kernel leaves in copies of some arrays."""
    copies = [a.copy() for a in arrays]
    whet.build(schedule, args, target=target)(*copies)
    return copies


def test_random_configs_of_random_graphs_equal_the_plain_schedule(draws):
    for seed in range(draws(DRAWS)):
        graph = Graph(random.Random(seed).randint)
        rng = np.random.default_rng(seed)
        task = whet.create_task(outputs=graph.outputs, target=TARGET)
        (known,) = task.template.func.graphs.values()
        plain = te.create_schedule(list(dict.fromkeys(t.op for t in known.outputs)))
        arrays = [drawn(t, rng) for t in known.args]
        wanted = run(plain, list(known.args), task.target, arrays)
        space = task.config_space
        for config in (space.default, *(space.sample(rng) for _ in range(CONFIGS))):
            said = f"seed {seed}\n{te.graph_text(graph.outputs)}\n{config}"
            got = run(*task.instantiate(config), task.target, arrays)
            for a, b in zip(got, wanted):
                np.testing.assert_allclose(
                    a.astype("float64"), b.astype("float64"), rtol=1e-5, err_msg=said
                )
