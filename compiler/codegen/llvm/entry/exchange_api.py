"""Tensors of other libraries in a call: DLPack's C exchange API, read in machine code.

A type with ``__dlpack_c_exchange_api__`` (DLPack 1.3; PyTorch has it) offers C functions that
describe its objects in tens of nanoseconds, where ``__dlpack__`` takes microseconds. The generated
call hands what is neither numpy's array nor ours to :func:`borrower`'s function, which looks the
type up in a table and writes a *view*: the fields of numpy's array object that the call checks and
reads. So there is one set of checks. The slow call enters a type in the table when it has seen an
object of it.

The functions are silent about what a DLTensor has no field for. An object whose attribute
``requires_grad`` is not False, or whose ``is_neg()`` is not, takes the slow way, which refuses it;
and for an array that is written the managed form is asked, too, which knows of read-only memory.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
import weakref

from whet.compiler.abi import layout as abi
from whet.compiler.abi.numpy_layout import ALIGNED, CONTIGUOUS, WRITEABLE, Layout
from whet.compiler.abi.shape_text import Text
from whet.compiler.runtime.arrays.dlpack import READ_ONLY

ATTRIBUTE = "__dlpack_c_exchange_api__"
_CAPSULE = b"dlpack_exchange_api"
_MAJOR = 1
_CAPACITY = 16  # types; those that come later take the slow way

VIEW_BYTES = 80
"""Size of a view: numpy's fields up to its flags."""


class _API(ctypes.Structure):
    """DLPackExchangeAPI, with its header."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("managed_from", ctypes.c_void_p),
        ("to_object", ctypes.c_void_p),
        ("tensor_from", ctypes.c_void_p),
        ("current_stream", ctypes.c_void_p),
    ]


class _Entry(ctypes.Structure):
    """A type of the table, as the generated function reads it."""

    _fields_ = [
        ("type", ctypes.c_uint64),
        ("tensor_from", ctypes.c_uint64),
        ("managed_from", ctypes.c_uint64),
        ("grad_name", ctypes.c_uint64),  # "requires_grad", or 0
        ("is_neg", ctypes.c_uint64),  # the type's method, or 0
    ]


_table = (_Entry * _CAPACITY)()
_GRAD = sys.intern("requires_grad")
# For each entry what it points to; weakly the type, whose address may be another's one day.
_held: dict[int, tuple[weakref.ref[type], object]] = {}
_lock = threading.RLock()  # a type may end, and leave the table, while another one enters it


def learn(kind: type) -> None:
    """Let calls take objects of exactly this type through its C functions, if it has them."""
    api = _api_of(kind)
    if api is None:
        return
    with _lock:
        if any(entry.type == id(kind) for entry in _table):
            return
        free = next((k for k, entry in enumerate(_table) if not entry.type), None)
        if free is None:
            return
        is_neg = getattr(kind, "is_neg", None)
        _held[free] = weakref.ref(kind, functools.partial(_leave, free)), is_neg
        entry = _table[free]
        entry.tensor_from, entry.managed_from = api.tensor_from, api.managed_from
        entry.grad_name = id(_GRAD) if hasattr(kind, _GRAD) else 0
        entry.is_neg = 0 if is_neg is None else id(is_neg)
        entry.type = id(kind)  # last: from here on the entry is read


def _leave(at: int, _: object) -> None:
    with _lock:
        _table[at].type = 0
        _held.pop(at, None)


def _api_of(kind: type) -> _API | None:
    owner = next((c for c in kind.__mro__ if ATTRIBUTE in vars(c)), None)
    # a subclass with a __dlpack__ of its own may have a reason
    if owner is None or getattr(kind, "__dlpack__", None) is not getattr(owner, "__dlpack__", None):
        return None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    try:
        api = _API.from_address(pointer(getattr(kind, ATTRIBUTE), _CAPSULE))
    except (ValueError, AttributeError):  # no capsule, or one of another name
        return None
    while api.major != _MAJOR:
        if not api.previous:
            return None
        api = _API.from_address(api.previous)
    return api if api.tensor_from and api.managed_from else None


@functools.cache
def borrower(where: Layout) -> int:
    """The address of ``borrow(ptr object, ptr view, i32 dtype, i64 below, ptr descr, i1 written)``.

    It returns 1 when it wrote the view of an object, 0 for what must go the slow way (no Python
    error is set then), and -1 with an error that is no ``Exception``, e.g. a KeyboardInterrupt.
    ``dtype`` holds DLPack's three fields, ``below`` is one less than the alignment in bytes, and
    ``descr`` is numpy's object of the dtype.

    Args:
        where: offsets of the fields of a view.
    """
    from whet.compiler.codegen.llvm import jit
    from whet.compiler.target import Target

    code = jit.load_object(jit.compile_text(_text(where), Target("llvm").canonical(), passes=False))
    _loaded.append(code)
    return code.address_of("borrow")


_loaded: list[object] = []  # generated calls refer to it without end


def dtype_field(dtype: str) -> int:
    """DLPack's code, bits and lanes of a dtype as the 32-bit number that a DLTensor holds."""
    kind = abi.scalar(dtype)
    return kind.code | kind.bits << 8 | 1 << 16


