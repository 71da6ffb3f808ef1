"""The backend itself: a graph of dynamo is traced to ATen operators, and its parts are compiled.

Parameters and buffers are constants of what is compiled. dynamo has one graph for all modules with
the same code, so each set of them has a program of its own; a call that finds one changed compiles
again, and says so. Sizes that dynamo leaves open stay so where kernels can: one program for all of
a range. Where they cannot, and for Python's floats, each set of them is compiled once, and that is
said, too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo.backends.registry import register_backend
from torch._dynamo.convert_frame import compile_lock
from torch._dynamo.exc import RestartAnalysis
from torch._dynamo.utils import get_static_address_type
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
from torch._guards import tracing

from whet.compiler.errors import ArgumentError, nearest
from whet.frontends.dynamo.frozen import Frozen, can_stand_still
from whet.frontends.dynamo.open_graph import OpenGraph
from whet.frontends.dynamo.open_part import NotOpen, Outgrown
from whet.frontends.dynamo.part import Part, key_of
from whet.frontends.dynamo.partition import cause, partitioned
from whet.frontends.dynamo.report import Report, new_report
from whet.frontends.dynamo.symbols import sizes_in
from whet.frontends.torch.importer import decompositions

OPTIONS = ("target", "log")
_LOG = logging.getLogger("whet.torch")
_MOST_PROGRAMS = 64  # of one graph
_MOST_NUMBERS = 8  # different floats of one graph
_MOST_CHANGES = 3  # after which what changes is an input


def whet_backend(
    module: Any,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """The backend of ``torch.compile(module, backend="whet", options={...})``.

    Args:
        module: a graph that dynamo found.
        example_inputs: what it is called with.
        options: ``target`` and ``log``, as of :func:`whet.compile`.
        mode: none is known.

    Raises:
        ArgumentError: an option or a mode is unknown.
    """
    for name in options or {}:
        if name not in OPTIONS:
            raise ArgumentError(
                f"torch.compile(options={{{name!r}: ...}})", "there is no such option",
                nearest(name, OPTIONS),
            )  # fmt: skip
    if mode is not None:
        raise ArgumentError(f"torch.compile(mode={mode!r})", "the backend has no modes")
    report = new_report()
    tensors = [x for x in example_inputs if isinstance(x, torch.Tensor)]
    why = ""
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        why = "gradients are asked for: call it under torch.no_grad()"
    elif any(x.device.type != "cpu" for x in tensors):
        why = "it computes on another device than the CPU"
    if why:
        report.stayed["the whole graph"] = why
        _LOG.warning("%s", report)
        return module.forward
    return _Sized(module, example_inputs, dict(options or {}), report)


def register() -> None:
    """Make the name ``"whet"`` known to ``torch.compile`` where Whet is not installed."""
    if "whet" not in torch._dynamo.list_backends():
        register_backend(compiler_fn=whet_backend, name="whet")


@dataclass
class _Program:
    """The compiled form of a graph.

    Attributes:
        static: the places of the arguments that are its constants.
        frozen: what they held.
        run: takes all arguments.
        changes: how often it was compiled again as a constant had changed.
        fresh: it has not run yet.
    """

    static: tuple[int, ...]
    frozen: Frozen
    run: Callable[..., Any]
    changes: int
    fresh: bool = True

    def changed(self, args: Sequence[Any]) -> list[int] | None:
        """The constants that have changed; None: they are other tensors."""
        found = self.frozen.changed([args[k] for k in self.static])
        return None if found is None else [self.static[k] for k in found]


class _Sized:
    """A graph of dynamo, compiled for the modules, sizes and numbers with which it is called."""

    def __init__(
        self, module: Any, example_inputs: Sequence[Any], options: dict[str, Any], report: Report
    ) -> None:
        self.module, self.options, self.report = module, options, report
        self.static = tuple(k for k, x in enumerate(example_inputs) if _is_static(x))
        known = set(self.static)
        self.given = [k for k in range(len(example_inputs)) if k not in known]
        placeholders = module.graph.find_nodes(op="placeholder")
        self.open = any(map(_is_open, placeholders))
        self.numbers = [k for k, n in enumerate(placeholders) if _numbers_of(n)]
        self.first = self._bits(example_inputs)  # of the numbers that Python gives
        self.symbolic = self._symbolic(example_inputs)
        if self.open and self.symbolic is None:
            _LOG.warning("dynamo leaves sizes open: each set of them is compiled by itself")
        self.programs: dict[Any, _Program] = {}
        first = [_example(x) for x in example_inputs]
        if all(isinstance(x, (torch.Tensor, int)) for x in first):
            with compile_lock:  # dynamo has it already
                self._made(self._key(first, self.static), first, self.static)

    def _symbolic(self, example_inputs: Sequence[Any]) -> OpenGraph | None:
        """The graph with symbols for its sizes; None where it has none, or none can stay."""
        if not self.open:
            return None
        try:
            found = OpenGraph(self._known(example_inputs), example_inputs)
        except RestartAnalysis:  # dynamo traces again, with Python's floats as constants
            raise
        except Exception as error:  # whatever it is: it is traced for numbers
            _LOG.warning("its sizes do not stay open: %s", cause(error))
            return None
        return found if found.is_open else None

    def __call__(self, *args: Any) -> Any:
        static = self.static
        key = self._key(args, static)
        program = self.programs.get(key)
        if program is None or program.changed(args) != []:
            with compile_lock:  # of what dynamo and AOT autograd share
                program = self._current(args)
        try:
            made = program.run(*args)
        except (NotOpen, Outgrown) as error:
            with compile_lock:
                self._narrow(error, args)
            return self(*args)
        if program.fresh:
            program.fresh = False
            written = program.changed(args)
            if written:  # the graph itself writes it
                with compile_lock:
                    self._without(set(written))
        return made

    def _narrow(self, error: NotOpen | Outgrown, args: Sequence[Any]) -> None:
        """Let fewer sizes be open, or their ranges be wider, and forget what was made."""
        graph = self.symbolic
        if graph is None or (isinstance(error, NotOpen) and error.number != graph.attempts):
            return  # another thread was here
        if isinstance(error, NotOpen):
            gone = graph.narrow(error)
            _LOG.warning("not for any size: %s: %s", gone, error.why)
            if not graph.is_open:
                self.symbolic, self.report.fixed = None, graph.said()
        elif not graph.ranges.outside(sizes_in(graph.places, args)):
            return
        elif not graph.ranges.grow(sizes_in(graph.places, args)):
            self.symbolic = None
        self.programs.clear()

    def _open_for(self, args: Sequence[Any]) -> OpenGraph | None:
        """The graph with symbols, if it is one for the numbers that Python gives."""
        is_right = not self.numbers or self._bits(args) == self.first
        return self.symbolic if is_right else None

    def _known(self, args: Sequence[Any]) -> Any:
        """The graph in which the numbers that Python gives are known."""
        if not self.numbers:
            return self.module
        return _with_numbers(self.module, {k: args[k].item() for k in self.numbers})

    def _bits(self, args: Sequence[Any]) -> tuple[bytes, ...]:
        return tuple(_bits(args[k]) for k in self.numbers)

    def _key(self, args: Sequence[Any], static: Sequence[int]) -> Any:
        sizes: tuple[Any, ...] = ()
        graph, numbers = self._open_for(args), self._bits(args)
        if graph is not None:
            sizes = graph.key(args)
        elif self.open:
            sizes = tuple(_size(args[k]) for k in self.given)
        return tuple(map(id, (args[k] for k in static))), sizes, numbers, static

    def _current(self, args: Sequence[Any]) -> _Program:
        """The program for these arguments, which is made where there is none that is right."""
        static = self.static
        unseen = {k for k in static if not can_stand_still(args[k])}
        if unseen:
            static = self._without(unseen)
        key, changes = self._key(args, static), 0
        program = self.programs.get(key)
        if program is not None:
            changed = program.changed(args)
            if changed == []:
                return program
            if changed:
                changes = program.changes + 1
                static = self._after_change(changed, changes, key)
        return self._made(self._key(args, static), args, static, changes)

    def _after_change(self, changed: Sequence[int], changes: int, key: Any) -> tuple[int, ...]:
        """Forget what was made for tensors that hold something else now; what is static still."""
        _LOG.warning("a parameter or a buffer has changed: the graph is compiled again")
        for other in list(self.programs):
            if other[0] == key[0]:
                self.programs.pop(other, None)
        if changes < _MOST_CHANGES:
            return self.static
        _LOG.warning("it changes again and again: it is an input from now on")
        return self._without(set(changed))

    def _without(self, places: set[int]) -> tuple[int, ...]:
        """Fewer constants: these arguments are inputs from now on."""
        self.static = tuple(k for k in self.static if k not in places)
        self.programs.clear()
        return self.static

    def _made(
        self, key: Any, args: Sequence[Any], static: tuple[int, ...], changes: int = 0
    ) -> _Program:
        """A program for these arguments, which is kept."""
        if len(self.programs) >= _MOST_PROGRAMS:
            if not self.open and not self.numbers and static:
                _LOG.warning("too many modules share a graph: their weights are inputs from now on")
                static = self._without(set(static))
                key = self._key(args, static)
            else:
                self.programs.pop(next(iter(self.programs)), None)
        programs = self.programs
        frozen = Frozen([args[k] for k in static], lambda _: programs.pop(key, None))
        made = _Program(static, frozen, self._run_of(args, static, key), changes)
        programs[key] = made
        return made

    def _run_of(self, args: Sequence[Any], static: tuple[int, ...], key: Any) -> Callable[..., Any]:
        """The graph for these arguments; PyTorch's own where it cannot be traced."""
        if self.numbers and len({k[2] for k in self.programs} | {key[2]}) > _MOST_NUMBERS:
            self.report.stayed["the whole graph"] = "a number that Python gives keeps changing"
            _LOG.warning("%s", self.report)
            return self._plain
        try:
            return self._compiled(args, static)
        except Exception as error:  # whatever it is: what eager PyTorch can do is done
            self.report.stayed["the whole graph"] = cause(error)
            _LOG.warning("%s", self.report)
            return self._plain

    def _plain(self, *args: Any) -> Any:
        return self.module.forward(*args)

    def _compiled(self, args: Sequence[Any], static: tuple[int, ...]) -> Callable[..., Any]:
        """The graph for the constants, the sizes and the numbers of these arguments."""
        sizes = ", ".join(str(_size(args[k])) for k in self.given)
        graph = self._open_for(args)
        if graph is not None:
            sizes = f"{graph.text()}, at first {sizes}"
        if self.report.compilations:
            self.report.parts.clear()
            _LOG.warning("the graph is compiled again, for inputs of the sizes %s", sizes)
        self.report.compilations.append(sizes)
        known = set(static)
        inputs = [x for k, x in enumerate(args) if k not in known and isinstance(x, torch.Tensor)]
        own = {key_of(x) for x in inputs if can_stand_still(x)}
        constants = {key_of(args[k]) for k in static} - own
        if graph is not None:
            self.report.fixed = graph.said()
            found = graph.program(args, constants, self.options, self.report)
            _LOG.log(logging.WARNING if self.report.stayed else logging.INFO, "%s", self.report)
            return found

        def compile_parts(module: Any, _: Any) -> Any:
            made = partitioned(
                module,
                lambda part, given: Part(part, given, constants, self.options, self.report),
                self.report,
            )
            _LOG.log(logging.WARNING if self.report.stayed else logging.INFO, "%s", self.report)
            return make_boxed_func(made.forward)

        parts: Any = compile_parts  # of fewer words than its type in PyTorch
        # sizes are those of the arguments: dynamo's context would leave them open
        with torch.no_grad(), tracing(None), _compiling():
            return aot_module_simplified(
                self._known(args), list(args), fw_compiler=parts, bw_compiler=parts,
                inference_compiler=parts, decompositions=_kept(decompositions(torch)),
            )  # fmt: skip


