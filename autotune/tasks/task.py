"""A task: one workload for one target, and the space of programs that a search may choose from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ArgumentError

if TYPE_CHECKING:
    from whet.compiler.abi.signature import BufferParam
    from whet.compiler.target import Target
    from whet.compiler.te import Tensor
    from whet.search_spaces import Config, ConfigSpace, Template, Workload


@dataclass(frozen=True)
class Task:
    """A workload to tune, its canonical target, and the template that schedules it.

    Attributes:
        workload: the template's name and its arguments.
        target: a canonical target: features, vector width and threads filled in.
        template: the schedule template.
        level: ``"full"``, or ``"quick"`` for a space with fewer choices a knob.
    """

    workload: Workload
    target: Target
    template: Template
    level: str = "full"

    @property
    def name(self) -> str:
        """The template's name."""
        return self.workload.template

    @property
    def args(self) -> tuple:
        """The template's arguments, defaults included."""
        return self.workload.args

    @property
    def key(self) -> str:
        """A stable text that names the task: its workload and its target."""
        return f"{self.workload.key} {self.target.key}"

    @cached_property
    def config_space(self) -> ConfigSpace:
        """All configs of the template for these arguments, and the default one."""
        with self.target:
            return self.template.space(self.workload, self.level)

    @cached_property
    def flop(self) -> int:
        """Arithmetic operations of one call: the template's own number, else counted."""
        if self.config_space.flop:
            return int(self.config_space.flop)
        from whet.compiler import te

        return int(te.count_flop(self.instantiate()[0]))

    @cached_property
    def bytes(self) -> int:
        """The least bytes that one call moves: every one of its inputs and outputs once."""
        from whet.compiler.tir import dtype as dt

        args = self.instantiate()[1]
        return sum(prod(map(int, t.shape)) * dt.itemsize(t.dtype) for t in args)

    @cached_property
    def dtype(self) -> str:
        """The element type of the task's last argument (its output, by custom); "" without any."""
        args = self.instantiate()[1]
        return str(args[-1].dtype) if args else ""

    @property
    def kernel_args(self) -> tuple[BufferParam, ...]:
        """The arrays that a built kernel takes, in order: name, dtype, shape, written or not.

        ``print(*task.kernel_args)`` shows them. Weights that a config packs ahead are shown as
        ``pack_weights`` takes them.
        """
        from whet.compiler.abi.signature import BufferParam
        from whet.compiler.te import PlaceholderOp

        _, args = self.instantiate()
        return tuple(
            BufferParam(
                t.op.name, t.dtype, tuple(map(int, t.shape)), not isinstance(t.op, PlaceholderOp)
            )
            for t in args
        )

    def instantiate(self, config: Config | None = None) -> tuple[Any, list]:
        """The schedule and the arguments under ``config`` (None: the default config)."""
        with self.target:
            return self.template.instantiate(self.workload, config or self.config_space.default)

    def on(self, target_of: Callable[[Target], Target]) -> Task:
        """The task where it is measured: itself, if its target is the same there.

        Args:
            target_of: the canonical target there for one of here.
        """
        target = target_of(self.target)
        return self if target == self.target else replace(self, target=target)

    def __reduce__(self) -> tuple:
        """Without the space: another process collects its own, with its own constraints."""
        return Task, (self.workload, self.target, self.template, self.level)

    def __str__(self) -> str:
        return f"{self.workload} on {self.target.short}"


def create_task(
    name: str | Template | None = None,
    args: Sequence[Any] | None = None,
    target: Target | str | dict | None = None,
    *,
    outputs: Tensor | Sequence[Tensor] | None = None,
    space: str = "full",
) -> Task:
    """A task from a template and its arguments, or from a compute graph.

    Args:
        name: the name of a template (``whet.list_templates()``), or the template itself. With
            ``outputs``: a word for people that becomes part of the workload's name.
        args: the template's arguments: numbers, strings, bools, None and nested tuples. With
            ``outputs``: the tensors that the kernel takes; default: the inputs in the order in
            which the computation meets them, then the outputs.
        target: what to compile for; None: the target in force, else this machine's CPU.
        outputs: tensors that ``te.compute`` or ``te.extern`` made. No template is needed: the space
            is derived from what they compute. Such a task is named by the graph's structure and its
            extents. A log keeps its graph as plain data, but for extern statements and calls of
            packed or C functions: those only the code that makes the graph can make again.
        space: ``"full"``, or ``"quick"``: fewer choices a knob, for short searches. Records of
            either are found by both.

    Raises:
        ArgumentError: ``args`` is no tuple, ``outputs`` are no tensors of known extents, or there
            is no such level.
        SpaceError: no template has this name, the arguments do not fit it, or it raises for its
            default config. WhetErrors of the template are passed on.
        LowerError: a tensor of ``outputs`` reads another one out of its bounds.
        TargetError: the target is unknown or misspelt.
    """
    from whet.compiler.target import Target as TargetClass
    from whet.search_spaces.space.config_space import LEVELS

    if space not in LEVELS:
        raise ArgumentError(
            f"create_task(..., space={space!r})",
            "there is no such level",
            f"levels: {', '.join(LEVELS)}",
        )
    make = _from_template if outputs is None else _from_graph
    template, workload = make(name, args, outputs)
    if target is None:
        target = TargetClass.current(allow_none=True) or "llvm"
    canonical = (target if isinstance(target, TargetClass) else TargetClass(target)).canonical()
    canonical.kind.row.check_built()
    task = Task(workload, canonical, template, space)
    _ = task.config_space  # a template that cannot run says so here, and not once a trial
    if outputs is not None:
        _check_reads(task)
    return task


def _check_reads(task: Task) -> None:
    """Refuse a graph that reads outside a tensor, which every one of its configs would do.

    Raises:
        LowerError: it does; the text names the read.
    """
    from whet.compiler.te.lower.range_check import check_reads

    with task.target:
        check_reads(task.instantiate()[0])


def _from_template(name: Any, args: Any, outputs: Any) -> tuple[Template, Workload]:
    from whet.search_spaces import get_template

    if name is None:
        raise ArgumentError(
            "create_task()",
            "neither a template nor outputs are named",
            'create_task("matmul", args=(64, 64, 64)), or create_task(outputs=[C])',
        )
    args = () if args is None else args
    if isinstance(args, str | bytes) or not isinstance(args, Sequence):
        raise ArgumentError(
            f"create_task({name!r}, args={args!r})",
            f"args is {args!r}, no tuple of the template's arguments",
            f"one argument is written ({args!r},)",
        )
    template = get_template(name) if isinstance(name, str) else name
    return template, template.workload(*args)


def _from_graph(name: Any, args: Any, outputs: Any) -> tuple[Template, Workload]:
    from whet.search_spaces.graph.validate_outputs import template_of
    from whet.search_spaces.template import Template

    if isinstance(name, Template):
        raise ArgumentError(
            f"create_task({name.name!r}, outputs=...)",
            "a template computes its own outputs; there is a task from either, not from both",
            "leave outputs out, or the template; name= is a word of your own then",
        )
    return template_of(outputs, args, name)
