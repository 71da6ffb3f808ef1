"""A node of an ONNX file, as the functions that translate it see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from whet.compiler.errors import ArgumentError
from whet.compiler.graph import GraphBuilder, Value

if TYPE_CHECKING:
    from onnx import NodeProto

REQUIRED = object()


class OnnxNode:
    """One node.

    Args:
        proto: the node.
        inputs: its operands; None where one is left out.
        version: of the operator set that its domain has in this file.
        builder: takes what it becomes.

    Attributes:
        origin: the node, for messages: ``Conv "stem" (y)``.
    """

    def __init__(
        self,
        proto: NodeProto,
        inputs: Sequence[Value | None],
        version: int,
        builder: GraphBuilder,
    ) -> None:
        self.proto, self.inputs, self.version = proto, list(inputs), version
        self.builder = builder
        name = f' "{proto.name}"' if proto.name else ""
        self.origin = f"{proto.op_type}{name} ({', '.join(proto.output)})"
        self.attrs = {a.name: a for a in proto.attribute}

    @property
    def count(self) -> int:
        """How many outputs it has."""
        return len(self.proto.output)

    def refused(self, why: str, way_out: str = "") -> ArgumentError:
        """The error that it cannot be translated."""
        return ArgumentError(f"ONNX node {self.origin}", why, way_out)

    def check_count(self) -> None:
        """Refuse a node with fewer operands than its operator needs."""
        from onnx import defs

        try:
            schema = defs.get_schema(self.proto.op_type, self.version, "")
        except defs.SchemaError:
            return
        for k in range(schema.min_input):
            option = schema.inputs[min(k, len(schema.inputs) - 1)].option
            if option != defs.OpSchema.FormalParameterOption.Optional:
                self.input(k)

    def attr(self, name: str, default: Any = REQUIRED) -> Any:
        """An attribute's value.

        Raises:
            ArgumentError: it is missing, and there is no default.
        """
        from onnx.helper import get_attribute_value

        if name not in self.attrs:
            if default is REQUIRED:
                raise self.refused(f"it has no attribute {name!r}")
            return default
        value = get_attribute_value(self.attrs[name])
        if isinstance(value, bytes):
            return value.decode()
        if isinstance(value, (str, int, float)) or not hasattr(value, "__len__"):
            return value
        return [v.decode() if isinstance(v, bytes) else v for v in value]

    def has(self, k: int) -> bool:
        """True where operand k is given."""
        return k < len(self.inputs) and self.inputs[k] is not None

    def input(self, k: int) -> Value:
        """Operand k.

        Raises:
            ArgumentError: it is left out.
        """
        if not self.has(k):
            raise self.refused(f"its input {k} is missing")
        found = self.inputs[k]
        assert found is not None
        return found

    def known(self, k: int, default: Any = REQUIRED) -> Any:
        """Operand k as an array that is known.

        Raises:
            ArgumentError: it is computed when the model runs.
        """
        if not self.has(k):
            if default is REQUIRED:
                raise self.refused(f"its input {k} is missing")
            return default
        array = self.builder.known(self.inputs[k])
        if array is None:
            raise self.refused(
                f"its input {k} is computed when the model runs: shapes would depend on data",
                "give the file's inputs that are shapes their values: constants={name: array}",
            )
        return array

    def ints(self, k: int, name: str, default: Any = REQUIRED) -> Any:
        """Integers from an attribute (older versions) or from operand k."""
        if name in self.attrs:
            value = self.attr(name)
            return [int(v) for v in (value if isinstance(value, list) else [value])]
        if not self.has(k):
            if default is REQUIRED:
                raise self.refused(f"it has no {name}")
            return default
        return [int(v) for v in np.asarray(self.known(k)).reshape(-1)]

    def add(self, operator: str, inputs: Sequence[Value | None], **attrs: Any) -> Value:
        """A node of the graph; its output."""
        return self.add_all(operator, inputs, **attrs)[0]

    def add_all(
        self, operator: str, inputs: Sequence[Value | None], **attrs: Any
    ) -> tuple[Value, ...]:
        """A node of the graph; all its outputs."""
        name = self.proto.output[0] or operator
        return self.builder.add_all(operator, inputs, name, self.origin, **attrs)

    def constant(self, array: Any, dtype: str | None = None) -> Value:
        """A constant of the graph."""
        made = np.asarray(array) if dtype is None else np.asarray(array, dtype=dtype)
        return self.builder.constant(made)

    def axis(self, value: int, rank: int) -> int:
        """An axis counted from the front.

        Raises:
            ArgumentError: there is no such axis.
        """
        if not -rank <= value < rank:
            raise self.refused(f"axis {value} of {rank} dimensions")
        return value + rank if value < 0 else value


Translate = Callable[[OnnxNode], Value | Sequence[Value]]
Table = Mapping[str, Translate]