@contextmanager
def _compiling() -> Iterator[None]:
    """Say that PyTorch compiles: while AOT autograd traces, other threads may call what they have.

    To trace sets a flag of the whole process, at which dynamo refuses calls else. Under its lock.
    """
    state: Any = torch.compiler
    before, state._is_compiling_flag = state._is_compiling_flag, True
    try:
        yield
    finally:
        state._is_compiling_flag = before


def _kept(table: Any) -> dict[Any, Any]:
    return dict(table.items())


def _is_static(x: Any) -> bool:
    return can_stand_still(x) and (
        isinstance(x, torch.nn.Parameter) or get_static_address_type(x) is not None
    )


def _is_open(placeholder: Any) -> bool:
    """True where an argument is a number, or has a size that dynamo leaves open."""
    meta = placeholder.meta.get("example_value")
    if isinstance(meta, torch.Tensor):
        return not all(isinstance(d, int) for d in meta.shape)
    return isinstance(meta, (int, torch.SymInt))


def _example(x: Any) -> Any:
    """An argument with which a graph is compiled first."""
    return x.node.hint if isinstance(x, torch.SymInt) else x


def _size(x: Any) -> Any:
    return tuple(x.shape) if isinstance(x, torch.Tensor) else x


def _numbers_of(placeholder: Any) -> list[Any]:
    """The nodes that read a number out of an argument: dynamo gives Python's floats so."""
    return [n for n in placeholder.users if n.op == "call_method" and n.target == "item"]


def _bits(x: torch.Tensor) -> bytes:
    """A number as bytes, by which NaN equals itself and the zeros differ."""
    return bytes(x.detach().reshape(1).view(torch.uint8).tolist())


def _with_numbers(module: Any, numbers: Mapping[int, Any]) -> Any:
    """The graph in which arguments' numbers are known."""
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    placeholders = graph.find_nodes(op="placeholder")
    known: dict[Any, Any] = {}
    for k, value in numbers.items():
        known |= dict.fromkeys(_numbers_of(placeholders[k]), value)
    users = dict.fromkeys(user for node in known for user in node.users)
    for user in users:
        user.args, user.kwargs = torch.fx.node.map_arg(
            (user.args, user.kwargs), lambda n: known.get(n, n)
        )
    for node in known:
        graph.erase_node(node)
    return torch.fx.GraphModule(module, graph)
