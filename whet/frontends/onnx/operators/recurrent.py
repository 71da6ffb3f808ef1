"""Recurrent networks of known length: unrolled, the products with the inputs all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from whet.compiler.graph import Value
from whet.frontends.onnx.operators.node import OnnxNode, Translate
from whet.frontends.onnx.operators.shapes import reshaped

_ACTIVATIONS = {
    "relu": "relu", "tanh": "tanh", "sigmoid": "sigmoid", "softsign": "softsign",
    "softplus": "softplus", "affine": "affine", "leakyrelu": "leaky_relu", "elu": "elu",
    "hardsigmoid": "hard_sigmoid", "thresholdedrelu": "thresholded_relu",
}  # fmt: skip
_ALPHA = ("leaky_relu", "elu", "hard_sigmoid", "thresholded_relu")

State = tuple[Value, ...]


class _Cell:
    """One direction of a recurrent network.

    Args:
        n: the node.
        k: which direction.
        gates: how many parts the weights have.
    """

    def __init__(self, n: OnnxNode, k: int, gates: int, activations: Sequence[str]) -> None:
        self.n, self.k, self.gates = n, k, gates
        self.hidden = n.input(2).shape[2]
        w, r = (self._own(n.input(i)) for i in (1, 2))
        self.w, self.r = (n.add("transpose", [v], axes=(1, 0)) for v in (w, r))
        bias = self._own(n.input(3)) if n.has(3) else None
        half = gates * self.hidden
        self.wb = None if bias is None else self.part(bias, 0, half)
        self.rb = None if bias is None else self.part(bias, half, 2 * half)
        each = len(activations) // n.input(1).shape[0]
        names = activations[k * each : (k + 1) * each]
        alphas, betas = (list(n.attr(f"activation_{x}", [])) for x in ("alpha", "beta"))
        self.f = [self._activation(name.lower(), alphas, betas) for name in names]
        self.clip = n.attr("clip", None)

    def _own(self, v: Value) -> Value:
        """This direction's part of an operand, without that axis."""
        part = v
        if v.shape[0] > 1:
            part = self.n.add("slice", [v], begin=[self.k], end=[self.k + 1], step=[1], axes=[0])
        return reshaped(self.n, part, v.shape[1:])

    def _activation(
        self, name: str, alphas: list[float], betas: list[float]
    ) -> Callable[[Value], Value]:
        if name not in _ACTIVATIONS:
            raise self.n.refused(f"the activation {name!r} is not supported")
        operator, more = _ACTIVATIONS[name], {}
        if operator in _ALPHA and alphas:
            more["alpha"] = float(alphas.pop(0))
        if operator == "hard_sigmoid" and betas:
            more["beta"] = float(betas.pop(0))
        if operator == "affine":
            raise self.n.refused("the activation 'Affine' is not supported")
        return lambda x: self.n.add(operator, [self._clipped(x)], **more)

    def _clipped(self, x: Value) -> Value:
        if self.clip is None:
            return x
        return self.n.add("clip", [x], low=-self.clip, high=self.clip)

    def part(self, v: Value, begin: int, end: int) -> Value:
        """Elements of the last axis."""
        axis = len(v.shape) - 1
        if (begin, end) == (0, v.shape[axis]):
            return v
        return self.n.add("slice", [v], begin=[begin], end=[end], step=[1], axes=[axis])

    def gate(self, v: Value, k: int) -> Value:
        """The part of gate k."""
        return self.part(v, k * self.hidden, (k + 1) * self.hidden)

    def sum(self, *parts: Value | None) -> Value:
        """The sum of those that are there."""
        given = [p for p in parts if p is not None]
        total = given[0]
        for p in given[1:]:
            total = self.n.add("add", [total, p])
        return total

    def product(self, a: Value, b: Value) -> Value:
        return self.n.add("multiply", [a, b])

    def times(self, h: Value, r: Value) -> Value:
        return self.n.add("matmul", [h, r])

    def initial(self, i: int, batch: int, dtype: str) -> Value:
        """The state at the start."""
        if self.n.has(i):
            return self._own(self.n.input(i))
        return self.n.constant(np.zeros((batch, self.hidden)), dtype)


def _rnn(c: _Cell, x: Value, state: State) -> State:
    (h,) = state
    return (c.f[0](c.sum(x, c.times(h, c.r), c.rb)),)


def _lstm(c: _Cell, x: Value, state: State) -> State:
    h, cell = state
    total = c.sum(x, c.times(h, c.r), c.rb)
    i, o, f, g = (c.gate(total, k) for k in range(4))
    if c.n.has(7):
        own = c._own(c.n.input(7))
        pi, po, pf = (c.gate(own, k) for k in range(3))
        i, f = c.sum(i, c.product(pi, cell)), c.sum(f, c.product(pf, cell))
    inside = c.f[0](i)
    forget = c.f[0](f)
    if c.n.attr("input_forget", 0):
        one = c.n.constant(1.0, inside.dtype)
        forget = c.n.add("subtract", [one, inside])
    new = c.sum(c.product(forget, cell), c.product(inside, c.f[1](g)))
    if c.n.has(7):
        o = c.sum(o, c.product(po, new))
    return c.product(c.f[0](o), c.f[2](new)), new