def _text(where: Layout) -> str:
    text = Text()
    text.label("begin")
    text.do("%tensor = alloca [6 x i64], align 8")
    text.do("%cell = alloca ptr")
    _found(text, where)
    _without_gradient(text)
    _not_negated(text)
    _writable(text)
    _described(text, where)
    body = "\n".join(text.lines)
    return f"""
declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyErr_Occurred()
declare i32 @PyErr_ExceptionMatches(ptr)
declare void @PyErr_Clear()
declare void @Py_DecRef(ptr)
define i32 @borrow(ptr %item, ptr %view, i32 %dtype, i64 %below, ptr %descr, i1 %written) {{
{body}
failed:
  %error = call ptr @PyErr_Occurred()
  %unset = icmp eq ptr %error, null
  br i1 %unset, label %no, label %set
set:
  %usual = call i32 @PyErr_ExceptionMatches(ptr inttoptr (i64 {id(Exception)} to ptr))
  %goes_on = icmp ne i32 %usual, 0
  br i1 %goes_on, label %forget, label %raised
forget:
  call void @PyErr_Clear()
  br label %no
raised:
  ret i32 -1
no:
  ret i32 0
}}
"""


def _branch(text: Text, condition: str, then: str, otherwise: str) -> None:
    text.do(f"br i1 {text.op(condition)}, label %{then}, label %{otherwise}")


def _found(text: Text, where: Layout) -> None:
    """Look the object's type up: ``%entry`` is that of the table."""
    kind = text.field("%item", where.type, "i64")
    text.do("br label %search")
    text.label("search")
    text.do("%k = phi i64 [ 0, %begin ], [ %next, %other ]")
    at = text.op(f"mul i64 %k, {ctypes.sizeof(_Entry)}")
    table = f"inttoptr (i64 {ctypes.addressof(_table)} to ptr)"
    text.do(f"%entry = getelementptr i8, ptr {table}, i64 {at}")
    _branch(text, f"icmp eq i64 {text.field('%entry', 0, 'i64')}, {kind}", "found", "other")
    text.label("other")
    text.do("%next = add i64 %k, 1")
    _branch(text, f"icmp ult i64 %next, {_CAPACITY}", "search", "no")
    text.label("found")


def _without_gradient(text: Text) -> None:
    name = text.field("%entry", _Entry.grad_name.offset, "ptr")
    _branch(text, f"icmp ne ptr {name}, null", "gradient", "sign")
    text.label("gradient")
    _is_false(text, f"@PyObject_GetAttr(ptr %item, ptr {name})", "sign")
    text.label("sign")


def _not_negated(text: Text) -> None:
    method = text.field("%entry", _Entry.is_neg.offset, "ptr")
    _branch(text, f"icmp ne ptr {method}, null", "negated", "access")
    text.label("negated")
    text.do("store ptr %item, ptr %cell")
    _is_false(text, f"@PyObject_Vectorcall(ptr {method}, ptr %cell, i64 1, ptr null)", "access")
    text.label("access")


def _is_false(text: Text, call: str, following: str) -> None:
    """Go on where the object that a call gives is False."""
    given, looked = text.op(f"call ptr {call}"), text.fresh("given")
    _branch(text, f"icmp eq ptr {given}, null", "failed", looked)
    text.label(looked)
    text.do(f"call void @Py_DecRef(ptr {given})")  # False itself is never freed
    _branch(text, f"icmp eq ptr {given}, inttoptr (i64 {id(False)} to ptr)", following, "no")


