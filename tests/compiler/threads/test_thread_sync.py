"""Barriers of kernels that share memory: where they stand, where none is, where none can be."""

import pytest

from whet.compiler import tir
from whet.compiler.errors import LowerError
from whet.compiler.passes.gpu import thread_accesses
from whet.compiler.passes.gpu.thread_sync import thread_sync
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops

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


def test_a_barrier_where_a_thread_reads_what_another_stored_in_memory():
    body = seq(store(A, 1.0, T), store(B, load(A, 7 - T), T))
    assert text(body).count("tvm_storage_sync") == 1


def test_no_barrier_where_nothing_that_is_read_is_written():
    body = kernel(seq(store(B, load(A, 7 - T), T), store(B, load(A, T + 8), T)))
    assert thread_sync(body) is body


def test_both_branches_of_a_condition_that_all_threads_share():
    n = tir.Var("n")
    choice = tir.IfThenElse(n > 3, reversed_copy(ops.const(0)), reversed_copy(ops.const(1)))
    lines = text(choice)
    assert lines.count("tvm_storage_sync") == 2


def test_a_barrier_that_some_threads_would_not_reach_is_refused():
    body = tir.IfThenElse(T < 6, reversed_copy(ops.const(0)))
    with pytest.raises(LowerError, match=r"inside `if threadIdx_x < 6`.*not all threads come by"):
        thread_sync(kernel(body))


def test_a_loop_whose_length_differs_between_threads_is_refused():
    body = loop("k", T + 1, reversed_copy)
    with pytest.raises(
        LowerError, match=r"a loop whose length differs between threads(.|\n)*divide"
    ):
        thread_sync(kernel(body))


# which accesses meet


def barriers(write, read, size=64, loops=(("i", 4), ("j", 4))):
    """How many barriers stand between a write and a read, in loops of their own."""
    shared = tir.decl_buffer(size, name="S", scope="shared")
    fill = loop(*loops[0], lambda i: store(shared, load(A, T), write(i)))
    use = loop(*loops[1], lambda j: store(B, load(shared, read(j)), T))
    body = tir.AttrStmt(T, "thread_extent", ops.const(8), tir.Allocate(shared, seq(fill, use)))
    return str(PrimFunc((A, B), thread_sync(body))).count("tvm_storage_sync")


@pytest.mark.parametrize(
    ("write", "read", "count"),
    [
        # a thread's own elements, whatever the loops are called
        (lambda i: T * 4 + i, lambda j: T * 4 + j, 0),
        (lambda i: i * 8 + T, lambda j: j * 8 + T, 0),
        (lambda i: i * 8 + T, lambda j: (3 - j) * 8 + T, 0),
        (lambda i: i * 9 + T, lambda j: j * 9 + T, 0),
        # elements of others
        (lambda i: i * 8 + T, lambda j: T * 4 + j, 1),
        (lambda i: i * 8 + T, lambda j: j * 7 + T, 1),
        (lambda i: i * 4 + T, lambda j: j * 4 + T, 1),
        (lambda i: T * 3 + i, lambda j: T * 3 + j, 1),
        (lambda i: T * 4 + i, lambda j: T * 4 + j + 1, 1),
        (lambda i: T * 4 + i, lambda j: 28 - T * 4 + j, 1),
        (lambda i: T * 4 + i, lambda j: j, 1),
        # elements that the write does not reach
        (lambda i: T * 4 + i, lambda j: j + 32, 0),
        (lambda i: T + 32, lambda j: 7 - T, 0),
    ],
)
def test_indices_that_name_their_thread_need_no_barrier(write, read, count):
    assert barriers(write, read) == count


def test_an_index_of_unknown_reach_counts_as_anywhere():
    n = tir.SizeVar("n", "int32")
    assert barriers(lambda i: T * 4 + i, lambda j: T * 4 + j, loops=(("i", 4), ("j", n))) == 1
    assert barriers(lambda i: i * 8 + T, lambda j: j * 8 + T, loops=(("i", n), ("j", n))) == 0


def test_a_barrier_of_a_users_own_counts():
    S8 = tir.decl_buffer(8, name="S", scope="shared")
    wait = tir.Evaluate(tir.call_intrin("int32", "tir.tvm_storage_sync", "shared"))
    body = seq(store(S8, load(A, T), T), wait, store(B, load(S8, 7 - T), T))
    body = tir.AttrStmt(T, "thread_extent", ops.const(8), tir.Allocate(S8, body))
    assert thread_sync(body) is body


def test_parts_that_do_not_meet_need_no_barrier():
    """Threads 0 to 3 write elements 0 to 3, and read 4 to 7."""
    assert "sync" not in text(tir.IfThenElse(T < 4, reversed_copy(ops.const(0))))


def test_the_error_names_what_would_have_to_wait():
    body = tir.IfThenElse(T < 6, reversed_copy(ops.const(0)))
    words = r"S\[threadIdx_x\] is written, and S\[7 - threadIdx_x\] is read"
    with pytest.raises(LowerError, match=words):
        thread_sync(kernel(body))


