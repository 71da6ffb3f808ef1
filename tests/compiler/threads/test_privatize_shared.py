"""PrivatizeShared: which shared memory becomes registers, which does not, and that numbers stay."""

import numpy as np
import pytest
from c_kernels import lowered
from emulated import agree

from whet import te
from whet.compiler.passes.gpu.privatize_shared import privatize_shared
from whet.compiler.passes.gpu.split_host_device import split_host_device


def rows(threads=8, vector=4, length=72, other=None, scope="shared", read=0):
    """Each row is doubled into a stage of the block, then summed up; both by its threads.

    ``other``: what the reader's loops are split by; ``read``: how far it looks beside itself.
    """
    A = te.placeholder((3, length + read), name="A")
    S = te.compute((3, length + read), lambda i, j: A[i, j] * 2.0, name="S")
    B = te.compute((3, length), lambda i, j: S[i, j] + S[i, j + read], name="B")
    s = te.create_schedule(B.op)
    s[S].set_scope(scope)
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    for stage, width in ((B, other or vector), (S, vector)):
        if stage is S:
            s[S].compute_at(s[B], B.op.axis[0])
        j, lanes = s[stage].split(s[stage].op.axis[1], factor=width)
        _, t = s[stage].split(j, factor=threads)
        s[stage].bind(t, te.thread_axis("threadIdx.x"))
        if length % width == 0:
            s[stage].vectorize(lanes)
    return s, [A, B]


def kernel(s, args):
    func = next(iter(lowered(s, args, "kernel", "cuda").functions.values()))
    (found,) = split_host_device(func)[1]
    return str(privatize_shared(found))


def numbers(s, args, length, read=0):
    a = np.random.default_rng(3).standard_normal((3, length + read)).astype("f4")
    wanted = [a[:, :length] * 2 + a[:, read:] * 2]
    return agree(s, args, [a], [((3, length), "float32")], wanted)


@pytest.mark.parametrize(
    "given, size",
    [
        ({}, 12),  # three turns of four lanes, the last one under a guard
        ({"vector": 1}, 9),
        ({"length": 64, "threads": 4}, 16),
        ({"length": 64, "threads": 16}, 4),
        ({"scope": "warp", "length": 64}, 8),
    ],
)
def test_a_threads_own_part_is_in_registers(given, size):
    s, args = rows(**given)
    text = kernel(s, args)
    assert f'S = allocate([{size}], "float32", "local")' in text
    code = numbers(s, args, given.get("length", 72))
    assert "WHET_SHARED" not in code and "__syncthreads" not in code


@pytest.mark.parametrize("given", [{"other": 2}, {"read": 4}, {"read": 1}])
def test_what_threads_share_stays_in_shared_memory(given):
    """Other shares of a row, or a neighbour's element."""
    length = 64
    s, args = rows(length=length, **given)
    assert '"shared")' in kernel(s, args)
    assert "__syncthreads" in numbers(s, args, length, given.get("read", 0))


def test_a_part_that_is_larger_than_the_registers_stays():
    s, args = rows(length=4096, threads=2)
    assert 'S = allocate([4096], "float32", "shared")' in kernel(s, args)


def test_one_thread_of_a_row_of_blocks_is_not_all_of_them():
    """With rows of threads, an index without threadIdx.y is another row's, too."""
    A = te.placeholder((4, 32), name="A")
    S = te.compute((4, 32), lambda i, j: A[i, j] * 2.0, name="S")
    B = te.compute((4, 32), lambda i, j: S[i, j] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[S].set_scope("shared")
    o, y = s[B].split(B.op.axis[0], 2)
    s[B].bind(o, te.thread_axis("blockIdx.x"))
    s[B].bind(y, te.thread_axis("threadIdx.y"))
    s[B].bind(B.op.axis[1], te.thread_axis("threadIdx.x"))
    s[S].compute_at(s[B], o)
    s[S].bind(S.op.axis[1], te.thread_axis("threadIdx.x"))
    assert '"shared")' in kernel(s, [A, B])
    a = np.random.default_rng(3).standard_normal((4, 32)).astype("f4")
    agree(s, [A, B], [a], [((4, 32), "float32")], [a * 2 + 1])
