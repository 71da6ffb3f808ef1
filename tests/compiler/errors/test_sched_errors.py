"""Every illegal use of a primitive: its message, and a schedule that stays as it was."""

# ruff: noqa: RUF059, B023  (what a helper makes is unpacked whole; lambdas run at once)
import numpy as np
import pytest
from sched_check import refused, replays
from te_check import check

from whet.compiler import driver, te
from whet.compiler.errors import LowerError


@pytest.fixture
def three():
    """S sums C, C reads B, B reads A."""
    a = te.placeholder((8, 9), name="A")
    b = te.compute((8, 9), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8, 9), lambda i, j: b[i, j] * 2.0, name="C")
    k = te.reduce_axis((0, 8), name="k")
    d = te.compute((9,), lambda j: te.sum(c[k, j], axis=k), name="S")
    return te.create_schedule(d.op), a, b, c, d, k


LOOPS = "loops of C: i(8) j(9)"
TX = "threadIdx.x"


def on_axis(s, x, axis):
    """Each primitive that takes a loop of a stage, with the words that begin its errors."""
    tx = te.thread_axis(TX)
    n = x.op.name
    return {
        f"split({n}, axis=": lambda: s[x].split(axis, factor=2),
        f"tile({n}, ": lambda: s[x].tile(axis, s[x].leaf_iter_vars[-1], 2, 2),
        f"fuse({n}, ": lambda: s[x].fuse(axis),
        f"reorder({n}, ": lambda: s[x].reorder(axis),
        f"vectorize({n}, ": lambda: s[x].vectorize(axis),
        f"unroll({n}, ": lambda: s[x].unroll(axis),
        f"parallel({n}, ": lambda: s[x].parallel(axis),
        f"bind({n}, ": lambda: s[x].bind(axis, tx),
        f"pragma({n}, ": lambda: s[x].pragma(axis, "x"),
        f"prefetch({n}, ": lambda: s[x].prefetch(x, axis, 1),
    }


@pytest.mark.parametrize("axis", [None, "i", 3, 2.5, [], object, "other", "tensor", "thread"])
def test_what_is_no_axis_of_the_stage(three, axis):
    s, a, b, c, d, k = three
    given = {"other": b.op.axis[0], "tensor": c, "thread": te.thread_axis(TX)}
    value = given.get(axis, axis) if isinstance(axis, str) else axis
    name = {"other": "i", "thread": TX}.get(axis) if isinstance(axis, str) else None
    for begin, action in on_axis(s, c, value).items():
        text = refused(s, action, f"{name or repr(value)} is not an axis of C", LOOPS)
        assert text.startswith(begin), text
    parent = s[d]
    refused(s, lambda: s[c].compute_at(parent, value), "is not an axis of S", "loops of S: j(9)")


def test_loops_that_are_gone(three):
    s, a, b, c, d, k = three
    i = c.op.axis[0]
    s[c].split(i, factor=3)
    for begin, action in on_axis(s, c, i).items():
        text = refused(
            s, action, "i is no longer a loop: it was split or fused",
            "loops of C: i.outer(3) i.inner(3) j(9)",
        )  # fmt: skip
        assert text.startswith(begin), text
    refused(s, lambda: s[b].compute_at(s[c], i), "compute_at(B, C, i): i is no longer a loop")


def test_primitives_on_an_input(three):
    s, a, b, c, d, k = three
    i = c.op.axis[0]
    tx = te.thread_axis((0, 4), TX)
    actions = {
        **on_axis_of_input(s, a, i, tx),
        "compute_at(A, B, i)": lambda: s[a].compute_at(s[b], b.op.axis[0]),
        "compute_inline(A)": s[a].compute_inline,
        "compute_root(A)": s[a].compute_root,
        "compute_ahead(A)": s[a].compute_ahead,
        "set_scope(A, 'local')": lambda: s[a].set_scope("local"),
        "double_buffer(A)": s[a].double_buffer,
        "store_nontemporal(A)": s[a].store_nontemporal,
        "set_store_predicate(A, ...)": lambda: s[a].set_store_predicate(i.var > 1),
        "storage_align(A, i, factor=8, offset=1)": lambda: s[a].storage_align(i, 8, 1),
        "rfactor(A, k, factor_axis=0)": lambda: s.rfactor(a, k),
        "cache_write(A, 'local')": lambda: s.cache_write(a, "local"),
    }
    for begin, action in actions.items():
        assert refused(s, action).startswith(f"{begin}: A is an input and is not computed")


