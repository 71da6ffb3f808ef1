"""The nodes of an FX graph that are compiled: those that a trial translates."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

from whet.compiler.errors import WhetError
from whet.compiler.graph import GraphBuilder, Value
from whet.frontends.dynamo.report import Report
from whet.frontends.torch.operators.shapes import VIEWS
from whet.frontends.torch.translation import Translation, fixed

CompilePart = Callable[[Any, list[bool]], Any]


def partitioned(
    module: Any,
    compile_part: CompilePart,
    report: Report,
    became: Mapping[Any, Any] | None = None,
    left_out: Mapping[str, str] | None = None,
    views: Collection[str] = (),
) -> Any:
    """The module with its supported parts compiled.

    Args:
        module: a ``GraphModule`` of ATen operators, which is changed.
        compile_part: what a part becomes, from the part as a ``GraphModule`` and for each of its
            arguments whether the module itself is given it.
        report: is told what stays, and why.
        became: where sizes are open, what each node is at some sizes: a node, or a number that
            PyTorch computes.
        left_out: names of nodes that stay in PyTorch -> why.
        views: names of nodes that PyTorch runs as well, of which nothing is to be said.
    """
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import create_op_support

    called = [n for n in module.graph.nodes if n.op == "call_function"]
    computed = {n for n in called if became is not None and isinstance(became[n], int)}
    computed |= {n for n in called if n.name in views}
    reasons = {n: _reason(n if became is None else became[n]) for n in called if n not in computed}
    for n in reasons:
        reasons[n] = (left_out or {}).get(n.name, reasons[n])
    for n, why in reasons.items():  # a result that is not translated takes its maker along
        if why is not None and n.target is operator.getitem and reasons[n.args[0]] is None:
            reasons[n.args[0]] = why
    for n in reasons:
        if n.target is operator.getitem:
            reasons[n] = reasons[n.args[0]]

    def supported(_: Any, n: Any) -> bool:
        return n.op == "call_function" and n not in computed and reasons[n] is None

    for n, why in reasons.items():
        if why is not None and n.target is not operator.getitem:
            report.stayed.setdefault(str(n.target), why)
    partitioner = CapabilityBasedPartitioner(
        module, create_op_support(supported), allows_single_node_partition=True
    )
    parts = [p for p in partitioner.propose_partitions() if any(_computes(n) for n in p.nodes)]
    made = partitioner.fuse_partitions(parts)
    for call in list(made.graph.find_nodes(op="call_module")):
        child = getattr(made, call.target)
        report.parts.append(sum(n.op == "call_function" for n in child.graph.nodes))
        given = [getattr(a, "op", None) == "placeholder" for a in call.args]
        setattr(made, call.target, compile_part(child, given))
    return made


def _computes(n: Any) -> bool:
    return n.target is not operator.getitem and str(n.target) not in VIEWS


def _reason(node: Any) -> str | None:
    """Why a node is not supported; None: it is translated, here for a trial."""
    builder = GraphBuilder()
    work = Translation(builder)
    try:
        for x in node.all_input_nodes:
            meta = x.meta.get("val")
            if isinstance(meta, (list, tuple)):
                k = node.args[1] if node.target is operator.getitem else 0
                work.values[x] = _results(x, builder)
                if work.values[x][k] is None:
                    return f"its result {k} is not supported"
            elif isinstance(meta, (int, float)):
                work.values[x] = meta
            else:
                shape, dtype = fixed(meta, x.name)
                work.values[x] = builder.input(x.name, shape, dtype)
        work.run(node)
    except Exception as error:  # whatever it is: what eager PyTorch can do is done
        return cause(error)
    return None


def cause(error: Exception) -> str:
    """Why something could not be, in one line."""
    why = error.args[1] if isinstance(error, WhetError) and len(error.args) > 1 else ""
    text = str(why() if callable(why) else why) or str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _results(maker: Any, builder: GraphBuilder) -> list[Value | None]:
    """The results that a translation gives of an operator with several."""
    trial = Translation(GraphBuilder())
    for x in maker.all_input_nodes:
        shape, dtype = fixed(x.meta.get("val"), x.name)
        trial.values[x] = trial.builder.input(x.name, shape, dtype)
    trial.run(maker)
    return [
        None if v is None else builder.input(f"{v.name}{k}", v.shape, v.dtype)
        for k, v in enumerate(trial.values[maker])
    ]
