"""Barriers of kernels that share memory: where they stand, where none is, where none can be."""

import pytest

from whet.compiler import tir
from whet.compiler.errors import LowerError
from whet.compiler.passes.thread_sync import thread_sync
from whet.compiler.tir import ops
from whet.compiler.tir.function import PrimFunc

T = tir.Var("threadIdx.x")
S = tir.decl_buffer(8, name="S", scope="shared")
A, B = tir.decl_buffer(64, name="A"), tir.decl_buffer(64, name="B")


def load(b, i):
    return tir.BufferLoad(b, (ops.convert(i),), b.dtype)


def store(b, value, i):
    return tir.BufferStore(b, ops.convert(value), (ops.convert(i),))


def loop(name, n, body):
    """A loop around what ``body`` makes of its variable."""
    v = tir.Var(name)
    return tir.For(v, ops.const(0), ops.convert(n), "serial", body(v), {}, "")


def seq(*parts):
    return tir.SeqStmt(parts)


def kernel(body):
    return tir.AttrStmt(T, "thread_extent", ops.const(8), tir.Allocate(S, body))


def text(body):
    return PrimFunc((A, B), thread_sync(kernel(body))).script()


def reversed_copy(k):
    return seq(store(S, load(A, k * 8 + T), T), store(B, load(S, 7 - T), k * 8 + T))


def test_between_a_write_and_a_read_and_before_the_next_round(golden):
    golden("thread_sync_loop", text(loop("k", 4, reversed_copy)))


def test_a_barrier_around_a_loop_that_fills_a_tile_not_in_it(golden):
    def fill(i):
        return store(S, load(A, T * 2 + i), T * 2 + i)

    body = seq(loop("i", 2, fill), store(B, load(S, 7 - T), T))
    golden("thread_sync_fill", text(body))


def test_no_barrier_where_a_thread_reads_what_it_wrote():
    body = kernel(seq(store(S, load(A, T), T), store(B, load(S, T), T)))
    assert thread_sync(body) is body


def test_no_barrier_without_shared_memory():
    body = kernel(seq(store(A, 1.0, T), store(B, load(A, 7 - T), T)))
    assert thread_sync(body) is body


def test_both_branches_of_a_condition_that_all_threads_share():
    n = tir.Var("n")
    choice = tir.IfThenElse(n > 3, reversed_copy(ops.const(0)), reversed_copy(ops.const(1)))
    lines = text(choice)
    assert lines.count("tvm_storage_sync") == 2


def test_a_barrier_that_some_threads_would_not_reach_is_refused():
    body = tir.IfThenElse(T < 4, reversed_copy(ops.const(0)))
    with pytest.raises(LowerError, match=r"inside `if threadIdx_x < 4`.*not all threads come by"):
        thread_sync(kernel(body))


def test_a_loop_whose_length_differs_between_threads_is_refused():
    body = loop("k", T + 1, reversed_copy)
    with pytest.raises(
        LowerError, match=r"a loop whose length differs between threads(.|\n)*divide"
    ):
        thread_sync(kernel(body))
