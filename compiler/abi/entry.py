"""The checked entry of a kernel, ``int name(DLTensor **args, int n)``, as loop IR.

Generators write it as they write kernels. It serves C, artifacts and graphs: a sequence of checks
of all that the kernel is given, each of which returns a code (:mod:`whet.compiler.abi.checks`), and
the call of the raw kernel. What it adds to the loop IR are three operations::

    argument(i, what, d)      a property of argument i, see ARGUMENT
    return_code(code)         ends the entry
    call_kernel(name, ...)    the raw kernel, with pointers, numbers and symbols
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

from whet.compiler.abi import layout
from whet.compiler.abi.binding import bindings, extent_checks
from whet.compiler.abi.checks import code_of
from whet.compiler.abi.extent_expr import to_expr
from whet.compiler.abi.signature import BufferParam, KernelSignature, ScalarParam
from whet.compiler.tir.expr import (
    NE,
    And,
    Call,
    Cast,
    FloorMod,
    IntImm,
    Mul,
    Not,
    PrimExpr,
    StringImm,
    Var,
)
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.stmt import Evaluate, IfThenElse, SeqStmt, Stmt

ARGUMENT, RETURN, CALL_KERNEL = "argument", "return_code", "call_kernel"
"""Operations of the entry. Properties of an argument: ``null``, ``value`` (of a scalar); of a
tensor ``device_type``, ``ndim``, ``dtype`` (DLPack's three fields as one number), ``shape`` and
``strides`` (of dimension d), ``step`` (that stride, or where there are none a fourth argument),
``shape_null``, ``strides_null``, ``data_null``, ``address`` (of the first element) and ``data``
(the pointer to it).
"""


def entry_function(sig: KernelSignature) -> PrimFunc:
    """The entry of a kernel; its parameters are ``args``, a handle, and ``n``, an int32.

    Raises:
        CodegenError: nothing binds one of the signature's symbols.
    """
    args, n = Var("args", "handle"), Var("n", "int32")
    checks = [_check(NE(n, IntImm("int32", len(sig.params)), "bool"), code_of("count"))]
    for i, p in enumerate(sig.params):
        checks += _header(i, p)
    bound = bindings(sig)
    values = {name: _extent(sig, i, d) for name, (i, d) in bound.items()}
    passed: list[PrimExpr] = [StringImm(sig.name)]
    for i, p in enumerate(sig.params):
        if isinstance(p, ScalarParam):
            passed.append(_argument(p.dtype, i, "value"))
            continue
        for c in extent_checks(sig, i, bound):
            given = _extent(sig, i, c.dim if c.kind == "shape" else len(p.shape) + c.dim)
            fails: PrimExpr = NE(given, to_expr(c.wanted, values), "bool")
            if c.kind == "strides":
                fails = _and(fails, *_strides_matter(i, p, c.dim))
            checks.append(_check(fails, code_of(c.kind, i, c.dim)))
        checks += _data(i, p)
        if p.same is not None:
            address, other = (_argument("uint64", k, "address") for k in (i, p.same))
            checks.append(_check(NE(address, other, "bool"), code_of("same", i)))
        passed.append(_argument("handle", i, "data"))
    passed += [values[name] for name in sig.symbols]
    call = Call("int32", CALL_KERNEL, tuple(passed))
    return PrimFunc((args, n), SeqStmt((*checks, _return(call))))


def returned_code(n: IfThenElse) -> int | None:
    """The code that a failed check returns; None for another statement."""
    call = n.then_case.value if isinstance(n.then_case, Evaluate) else None
    if not isinstance(call, Call) or call.op != RETURN:
        return None
    code = call.args[0]
    return code.value if isinstance(code, IntImm) else None


def _header(i: int, p: BufferParam | ScalarParam) -> Iterator[Stmt]:
    """Checks of a pointer; of a tensor's device, rank and dtype."""
    yield _check(_argument("bool", i, "null"), code_of("null", i))
    if isinstance(p, ScalarParam):
        return
    for what, wanted, check in (
        ("device_type", layout.DL_CPU, "device"),
        ("ndim", len(p.shape), "ndim"),
        ("dtype", layout.scalar(p.dtype).word, "dtype"),
    ):
        given = _argument("int32", i, what)
        yield _check(NE(given, IntImm("int32", wanted), "bool"), code_of(check, i))
    if p.shape:
        yield _check(_argument("bool", i, "shape_null"), code_of("null", i))


def _data(i: int, p: BufferParam) -> Iterator[Stmt]:
    """Checks of a compact array's strides, of data and of alignment."""
    if p.shape and not p.strides:
        checks = []
        for d in reversed(range(len(p.shape))):
            other = NE(_argument("int64", i, "strides", d), _product(i, p, d + 1), "bool")
            fails = _and(other, *_strides_matter(i, p, d))
            checks.append(_check(fails, code_of("strides", i, d)))
        given = Not(_argument("bool", i, "strides_null"))
        yield IfThenElse(given, SeqStmt(tuple(checks)))
    missing = _and(_argument("bool", i, "data_null"), _differs(_product(i, p), 0))
    yield _check(missing, code_of("data", i))
    size = layout.scalar(p.dtype).bytes
    if size > 1:
        low = FloorMod(_argument("uint64", i, "address"), IntImm("uint64", size), "uint64")
        yield _check(NE(low, IntImm("uint64", 0), "bool"), code_of("alignment", i))


def _strides_matter(i: int, p: BufferParam, d: int) -> tuple[PrimExpr, PrimExpr]:
    """No stride leads anywhere along a single element, and in an empty array."""
    return _differs(_dim(i, p, d), 1), _differs(_product(i, p), 0)


def _dim(i: int, p: BufferParam, d: int) -> PrimExpr:
    """An extent that was checked before."""
    extent = p.shape[d]
    if isinstance(extent, int):
        return IntImm("int64", extent)
    return _argument("int64", i, "shape", d)


def _product(i: int, p: BufferParam, first: int = 0) -> PrimExpr:
    """Elements along the dimensions from ``first`` on, whose extents were checked before."""
    known = math.prod(x for x in p.shape[first:] if isinstance(x, int))
    product: PrimExpr = IntImm("int64", known)
    for d in range(first, len(p.shape)):
        if not isinstance(p.shape[d], int):
            one = isinstance(product, IntImm) and product.value == 1
            product = _dim(i, p, d) if one else Mul(product, _dim(i, p, d), "int64")
    return product


def _differs(n: PrimExpr, value: int) -> PrimExpr:
    if isinstance(n, IntImm):
        return IntImm("bool", int(n.value != value))
    return NE(n, IntImm("int64", value), "bool")


def _and(*conditions: PrimExpr) -> PrimExpr:
    """All of them hold; constants are folded."""
    if any(isinstance(c, IntImm) and not c.value for c in conditions):
        return IntImm("bool", 0)
    first, *more = (c for c in conditions if not isinstance(c, IntImm))
    for c in more:
        first = And(first, c, "bool")
    return first


def _extent(sig: KernelSignature, i: int, d: int) -> PrimExpr:
    """The source of a symbol's value: an extent, a stride or a scalar."""
    p = sig.params[i]
    if isinstance(p, ScalarParam):
        value = _argument(p.dtype, i, "value")
        return value if p.dtype == "int64" else Cast("int64", value)
    rank = len(p.shape)
    if d < rank:
        return _argument("int64", i, "shape", d)
    return _argument("int64", i, "step", d - rank, _product(i, p, d - rank + 1))


@functools.lru_cache(1024)
def _argument(dtype: str, i: int, what: str, d: int = 0, *more: PrimExpr) -> PrimExpr:
    place, dim = IntImm("int32", i), IntImm("int32", d)
    return Call(dtype, ARGUMENT, (place, StringImm(what), dim, *more))


def _check(fails: PrimExpr, code: int) -> Stmt:
    return IfThenElse(fails, _return(IntImm("int32", code)))


def _return(code: PrimExpr) -> Stmt:
    return Evaluate(Call("int32", RETURN, (code,)))
