"""A Python call of a kernel in tens of nanoseconds: a METH_FASTCALL function generated per kernel.

The generated function reads numpy's array objects at their fields' offsets, checks all of it (exact
type, rank, dtype, shape, row-major and aligned, writable), binds the symbols and calls the raw
kernel. Whatever it does not recognise goes to :class:`SlowCall`, which converts or explains.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence

import numpy as np

from whet.compiler.abi import layout as abi
from whet.compiler.abi.numpy_layout import (
    ALIGNED,
    CONTIGUOUS,
    DTYPE_MASK,
    WRITEABLE,
    Layout,
    dtype_words,
    layout,
)
from whet.compiler.abi.shape_text import Text, bindings, emit
from whet.compiler.abi.signature import BufferParam, KernelSignature, ScalarParam
from whet.compiler.codegen.llvm import jit
from whet.compiler.codegen.llvm.entry import exchange_api
from whet.compiler.codegen.llvm.entry.slowcall import SlowCall
from whet.compiler.target import Target

# Giving the GIL up and taking it back costs about 50 ns. Below this many elements in all arguments
# a kernel is rarely longer than a few microseconds.
GIL_ELEMENTS = 4096


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
    code = jit.load_object(jit.compile_text(text, Target("llvm").canonical(), passes=False))
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
    text = Text()

    def require(condition: str) -> None:
        following = text.fresh("ok")
        text.do(f"br i1 {condition}, label %{following}, label %slow")
        text.label(following)

    text.label("entry")
    for i, p in enumerate(sig.params):
        if isinstance(p, BufferParam):
            text.do(f"%view{i} = alloca [{exchange_api.VIEW_BYTES} x i8], align 8")
    require(text.op("icmp eq ptr %names, null"))
    # the highest bit of a count that a caller of a vectorcall gives is a flag
    count = text.op(f"and i64 %n, {2**63 - 1}")
    require(text.op(f"icmp eq i64 {count}, {len(sig.params)}"))
    call: list[str] = []
    items = [text.field("%args", 8 * i, "ptr") for i in range(len(sig.params))]
    # All arrays first: to describe one may run Python, which must not touch one that was checked.
    arrays = {
        i: _unwrapped(text, i, p, items[i], where, require)
        for i, p in enumerate(sig.params)
        if isinstance(p, BufferParam)
    }
    dims: dict[int, list[str]] = {}
    numbers: dict[int, str] = {}
    for i, p in enumerate(sig.params):
        if isinstance(p, BufferParam):
            dims[i] = _checked_array(text, p, arrays[i], where, require)
        else:
            numbers[i] = _checked_number(text, p, items[i], where, require)

    values: dict[str, str] = {}
    for name, (i, d) in bindings(sig).items():
        values[name] = dims[i][d] if d >= 0 else _widened(text, sig.params[i].dtype, numbers[i])
    total = 0
    variable: list[str] = []
    for i, p in enumerate(sig.params):
        if isinstance(p, ScalarParam):
            call.append(f"{abi.scalar(p.dtype).llvm} {numbers[i]}")
            continue
        for d, dim in enumerate(p.shape):
            wanted = emit(dim, values, text)
            if wanted != dims[i][d]:
                require(text.op(f"icmp eq i64 {dims[i][d]}, {wanted}"))
        call.append(f"ptr {text.field(arrays[i], where.data, 'ptr')}")
        fixed = [d for d in p.shape if isinstance(d, int)]
        if len(fixed) == len(p.shape):
            total += int(np.prod(fixed, dtype=np.int64))
        else:
            variable.append(functools.reduce(lambda a, b: text.op(f"mul i64 {a}, {b}"), dims[i]))
    call += [f"i64 {values[s]}" for s in sig.symbols]
    kernel = f"call i32 inttoptr (i64 {raw_address} to ptr)({', '.join(call)})"
    _called(text, kernel, total, variable, least)
    body = "\n".join(text.lines)
    return f"""
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyLong_FromLong(i64)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
define ptr @shim(ptr %self, ptr %args, i64 %n, ptr %names) {{
{body}
finish:
  %result = phi i32 [ %quick, %short ], [ %slowly, %long ]
  %good = icmp eq i32 %result, 0
  br i1 %good, label %done, label %bad
bad:
  %wide = sext i32 %result to i64
  %code = call ptr @PyLong_FromLong(i64 %wide)
  %cell = alloca ptr
  store ptr %code, ptr %cell
  %explain = inttoptr i64 {failed} to ptr
  %raised = call ptr @PyObject_Vectorcall(ptr %explain, ptr %cell, i64 1, ptr null)
  ret ptr %raised
done:
{_none_text()}
failed:
  ret ptr null
slow:
  %whole = inttoptr i64 {slow} to ptr
  %other = call ptr @PyObject_Vectorcall(ptr %whole, ptr %args, i64 %n, ptr %names)
  ret ptr %other
}}
"""


def _unwrapped(
    text: Text,
    i: int,
    p: BufferParam,
    item: str,
    where: Layout,
    require: Callable[[str], None],
) -> str:
    """The exact numpy array that an argument is, or that the NDArray it is holds; or a view."""
    held, wrapped, other, joined = (text.fresh(n) for n in ("held", "wrapped", "other", "array"))
    kind = text.field(item, where.type, "i64")
    is_array = text.op(f"icmp eq i64 {kind}, {where.ndarray_type}")
    came_from = text.block
    text.do(f"br i1 {is_array}, label %{joined}, label %{held}")
    text.label(held)
    is_ours = text.op(f"icmp eq i64 {kind}, {where.wrapper_type}")
    text.do(f"br i1 {is_ours}, label %{wrapped}, label %{other}")
    text.label(wrapped)
    inner = text.field(item, where.wrapper_slot, "ptr")
    require(text.op(f"icmp ne ptr {inner}, null"))
    inner_kind = text.field(inner, where.type, "i64")
    require(text.op(f"icmp eq i64 {inner_kind}, {where.ndarray_type}"))
    unwrapped = text.block
    text.do(f"br label %{joined}")
    text.label(other)
    _borrowed(text, i, p, item, where)
    borrowed = text.block
    text.do(f"br label %{joined}")
    text.label(joined)
    found = f"[ {item}, %{came_from} ], [ {inner}, %{unwrapped} ], [ %view{i}, %{borrowed} ]"
    return text.op(f"phi ptr {found}")


def _borrowed(text: Text, i: int, p: BufferParam, item: str, where: Layout) -> None:
    """Write the view of another library's tensor; what is none goes the slow way."""
    descr = f"ptr inttoptr (i64 {id(abi.numpy_dtype(p.dtype))} to ptr)"
    below = abi.scalar(p.dtype).bytes - 1
    wanted = f"i32 {exchange_api.dtype_field(p.dtype)}, i64 {below}, {descr}"
    borrow = f"inttoptr (i64 {exchange_api.borrower(where)} to ptr)"
    code = text.op(
        f"call i32 {borrow}(ptr {item}, ptr %view{i}, {wanted}, i1 {str(p.written).lower()})"
    )
    following = text.fresh("ok")
    text.do(f"switch i32 {code}, label %slow [ i32 1, label %{following} i32 -1, label %failed ]")
    text.label(following)


