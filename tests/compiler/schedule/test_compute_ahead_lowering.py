"""``compute_ahead``: two functions of one schedule, which together give the same numbers."""

import numpy as np
import pytest
from sched_check import replays

from whet.compiler import driver, te, tir
from whet.compiler.target import Target
from whet.compiler.te.lang.relations import AHEAD

RNG = np.random.default_rng(5)


def numbers(*shape):
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def matmul(n, k, m, nr=8, packs=True):
    """``C = A @ W``, with W in panels of nr columns, the last one filled up with zeros."""
    a, w = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="W")
    p = te.compute(
        (-(-m // nr), k, nr),
        lambda jo, r, ji: te.if_then_else(jo * nr + ji < m, w[r, jo * nr + ji], 0.0),
        name="P",
    )
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * p[j // nr, r, j % nr], axis=r), name="C")
    s = te.create_schedule(c.op)
    s[p].vectorize(p.op.axis[2])
    acc = s.cache_write(c, "local")
    _, jo, ii, ji = s[c].tile(*s[c].op.axis, 4, nr)
    s[c].unroll(ii)
    s[c].vectorize(ji)
    s[acc].compute_at(s[c], jo)
    i, j = s[acc].op.axis
    s[acc].reorder(*s[acc].op.reduce_axis, i, j)
    s[acc].unroll(i)
    s[acc].vectorize(j)
    if packs:
        s[p].compute_ahead()
    return s, [a, w, c], p


def called(f, weights, others, shape):
    """The result of a kernel whose packed arrays stand first, the others after them."""
    packed = f.pack_weights(*weights)
    out = np.full(shape, np.nan, np.float32)
    f(*(packed if isinstance(packed, tuple) else (packed,)), *others, out)
    return out


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("sizes", [(5, 7, 13), (1, 1, 1), (8, 16, 24), (3, 4, 1), (17, 3, 9)])
def test_a_packed_matmul_is_a_matmul(sizes, target):
    n, k, m = sizes
    s, args, _ = matmul(n, k, m)
    f = driver.build(s, args, target, name="mm")
    assert f.functions == ["mm", "mm_ahead"] and f.entry_name == "mm"
    a, w, c = numbers(n, k), numbers(k, m), np.full((n, m), np.nan, np.float32)
    packed = f.pack_weights(w)
    assert packed.shape == (-(-m // 8), k, 8) and packed.dtype == np.float32
    f(a, packed, c)
    np.testing.assert_allclose(c, a.astype(float) @ w.astype(float), rtol=1e-5, atol=1e-5)
    plain = np.full((n, m), np.nan, np.float32)
    driver.build(*matmul(n, k, m, packs=False)[:2], target)(a, w, plain)
    np.testing.assert_array_equal(plain, c)


def test_the_packed_array_stands_where_the_weight_stood():
    s, (a, w, c), _ = matmul(4, 3, 8)
    for args, order in (([w, c, a], "PCA"), ([a, w, c], "APC"), ([c, a, w], "CAP")):
        mod = driver.lower(s, args, name="mm")
        assert [p.name for p in mod["mm"].params] == list(order)
        assert [p.name for p in mod["mm_ahead"].params] == ["W", "P"]
        assert [p.written for p in mod["mm_ahead"].attrs["signature"].params] == [False, True]
        ahead = mod["mm"].attrs["signature"].ahead
        assert ahead.function == "mm_ahead" and ahead.places == (0, 1, 2)
        assert ahead.weights == (args.index(w),) == ahead.packed


def test_several_weights_are_packed_in_the_order_of_the_arguments():
    w, v = te.placeholder((3, 5), name="W"), te.placeholder((5,), name="V")
    x = te.placeholder((5, 3), name="X")
    q = te.compute((5,), lambda i: v[4 - i], name="Q")
    p = te.compute((5, 3), lambda i, j: w[j, i] * 2.0, name="P")
    y = te.compute((5, 3), lambda i, j: p[i, j] * x[i, j] + q[i], name="Y")
    s = te.create_schedule(y.op)
    s[q].compute_ahead()
    s[p].compute_ahead()
    wn, vn, xn = numbers(3, 5), numbers(5), numbers(5, 3)
    want = wn.T * 2 * xn + vn[::-1][:, None]
    for args, given in (([w, v, x, y], (wn, vn)), ([v, w, x, y], (vn, wn))):
        f = driver.build(s, args)
        np.testing.assert_allclose(called(f, given, [xn], (5, 3)), want, rtol=1e-5)
    replays(s, [w, v, x, y])


def test_what_is_made_of_several_inputs_takes_the_place_of_the_first():
    w, scale = te.placeholder((4, 6), name="W"), te.placeholder((6,), name="scale")
    x = te.placeholder((6,), name="X")
    p = te.compute((6, 4), lambda j, i: w[i, j] * scale[j], name="P")
    y = te.compute((6, 4), lambda j, i: p[j, i] + x[j], name="Y")
    s = te.create_schedule(y.op)
    s[p].compute_ahead()
    f = driver.build(s, [x, w, y, scale], name="f")
    link = f.entry_func.signature.ahead
    assert [p.name for p in f.entry_func.signature.params] == ["X", "P", "Y"]
    assert [p.name for p in f["f_ahead"].signature.params] == ["W", "scale", "P"]
    assert (link.weights, link.packed, link.places) == ((1, 3), (1,), (0, 1, 2))
    wn, sn, xn, out = numbers(4, 6), numbers(6), numbers(6), np.full((6, 4), np.nan, np.float32)
    f(xn, f.pack_weights(wn, sn), out)
    np.testing.assert_allclose(out, (wn * sn).T + xn[:, None], rtol=1e-5, atol=1e-6)


def producers(kind):
    """P is made of W in three stages, which are scheduled in one way or another."""
    w, x = te.placeholder((6, 6), name="W"), te.placeholder((6,), name="X")
    half = te.compute((6, 6), lambda i, j: w[i, j] * 0.5, name="half")
    k = te.reduce_axis((0, 6), name="k")
    square = te.compute((6, 6), lambda i, j: te.sum(half[i, k] * half[k, j], axis=k), name="square")
    p = te.compute((6, 6), lambda i, j: square[j, i], name="P")
    y = te.compute((6, 6), lambda i, j: p[i, j] * x[j], name="Y")
    s = te.create_schedule(y.op)
    s[p].compute_ahead()
    if kind == "inline":
        s[half].compute_inline()
    elif kind == "attached":
        o, _ = s[p].split(p.op.axis[0], 4)
        s[square].compute_at(s[p], o)
        s[half].compute_at(s[square], s[square].op.axis[0])
    elif kind == "cached":
        s.cache_write(p, "local")
        read = s.cache_read(w, "global", [half])
        s[s.cache_read(p, "local", [y])].compute_at(s[y], y.op.axis[0])
        s[read].vectorize(s[read].op.axis[1])
    elif kind == "factored":
        s.rfactor(square, s[square].split(s[square].op.reduce_axis[0], 2)[1])
    return s, [w, x, y]


@pytest.mark.parametrize("kind", ["root", "inline", "attached", "cached", "factored"])
def test_what_is_computed_for_it_alone_goes_with_it(kind):
    s, args = producers(kind)
    mod = driver.lower(s, args)
    assert [p.name for p in mod["main"].params] == ["P", "X", "Y"]
    for name in ("half", "square", "W"):
        assert name not in str(mod["main"])
    f = driver.build(s, args)
    w, x = numbers(6, 6), numbers(6)
    half = w.astype(float) / 2
    np.testing.assert_allclose(called(f, [w], [x], (6, 6)), (half @ half).T * x, atol=1e-5)
    replays(s, args)


def test_a_constant_that_both_parts_need_is_computed_in_both():
    w, x = te.placeholder((4,), name="W"), te.placeholder((4,), name="X")
    g = te.compute((4,), lambda i: te.select(i > 1, 3.0, 0.5), name="G")
    p = te.compute((4,), lambda i: w[i] * g[i], name="P")
    y = te.compute((4,), lambda i: p[i] * x[i] + g[i], name="Y")
    for inlined in (False, True):
        s = te.create_schedule(y.op)
        s[p].compute_ahead()
        if inlined:
            s[g].compute_inline()
        f = driver.build(s, [w, x, y])
        wn, xn, gn = numbers(4), numbers(4), np.array([0.5, 0.5, 3, 3])
        np.testing.assert_allclose(called(f, [wn], [xn], (4,)), wn * gn * xn + gn, rtol=1e-5)


def test_an_extern_statement_packs():
    w, x = te.placeholder((4, 8), name="W"), te.placeholder((8, 4), name="X")

    def transposed(ins, outs):
        b = tir.ir_builder.create()
        source, out = b.buffer_ptr(ins[0]), b.buffer_ptr(outs[0])
        with b.for_range(0, 8) as i, b.for_range(0, 4) as j:
            out[i, j] = source[j, i]
        return b.get()

    p = te.extern((8, 4), [w], transposed, dtype="float32", name="P")
    y = te.compute((8, 4), lambda i, j: p[i, j] - x[i, j], name="Y")
    s = te.create_schedule(y.op)
    s[p].compute_ahead()
    wn, xn = numbers(4, 8), numbers(8, 4)
    np.testing.assert_array_equal(called(driver.build(s, [w, x, y]), [wn], [xn], (8, 4)), wn.T - xn)


def test_sizes_that_the_call_gives():
    n = te.size_var("n")
    w, x = te.placeholder((n, 4), name="W"), te.placeholder((n,), name="X")
    p = te.compute((4, n), lambda j, i: w[i, j], name="P")
    y = te.compute((4, n), lambda j, i: p[j, i] * x[i], name="Y")
    s = te.create_schedule(y.op)
    s[p].compute_ahead()
    f = driver.build(s, [w, x, y])
    for size in (1, 7, 0):
        wn, xn = numbers(size, 4), numbers(size)
        packed = f.pack_weights(wn)
        assert packed.shape == (4, size)
        np.testing.assert_array_equal(called(f, [wn], [xn], (4, size)), wn.T * xn)


def test_buffers_of_ones_own():
    s, (a, w, c), p = matmul(3, 4, 8)
    given = tir.decl_buffer(w.shape, name="weights")
    packed = tir.decl_buffer(p.shape, name="panels")
    mod = driver.lower(s, [a, given, c], binds={w: given, p: packed})
    assert [x.name for x in mod["main"].params] == ["A", "panels", "C"]
    assert [x.name for x in mod["main_ahead"].params] == ["weights", "panels"]


def test_the_last_word_counts():
    for undo in ("compute_root", "compute_inline", "compute_at"):
        s, args, p = matmul(5, 4, 8)
        assert s[p].attach_type == AHEAD
        if undo == "compute_at":
            s[p].compute_at(s[args[2]], s[args[2]].leaf_iter_vars[0])
        else:
            getattr(s[p], undo)()
        mod = driver.lower(s, args)
        assert list(mod) == ["main"] and mod["main"].attrs["signature"].ahead is None
        s[p].compute_ahead()
        assert list(driver.lower(s, args)) == ["main", "main_ahead"]


def test_nothing_of_the_schedule_changes_when_it_is_lowered():
    s, args, _ = matmul(5, 4, 11)
    with Target("llvm -mcpu=x86-64 -mattr=+avx2,+fma"):
        first = str(driver.lower(s, args))
        assert str(driver.lower(s, args)) == first == str(driver.lower(s.copy(), args))
        assert str(driver.lower(*matmul(5, 4, 11)[:2])) == first
    assert list(driver.lower(s.normalize(), args)) == ["main", "main_ahead"]
    replays(s, args)
    te.schedule.AutoInlineInjective(s)
    assert AHEAD in [x.attach_type for x in s.stages]


def test_operations_ahead_of_the_calls_do_not_count():
    w, x = te.placeholder((8,), name="W"), te.placeholder((8,), name="X")
    p = te.compute((8,), lambda i: te.exp(w[i]) * 2.0, name="P")
    y = te.compute((8,), lambda i: p[i] * x[i], name="Y")
    s = te.create_schedule(y.op)
    assert te.count_flop(s) == 24
    s[p].compute_ahead()
    assert te.count_flop(s) == 8


def test_the_drawing_says_so():
    s, _, _ = matmul(4, 4, 8)
    assert s.show().svg.count("computed ahead of the calls") == 1


def test_two_kernels_in_one_module_pack_their_own_weights():
    mods = [driver.lower(*matmul(4, 3, 8 * k)[:2], name=f"mm{k}") for k in (1, 2)]
    f = driver.build(mods)
    for k in (1, 2):
        a, w, c = numbers(4, 3), numbers(3, 8 * k), np.full((4, 8 * k), np.nan, np.float32)
        g = f[f"mm{k}"]
        g(a, g.pack_weights(w), c)
        np.testing.assert_allclose(c, a @ w, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:no loop of the schedule is bound")
def test_both_functions_become_cuda_kernels():
    s, args = producers("root")
    text = driver.build(s, args, "cuda", name="f").get_source("cu")
    assert "f_kernel0(" in text and "f_ahead_kernel0(" in text
