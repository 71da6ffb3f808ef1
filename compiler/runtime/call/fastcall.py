"""A Python call of a kernel in tens of nanoseconds: a METH_FASTCALL function generated per kernel.

The generated function reads numpy's array objects at their fields' offsets, checks all of it (exact
type, rank, dtype, shape, row-major and aligned, writable), binds the symbols and calls the raw
kernel. Whatever it does not recognise goes to :class:`SlowCall`, which converts or explains.
"""

from __future__ import annotations

import ctypes
import functools
import math
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from string import Template

from whet.compiler.abi import layout as abi
from whet.compiler.abi.binding import bindings, extent_checks
from whet.compiler.abi.signature import BufferParam, KernelSignature, ScalarParam
from whet.compiler.runtime.call import exchange_api
from whet.compiler.runtime.call.numpy_layout import (
    ALIGNED,
    CONTIGUOUS,
    DTYPE_MASK,
    WRITEABLE,
    Layout,
    dtype_words,
    layout,
)
from whet.compiler.runtime.call.slowcall import SlowCall
from whet.compiler.runtime.call.text import Text
from whet.compiler.target.machine.host_machine import loaded

# Giving the GIL up and taking it back costs about 50 ns. Below this many elements in all arguments
# a kernel is rarely longer than a few microseconds.
GIL_ELEMENTS = 4096

_SHIM = Path(__file__).with_name("shim.ll")

# The exact numpy array that argument i is, or that the NDArray it is holds; or the view of another
# library's tensor.
_ARRAY = Template("""\
  %kind.at.$i = getelementptr i8, ptr %item.$i, i64 $type
  %kind.$i = load i64, ptr %kind.at.$i
  %is.array.$i = icmp eq i64 %kind.$i, $ndarray_type
  br i1 %is.array.$i, label %plain.$i, label %held.$i
plain.$i:
  br label %joined.$i
held.$i:
  %is.ours.$i = icmp eq i64 %kind.$i, $wrapper_type
  br i1 %is.ours.$i, label %wrapped.$i, label %other.$i
wrapped.$i:
  %inner.at.$i = getelementptr i8, ptr %item.$i, i64 $wrapper_slot
  %inner.$i = load ptr, ptr %inner.at.$i
  %filled.$i = icmp ne ptr %inner.$i, null
  br i1 %filled.$i, label %full.$i, label %slow
full.$i:
  %inner.kind.at.$i = getelementptr i8, ptr %inner.$i, i64 $type
  %inner.kind.$i = load i64, ptr %inner.kind.at.$i
  %inner.is.array.$i = icmp eq i64 %inner.kind.$i, $ndarray_type
  br i1 %inner.is.array.$i, label %unwrapped.$i, label %slow
unwrapped.$i:
  br label %joined.$i
other.$i:
  %code.$i = call i32 inttoptr (i64 $borrow to ptr)(ptr %item.$i, ptr %view.$i, i32 $word,
      i64 $below, ptr inttoptr (i64 $numpy_dtype to ptr), i1 $written)
  switch i32 %code.$i, label %slow [ i32 1, label %borrowed.$i i32 -1, label %failed ]
borrowed.$i:
  br label %joined.$i
joined.$i:
  %array.$i = phi ptr [ %item.$i, %plain.$i ], [ %inner.$i, %unwrapped.$i ],
      [ %view.$i, %borrowed.$i ]
""")
# Rank, dtype and flags of that array. A dtype is compared by what it is, and not by its object:
# arrays that were unpickled have their own.
_CHECKS = Template("""\
  %nd.at.$i = getelementptr i8, ptr %array.$i, i64 $nd
  %nd.$i = load i32, ptr %nd.at.$i
  %same.rank.$i = icmp eq i32 %nd.$i, $rank
  br i1 %same.rank.$i, label %ranked.$i, label %slow
ranked.$i:
  %descr.at.$i = getelementptr i8, ptr %array.$i, i64 $descr
  %descr.$i = load ptr, ptr %descr.at.$i
  %word.at.$i = getelementptr i8, ptr %descr.$i, i64 $dtype_word
  %word.$i = load i64, ptr %word.at.$i
  %dtype.$i = and i64 %word.$i, $mask
  switch i64 %dtype.$i, label %slow [ $dtypes ]
typed.$i:
  %flags.at.$i = getelementptr i8, ptr %array.$i, i64 $flags
  %flags.$i = load i32, ptr %flags.at.$i
  %set.$i = and i32 %flags.$i, $wanted
  %usable.$i = icmp eq i32 %set.$i, $wanted
  br i1 %usable.$i, label %checked.$i, label %slow
checked.$i:
  %shape.at.$i = getelementptr i8, ptr %array.$i, i64 $dimensions
  %shape.$i = load ptr, ptr %shape.at.$i
  %data.at.$i = getelementptr i8, ptr %array.$i, i64 $data
  %data.$i = load ptr, ptr %data.at.$i
""")
_EXTENT = Template("""\
  %dim.at.$i.$d = getelementptr i8, ptr %shape.$i, i64 $offset
  %dim.$i.$d = load i64, ptr %dim.at.$i.$d
""")
_NUMBER = Template("""\
  %kind.at.$i = getelementptr i8, ptr %item.$i, i64 $type
  %kind.$i = load i64, ptr %kind.at.$i
  %is.number.$i = icmp eq i64 %kind.$i, $python_type
  br i1 %is.number.$i, label %number.$i, label %slow
number.$i:
""")
_FLOAT = Template("""\
  %float.at.$i = getelementptr i8, ptr %item.$i, i64 $float_value
  %number.float64.$i = load double, ptr %float.at.$i
  %number.float32.$i = fptrunc double %number.float64.$i to float
""")
# An overflow also returns -1, so that one comparison finds both; -1 itself goes the slow way.
_INT = Template("""\
  %spare.$i = alloca i32
  %wide.$i = call i64 @PyLong_AsLongLongAndOverflow(ptr %item.$i, ptr %spare.$i)
  %in.range.$i = icmp ne i64 %wide.$i, -1
  br i1 %in.range.$i, label %whole.$i, label %slow
whole.$i:
""")
_NARROW = Template("""\
  %short.$i = trunc i64 %wide.$i to $llvm
  %back.$i = $extend $llvm %short.$i to i64
  %fits.$i = icmp eq i64 %back.$i, %wide.$i
  br i1 %fits.$i, label %narrow.$i, label %slow
narrow.$i:
""")


