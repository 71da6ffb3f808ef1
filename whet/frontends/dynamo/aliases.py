"""Results of an open graph that are views of its arguments: PyTorch makes them.

Where sizes are symbols, AOT autograd makes such a result again from the argument, at the place in
memory that the graph's own result has. So that result is a view itself, and no new tensor.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any


def views_apart(graph: Any) -> set[str]:
    """Give the results that are views of arguments, or of other results, nodes of their own.

    Kernels read the views that the graph had before, as far as they read any.

    Args:
        graph: an FX graph of ATen operators, which is changed.

    Returns:
        The names of the nodes, which stay in PyTorch.
    """
    (output,) = graph.find_nodes(op="output")
    results = set(output.all_input_nodes)
    made: dict[Any, Any] = {}
    names: set[str] = set()
    for result in output.all_input_nodes:
        chain = list(_views(result))
        if not chain:
            continue
        base = chain[-1].args[0]
        if base.op != "placeholder" and base not in results:
            continue
        if "_scatter." in str(base.target):  # of an argument, whose place in memory it has
            names.add(base.name)
        for node in reversed(chain):
            if node not in made:
                with graph.inserting_after(node):
                    made[node] = graph.node_copy(node, lambda n: made.get(n, n))
    output.args = tuple(_with(output.args, made))
    names |= {copy.name for copy in made.values()}
    for node in reversed(list(graph.nodes)):
        if node in made and not node.users:
            graph.erase_node(node)
    return names


def _views(node: Any) -> Iterator[Any]:
    """The nodes from one on up to the tensor that it is a view of."""
    while _is_view(node):
        yield node
        node = node.args[0]


def _is_view(node: Any) -> bool:
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return _is_view(node.args[0])
    return bool(getattr(node.target, "is_view", False))


def _with(args: Any, made: dict[Any, Any]) -> Any:
    from torch.fx.node import map_arg

    return map_arg(args, lambda n: made.get(n, n))
