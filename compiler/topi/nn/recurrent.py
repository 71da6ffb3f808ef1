"""Recurrent networks over sequences of known length: one stage a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute, reduce_axis
from whet.compiler.tir.ops.mathematics import sigmoid, tanh
from whet.compiler.tir.ops.ops import const
from whet.compiler.topi.half_precision import stored, sum_of_products
from whet.compiler.topi.shapes import static
from whet.compiler.topi.tag import ELEMWISE
from whet.compiler.topi.transform import stack

Activation = Callable[[Any], Any]


def rnn(
    Xs: Tensor,
    Wi: Tensor,
    Wh: Tensor,
    Bi: Tensor | None = None,
    Bh: Tensor | None = None,
    h_init: Tensor | None = None,
    act: Activation = tanh,
    reverse: bool = False,
) -> Tensor:
    """``h = act(x @ Wi.T + Bi + h @ Wh.T + Bh)`` for each step of a sequence.

    Args:
        Xs: (steps, batch, in).
        Wi: (hidden, in); ``Wh`` (hidden, hidden).
        Bi, Bh: (hidden,); None for none.
        h_init: (batch, hidden); zeros by default.
        act: of an element.
        reverse: from the last step to the first.

    Returns:
        The states (steps, batch, hidden), in the order of the sequence.

    Raises:
        ArgumentError: shapes do not fit.
    """
    gates = _Gates(Xs, Wi, Wh, Bi, Bh, 1, f"rnn({Xs}, {Wi}, {Wh})")

    def step(t: int, state: list[Tensor]) -> list[Tensor]:
        total = gates.total(t, state[0])
        return [gates.state(lambda b, j: act(total(b, j)), "T_rnn")]

    return gates.run(step, [h_init], reverse)[0]


def gru(
    Xs: Tensor,
    Wi: Tensor,
    Wh: Tensor,
    Bi: Tensor | None = None,
    Bh: Tensor | None = None,
    h_init: Tensor | None = None,
    f_act: Activation = sigmoid,
    g_act: Activation = tanh,
    reverse: bool = False,
    linear_before_reset: bool = True,
) -> Tensor:
    """Gated recurrent units; gates in PyTorch's order: reset, update, new.

    Args:
        Xs: (steps, batch, in).
        Wi: (3 * hidden, in); ``Wh`` (3 * hidden, hidden).
        Bi, Bh: (3 * hidden,); None for none.
        h_init: (batch, hidden); zeros by default.
        f_act, g_act: of the gates, and of the new state.
        reverse: from the last step to the first.
        linear_before_reset: the state is multiplied by the weights before it is reset, as in
            PyTorch and cuDNN, not behind.

    Returns:
        The states (steps, batch, hidden), in the order of the sequence.

    Raises:
        ArgumentError: shapes do not fit.
    """
    gates = _Gates(Xs, Wi, Wh, Bi, Bh, 3, f"gru({Xs}, {Wi}, {Wh})")
    n = gates.hidden

    def step(t: int, state: list[Tensor]) -> list[Tensor]:
        (h,) = state
        given, own = gates.given(t), gates.recurrent(h)
        reset = gates.state(lambda b, j: f_act(given(b, j) + own(b, j)), "T_reset")
        if linear_before_reset:
            new = gates.state(
                lambda b, j: g_act(given(b, j + 2 * n) + reset(b, j) * own(b, j + 2 * n)), "T_new"
            )
        else:
            part = gates.state(lambda b, j: reset(b, j) * h(b, j), "T_kept")
            again = gates.recurrent(part)
            new = gates.state(
                lambda b, j: g_act(given(b, j + 2 * n) + again(b, j + 2 * n)), "T_new"
            )

        def mixed(b: Any, j: Any) -> Any:
            z = f_act(given(b, j + n) + own(b, j + n))
            return new(b, j) + z * (h(b, j) - new(b, j))

        return [gates.state(mixed, "T_gru")]

    return gates.run(step, [h_init], reverse)[0]


def lstm(
    Xs: Tensor,
    Wi: Tensor,
    Wh: Tensor,
    Bi: Tensor | None = None,
    Bh: Tensor | None = None,
    h_init: Tensor | None = None,
    c_init: Tensor | None = None,
    proj: None = None,
    p_i: Tensor | None = None,
    p_f: Tensor | None = None,
    p_o: Tensor | None = None,
    f_act: Activation = sigmoid,
    g_act: Activation = tanh,
    h_act: Activation = tanh,
    reverse: bool = False,
    weight_layout: str = "IFGO",
) -> tuple[Tensor, ...]:
    """Long short-term memory, as TVM's.

    Args:
        Xs: (steps, batch, in).
        Wi, Wh, Bi, Bh: as of :func:`gru`, of four gates.
        h_init, c_init: (batch, hidden); zeros by default.
        proj: TVM's projection of the state; None.
        p_i, p_f, p_o: (hidden,), peepholes; None for none.
        f_act, g_act, h_act: of the gates, of the new cell's part, and of the cell.
        reverse: from the last step to the first.
        weight_layout: the order of the gates, e.g. ``"IFGO"``.

    Returns:
        The states and the cells (steps, batch, hidden), in the order of the sequence.

    Raises:
        ArgumentError: shapes or the order do not fit, or there is a projection.
    """
    request = f"lstm({Xs}, {Wi}, {Wh}, weight_layout={weight_layout!r})"
    if sorted(weight_layout) != sorted("IFGO") or proj is not None:
        raise ArgumentError(request, "gates are I, F, G and O, without a projection")
    gates = _Gates(Xs, Wi, Wh, Bi, Bh, 4, request)
    places = {gate: k * gates.hidden for k, gate in enumerate(weight_layout)}

    def step(t: int, state: list[Tensor]) -> list[Tensor]:
        h, c = state
        total = gates.total(t, h)

        def cell(b: Any, j: Any) -> Any:
            i, f, g = (total(b, j + places[x]) for x in "IFG")
            kept = f_act(f + _peep(p_f, c, b, j)) * c(b, j)
            return kept + f_act(i + _peep(p_i, c, b, j)) * g_act(g)

        new = gates.state(cell, "T_cell")

        def output(b: Any, j: Any) -> Any:
            o = total(b, j + places["O"]) + _peep(p_o, new, b, j)
            return f_act(o) * h_act(new(b, j))

        return [gates.state(output, "T_lstm"), new]

    return tuple(gates.run(step, [h_init, c_init], reverse))


def _peep(weight: Tensor | None, cell: Tensor, b: Any, j: Any) -> Any:
    return 0 if weight is None else weight(j) * cell(b, j)


class _Gates:
    """The products of a recurrent network's inputs and states with its weights."""

    def __init__(
        self, Xs: Tensor, Wi: Tensor, Wh: Tensor, Bi: Tensor | None, Bh: Tensor | None, gates: int,
        request: str,
    ) -> None:  # fmt: skip
        self.Xs, self.Wh, self.Bh = Xs, Wh, Bh
        if Xs.ndim != 3 or Wi.ndim != 2 or Wh.ndim != 2:
            raise ArgumentError(request, "give (steps, batch, in) and two matrices")
        self.steps = static(Xs.shape[0], request)
        self.batch, self.hidden = Xs.shape[1], static(Wh.shape[1], request)
        rows = gates * self.hidden
        if not static(Wi.shape[0], request) == static(Wh.shape[0], request) == rows:
            raise ArgumentError(request, f"the weights must have {rows} rows")
        k = reduce_axis((0, Xs.shape[2]), name="k")
        made = compute(
            (self.steps, self.batch, rows),
            lambda t, b, j: sum_of_products(Xs.dtype, Xs(t, b, k), Wi(j, k), k),
            "T_inputs",
        )
        self.inputs, self.Bi, self.rows = stored(made, Xs.dtype), Bi, rows

    def given(self, t: int) -> Tensor:
        """The part of all gates that the inputs of a step make, with their bias."""
        bias = self.Bi

        def element(b: Any, j: Any) -> Any:
            x = self.inputs(const(t), b, j)
            return x if bias is None else x + bias(j)

        return compute((self.batch, self.rows), element, "T_given", ELEMWISE)

    def recurrent(self, h: Tensor) -> Tensor:
        """The part of all gates that a state makes, with its bias."""
        k = reduce_axis((0, self.hidden), name="k")
        made = compute(
            (self.batch, self.rows),
            lambda b, j: sum_of_products(h.dtype, h(b, k), self.Wh(j, k), k),
            "T_recurrent",
        )
        made, bias = stored(made, h.dtype), self.Bh
        if bias is None:
            return made
        return compute(made.shape, lambda b, j: made(b, j) + bias(j), "T_biased", ELEMWISE)

    def total(self, t: int, h: Tensor) -> Tensor:
        """Both parts."""
        given, own = self.given(t), self.recurrent(h)
        return compute(own.shape, lambda b, j: given(b, j) + own(b, j), "T_gates", ELEMWISE)

    def state(self, element: Callable[[Any, Any], Any], name: str) -> Tensor:
        """A tensor (batch, hidden)."""
        return compute((self.batch, self.hidden), element, name, ELEMWISE)

    def run(
        self,
        step: Callable[[int, list[Tensor]], list[Tensor]],
        initial: list[Tensor | None],
        reverse: bool,
    ) -> list[Tensor]:
        """The states of all steps, (steps, batch, hidden) each, in the order of the sequence."""
        zero = const(0, self.Xs.dtype)
        state = [s if s is not None else self.state(lambda b, j: zero, "T_zero") for s in initial]
        made: dict[int, list[Tensor]] = {}
        for t in reversed(range(self.steps)) if reverse else range(self.steps):
            state = made[t] = step(t, state)
        return [stack([made[t][k] for t in range(self.steps)], 0) for k in range(len(state))]
