"""PrimFunc, one function of loop IR, and IRModule, named functions that are built together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import InitVar, field, replace
from typing import Any, ClassVar

from whet.compiler.errors import ArgumentError
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import Var
from whet.compiler.tir.node import Node, node_class
from whet.compiler.tir.stmt import Stmt


@node_class()
class PrimFunc(Node):
    """A function.

    Attributes:
        params: buffers and scalar variables, in the order of the caller's arguments; a handle that
            is a key of the ``buffer_map`` it is made with is replaced by the buffer. ``lower``
            takes a handle for the buffer that the body has there (``ib.pointer``, ``buffer.data``).
        body: what it does.
        ret_type: None: a function returns nothing.
        attrs: ``global_symbol`` is its name; ``lowered`` says that the passes have run;
            ``tuned_by`` says where its schedule's config comes from.
        specialize: the function for arguments that are known now
            (:func:`tir.visit.specialize.specialize`).
    """

    specialize: ClassVar[Callable[..., PrimFunc]]

    params: tuple[Buffer | Var, ...]
    body: Stmt
    ret_type: str | None = None
    buffer_map: InitVar[Mapping[Var, Buffer] | None] = None
    attrs: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self, buffer_map: Mapping[Var, Buffer] | None) -> None:
        if not isinstance(self.params, (tuple, list)) or not isinstance(self.body, Stmt):
            raise _no_function(self.params, self.body)
        given = buffer_map if isinstance(buffer_map, Mapping) else {}
        self.params = tuple(getattr(p, "asobject", lambda p=p: p)() for p in self.params)
        self.params = tuple(given.get(p, p) if isinstance(p, Var) else p for p in self.params)
        for p in self.params:
            if not isinstance(p, (Buffer, Var)):
                raise ArgumentError(
                    f"PrimFunc([... {p!r} ...])",
                    f"a {type(p).__name__} is no parameter",
                    "parameters are buffers and variables",
                )
        self.attrs = dict(self.attrs or {})

    def with_body(self, body: Stmt) -> PrimFunc:
        """The same function with another body; itself when the body is the same."""
        if body is self.body:
            return self
        return PrimFunc(self.params, body, self.ret_type, None, self.attrs)

    def with_attr(self, key: str, value: Any) -> PrimFunc:
        """The same function with one attribute set."""
        return replace(self, attrs={**self.attrs, key: value}, buffer_map=None)

    def without_attr(self, key: str) -> PrimFunc:
        """The same function without one attribute; itself where it has none of that name."""
        if key not in self.attrs:
            return self
        attrs = {k: v for k, v in self.attrs.items() if k != key}
        return replace(self, attrs=attrs, buffer_map=None)

    @property
    def name(self) -> str:
        """The attribute ``global_symbol``, ``"main"`` without one."""
        return str(self.attrs.get("global_symbol", "main"))

    @property
    def may_overlap(self) -> bool:
        """True where its arguments may share memory: the attribute ``tir.noalias`` is False."""
        return not self.attrs.get("tir.noalias", True)

    def script(self, tir_prefix: str = "T", show_meta: bool = False) -> str:
        """The function as Python-like text; the arguments are TVM's and change nothing."""
        return self.text()

    def show(self, style: str | None = None, black_format: bool = False) -> None:
        """Print the function."""
        print(self.script())

    def __str__(self) -> str:
        return self.script()


class BufferMap(dict[Any, Buffer]):
    """The variable of each array parameter's address -> its buffer; the parameter finds itself."""

    def __missing__(self, key: Any) -> Buffer:
        if key in self:
            return key
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        if isinstance(key, Buffer):
            return dict.get(self, key.data) is key
        return dict.__contains__(self, key)

    def get(self, key: Any, default: Any = None) -> Any:
        """The buffer of an address or of a parameter, else ``default``."""
        if isinstance(key, Buffer):
            return key if key in self else default
        return dict.get(self, key, default)


def _no_function(params: Any, body: Any) -> ArgumentError:
    request = f"PrimFunc({type(params).__name__}, {type(body).__name__})"
    if not isinstance(params, (tuple, list)):
        return ArgumentError(
            request, "the parameters are no list", "PrimFunc([A, B, n], body), of buffers and Vars"
        )
    return ArgumentError(
        request, "the body is no statement", "tir.Evaluate(x) makes one of a value"
    )


