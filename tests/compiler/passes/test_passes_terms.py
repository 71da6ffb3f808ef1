"""Passes of terms: common ones named, useless ones removed, simplification; text, numbers."""

import numpy as np
from pass_checks import around, lowered, verified
from te_check import check

import whet
from whet import te, tir
from whet.compiler import topi
from whet.compiler.arith import Analyzer
from whet.compiler.tir.visit.rewrite import substitute

# CommonSubexprElimTIR


def repeated():
    a = te.placeholder((6, 7), name="A")
    c = te.compute(
        (6, 7),
        lambda i, j: te.exp(a[i, j] * 2) / (te.exp(a[i, j] * 2) + te.sqrt(a[i, j] * 2)),
        name="C",
    )
    return te.create_schedule(c.op), [a, c]


CSE = {"tir.disable_cse_tir": False}


def test_common_subexpressions_golden(golden):
    golden("pass_CommonSubexprElimTIR", around("CommonSubexprElimTIR", repeated, config=CSE))


def test_common_subexpressions_give_the_same_numbers():
    with verified(config=CSE):
        s, args = repeated()
        f = whet.build(s, args)
    x = np.random.default_rng(0).random((6, 7)).astype("float32")
    y = np.full((6, 7), np.nan, "float32")
    f(x, y)
    e = np.exp(x.astype("float64") * 2)
    np.testing.assert_allclose(y, e / (e + np.sqrt(x * 2)), rtol=1e-5)


def test_what_a_condition_guards_is_not_computed_before_it():
    a = te.placeholder((6,), name="A")
    c = te.compute(
        (6,), lambda i: te.if_then_else(i > 0, a[i - 1] * a[i - 1] + a[i - 1], 0.0), name="C"
    )
    s = te.create_schedule(c.op)
    assert "cse_" not in lowered(s, [a, c], config=CSE)


def test_equal_terms_written_otherwise_count_where_asked():
    c = tir.decl_buffer((40,), "int32", "C")
    i, n = tir.Var("i", "int32"), tir.Var("n", "int32")
    value = tir.Mul((i + n) * 3, 3 * n + i * 3, "int32")
    loop = tir.For(i, tir.const(0), tir.const(8), "serial", c.vstore([i], value))
    mod = tir.IRModule({"main": tir.PrimFunc((c, n), loop)})
    assert "cse_v" not in str(tir.transform.CommonSubexprElimTIR()(mod))
    with verified():
        text = str(tir.transform.CommonSubexprElimTIR(True, identify_equiv_terms=True)(mod))
    assert "C[i] = cse_v1 * cse_v1" in text


def test_common_subexpressions_are_named_where_the_options_ask_for_it():
    assert "cse_v" not in lowered(*repeated())
    assert "cse_v" in lowered(*repeated(), config=CSE)
    x, t, c = (tir.decl_buffer((40,), "int32", n) for n in "XTC")
    i, n = tir.Var("i", "int32"), tir.Var("n", "int32")
    table = x.vload([t.vload([i]) + n * 3]) * x.vload([3 * n + t.vload([i])])
    loop = tir.For(i, tir.const(0), tir.const(8), "serial", c.vstore([i], table))
    func = tir.PrimFunc((x, t, c, n), loop)
    counts = [
        lowered(func, config={**CSE, "tir.enable_equiv_terms_in_cse_tir": asked}).count("X[")
        for asked in (False, True)
    ]
    assert counts == [2, 1]
    with verified(config={**CSE, "tir.enable_equiv_terms_in_cse_tir": True}):
        f = whet.build(func, name="table")
    got, places = np.full(40, 77, "int32"), np.arange(40, dtype="int32") % 5
    f(np.arange(40, dtype="int32"), places, got, 2)
    np.testing.assert_array_equal(got[:8], (places[:8] + 6) ** 2)


# RemoveNoOp, SkipAssert, Simplify


def test_removing_what_has_no_effect_golden(golden):
    golden("pass_RemoveNoOp_all", around("RemoveNoOp", no_effects))