def _gru(c: _Cell, x: Value, state: State) -> State:
    (h,) = state
    zr, hh = 2 * c.hidden, 3 * c.hidden
    both = c.sum(c.part(x, 0, zr), c.times(h, c.part(c.r, 0, zr)))
    both = both if c.rb is None else c.sum(both, c.part(c.rb, 0, zr))
    z, r = c.f[0](c.gate(both, 0)), c.f[0](c.gate(both, 1))
    own = c.part(c.r, zr, hh)
    bias = None if c.rb is None else c.part(c.rb, zr, hh)
    if c.n.attr("linear_before_reset", 0):
        reset = c.product(r, c.sum(c.times(h, own), bias))
        new = c.f[1](c.sum(c.part(x, zr, hh), reset))
    else:
        new = c.f[1](c.sum(c.part(x, zr, hh), c.times(c.product(r, h), own), bias))
    one = c.n.constant(1.0, z.dtype)
    return (c.sum(c.product(c.n.add("subtract", [one, z]), new), c.product(z, h)),)


def _network(
    gates: int, step: Callable[[_Cell, Value, State], State], default: Sequence[str]
) -> Translate:
    def translate(n: OnnxNode) -> list[Value]:
        batch_first = bool(n.attr("layout", 0))
        x = n.input(0)
        if batch_first:
            x = n.add("transpose", [x], axes=(1, 0, 2))
            n.inputs[5:7] = [
                v if v is None else n.add("transpose", [v], axes=(1, 0, 2)) for v in n.inputs[5:7]
            ]
        length, batch, _ = x.shape
        lengths = n.input(4) if n.has(4) else None
        known = n.builder.known(lengths)
        if known is not None and np.all(known == length):
            lengths = None
        way, count = n.attr("direction", "forward"), n.input(1).shape[0]
        names = n.attr("activations", list(default) * count)
        states = 2 if gates == 4 else 1
        outputs: list[list[Value]] = []
        last: list[State] = []
        for k in range(count):
            cell = _Cell(n, k, gates, names)
            backwards = way == "reverse" or k == 1
            made, end = _run(cell, step, x, states, backwards, lengths)
            outputs.append(made)
            last.append(end)
        hidden = n.input(2).shape[2]
        return _results(n, outputs, last, (length, count, batch, hidden), batch_first)

    return translate


def _run(
    c: _Cell, step: Callable[[_Cell, Value, State], State], x: Value, states: int,
    backwards: bool, lengths: Value | None,
) -> tuple[list[Value], State]:  # fmt: skip
    """The outputs of all steps, in the order of the sequence, and the last state.

    Behind a sequence's length its outputs are 0, and its state stays; backwards, it stays before.
    """
    length, batch, _ = x.shape
    n = c.n
    given = c.sum(n.add("matmul", [x, c.w]), c.wb)
    state: State = tuple(c.initial(5 + i, batch, x.dtype) for i in range(states))
    made: dict[int, Value] = {}
    for t in reversed(range(length)) if backwards else range(length):
        one = n.add("slice", [given], begin=[t], end=[t + 1], step=[1], axes=[0])
        after = step(c, reshaped(n, one, one.shape[1:]), state)
        if lengths is None:
            state = after
            made[t] = state[0]
            continue
        inside = n.add("greater", [lengths, n.constant(t, lengths.dtype)])
        inside = reshaped(n, inside, (batch, 1))
        state = tuple(n.add("where", [inside, new, old]) for new, old in zip(after, state))
        made[t] = n.add("where", [inside, after[0], n.constant(0, x.dtype)])
    return [made[t] for t in range(length)], state


def _results(
    n: OnnxNode,
    outputs: Sequence[Sequence[Value]],
    last: Sequence[State],
    sizes: tuple[int, int, int, int],
    batch_first: bool,
) -> list[Value]:
    """Y (length, directions, batch, hidden), Y_h and Y_c; the batch in front if asked for."""
    length, count, batch, hidden = sizes
    parts = [
        reshaped(n, outputs[k][t], (1, 1, batch, hidden))
        for t in range(length)
        for k in range(count)
    ]
    joined = parts[0] if len(parts) == 1 else n.add("concat", parts, axis=0)
    every = reshaped(n, joined, (length, count, batch, hidden))
    found = [n.add("transpose", [every], axes=(2, 0, 1, 3)) if batch_first else every]
    for i in range(len(last[0])):
        ends = [reshaped(n, state[i], (1, batch, hidden)) for state in last]
        one = ends[0] if len(ends) == 1 else n.add("concat", ends, axis=0)
        found.append(n.add("transpose", [one], axes=(1, 0, 2)) if batch_first else one)
    return found


TABLE: dict[str, Translate] = {
    "GRU": _network(3, _gru, ("Sigmoid", "Tanh")),
    "LSTM": _network(4, _lstm, ("Sigmoid", "Tanh", "Tanh")),
    "RNN": _network(1, _rnn, ("Tanh",)),
}
