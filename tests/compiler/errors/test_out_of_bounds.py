"""No kernel touches memory outside its arguments: the pages around them cannot be touched."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]

CASES = """
from functools import partial
import numpy as np
from guarded import guarded
from te_check import run_and_compare
from whet.compiler import driver, te
import test_te_primitives as primitives
import test_te_forms as forms
import te_check

original = te_check.run_and_compare

def between_pages(f, args, symbols=None, there=None, **options):
    for compare, at_end in ((te_check.compared, False), (partial(original, there=there), True)):
        own = {"place": lambda a: guarded(a, at_end) if a.nbytes < 1 << 24 else a}
        compare(f, args, symbols, **own | options)

for module in (te_check, primitives, forms):
    module.run_and_compare = between_pages
"""

KERNELS = """
for size in [(37, 31, 41), (7, 13, 5), (101, 3, 67), (1, 1, 1)]:
    primitives.test_packed_register_tiled_matmul(*size)
for stride, pad in [(1, 0), (1, 1), (2, 1), (2, 0)]:
    primitives.test_convolution_with_padding_attached(stride, pad)
for width in (3, 8, 13, 16, 64):
    primitives.test_vectorize_widths_that_do_not_divide(width, "float32")
for dtype in ("float32", "bool", "int8"):
    primitives.test_vectorize_strided_reversed_transposed_and_gathered_access(dtype)
for level in range(4):
    for stage in ("T", "U", "both", "chain"):
        primitives.test_compute_at_every_level(level, stage)
primitives.test_vectorize_conditions_of_all_kinds()
primitives.test_reductions_under_a_vectorised_loop_with_where()
primitives.test_cache_write_and_cache_read("local")
for what in ("outer", "fused", "with a workspace"):
    primitives.test_parallel(what)
primitives.test_what_lanes_share_is_read_only_where_it_may_be()
for kind in ("int32", "int64"):
    forms.test_sizes_that_are_expressions(kind)
forms.test_one_kernel_for_all_sizes()
forms.test_te_var_as_a_size_that_might_be_anything()
forms.test_gathers_read_where_tables_say()
print("all inside")
"""

RANDOM = """
from test_random_programs import drawn
ran = 0
for seed in %s:
    print("seed", seed, flush=True)
    program = drawn(seed, seed %% 3 == 0)
    ready = program.compiled()
    if ready is not None:
        for wall in ("end", "begin"):
            print("wall at the", wall, flush=True)
            program.run(*ready, wall=wall)
        ran += 1
print("all inside", ran)
"""

# a kernel that reads one element too many: the cage must catch it
ESCAPE = """
a = te.placeholder((37,), name="A")
b = te.compute((37,), lambda i: te.select(i >= 0, a[i + %d], 0.0), name="B")
f = driver.build(te.create_schedule(b.op), [a, b])
f(*(guarded(np.zeros(37, "float32"), %r) for _ in "ab"))
"""


def run(code):
    paths = [
        *(str(HERE / room) for room in ("", "fuzz", "lang", "schedule")),
        os.environ.get("PYTHONPATH", ""),
    ]
    environment = {**os.environ, "WHET_NUM_THREADS": "2", "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(
        [sys.executable, "-c", CASES + code],
        cwd=HERE,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_kernels_stay_inside():
    done = run(KERNELS)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "all inside" in done.stdout


def test_random_programs_stay_inside(seeds):
    some = seeds(60)
    done = run(RANDOM % some)
    assert done.returncode == 0, done.stdout[-40:] + done.stderr[-3000:]
    assert int(done.stdout.split()[-1]) >= len(some) // 2


@pytest.mark.parametrize("side, step", [("end", 1), ("begin", -1)])
def test_the_cage_holds(side, step):
    assert run(ESCAPE % (step, side == "end")).returncode == -signal.SIGSEGV