def no_effects():
    c = tir.decl_buffer((8,), "float32", "C")
    t, k = tir.decl_buffer((8,), "float32", "T"), tir.decl_buffer((2,), "float32", "K")
    view = tir.decl_buffer((4, 2), "float32", "V", data=c.data)
    i, x, y = (tir.Var(n, "int32") for n in "ixy")
    store = tir.LetStmt(x, i * 2, tir.LetStmt(y, i * 3, c.vstore([y - i * 2], 1.0)))
    body = tir.SeqStmt(
        (
            tir.For(i, tir.const(0), tir.const(8), "serial", store),
            tir.Evaluate(tir.exp(tir.const(1.0))),
            tir.AttrStmt(None, "pragma_x", tir.const(1), tir.Evaluate(tir.const(0))),
        )
    )
    for b in (t, view):
        body = tir.DeclBuffer(b, body) if b is view else tir.Allocate(b, body)
    return (tir.PrimFunc((c,), tir.AllocateConst(k, np.zeros(2, "float32"), body)),)


def test_dropping_assertions_golden(golden):
    c = tir.decl_buffer((8,), "float32", "C")
    n = tir.Var("n", "int32")
    body = tir.AssertStmt(n > 3, "n is {0}", c.vstore([0], 1.0), (n,))
    mod = tir.IRModule({"main": tir.PrimFunc((c, n), body)})
    after = tir.transform.SkipAssert()(mod)
    golden("pass_SkipAssert", f"# before SkipAssert\n{mod}\n\n# after SkipAssert\n{after}")


def simplified(condition, extra, **options):
    c = tir.decl_buffer((8,), "float32", "C")
    inner = tir.IfThenElse(extra, c.vstore([0], 1.0))
    body = tir.IfThenElse(condition, inner) if condition is not None else inner
    params = [c, *sorted(tir.variables(body), key=lambda v: v.name)]
    mod = tir.IRModule({"main": tir.PrimFunc(tuple(params), body)})
    with verified(config={"tir.Simplify": options}):
        return str(tir.transform.Simplify()(mod)).split("\n", 1)[1].strip()


def test_two_conditions_prove_a_third_where_asked():
    i, j, k = (tir.Var(n, "int32") for n in "ijk")
    known = tir.all(i < j, j < k)
    assert "if i < k" in simplified(known, i < k)
    assert "if i < k" not in simplified(known, i < k, transitively_prove_inequalities=True)


def test_conditions_become_a_conjunction_where_asked():
    i, j, k = (tir.Var(n, "int32") for n in "ijk")
    test = tir.any(tir.all(i > 0, j > 0), k > 0)
    assert simplified(None, test).startswith("if i > 0 and j > 0 or k > 0:")
    said = simplified(None, test, convert_boolean_to_and_of_ors=True)
    assert said.startswith("if (i > 0 or k > 0) and (j > 0 or k > 0):")


def test_the_second_of_an_or_knows_that_the_first_is_false():
    i = tir.Var("i", "int32")
    test = tir.any(i < 5, tir.all(i >= 5, i < 9))
    assert "i >= 5" in simplified(None, test)
    said = simplified(None, test, apply_constraints_to_boolean_branches=True)
    assert said.startswith("if i < 5 or i < 9:")


def test_trivial_loops_stay_where_asked():
    a = te.placeholder((4,), name="A")
    c = te.compute((4, 1), lambda i, j: a[i], name="C")
    s = te.create_schedule(c.op)
    assert "for j in range(1)" not in lowered(s, [a, c])
    with verified(config={"tir.debug_keep_trivial_loop": True}):
        assert "for j in range(1)" in str(whet.lower(s, [a, c]))
        check(s, [a, c])


# quotients, which reads of another shape of a tensor leave


def bounded(**extents):
    analyzer = Analyzer()
    for name, extent in extents.items():
        var = tir.Var(name, "int32")
        analyzer.bind_loop(var, te.const(0), te.const(extent))
        yield var
    yield analyzer