def on_axis_of_input(s, a, i, tx):
    return {
        "split(A, axis=i, factor=2)": lambda: s[a].split(i, factor=2),
        "tile(A, i, i, x_factor=2, y_factor=2)": lambda: s[a].tile(i, i, 2, 2),
        "fuse(A, i)": lambda: s[a].fuse(i),
        "fuse(A)": lambda: s[a].fuse(),
        "reorder(A, i)": lambda: s[a].reorder(i),
        "vectorize(A, i)": lambda: s[a].vectorize(i),
        "unroll(A, i)": lambda: s[a].unroll(i),
        "parallel(A, i)": lambda: s[a].parallel(i),
        "bind(A, i, threadIdx.x)": lambda: s[a].bind(i, tx),
        "pragma(A, i, 'x', None)": lambda: s[a].pragma(i, "x"),
        f"prefetch(A, {a!r}, i, 1)": lambda: s[a].prefetch(a, i, 1),
        "env_threads(A, [threadIdx.x])": lambda: s[a].env_threads([tx]),
    }


def test_primitives_on_an_inlined_stage(three):
    s, a, b, c, d, k = three
    i, j = b.op.axis
    s[b].compute_inline()
    tx = te.thread_axis((0, 4), TX)
    for action in (
        *on_axis(s, b, i).values(),
        lambda: s[b].fuse(),
        lambda: s[b].env_threads(tx),
        lambda: s[b].set_store_predicate(i.var > 1),
        lambda: s[b].storage_align(i, 8, 1),
        lambda: s[b].double_buffer(),
        lambda: s[b].store_nontemporal(),
        lambda: s.cache_write(b, "local"),
        lambda: s[a].schedule[b].split(j, nparts=2),
    ):
        refused(s, action, "B is inlined: it has no loops of its own", "compute_root or compute_at")
    read = s.cache_read(a, "global", [b])
    refused(s, lambda: s[read].compute_at(s[b], i), "compute_at(A.global, B, i): B is inlined")
    s[b].compute_root()
    s[b].vectorize(j)
    check(s, [a, d])


def test_sizes_that_are_none(three):
    s, a, b, c, d, k = three
    i, j = c.op.axis
    text = refused(s, lambda: s[c].split(i))
    assert text == f"split(C, axis=i): give exactly one of factor and nparts\n  {LOOPS}"
    refused(s, lambda: s[c].split(i, factor=2, nparts=2), "give exactly one of factor and nparts")
    for which in ("factor", "nparts"):
        for size in (0, -3, np.int64(0)):
            text = refused(s, lambda: s[c].split(i, **{which: size}))
            asked = f"split(C, axis=i, {which}={size})"
            assert text == f"{asked}: {which} must be at least 1\n  {LOOPS}"
        for size in (2.5, "2", True, np.float32(2), [2], te.var("x", "float32"), i, c):
            refused(s, lambda: s[c].split(i, **{which: size}), "the size must be an integer", LOOPS)
    call = "tile(C, i, j, x_factor=2, y_factor=0): y_factor must be at least 1"
    refused(s, lambda: s[c].tile(i, j, 2, 0), call, LOOPS)
    refused(s, lambda: s[c].tile(i, j, None, 2), "the size must be an integer, not None")
    refused(s, lambda: s[c].tile(i, i, 2, 2), "an axis is named twice")


def test_tails_that_are_none(three):
    s, a, b, c, d, k = three
    text = refused(s, lambda: s[c].split(c.op.axis[0], factor=3, tail="round"))
    assert 'tail=\'round\' is neither "guard" nor "shift"' in text
    text = refused(s, lambda: s[d].split(d.op.axis[0], factor=2, tail="shift"))
    assert "a reduction would count them twice" in text


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64, np.uint16])
def test_sizes_of_numpy_are_sizes(three, kind):
    s, a, b, c, d, k = three
    i, j = c.op.axis
    io, _ = s[c].split(i, factor=kind(3))
    s[c].split(j, nparts=kind(2))
    assert int(s[c].relations[0].factor) == 3
    check(s, [a, d])