class _MethodDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("method", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def make_fastcall(
    sig: KernelSignature,
    raw_address: int,
    slow: SlowCall,
    keep: object,
    calls_python: bool = False,
) -> Callable[..., None]:
    """The Python function of a kernel.

    Args:
        sig: the kernel's parameters.
        raw_address: where its raw function stands.
        slow: takes the calls that the generated code does not recognise, and explains failures.
        keep: kept alive as long as the function, e.g. the loaded code of ``raw_address``.
        calls_python: whether the kernel calls packed functions. It must not hold the GIL then:
            they may be called by a worker of its parallel loop.

    Returns:
        A builtin function; or ``slow`` itself for a kernel with strided arguments, or where this
        Python or numpy lays its objects out in another way than the generated code reads them.
    """
    where = layout()
    if where is None or any(isinstance(p, BufferParam) and p.strides for p in sig.params):
        return slow
    failed = slow.failed
    least = 0 if calls_python else GIL_ELEMENTS
    text = shim_text(sig, raw_address, id(slow), id(failed), where, least)
    code = loaded(text, passes=False)
    method = _MethodDef(sig.name.encode(), code.address_of("shim"), 0x82, b"A compiled kernel.")
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    # CPython keeps a function's self alive until it has no more need of the method definition.
    return new(ctypes.addressof(method), (method, code, slow, failed, keep), None)


def shim_text(
    sig: KernelSignature,
    raw_address: int,
    slow: int,
    failed: int,
    where: Layout,
    least: int = GIL_ELEMENTS,
) -> str:
    """LLVM text of ``ptr @shim(ptr self, ptr args, i64 n, ptr names)``.

    Args:
        sig: the kernel's parameters.
        raw_address: where its raw function stands.
        slow: the address of the Python callable for everything else.
        failed: that of the one which raises what the kernel's result means.
        where: offsets of the fields that are read.
        least: elements in all arguments from which on the GIL is given up.
    """
    text, arrays = Text(), [i for i, p in enumerate(sig.params) if isinstance(p, BufferParam)]
    text.label("entry")
    for i in arrays:
        text.do(f"%view.{i} = alloca [{exchange_api.VIEW_BYTES} x i8], align 8")
    text.require("icmp eq ptr %names, null")
    # the highest bit of a count that a caller of a vectorcall gives is a flag
    count = text.op(f"and i64 %n, {2**63 - 1}")
    text.require(f"icmp eq i64 {count}, {len(sig.params)}")
    for i in range(len(sig.params)):
        text.do(f"%item.{i}.at = getelementptr i8, ptr %args, i64 {8 * i}")
        text.do(f"%item.{i} = load ptr, ptr %item.{i}.at")
    offsets = asdict(where)
    # All arrays first: to describe one may run Python, which must not touch one that was checked.
    for i in arrays:
        text.lines.append(_array_text(i, sig.params[i], where, offsets))  # type: ignore[arg-type]
    passed = [_checked(text, i, p, where, offsets) for i, p in enumerate(sig.params)]
    bound = bindings(sig)
    values = {name: _bound_value(sig, i, d, passed[i]) for name, (i, d) in bound.items()}
    for i in arrays:
        for c in extent_checks(sig, i, bound):
            text.require(f"icmp eq i64 %dim.{i}.{c.dim}, {text.extent(c.wanted, values)}")
        same = sig.params[i].same  # type: ignore[union-attr]
        if same is not None:
            text.require(f"icmp eq ptr %data.{i}, %data.{same}")
    call = [
        f"ptr {value}" if isinstance(p, BufferParam) else f"{abi.scalar(p.dtype).llvm} {value}"
        for p, value in zip(sig.params, passed)
    ]
    call += [f"i64 {values[s]}" for s in sig.symbols]
    large = _are_large(text, sig, least)
    return _template().substitute(
        checks="\n".join(text.lines),
        large=large,
        kernel=f"call i32 inttoptr (i64 {raw_address} to ptr)({', '.join(call)})",
        failed=failed,
        slow=slow,
        none=_none_text(),
    )


@functools.cache
def _template() -> Template:
    return Template(_SHIM.read_text())


def _array_text(i: int, p: BufferParam, where: Layout, offsets: dict[str, int]) -> str:
    return _ARRAY.substitute(
        offsets,
        i=i,
        borrow=exchange_api.borrower(where),
        word=abi.scalar(p.dtype).word,
        below=abi.scalar(p.dtype).bytes - 1,
        numpy_dtype=id(abi.numpy_dtype(p.dtype)),
        written=str(p.written).lower(),
    )


def _checked(
    text: Text, i: int, p: BufferParam | ScalarParam, where: Layout, offsets: dict[str, int]
) -> str:
    """Check an argument by itself; the raw kernel's value for it."""
    if isinstance(p, ScalarParam):
        return _checked_number(text, i, p, offsets)
    words = dtype_words(abi.numpy_dtype(p.dtype), where)
    more = {
        "i": i,
        "rank": len(p.shape),
        "mask": DTYPE_MASK,
        "dtypes": " ".join(f"i64 {word}, label %typed.{i}" for word in words),
        "wanted": CONTIGUOUS | ALIGNED | (WRITEABLE if p.written else 0),
    }
    text.lines.append(_CHECKS.substitute(offsets, **more))
    text.lines += [_EXTENT.substitute(i=i, d=d, offset=8 * d) for d in range(len(p.shape))]
    return f"%data.{i}"


def _checked_number(text: Text, i: int, p: ScalarParam, offsets: dict[str, int]) -> str:
    """A Python float or int as the raw kernel's scalar; other numbers take the slow way."""
    kind, is_float = abi.scalar(p.dtype), p.dtype in ("float32", "float64")
    if not is_float and ("int" not in p.dtype or p.dtype == "uint64"):
        text.require_value("false")
        return "zeroinitializer"  # never used
    python = id(float if is_float else int)
    text.lines.append(_NUMBER.substitute(offsets, i=i, python_type=python))
    if is_float:
        text.lines.append(_FLOAT.substitute(offsets, i=i))
        return f"%number.{p.dtype}.{i}"
    text.lines.append(_INT.substitute(i=i))
    if kind.bits == 64:
        return f"%wide.{i}"
    extend = "zext" if p.dtype.startswith("u") else "sext"
    text.lines.append(_NARROW.substitute(i=i, llvm=kind.llvm, extend=extend))
    return f"%short.{i}"


def _bound_value(sig: KernelSignature, i: int, d: int, passed: str) -> str:
    """The i64 that a symbol is bound to."""
    if d >= 0:
        return f"%dim.{i}.{d}"
    return f"%wide.{i}" if passed.startswith("%") else passed


def _are_large(text: Text, sig: KernelSignature, least: int) -> str:
    """An i1: the arrays have so many elements that the GIL is given up."""
    total, size = 0, ""
    for i, p in enumerate(sig.params):
        if not isinstance(p, BufferParam):
            continue
        if all(isinstance(d, int) for d in p.shape):
            total += math.prod(d for d in p.shape if isinstance(d, int))
            continue
        count = "1"
        for d in range(len(p.shape)):
            count = text.op(f"mul i64 {count}, %dim.{i}.{d}")
        size = text.op(f"add i64 {size}, {count}") if size else count
    if total >= least or not size:
        return str(total >= least).lower()
    return text.op(f"icmp sge i64 {size}, {least - total}")


def _none_text() -> str:
    none = f"inttoptr (i64 {id(None)} to ptr)"
    if sys.version_info >= (3, 12):  # None is immortal
        return f"  ret ptr {none}"
    return (
        f"  %count = load i64, ptr {none}\n"
        "  %more = add i64 %count, 1\n"
        f"  store i64 %more, ptr {none}\n"
        f"  ret ptr {none}"
    )