def _writable(text: Text) -> None:
    """Ask the managed form of an array that is written, which alone has flags."""
    text.do("br i1 %written, label %manage, label %describe")
    text.label("manage")
    ask = text.field("%entry", _Entry.managed_from.offset, "ptr")
    code = text.op(f"call i32 {ask}(ptr %item, ptr %cell)")
    _branch(text, f"icmp eq i32 {code}, 0", "managed", "failed")
    text.label("managed")
    managed = text.op("load ptr, ptr %cell")
    version = text.field(managed, 0, "i32")
    flags, deleter = text.field(managed, 24, "i64"), text.field(managed, 16, "ptr")
    _branch(text, f"icmp ne ptr {deleter}, null", "give_back", "given_back")
    text.label("give_back")
    text.do(f"call void {deleter}(ptr {managed})")
    text.do("br label %given_back")
    text.label("given_back")
    known = text.op(f"icmp eq i32 {version}, {_MAJOR}")
    writes = text.op(f"icmp eq i64 {text.op(f'and i64 {flags}, {READ_ONLY}')}, 0")
    _branch(text, f"and i1 {known}, {writes}", "describe", "no")
    text.label("describe")


def _described(text: Text, where: Layout) -> None:
    """Write the view of a compact array of the dtype in this machine's memory."""
    ask = text.field("%entry", _Entry.tensor_from.offset, "ptr")
    code = text.op(f"call i32 {ask}(ptr %item, ptr %tensor)")
    _branch(text, f"icmp eq i32 {code}, 0", "look", "failed")
    text.label("look")
    device = text.field("%tensor", abi.DL_DEVICE, "i32")
    reached = [text.op(f"icmp eq i32 {device}, {code}") for code in (abi.DL_CPU, abi.DL_PINNED)]
    here = text.op(f"or i1 {reached[0]}, {reached[1]}")
    same = text.op(f"icmp eq i32 {text.field('%tensor', abi.DL_CODE, 'i32')}, %dtype")
    _branch(text, f"and i1 {here}, {same}", "compact", "no")
    text.label("compact")
    rank, shape = (
        text.field("%tensor", abi.DL_NDIM, "i32"),
        text.field("%tensor", abi.DL_SHAPE, "ptr"),
    )
    compact, count = _compactness(text, rank, shape)
    empty = text.op(f"icmp eq i64 {count}, 0")
    data, offset = (text.field("%tensor", k, "i64") for k in (abi.DL_DATA, abi.DL_BYTE_OFFSET))
    address = text.op(f"add i64 {data}, {offset}")
    some = text.op(f"or i1 {text.op(f'icmp ne i64 {address}, 0')}, {empty}")
    aligned = text.op(f"icmp eq i64 {text.op(f'and i64 {address}, %below')}, 0")
    row_major = text.op(f"or i1 {compact}, {empty}")
    _branch(text, f"and i1 {text.op(f'and i1 {row_major}, {some}')}, {aligned}", "write", "no")
    text.label("write")
    for value, at in (
        (f"i64 {address}", where.data),
        (f"i32 {rank}", where.nd),
        (f"ptr {shape}", where.dimensions),
        ("ptr %descr", where.descr),
        (f"i32 {CONTIGUOUS | ALIGNED | WRITEABLE}", where.flags),
    ):
        text.do(f"store {value}, ptr {text.op(f'getelementptr i8, ptr %view, i64 {at}')}")
    text.do("ret i32 1")


def _compactness(text: Text, rank: str, shape: str) -> tuple[str, str]:
    """Whether each stride is the number of elements behind its dimension, and the whole number."""
    strides = text.field("%tensor", abi.DL_STRIDES, "ptr")
    packed = text.op(f"icmp eq ptr {strides}, null")
    text.do(f"%rank = sext i32 {rank} to i64")
    text.do("br label %dims")
    text.label("dims")
    text.do("%left = phi i64 [ %rank, %compact ], [ %d, %dim_done ]")
    text.do("%count = phi i64 [ 1, %compact ], [ %counted, %dim_done ]")
    text.do("%steps = phi i1 [ true, %compact ], [ %still, %dim_done ]")
    _branch(text, "icmp sgt i64 %left, 0", "dim", "dims_done")
    text.label("dim")
    text.do("%d = sub i64 %left, 1")
    extent = text.op(f"load i64, ptr {text.op(f'getelementptr i64, ptr {shape}, i64 %d')}")
    text.do(f"%counted = mul i64 %count, {extent}")
    text.do(f"br i1 {packed}, label %dim_done, label %stepped")
    text.label("stepped")
    step = text.op(f"load i64, ptr {text.op(f'getelementptr i64, ptr {strides}, i64 %d')}")
    text.do("br label %dim_done")
    text.label("dim_done")
    taken = text.op(f"phi i64 [ %count, %dim ], [ {step}, %stepped ]")
    right = text.op(f"icmp eq i64 {taken}, %count")
    single = text.op(f"icmp eq i64 {extent}, 1")
    text.do(f"%still = and i1 %steps, {text.op(f'or i1 {right}, {single}')}")
    text.do("br label %dims")
    text.label("dims_done")
    return "%steps", "%count"
