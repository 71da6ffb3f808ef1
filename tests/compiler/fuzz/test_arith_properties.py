"""The analyzer and the simplifier against brute force over all values of the variables."""

import itertools
import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.arith.simplify import Simplifier
from whet.compiler.tir import expr as e

BOUNDED = settings(max_examples=250)
RUN = {
    e.Add: operator.add,
    e.Sub: operator.sub,
    e.Mul: operator.mul,
    e.FloorDiv: operator.floordiv,
    e.FloorMod: operator.mod,
    e.Div: lambda a, b: quotient(a, b),
    e.Mod: lambda a, b: a - b * quotient(a, b),
    e.Min: min,
    e.Max: max,
    e.LT: operator.lt,
    e.LE: operator.le,
    e.GT: operator.gt,
    e.GE: operator.ge,
    e.EQ: operator.eq,
    e.NE: operator.ne,
}


def quotient(a, b):
    """``a / b`` rounded towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def number(value):
    return e.IntImm("int32", value)


def run(n, env):
    """The value of an integer expression; a division by zero raises."""
    if isinstance(n, e.IntImm):
        return n.value
    if isinstance(n, e.Var):
        return env[n]
    if isinstance(n, e.And):
        return run(n.a, env) and run(n.b, env)
    if isinstance(n, e.Or):
        return run(n.a, env) or run(n.b, env)
    if isinstance(n, e.Not):
        return not run(n.a, env)
    if isinstance(n, e.Select):
        return run(n.true_value if run(n.condition, env) else n.false_value, env)
    if isinstance(n, e.Call):
        return run(n.args[1] if run(n.args[0], env) else n.args[2], env)
    return RUN[type(n)](run(n.a, env), run(n.b, env))


class World:
    """Loop variables, the inner ones bounded by outer ones, a size, and all their values."""

    def __init__(self, pick):
        self.pick = pick
        self.analyzer = Analyzer()
        self.size = e.SizeVar("n")
        self.loops = []
        for k in range(pick(1, 3)):
            var = e.Var(f"i{k}")
            begin = number(pick(-3, 3))
            extent = number(pick(1, 7))
            shape = pick(0, 5)
            if shape == 0 and self.loops:
                extent = e.Min(extent, e.Sub(number(9), self.loops[0][0], "int32"), "int32")
            elif shape == 1:
                extent = e.Min(extent, self.size, "int32")
            elif shape == 2 and self.loops:
                begin = e.Mul(self.loops[-1][0], number(pick(-2, 2)), "int32")
            self.analyzer.bind_loop(var, begin, extent)
            self.loops.append((var, begin, extent))

    def values(self):
        """Every assignment that the loops run through."""

        def walk(env, rest):
            if not rest:
                yield dict(env)
                return
            var, begin, extent = rest[0]
            first = run(begin, env)
            for v in range(first, first + run(extent, env)):
                yield from walk({**env, var: v}, rest[1:])

        for n in (0, 1, 2, 5):
            yield from walk({self.size: n}, self.loops)

    def integer(self, depth):
        kind = self.pick(0, 7 if depth else 1)
        if kind == 0:
            return number(self.pick(-9, 9))
        if kind == 1:
            things = [*(v for v, _, _ in self.loops), self.size]
            return things[self.pick(0, len(things) - 1)]
        a = self.integer(depth - 1)
        if kind == 2:
            return e.Mul(a, number(self.pick(-8, 8)), "int32")
        if kind == 3:
            how = (e.FloorDiv, e.FloorMod, e.Div, e.Mod)[self.pick(0, 3)]
            if self.pick(0, 5) == 0:
                return how(a, self.integer(depth - 1), "int32")
            sign = self.pick(0, 1) * 2 - 1 if how in (e.Div, e.Mod) else 1
            return how(a, number(sign * self.pick(1, 8)), "int32")
        how = (e.Add, e.Sub, e.Min, e.Max, e.Mul)[self.pick(0, 4)]
        return how(a, self.integer(depth - 1), "int32")

    def condition(self, depth):
        if depth and self.pick(0, 2) == 0:
            how = (e.And, e.Or)[self.pick(0, 1)]
            return how(self.condition(depth - 1), self.condition(depth - 1), "bool")
        how = (e.LT, e.LE, e.GT, e.GE, e.EQ, e.NE)[self.pick(0, 5)]
        return how(self.integer(depth), self.integer(depth), "bool")


def outcomes(world, n):
    """(environment, value) wherever the expression has a value."""
    for env in world.values():
        try:
            yield env, run(n, env)
        except ZeroDivisionError:
            continue


def check_integer(pick):
    world = World(pick)
    n = world.integer(3)
    form = world.analyzer.affine(n)
    simple = Simplifier(world.analyzer)(n)
    low, high = world.analyzer.bounds(form)
    never_positive = world.analyzer.at_most_zero(form)
    inner = {v for v, _, _ in world.loops[world.pick(0, len(world.loops)) :]}
    most, least = (world.analyzer.eliminate(form, inner, sign) for sign in (1, -1))
    for env, value in outcomes(world, n):
        assert run(form.to_expr(), env) == value
        assert run(simple, env) == value
        assert low is None or low <= value
        assert high is None or value <= high
        assert not never_positive or value <= 0
        assert most is None or value <= run(most.to_expr(), env)
        assert least is None or run(least.to_expr(), env) <= value


def check_condition(pick):
    world = World(pick)
    n, assumed = world.condition(2), world.condition(1)
    simple = Simplifier(world.analyzer)(n)
    with world.analyzer.assuming(assumed):
        under = Simplifier(world.analyzer)(n)
    guarded = Simplifier(world.analyzer)(
        e.Call("int32", "if_then_else", (n, world.integer(2), world.integer(2)))
    )
    for env, value in outcomes(world, n):
        assert bool(run(simple, env)) == bool(value)
        try:
            holds = run(assumed, env)
        except ZeroDivisionError:
            continue
        if holds:
            assert bool(run(under, env)) == bool(value)
    assert guarded is not None


@BOUNDED
@given(st.data())
def test_forms_bounds_and_simplified_integers_are_true(data):
    check_integer(lambda a, b: data.draw(st.integers(a, b)))


@BOUNDED
@given(st.data())
def test_simplified_conditions_are_true(data):
    check_condition(lambda a, b: data.draw(st.integers(a, b)))


def test_what_the_lowering_relies_on():
    a = Analyzer()
    i, j, n = e.Var("i"), e.Var("j"), e.SizeVar("n")
    a.bind_loop(i, number(0), number(16))
    a.bind_loop(j, number(0), number(8))
    fused = i * 8 + j
    assert a.affine(fused // 8).to_expr() is i
    assert a.affine(fused % 8).to_expr() is j
    assert a.affine(fused - fused // 8 * 8 - fused % 8).key == Affine({}, 0).key
    assert a.bounds(a.affine(fused)) == (0, 127)
    assert a.less(fused, number(128)) and not a.less(fused, number(127))
    assert a.compare(e.LT(i, n, "bool")) is None
    with a.assuming(e.LT(i, n, "bool")):
        assert a.less(i, n) and a.at_most(i + 1, n)
    assert a.affine(n * n - n * n).is_const


def test_remainders_have_bounds_of_their_own():
    a, i, k = Analyzer(), e.Var("i"), e.Var("k")
    a.bind_loop(i, number(0), number(16))
    form = a.affine(i % 4 * 8 + i // 4 * 100 + k)
    most, least = (a.eliminate(form, {i}, sign) for sign in (1, -1))
    assert most.key == a.affine(k + 300 + 24).key and least.key == a.affine(k).key
    down = a.affine(k - i % 4 * 8)
    most, least = (a.eliminate(down, {i}, sign) for sign in (1, -1))
    assert most.key == a.affine(k).key and least.key == a.affine(k - 24).key


@pytest.mark.parametrize("x, y", list(itertools.product((-7, 7, -8, 8), (-3, 3))))
def test_division_folds_round_as_they_say(x, y):
    from whet.compiler import te

    assert int(te.floordiv(x, y)) == x // y
    assert int(te.floormod(x, y)) == x % y
    assert int(te.truncdiv(x, y)) == int(x / y)
    assert int(te.truncmod(x, y)) == x - int(x / y) * y
