"""The backend itself: a graph of dynamo is traced to ATen operators, and its parts are compiled.

Parameters and buffers are constants of what is compiled; a call that finds one changed compiles
again, and says so. Sizes are fixed: where dynamo leaves them open, each set of sizes is compiled
once, and that is said, too.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._dynamo.backends.registry import register_backend
from torch._dynamo.utils import get_static_address_type
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func

from whet.compiler.errors import ArgumentError, WhetError, nearest
from whet.compiler.graph import GraphBuilder
from whet.compiler.graph.model import Model
from whet.frontends.compile import compile
from whet.frontends.dynamo.partition import cause, partitioned
from whet.frontends.dynamo.report import Report, new_report
from whet.frontends.torch.importer import decompositions
from whet.frontends.torch.operators.arrays import as_array
from whet.frontends.torch.translation import Translation, outputs_of

OPTIONS = ("target", "log")
_LOG = logging.getLogger("whet.torch")
_DTYPES = {str(d).removeprefix("torch."): d for d in vars(torch).values() if type(d) is torch.dtype}

Key = tuple[tuple[int, ...], int]


def whet_backend(
    module: Any,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """What ``torch.compile(module, backend="whet", options={...})`` runs in a graph's place.

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


class _Sized:
    """A graph of dynamo, compiled for the sizes with which it is called."""

    def __init__(
        self, module: Any, example_inputs: Sequence[Any], options: dict[str, Any], report: Report
    ) -> None:
        self.module, self.options, self.report = module, options, report
        self.static = [
            k for k, x in enumerate(example_inputs)
            if isinstance(x, torch.nn.Parameter)
            or (isinstance(x, torch.Tensor) and get_static_address_type(x) is not None)
        ]  # fmt: skip
        self.given = [k for k in range(len(example_inputs)) if k not in set(self.static)]
        self.open = any(map(_is_open, module.graph.find_nodes(op="placeholder")))
        if self.open:
            _LOG.warning("dynamo leaves sizes open: each set of them is compiled by itself")
        self.compiled: dict[Any, Callable[..., Any]] = {}
        self.versions: list[int] | None = None

    def __call__(self, *args: Any) -> Any:
        versions = [args[k]._version for k in self.static if not args[k].is_inference()]
        if versions != self.versions:
            if self.versions is not None and self.compiled:
                _LOG.warning("a parameter or a buffer has changed: the graph is compiled again")
            self.versions, self.compiled = versions, {}
        key = tuple(_size(args[k]) for k in self.given) if self.open else ()
        run = self.compiled.get(key)
        if run is None:
            run = self.compiled[key] = self._compiled(args)
        return run(*args)

    def _compiled(self, args: Sequence[Any]) -> Callable[..., Any]:
        """The graph for the sizes of these arguments."""
        sizes = ", ".join(str(_size(args[k])) for k in self.given)
        if self.report.compilations:
            self.report.parts.clear()
            _LOG.warning("the graph is compiled again, for inputs of the sizes %s", sizes)
        self.report.compilations.append(sizes)
        own = {_key(args[k]) for k in self.given if isinstance(args[k], torch.Tensor)}
        constants = {_key(args[k]) for k in self.static} - own

        def compile_parts(module: Any, _: Any) -> Any:
            made = partitioned(
                module, lambda part: _Part(part, constants, self.options, self.report), self.report
            )
            _LOG.log(logging.WARNING if self.report.stayed else logging.INFO, "%s", self.report)
            return make_boxed_func(made.forward)

        parts: Any = compile_parts  # of fewer words than its type in PyTorch
        with torch.no_grad():
            return aot_module_simplified(
                self.module, list(args), fw_compiler=parts, bw_compiler=parts,
                inference_compiler=parts, decompositions=_kept(decompositions(torch)),
            )  # fmt: skip


def _kept(table: Any) -> dict[Any, Any]:
    return dict(table.items())


def _is_open(placeholder: Any) -> bool:
    """True where an argument is a number, or has a size that dynamo leaves open."""
    meta = placeholder.meta.get("example_value")
    if isinstance(meta, torch.Tensor):
        return not all(isinstance(d, int) for d in meta.shape)
    return isinstance(meta, (int, torch.SymInt))


def _size(x: Any) -> Any:
    return tuple(x.shape) if isinstance(x, torch.Tensor) else x


def _key(x: torch.Tensor) -> Key:
    return tuple(x.shape), x.data_ptr()


class _Part(torch.nn.Module):
    """A part of a graph, compiled when it is called first: then its constants are known.

    Args:
        part: its nodes.
        constants: shapes and addresses of the tensors that are constants.
        options: of ``torch.compile``.
        report: is told if it cannot be compiled.
    """

    def __init__(
        self, part: Any, constants: set[Key], options: dict[str, Any], report: Report
    ) -> None:
        super().__init__()
        self.part, self.constants = part, constants
        self.options, self.report = options, report
        self.model: Model | None = None
        self.tried = False
        self.lock = threading.Lock()

    def forward(self, *args: Any) -> Any:
        """The part's results."""
        with self.lock:
            if not self.tried:
                self.tried = True
                self._compile(args)
            if self.model is None:
                return self.part(*args)
            made = [torch.empty(v.shape, dtype=_DTYPES[v.dtype]) for v in self.model.outputs]
            given = [as_array(args[k]) for k in self.taken]
            self.model.run(given, [as_array(x) for x in made])
        return made[0] if self.single else made

    def _compile(self, args: Sequence[Any]) -> None:
        work = Translation(GraphBuilder())
        nodes = list(self.part.graph.nodes)
        self.taken: list[int] = []
        placeholders = [n for n in nodes if n.op == "placeholder"]
        try:
            for k, (node, x) in enumerate(zip(placeholders, args)):
                if not isinstance(x, torch.Tensor) or _key(x) in self.constants:
                    work.constant(node, x)
                else:
                    work.input(node)
                    self.taken.append(k)
            for node in nodes:
                if node.op == "call_function":
                    work.run(node)
            (returned,) = next(n for n in nodes if n.op == "output").args
            self.single = not isinstance(returned, (list, tuple))
            found = outputs_of(work, [returned] if self.single else list(returned))
            self.model = compile(work.builder.graph(found), **self.options)
        except WhetError as error:
            self.report.stayed["a part"] = cause(error)
            _LOG.warning("a part stays in PyTorch: %s", error)
