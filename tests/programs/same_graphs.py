"""Graphs in the corpus: spaces derived from them, operators' default schedules, golden files.

The graphs are those of the tree's own tests; see :func:`same_entry.helper`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from same_entry import ARM, CUDA, LLVM, C, Entry, Texts, helper, named, program, told, tree
from same_tasks import task_texts

CPUS = (LLVM["v3"], LLVM["v4"], LLVM["v2"])
GPUS = tuple(CUDA.values())


def derived(make: Callable[[], tuple[list[Any], list[Any]]], targets: tuple[str, ...]) -> Texts:
    """The tasks of a graph: ``make`` gives arguments and outputs."""
    import whet

    for target in targets:
        args, outputs = make()
        try:
            task = whet.create_task(outputs=outputs, args=args, target=target)
        except whet.WhetError as error:
            yield f"{named(target)}/{told(error)[0]}", told(error)[1]
        else:
            yield from task_texts(task, target, others=1, features=6)


def of_contractions(name: str) -> tuple[list[Any], list[Any]]:
    """A GEMM or a convolution."""
    case = helper("derived_graphs").CASES[name]()
    return case.args, [case.args[-1]]


def of_rows(name: str) -> tuple[list[Any], list[Any]]:
    """A memory-bound graph."""
    graph = helper("derived_rows").GRAPHS[name]()
    return [*graph.inputs, *graph.outputs], graph.outputs


def for_gpus(table: str, name: str) -> tuple[list[Any], list[Any]]:
    """A graph of the tests for GPUs."""
    graph = getattr(helper("gpu_graph_cases"), table)[name]
    inputs, output = graph.make(graph.dtype)
    return [*inputs, output], [output]


def operator(name: str, turn: int) -> Texts:
    """An operator of topi under its default schedules, and as a derived task."""
    from whet import te, topi

    def made() -> tuple[list[Any], list[Any]]:
        case = helper("gpu_operator_cases").OPERATORS[name]
        inputs = [te.placeholder(x.shape, x.dtype, name=f"x{k}") for k, x in enumerate(case.inputs)]
        outs = case.make(*inputs)
        outs = list(outs) if isinstance(outs, list | tuple) else [outs]
        return [*inputs, *outs], outs

    args, outs = made()
    yield "graph", te.graph_text(outs)
    kind = "reduce" if "reduce_axis" in te.graph_text(outs) or _reduces(outs) else "injective"
    for family, target in (
        ("generic", CPUS[turn % 3]),
        ("x86", C if turn % 4 == 0 else CPUS[0]),
        ("cuda", GPUS[turn % 2]),
    ):
        schedule = getattr(getattr(topi, family), f"schedule_{kind}")(outs)
        yield from program(schedule, args, target, f"{family} {kind}/")
    if turn % 3 == 0:
        yield from derived(made, (CPUS[turn % 3],))
    elif turn % 3 == 1:
        yield from derived(made, (GPUS[turn % 2],))


def _reduces(outs: list[Any]) -> bool:
    """True if a stage of the graph reduces."""
    from whet import te

    s = te.create_schedule([t.op for t in outs])
    return any(getattr(stage.op, "reduce_axis", ()) for stage in s.stages)


def goldens() -> Texts:
    """The golden files of the tests, by their names."""
    for path in sorted((tree() / "tests").rglob("golden/*.txt")):
        if path.is_file():
            yield path.name, path.read_text()


def entries() -> Iterator[Entry]:
    """All graphs; the GPUs' ones for a CPU, too, now and then."""
    yield Entry("golden", goldens)
    yield Entry("quick golden", goldens, quick=True)
    for part in (_contractions, _rows, _gpu, _operators):
        try:
            yield from part()
        except Exception as error:
            yield Entry(f"graphs {part.__name__}", partial(_missing, error))


def _missing(error: Exception) -> Texts:
    raise error
    yield


def _contractions() -> Iterator[Entry]:
    for k, name in enumerate(helper("derived_graphs").CASES):
        make = partial(of_contractions, name)
        more = (C,) if k % 3 == 0 else (ARM,) if k % 6 == 1 else ()
        yield Entry(f"derived/{name}/cpu", partial(derived, make, (CPUS[k % 3], *more)))
        yield Entry(f"derived/{name}/gpu", partial(derived, make, (GPUS[k % 2],)))
        if k % 6 == 0:
            both = (CPUS[0], GPUS[1])
            yield Entry(f"quick derived/{name}", partial(derived, make, both), quick=True)


def _rows() -> Iterator[Entry]:
    for k, name in enumerate(helper("derived_rows").GRAPHS):
        make = partial(of_rows, name)
        more = (C,) if k % 4 == 0 else ()
        yield Entry(f"derived rows/{name}/cpu", partial(derived, make, (CPUS[k % 3], *more)))
        yield Entry(f"derived rows/{name}/gpu", partial(derived, make, (GPUS[k % 2],)))


def _gpu() -> Iterator[Entry]:
    for table in ("WINDOWS", "CHAINS", "FUSIONS"):
        for k, name in enumerate(getattr(helper("gpu_graph_cases"), table)):
            make = partial(for_gpus, table, name)
            targets = (GPUS[k % 2], *(CPUS[:1] if k % 3 == 0 else ()))
            yield Entry(f"graph {table.lower()}/{name}", partial(derived, make, targets))


def _operators() -> Iterator[Entry]:
    for k, name in enumerate(helper("gpu_operator_cases").OPERATORS):
        yield Entry(f"topi/{name}", partial(operator, name, k))
        if k % 16 == 0:
            yield Entry(f"quick topi/{name}", partial(operator, name, 2), quick=True)
