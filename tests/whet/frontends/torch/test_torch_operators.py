"""Each operator of the table beside PyTorch."""

import operator

import numpy as np
import torch
from aten_cases import cases, missing, odd_cases
from torch._subclasses import FakeTensorMode

import whet
from whet.compiler.graph import GraphBuilder
from whet.frontends.torch.operators.arrays import as_array
from whet.frontends.torch.translation import Translation, outputs_of


class _Many:
    """Calls that are one model together."""

    def __init__(self):
        self.graph = torch.fx.Graph()
        self.fake = FakeTensorMode()
        self.inputs, self.outputs, self.wanted, self.names = [], [], [], []

    def _node(self, x):
        if isinstance(x, (list, tuple)):
            return [self._node(one) for one in x]
        if not isinstance(x, torch.Tensor):
            return x
        node = self.graph.placeholder(f"x{len(self.inputs)}")
        node.meta["val"] = self.fake.from_tensor(x)
        self.inputs.append(as_array(x))
        return node

    def add(self, name, args, more):
        _, packet, overload = name.split(".")
        target = getattr(getattr(torch.ops.aten, packet), overload)
        named = {key: self._node(x) for key, x in more.items()}
        node = self.graph.call_function(target, tuple(map(self._node, args)), named)
        fakes, fakes_by_name = torch.fx.node.map_arg(
            (node.args, dict(node.kwargs)), lambda n: n.meta["val"]
        )
        with self.fake:
            node.meta["val"] = target(*fakes, **fakes_by_name)
        made = target(*args, **more)
        for k, one in enumerate(made if isinstance(made, (list, tuple)) else [made]):
            if not isinstance(one, torch.Tensor):
                continue
            out = node
            if isinstance(made, (list, tuple)):
                out = self.graph.call_function(operator.getitem, (node, k))
                out.meta["val"] = node.meta["val"][k]
            self.outputs.append(out)
            self.wanted.append(as_array(one))
            self.names.append(f"{name}{[tuple(getattr(a, 'shape', [a])) for a in args]}[{k}]")

    def translated(self):
        """The results that a translation gives, among them all that are asked for by any case."""
        work = Translation(GraphBuilder())
        for node in self.graph.nodes:
            if node.op == "placeholder":
                work.input(node)
            elif (
                node.target is not operator.getitem
                or work.values[node.args[0]][node.args[1]] is not None
            ):
                work.run(node)
        kept = [k for k, n in enumerate(self.outputs) if n in work.values]
        assert {self.names[k].split("[")[0] for k in kept} == {
            name.split("[")[0] for name in self.names
        }
        return work, kept

    def check(self):
        work, kept = self.translated()
        found = work.builder.graph(outputs_of(work, [self.outputs[k] for k in kept]))
        given = [self.inputs[int(v.name[1:])] for v in found.inputs]
        model = whet.compile(found, target="llvm -num_threads=2")
        out = [np.full(v.shape, 77, v.dtype) for v in found.outputs]
        model.run(given, out)
        for k, array in zip(kept, out):
            wanted = self.wanted[k]
            assert array.dtype == wanted.dtype, self.names[k]
            far = (2e-6, 1e-10) if array.dtype == np.float32 else (1e-11, 1e-13)
            np.testing.assert_allclose(array, wanted, *far, err_msg=self.names[k])


def test_each_operator(seeds):
    """All are translated; those that are drawn are built, and run: ``--draws 3000`` for all."""
    seed, *drawn = seeds(51)
    found = cases(seed)
    assert not missing(found)
    chosen = {s % len(found) for s in drawn}
    many = _Many()
    for case in found:
        many.add(*case)
    many.translated()
    many = _Many()
    for k in chosen:
        many.add(*found[k])
    many.check()


def test_odd_numbers():
    many = _Many()
    for case in odd_cases():
        many.add(*case)
    many.check()