def test_fuse_and_reorder_of_what_does_not_go_together(three):
    s, a, b, c, d, k = three
    i, j = c.op.axis
    text = refused(s, lambda: s[c].fuse(j, i))
    words = "the axes must be neighbours, outermost first; reorder them"
    assert text == f"fuse(C, j, i): {words}\n  {LOOPS}"
    refused(s, lambda: s[c].fuse(i, i), words)
    io, ii = s[c].split(i, factor=2)
    refused(s, lambda: s[c].fuse(io, j), words, "loops of C: i.outer(4) i.inner(2) j(9)")
    jj = d.op.axis[0]
    text = refused(s, lambda: s[d].fuse(jj, k))
    assert text.startswith("fuse(S, j, k): a data axis and a reduction axis do not fuse")
    refused(s, lambda: s[c].reorder(j, io, j), "reorder(C, j, i.outer, j): an axis is named twice")
    s[c].reorder()
    replays(s, [a, d])


def test_what_was_said_of_a_loop_is_not_lost(three):
    s, a, b, c, d, k = three
    i, j = c.op.axis
    s[c].vectorize(j)
    s[c].pragma(i, "mark")
    words = "make the loops first, then say how they run", LOOPS
    refused(
        s, lambda: s[c].split(j, factor=2), "split(C, axis=j, factor=2): j is vectorized", *words
    )
    refused(s, lambda: s[c].fuse(i, j), "i is under pragma mark already", *words)
    refused(s, lambda: s[c].tile(i, j, 2, 2), "tile(C, i, j", "already", *words)
    tx = te.thread_axis(TX)
    refused(s, lambda: s[c].bind(j, tx), "bind(C, j, threadIdx.x): j is vectorized already", *words)
    s[d].bind(d.op.axis[0], tx)
    loops = "loops of S: j(9) k(8)"
    refused(
        s, lambda: s[d].split(d.op.axis[0], factor=2), "j is bound to threadIdx.x already", loops
    )
    for primitive in ("vectorize", "unroll", "parallel"):
        action = getattr(s[d], primitive)
        text = refused(s, lambda: action(d.op.axis[0]), loops)
        assert text.startswith(f"{primitive}(S, j): j is bound to threadIdx.x")
    check(s, [a, d], gpu=False)


def test_threads_that_are_taken_or_none(three):
    s, a, b, c, d, k = three
    i, j = c.op.axis
    for thread in (None, TX, j, 3, te.reduce_axis((0, 2))):
        refused(s, lambda: s[c].bind(i, thread), "is not a thread axis", "te.thread_axis")
        refused(s, lambda: s[c].env_threads(thread), "is not a thread axis", "te.thread_axis")
    tx, vx = te.thread_axis(TX), te.thread_axis("vthread")
    s[c].bind(i, tx)
    refused(
        s, lambda: s[c].bind(i, te.thread_axis("blockIdx.x")), "i is bound to threadIdx.x already"
    )
    text = refused(s, lambda: s[c].bind(j, tx))
    assert text == f"bind(C, j, threadIdx.x): i is bound to threadIdx.x already\n  {LOOPS}"
    refused(s, lambda: s[c].bind(j, te.thread_axis(TX)), "i is bound to threadIdx.x already")
    i, j = b.op.axis
    s[b].bind(i, vx)
    refused(s, lambda: s[b].bind(j, vx), "i is bound to vthread already")
    s[b].bind(j, te.thread_axis("vthread"))  # another axis of virtual threads
    check(s, [a, d], gpu=False)


def test_threads_around_a_stage(three):
    s, a, b, c, d, k = three
    tx = te.thread_axis((0, 4), TX)
    refused(s, lambda: s[c].env_threads([]), "env_threads(C, []): give at least one thread axis")
    refused(s, lambda: s[c].env_threads([te.thread_axis(TX)]), "threadIdx.x has no extent")
    refused(s, lambda: s[c].env_threads([tx, tx]), "a thread is named twice")
    refused(
        s, lambda: s[c].env_threads([tx, te.thread_axis((0, 2), TX)]), "a thread is named twice"
    )
    s[c].env_threads(tx)
    refused(s, lambda: s[c].env_threads(tx), "the stage has such threads already")
    assert s[c].launch_threads == [tx]
    check(s, [a, d])


def test_reductions_are_neither_vectorised_nor_parallel(three):
    s, a, b, c, d, k = three
    for primitive in ("vectorize", "parallel"):
        text = refused(s, lambda: getattr(s[d], primitive)(k))
        assert text == (
            f"{primitive}(S, k): the steps of a reduction depend on each other\n"
            "  loops of S: j(9) k(8)"
        )