def _buffer_map(self: PrimFunc) -> dict[Var, Buffer]:
    """The variable of each array parameter's address -> its buffer."""
    return BufferMap({p.data: p for p in self.params if isinstance(p, Buffer)})


# The constructor's argument of this name is no field: what is read is made of the parameters.
PrimFunc.buffer_map = property(_buffer_map)  # type: ignore[attr-defined]


def functions_of(func: PrimFunc | IRModule) -> list[PrimFunc]:
    """The functions of a module, or the one function."""
    return list(func.functions.values()) if isinstance(func, IRModule) else [func]


class GlobalVar(str):
    """The name of a function in a module; a text with TVM's ``name_hint``."""

    __slots__ = ()

    @property
    def name_hint(self) -> str:
        """The name."""
        return str.__str__(self)


class IRModule(Mapping[str, PrimFunc]):
    """Named functions; printing shows their loops."""

    def __init__(
        self,
        functions: Mapping[str, PrimFunc] | None = None,
        type_definitions: None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        if type_definitions:
            raise ArgumentError("IRModule(type_definitions=...)", "there are no types to define")
        self.functions: dict[str, PrimFunc] = {}
        self.attrs: dict[str, Any] = dict(attrs or {})
        for name, func in (functions or {}).items():
            self[name] = func

    @staticmethod
    def from_expr(expr: PrimFunc) -> IRModule:
        """A module of one function, under its own name."""
        return IRModule({expr.name: expr})

    def __getitem__(self, name: str) -> PrimFunc:
        if name not in self.functions:
            raise ArgumentError(
                f"IRModule[{name!r}]",
                "there is no such function",
                "functions: " + ", ".join(self.functions),
            )
        return self.functions[name]

    def __setitem__(self, name: str, func: PrimFunc) -> None:
        if not isinstance(name, str) or not isinstance(func, PrimFunc):
            raise ArgumentError(
                f"IRModule[{name!r}] = {type(func).__name__}", "a module maps names to PrimFuncs"
            )
        self.functions[GlobalVar(name)] = func

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def __contains__(self, name: object) -> bool:
        return name in self.functions

    def update(self, other: Mapping[str, PrimFunc]) -> None:
        """Take in the functions of another module; those of the same name are replaced."""
        for name, func in other.items():
            self[name] = func

    def get_global_var(self, name: str) -> GlobalVar:
        """The name of a function of this module.

        Raises:
            ArgumentError: there is none of that name.
        """
        self[name]  # raises where there is none
        return GlobalVar(name)

    def get_global_vars(self) -> list[GlobalVar]:
        """The names of all functions."""
        return [GlobalVar(name) for name in self.functions]

    def get_attr(self, attr_key: str) -> Any:
        """An attribute of the module, or None."""
        return self.attrs.get(attr_key)

    def with_attr(self, attr_key: str, attr_value: Any) -> IRModule:
        """The same functions with one attribute of the module set."""
        return IRModule(self.functions, attrs={**self.attrs, attr_key: attr_value})

    def map(self, change: Callable[[PrimFunc], PrimFunc]) -> IRModule:
        """The module with every function changed."""
        functions = {name: change(func) for name, func in self.functions.items()}
        return IRModule(functions, attrs=self.attrs)

    def script(self, tir_prefix: str = "T", show_meta: bool = False) -> str:
        """All functions as Python-like text; the arguments are TVM's and change nothing."""
        return "\n\n".join(func.script() for func in self.functions.values())

    def astext(self, show_meta_data: bool = False, annotate: None = None) -> str:
        """The text of :meth:`script`."""
        return self.script()

    def show(self, style: str | None = None, black_format: bool = False) -> None:
        """Print the module."""
        print(self.script())

    def __str__(self) -> str:
        return self.script()

    __repr__ = __str__

    def program_hash(self) -> str:
        """The identity of the program: the same text, the same hash (40 hexadecimal digits)."""
        return hashlib.sha256(self.script().encode()).hexdigest()[:40]