def _checked_array(
    text: Text, p: BufferParam, array: str, where: Layout, require: Callable[[str], None]
) -> list[str]:
    """Check rank, dtype and flags of a numpy array; its dimensions."""
    ndim = text.field(array, where.nd, "i32")
    require(text.op(f"icmp eq i32 {ndim}, {len(p.shape)}"))
    # by what a dtype is, and not which object: arrays that were unpickled have their own
    descr = text.field(array, where.descr, "ptr")
    word = text.op(f"and i64 {text.field(descr, where.dtype_word, 'i64')}, {DTYPE_MASK}")
    words = dtype_words(abi.numpy_dtype(p.dtype), where)
    same = [text.op(f"icmp eq i64 {word}, {known}") for known in words]
    require(functools.reduce(lambda a, b: text.op(f"or i1 {a}, {b}"), same))
    wanted = CONTIGUOUS | ALIGNED | (WRITEABLE if p.written else 0)
    flags = text.op(f"and i32 {text.field(array, where.flags, 'i32')}, {wanted}")
    require(text.op(f"icmp eq i32 {flags}, {wanted}"))
    if not p.shape:
        return []
    shape = text.field(array, where.dimensions, "ptr")
    return [text.field(shape, 8 * d, "i64") for d in range(len(p.shape))]


def _checked_number(
    text: Text, p: ScalarParam, item: str, where: Layout, require: Callable[[str], None]
) -> str:
    """A Python float or int as the raw kernel's scalar; other numbers take the slow way."""
    kind = abi.scalar(p.dtype)
    have = text.field(item, where.type, "i64")
    if p.dtype in ("float32", "float64"):
        require(text.op(f"icmp eq i64 {have}, {id(float)}"))
        value = text.field(item, where.float_value, "double")
        return value if kind.bits == 64 else text.op(f"fptrunc double {value} to float")
    if "int" not in p.dtype or p.dtype == "uint64":
        require("false")
        return "zeroinitializer"  # never used
    require(text.op(f"icmp eq i64 {have}, {id(int)}"))
    # An overflow also returns -1, so that one comparison finds both; -1 itself goes the slow way.
    spare = text.op("alloca i32")
    value = text.op(f"call i64 @PyLong_AsLongLongAndOverflow(ptr {item}, ptr {spare})")
    require(text.op(f"icmp ne i64 {value}, -1"))
    if kind.bits == 64:
        return value
    short = text.op(f"trunc i64 {value} to {kind.llvm}")
    require(text.op(f"icmp eq i64 {_widened(text, p.dtype, short)}, {value}"))
    return short


def _widened(text: Text, dtype: str, value: str) -> str:
    kind = abi.scalar(dtype)
    if kind.bits == 64:
        return value
    widen = "zext" if dtype.startswith("u") else "sext"
    return text.op(f"{widen} {kind.llvm} {value} to i64")


def _called(text: Text, kernel: str, total: int, variable: Sequence[str], least: int) -> None:
    """The call itself, with the GIL given up when the arrays are large."""
    large = "true" if total >= least else "false"
    if variable and large == "false":
        size = functools.reduce(lambda a, b: text.op(f"add i64 {a}, {b}"), variable, str(total))
        large = text.op(f"icmp sge i64 {size}, {least}")
    text.do(f"br i1 {large}, label %long, label %short")
    text.label("short")
    text.do(f"%quick = {kernel}")
    text.do("br label %finish")
    text.label("long")
    text.do("%state = call ptr @PyEval_SaveThread()")
    text.do(f"%slowly = {kernel}")
    text.do("call void @PyEval_RestoreThread(ptr %state)")
    text.do("br label %finish")


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
