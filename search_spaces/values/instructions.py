"""Declared instructions: tensor intrinsics that the rules for graphs without a template may use.

    @whet.tensor_intrin("four_products")
    def four_products(target):
        if not target.features.has_avx512vnni:
            return None
        ...
        return te.decl_tensor_intrin(c.op, statements, "four_products")

A graph takes those along that are declared when its task is made, to the workers, too: a function
of an importable module by its name, one of a script or a notebook by value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from whet.compiler.errors import SpaceError

if TYPE_CHECKING:
    from whet.compiler.target import Target
    from whet.compiler.te.lang.tensor_intrin import TensorIntrin

Make = Callable[["Target"], "TensorIntrin | None"]
_Make = TypeVar("_Make", bound=Make)


@dataclass(frozen=True)
class Instruction:
    """A declared instruction.

    Attributes:
        name: as configs name it.
        make: from a target to the intrinsic; None where its processor does not have it.
    """

    name: str
    make: Make


_declared: dict[str, Instruction] = {}


def tensor_intrin(name: str, *, replace: bool = False) -> Callable[[_Make], _Make]:
    """Decorator that declares an instruction, which derived spaces use where a product fits it.

    Of a graph whose task is made afterwards (``whet.create_task(outputs=[C])``), a sum of products
    that computes what the instruction computes, over axes of any size, has a rule of its own,
    ``rule=tensorize``: operands are packed into tiles, those at an edge filled with zeros.

    Args:
        name: of the instruction, for configs.
        replace: whether it may take the place of another function's.

    The function takes a target and returns what ``te.decl_tensor_intrin`` gives, whose computation
    is a sum of products; or None where the target's processor does not have it.

    Raises:
        SpaceError: the name is taken by another function, or what is decorated is no function.
    """

    def declare(make: _Make) -> _Make:
        request = f"@tensor_intrin({name!r})"
        if not callable(make):
            raise SpaceError(
                request,
                f"a {type(make).__name__} is no function",
                "def f(target): return te.decl_tensor_intrin(...)",
            )
        old = _declared.get(name)
        if old is not None and not replace and _place(old.make) != _place(make):
            raise SpaceError(
                request,
                f"another function has declared this name: {'.'.join(_place(old.make))}",
                "choose another name, or pass replace=True",
            )
        _declared[name] = Instruction(name, make)
        return make

    if not isinstance(name, str) or not name:
        raise SpaceError(
            f"@tensor_intrin({name!r})", "a name is a text", '@tensor_intrin("four_products")'
        )
    return declare


def declared() -> tuple[Instruction, ...]:
    """The instructions that this process has declared, in order; those of Whet aside."""
    return tuple(_declared.values())


def _place(make: Make) -> tuple[str, str]:
    return str(getattr(make, "__module__", "")), str(getattr(make, "__qualname__", ""))