def test_compute_at_where_it_cannot_be(three):
    s, a, b, c, d, k = three
    i, j = c.op.axis
    for parent in (None, c, c.op, 3, "C"):
        text = refused(s, lambda: s[b].compute_at(parent, i), "is not a stage", "s[tensor]")
        assert text.startswith("compute_at(B, ")
    same = "the parent must be another stage of the same schedule"
    refused(s, lambda: s[c].compute_at(s[c], i), same)
    refused(s, lambda: s[b].compute_at(te.create_schedule(d.op)[c], i), same)
    text = refused(s, lambda: s[c].compute_at(s[b], b.op.axis[0]))
    assert text == "compute_at(C, B, i): B does not consume C\n  stages that read C: S"
    refused(s, lambda: s[b].compute_at(s[a], i), "compute_at(B, A, i): A is an input")
    s[c].compute_at(s[d], d.op.axis[0])
    # a cycle would need B to read C
    refused(s, lambda: s[d].compute_at(s[c], i), "S is an output, which is computed at the root")
    s[b].compute_at(s[c], j)
    check(s, [a, d])


def test_what_is_only_seen_when_all_is_said(three):
    s, a, b, c, d, k = three
    s[b].compute_at(s[c], c.op.axis[0])
    s[c].fuse(*c.op.axis)  # of the inner one of two it would be followed
    with pytest.raises(LowerError, match=r"compute_at\(B, C, i\): i is no longer a loop of C"):
        driver.lower(s, [a, d])
    s = te.create_schedule(d.op)
    s[b].compute_at(s[c], c.op.axis[0])
    s[c].compute_inline()
    with pytest.raises(LowerError, match=r"compute_at\(B, C, i\): C was inlined afterwards"):
        driver.lower(s, [a, d])
    e = te.compute((8, 9), lambda i, j: b[i, j] + c[i, j], name="E")
    s = te.create_schedule(e.op)
    s[b].compute_at(s[c], c.op.axis[0])
    words = r"compute_at\(B, C, i\): E reads B too, and runs outside this loop"
    with pytest.raises(LowerError, match=words):
        driver.lower(s, [a, e])
    s[b].compute_at(s[e], e.op.axis[1])
    s[c].compute_at(s[e], e.op.axis[0])
    with pytest.raises(LowerError, match="C reads it and is computed at i, further out"):
        driver.lower(s, [a, e])


@pytest.mark.parametrize("primitive", ["vectorize", "unroll"])
def test_numbers_of_steps_that_are_not_known(primitive):
    n = te.size_var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    getattr(s[b], primitive)(b.op.axis[0])
    words = rf"{primitive}\(B, i\): its extent, n, is not a constant\n  split the loop first"
    with pytest.raises(LowerError, match=words):
        driver.lower(s, [a, b])


def test_compute_inline_of_what_must_be_stored(three):
    s, a, b, c, d, k = three
    refused(s, s[d].compute_inline, "compute_inline(S): a reduction cannot be inlined")
    two = te.create_schedule([c.op, d.op])
    refused(two, two[c].compute_inline, "compute_inline(C): C is an output and must be stored")
    s[c].compute_inline()
    with pytest.warns(UserWarning, match="the argument C is not used: it is inlined"):
        driver.lower(s, [a, c, d])
    e = te.extern((8, 9), [a], lambda ins, outs: te_copy(ins, outs), name="E", dtype="float32")
    f = te.compute((8, 9), lambda i, j: e[i, j] + 1.0, name="F")
    s = te.create_schedule(f.op)
    refused(s, s[e].compute_inline, "compute_inline(E): E has no expression to put elsewhere")
    refused(s, lambda: s.cache_write(e, "local"), "E is no computation of elements")
    refused(
        s,
        lambda: s.cache_read(a, "local", [e]),
        "E is made by te.extern, which reads whole tensors",
        "te.compute",
    )
    refused(s, lambda: s.rfactor(e, f.op.axis[0]), "E is not a reduction")
    refused(
        s, lambda: s[e].split(f.op.axis[0], factor=2), "is not an axis of E", "loops of E: none"
    )


def te_copy(ins, outs):
    from whet.compiler import tir

    return tir.call_packed("nobody.calls.this", ins[0], outs[0])


def test_primitives_that_are_not_here_say_what_does_their_work(three):
    s, a, b, c, d, k = three
    with pytest.raises(AttributeError, match=r"Stage has no 'set_axis_separators': te.AXIS_SEP"):
        s[d].set_axis_separators([1])
    with pytest.raises(AttributeError, match=r"no 'vectorise': did you mean vectorize\?"):
        s[d].vectorise(d.op.axis[0])
    with pytest.raises(AttributeError, match=r"there is no such name; docs/checklist.toml lists"):
        _ = s[d].nonsense