def test_a_quotient_of_nested_loops_keeps_the_outer_ones():
    i, o, a, b, analyzer = bounded(i=64, o=4, a=24, b=8)
    form = analyzer.affine((i * 784 + o * 196 + a * 8 + b) // 6272)
    assert form.key == analyzer.affine(i // 8).key


def test_a_quotient_of_a_quotient_is_one():
    x, analyzer = bounded(x=100_000)
    assert analyzer.affine(x // 56 // 56).key == analyzer.affine(x // 3136).key


def test_quotients_are_those_of_numbers():
    rng = np.random.default_rng()
    for _ in range(200):
        extents = [int(n) for n in rng.integers(1, 9, 3)]
        steps = [int(n) for n in rng.choice([1, 2, 3, 4, 6, 8, 12, 24, 56, -3], 3)]
        first, by, again = (int(n) for n in (rng.integers(-9, 50), *rng.integers(1, 60, 2)))
        *loops, analyzer = bounded(**dict(zip("xyz", extents)))
        value = sum((v * c for v, c in zip(loops, steps)), te.const(first)) // by // again
        form = analyzer.affine(value).to_expr()
        for at in np.ndindex(*extents):
            wanted = (sum(c * k for c, k in zip(steps, at)) + first) // by // again
            numbers = {v: te.const(k) for v, k in zip(loops, at)}
            made = Analyzer().affine(substitute(form, numbers))
            assert made.is_const and made.const == wanted, (value, at)


def test_another_shape_is_read_in_vectors():
    a = te.placeholder((2, 16, 7, 9), name="A")
    b = topi.reshape(a, (2, 4, 4, 7, 9))
    task = whet.create_task(outputs=[b], args=[a, b], target="llvm -mcpu=x86-64-v3")
    assert "ramp" in str(whet.lower(*task.instantiate()))


def test_a_step_of_an_open_axis_is_its_own_rest():
    """A scan's step whose one time and open columns are fused reads what it is about, no more."""
    n = te.var("n")
    x = te.placeholder((8, n), name="X")
    first = te.compute((2, n), lambda t, i: x[t, i], name="first")
    before = te.placeholder((8, n), name="before")
    cell = te.compute((8, n), lambda t, i: before[t - 2, n - 1 - i] + 1.0, name="cell")
    step = te.compute((8, n), lambda t, i: cell[t, i] * 0.5 + x[t, i], name="step")
    scan = te.scan(first, step, before, name="S")
    s = te.create_schedule(scan.op)
    s[step].fuse(*s[step].op.axis)
    text = lowered(s, [x, scan])
    assert "//" not in text and "%" not in text and "likely" not in text, text
    with verified(config={"tir.instrument_bound_checkers": True}):
        check(s, [x, scan], {n: 13})


def test_rests_of_open_divisors():
    i, j, n, m = (tir.Var(name, "int32") for name in "ijnm")
    analyzer = Analyzer()
    analyzer.bind_loop(n, tir.const(1), tir.const(100))
    analyzer.bind_loop(m, tir.const(1), tir.const(100))
    analyzer.bind_loop(i, tir.const(0), n)
    analyzer.bind_loop(j, tir.const(-1), n)
    for e, wanted in (
        (i // n, "0"), (i % n, "i"), ((n - 1 - i) // n, "0"), (i // (n + 5), "0"),
        ((i + 1) // n, "(i + 1) // n"), (j // n, "j // n"), (i % m, "i % m"),
    ):  # fmt: skip
        assert str(analyzer.simplify(e)) == wanted, (str(e), str(analyzer.simplify(e)))


def test_the_other_case_knows_that_a_condition_does_not_hold():
    i, A = tir.Var("i", "int32"), tir.decl_buffer((9,), "float32", "A")

    def stored(number):
        return A.vstore([i], tir.const(number, "float32"))

    inner = tir.IfThenElse(i >= 4, stored(2.0), stored(3.0))
    body = tir.For(
        i, tir.const(0), tir.const(9), tir.ForKind.SERIAL, tir.IfThenElse(i < 4, stored(1.0), inner)
    )
    made = str(tir.transform.Simplify()(whet.IRModule({"main": tir.PrimFunc([A], body)})))
    assert "if i < 4" in made and "i >= 4" not in made and "3.0" not in made, made