# what one thread stores for all


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        (lambda x: tir.IfThenElse(T.equal(0), x), lambda x: x, 1),
        (lambda x: tir.IfThenElse(T.equal(0), x), lambda x: tir.IfThenElse(T < 1, x), 0),
        (lambda x: x, lambda x: x, 1),
    ],
)
def test_a_thread_that_reads_an_element_of_all_threads_waits_for_who_wrote_it(first, second, count):
    body = seq(first(store(A, 1.0, 3)), second(store(B, load(A, 3), T)))
    assert text(body).count("tvm_storage_sync") == count


def test_one_of_several_threads_that_store_does_not_wait_for_another():
    one = tir.IfThenElse(T.equal(0), store(A, 1.0, 3))
    other = tir.IfThenElse(T.equal(1), store(B, load(A, 3), 0))
    with pytest.raises(LowerError, match="not all threads come by"):
        thread_sync(kernel(tir.IfThenElse(T < 4, seq(one, other))))


# loops and conditions that leave barriers out


def exchange():
    """T and U are what S is, turned around twice."""
    other, last = (tir.decl_buffer(8, name=x, scope="shared") for x in "TU")
    turned = seq(
        store(S, load(A, T), T), store(other, load(S, 7 - T), T), store(last, load(other, 7 - T), T)
    )
    return other, last, turned


def test_what_a_condition_in_a_loop_leaves_behind_its_barriers_is_waited_for():
    other, last, turned = exchange()
    inside = loop("k", 4, lambda k: tir.IfThenElse(k.equal(3), turned))
    body = seq(inside, store(B, load(last, 7 - T), T))
    lines = text(tir.Allocate(other, tir.Allocate(last, body)))
    after = lines[lines.index("U[threadIdx_x] =") :]
    assert "tvm_storage_sync" in after[: after.index("B[threadIdx_x] =")]


@pytest.mark.parametrize(("steps", "count"), [(4, 2), (tir.SizeVar("n", "int32"), 3)])
def test_a_loop_that_may_have_no_steps_is_no_barrier(steps, count):
    other = tir.decl_buffer(8, name="T", scope="shared")
    body = seq(
        store(other, load(A, T), T),
        loop("k", steps, reversed_copy),
        store(B, load(other, 7 - T), T),
    )
    assert text(tir.Allocate(other, body)).count("tvm_storage_sync") == count


@pytest.mark.parametrize("kind", ["if", "while"])
def test_a_condition_on_a_threads_own_memory_differs_between_threads(kind):
    own = tir.decl_buffer(1, name="own", scope="local")
    condition = load(own, 0) > 0.0
    inside = reversed_copy(ops.const(0))
    if kind == "if":
        body = tir.IfThenElse(condition, inside)
    else:
        body = tir.While(condition, inside)
    body = tir.Allocate(own, seq(store(own, load(A, T), 0), body))
    with pytest.raises(LowerError, match="not all threads come by"):
        thread_sync(kernel(body))
    # what lies in shared memory is the same for all
    shared = tir.decl_buffer(1, name="shared", scope="shared")
    body = tir.Allocate(shared, tir.IfThenElse(load(shared, 0) > 0.0, inside))
    assert text(body).count("tvm_storage_sync") == 1


def test_a_buffer_of_symbolic_size_shares_bytes_with_none():
    other = tir.decl_buffer(tir.SizeVar("n", "int32"), name="V", scope="shared")
    body = seq(store(S, load(A, T), T), store(other, load(B, T), T))
    for b, offset in ((other, 32), (S, 0)):
        body = tir.AttrStmt(b, "shared_offset", ops.const(offset), tir.Allocate(b, body))
    body = tir.AttrStmt(T, "thread_extent", ops.const(8), body)
    assert thread_sync(body) is body


def test_unrolled_accesses_ask_once_how_large_each_buffer_is(monkeypatch):
    """Asked for each pair of accesses, a kernel of 800 took half a minute."""
    asked = []
    size = thread_accesses._size
    monkeypatch.setattr(thread_accesses, "_size", lambda b: asked.append(b.name) or size(b))
    other = tir.decl_buffer(8, name="V", scope="shared")
    writes = [store(b, load(A, T + 8 * k), T) for k in range(20) for b in (S, other)]
    reads = [store(B, load(b, 7 - T), T + 8 * k) for k in range(20) for b in (S, other)]
    body = seq(*writes, *reads)
    for b, offset in ((other, 32), (S, 0)):
        body = tir.AttrStmt(b, "shared_offset", ops.const(offset), tir.Allocate(b, body))
    body = tir.AttrStmt(T, "thread_extent", ops.const(8), body)
    assert text(body).count("tvm_storage_sync") == 1
    assert len(asked) <= 4, "at most twice a buffer"
