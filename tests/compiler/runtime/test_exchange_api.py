"""Tensors with DLPack's C exchange API: taken without ``__dlpack__``, with the same checks."""

import ctypes
import gc
import itertools
import sys

import numpy as np
import pytest
from exchange_tensors import KEPT, Tensor, capsule, learnt, numbers
from raw_kernels import VADD, VADD_RAW, module

from whet.compiler.errors import ArgumentError
from whet.compiler.jit.compile import compile_text
from whet.compiler.jit.loader import load_object
from whet.compiler.runtime.arrays import nd
from whet.compiler.runtime.call import exchange_api
from whet.compiler.target import Target
from whet.compiler.target.llvm_machine import machine_of


@pytest.fixture
def kind():
    """A new type of tensors, which leaves the table with the test."""

    class Offering(Tensor):
        __dlpack_c_exchange_api__ = capsule()

    gc.collect()  # types of earlier tests, which would fill the table
    before = Tensor.given
    yield Offering
    assert Tensor.given == before


@pytest.fixture(scope="module")
def vadd():
    return module((VADD, VADD_RAW))["vadd"].fast


def test_the_second_call_does_not_ask_for_a_capsule(kind, vadd):
    a, b, c = kind(numbers(17)), kind(numbers(17)), kind(np.full(17, np.nan, np.float32))
    vadd(a, b, c)
    np.testing.assert_array_equal(c.array, a.array + b.array)
    counts = [t.asked for t in (a, b, c)]
    assert min(counts) > 0
    c.array[:] = np.nan
    held = (a, b, c, False, True, b.shape, exchange_api._GRAD)
    references = [sys.getrefcount(x) for x in held[:3]]
    for _ in range(100):
        vadd(a, b, c)
    assert [t.asked for t in (a, b, c)] == counts
    assert [sys.getrefcount(x) for x in held[:3]] == references
    np.testing.assert_array_equal(c.array, a.array + b.array)
    d = nd.array(np.full(17, np.nan, np.float32))
    vadd(a, nd.array(b.array), d)
    vadd(d, c.array, b)
    assert [t.asked for t in (a, b, c)] == counts
    np.testing.assert_array_equal(b.array, d.numpy() + c.array)


def offset(tensor):
    tensor.data -= 8
    tensor.byte_offset = 8


def no_strides(tensor):
    tensor.strides = ctypes.POINTER(ctypes.c_int64)()


def odd_stride(tensor):
    tensor.strides[0] = 77


def pinned(tensor):
    tensor.device_type = 3


@pytest.mark.parametrize(
    ("n", "change"),
    [(17, offset), (17, no_strides), (17, pinned), (1, odd_stride), (0, odd_stride)],
)
def test_what_is_compact_is_taken(kind, vadd, n, change):
    learnt(kind, vadd)
    a, b, c = (kind(numbers(n), change) for _ in range(3))
    vadd(a, b, c)
    assert [t.asked for t in (a, b, c)] == [0, 0, 0]
    np.testing.assert_array_equal(c.array, a.array + b.array)


def null(tensor):
    tensor.data = None


def elsewhere(tensor):
    tensor.device_type = 2


def astray(tensor):
    tensor.byte_offset = 2


def wide(tensor):
    tensor.lanes = 2


def other_dtype(tensor):
    tensor.code = 0


def matrix(tensor):
    tensor.ndim = 2
    tensor.shape = _matrix
    tensor.strides = _matrix


_matrix = (ctypes.c_int64 * 2)(17, 1)


@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize("change", [null, elsewhere, astray, wide, other_dtype, odd_stride, matrix])
def test_what_a_call_cannot_take_as_it_is_told_goes_the_slow_way(kind, vadd, change, index):
    learnt(kind, vadd)
    tensors = [kind(numbers(17)) for _ in range(3)]
    tensors[index].change = change
    vadd(*tensors)  # which believes ``__dlpack__``
    assert tensors[index].asked > 0
    a, b, c = (t.array for t in tensors)
    np.testing.assert_array_equal(c, a + b)


@pytest.mark.parametrize(
    ("index", "array", "message"),
    [
        (1, numbers(17, dtype=np.float64), "B.dtype is float64"),
        (1, numbers(34)[::2], "B.strides are not row-major"),
        (1, numbers(17, 1), "B.ndim is 2"),
        (2, numbers(16), "C.shape[0] is 16, expected 17"),
        (2, numbers(17), "the kernel writes it, but it is read-only"),
    ],
)
def test_refusals_are_those_of_every_array(kind, vadd, index, array, message):
    learnt(kind, vadd)
    array = array.view()
    array.flags.writeable = "read-only" not in message
    tensors = [kind(numbers(17)) for _ in range(3)]
    tensors[index] = kind(array)
    before = [t.array.copy() for t in tensors]
    with pytest.raises(ArgumentError) as caught:
        vadd(*tensors)
    assert message in str(caught.value)
    for tensor, old in zip(tensors, before):
        np.testing.assert_array_equal(tensor.array, old)


def test_read_only_memory_is_read(kind, vadd):
    learnt(kind, vadd)
    a, c = kind(numbers(17)), numbers(17)
    a.array.flags.writeable = False
    vadd(a, a, c)
    assert a.asked == 0
    np.testing.assert_array_equal(c, 2 * a.array)


def test_a_managed_form_of_another_version_is_given_back_unread(kind, vadd):
    learnt(kind, vadd)
    c = kind(numbers(17))
    c.major = 2
    vadd(c.array, c.array, c)
    assert c.asked > 0


class Autograd(Tensor):
    """As PyTorch's tensors, which have properties that a DLTensor has no field for."""

    __dlpack_c_exchange_api__ = capsule()
    requires_grad = False
    negated = False

    def is_neg(self):
        return self.negated

    def __dlpack__(self, **options):
        if self.requires_grad:
            raise BufferError("it requires a gradient")
        return super().__dlpack__(**options)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_gradients_and_negation_are_asked_for(vadd, index):
    learnt(Autograd, vadd)
    tensors = [Autograd(numbers(17)) for _ in range(3)]
    vadd(*tensors)
    assert not any(t.asked for t in tensors)
    a, b, c = (t.array for t in tensors)
    np.testing.assert_array_equal(c, a + b)
    c[:] = 7
    for name, value, message in [
        ("requires_grad", True, "it requires a gradient"),
        ("requires_grad", 1, "it requires a gradient"),
        ("negated", True, r"elements negated: pass tensor.resolve_neg\(\)"),
    ]:
        setattr(tensors[index], name, value)
        with pytest.raises(ArgumentError, match=message):
            vadd(*tensors)
        assert (c == 7).all()
        setattr(tensors[index], name, False)


FAILING = """
@type = external global ptr
@text = constant [3 x i8] c"no\\00"
declare void @PyErr_SetString(ptr, ptr)
define i32 @tensor_from(ptr %object, ptr %out) {{
  {set}
  ret i32 -1
}}
"""


def failing(error):
    """A type whose C function fails with this error; None: it sets none, which is a mistake."""
    kind = f"inttoptr (i64 {id(error)} to ptr)"
    set_ = f"call void @PyErr_SetString(ptr {kind}, ptr @text)" if error else ""
    text = FAILING.format(set=set_).replace("@type = external global ptr\n", "")
    code = load_object(compile_text(text, machine_of(Target("llvm"))))
    KEPT.append(code)
    tensor_from = code.address_of("tensor_from")
    return type("Failing", (Tensor,), {exchange_api.ATTRIBUTE: capsule(tensor_from=tensor_from)})


@pytest.mark.parametrize("error", [BufferError, RuntimeError, None])
def test_an_error_of_the_c_function_leads_to_the_slow_way(vadd, error):
    kind = learnt(failing(error), vadd)
    a, c = kind(numbers(17)), numbers(17)
    vadd(a, a, c)
    assert a.asked
    np.testing.assert_array_equal(c, 2 * a.array)


def test_an_interrupt_is_passed_on(vadd):
    kind = learnt(failing(KeyboardInterrupt), vadd)
    a, c = kind(numbers(17)), np.full(17, 7, np.float32)
    with pytest.raises(KeyboardInterrupt, match="no"):
        vadd(c, a, c)
    assert a.asked == 0 and (c == 7).all()


def test_a_type_leaves_the_table_when_it_ends(kind, vadd):
    name = type("Short", (Tensor,), {exchange_api.ATTRIBUTE: capsule()})
    at = id(learnt(name, vadd))
    del name
    gc.collect()
    assert all(entry.type != at for entry in exchange_api._table)


def test_more_types_than_the_table_holds(vadd):
    kinds = [
        type(f"Kind{k}", (Tensor,), {exchange_api.ATTRIBUTE: capsule()})
        for k in range(exchange_api._CAPACITY + 3)
    ]
    for _ in range(2):
        for one, other in itertools.pairwise(kinds):
            a, b, c = one(numbers(5)), other(numbers(5)), one(numbers(5))
            vadd(a, b, c)
            np.testing.assert_array_equal(c.array, a.array + b.array)
    assert sum(bool(entry.type) for entry in exchange_api._table) == exchange_api._CAPACITY
    del kinds, one, other, a, b, c
    gc.collect()
    assert sum(bool(entry.type) for entry in exchange_api._table) < exchange_api._CAPACITY


def types_that_are_not_learnt():
    later = capsule(major=2)
    return {
        "a version to come": {exchange_api.ATTRIBUTE: later},
        "no function": {exchange_api.ATTRIBUTE: capsule(tensor_from=0)},
        "another capsule": {exchange_api.ATTRIBUTE: capsule(name=b"dltensor")},
        "no capsule": {exchange_api.ATTRIBUTE: 7},
        "none": {},
    }


@pytest.mark.parametrize("case", types_that_are_not_learnt())
def test_types_whose_functions_are_not_used(vadd, case):
    kind = type("Other", (Tensor,), types_that_are_not_learnt()[case])
    a, c = kind(numbers(5)), numbers(5)
    for _ in range(2):
        vadd(a, a, c)
        np.testing.assert_array_equal(c, 2 * a.array)
    assert a.asked >= 2


def test_a_subclass_with_an_exchange_of_its_own_is_asked_itself(kind, vadd):
    class Negating(kind):
        def __dlpack__(self, **options):
            self.asked += 1
            return (-self.array).__dlpack__(**options)

    learnt(kind, vadd)
    a, c = Negating(numbers(5)), numbers(5)
    for _ in range(2):
        vadd(a, a, c)
        np.testing.assert_array_equal(c, -2 * a.array)


def test_an_earlier_version_is_found_behind_a_later_one(vadd):
    earlier = capsule()
    address = ctypes.addressof(KEPT[-1][2])
    attributes = {exchange_api.ATTRIBUTE: capsule(major=2, previous=address), "earlier": earlier}
    kind = learnt(type("Later", (Tensor,), attributes), vadd)
    a, c = kind(numbers(5)), numbers(5)
    vadd(a, a, c)
    assert a.asked == 0
    np.testing.assert_array_equal(c, 2 * a.array)


def test_pytorch_tensors(vadd):
    torch = pytest.importorskip("torch")
    if not hasattr(torch.Tensor, exchange_api.ATTRIBUTE):
        pytest.skip("this PyTorch has no C exchange API")
    learnt_by_use = torch.rand(3)
    vadd(learnt_by_use, learnt_by_use, torch.rand(3))
    assert any(entry.type == id(torch.Tensor) for entry in exchange_api._table)
    base = torch.rand(5, 7, 3)
    a, b, c = base[2].reshape(-1), torch.rand(21), torch.full((21,), torch.nan)
    a, b = a + 0, b[:]
    vadd(a, b, c)
    torch.testing.assert_close(c, a + b, rtol=0, atol=0)
    vadd(base[1].flatten(), b[0:21], c[:])
    torch.testing.assert_close(c, base[1].flatten() + b, rtol=0, atol=0)
    fixed = torch.nn.Parameter(torch.rand(21), requires_grad=False)
    for _ in range(2):
        vadd(fixed, a.numpy(), c)
        torch.testing.assert_close(c, fixed.data + a, rtol=0, atol=0)
    shared = torch._lazy_clone(a)  # shares its memory until one of the two is written
    vadd(b, b, shared)
    torch.testing.assert_close(shared, b + b, rtol=0, atol=0)
    assert not torch.equal(a, shared)


def tensors_that_are_refused(torch):
    ones = torch.ones(21)
    return {
        "require gradient": ones.clone().requires_grad_(),
        "elements negated": torch._neg_view(ones),
        "elements negated: pass": ones.to(torch.complex64).conj().imag[:1],
        "not row-major": torch.ones(42)[::2],
        "dtype is float64": ones.double(),
        "dtype is int32": ones.int(),
        "ndim is 2": ones[None],
        "shape\\[0\\] is 20": torch.ones(20),
        "meta": torch.ones(21, device="meta"),
        "no memory that holds them": torch._efficientzerotensor((21,)),
        "layout other than torch.strided": ones.to_sparse(),
    }


def test_pytorch_tensors_that_are_refused(vadd):
    torch = pytest.importorskip("torch")
    a, c = torch.ones(21), torch.full((21,), 7.0)
    vadd(a, a, c.clone())
    for message, bad in tensors_that_are_refused(torch).items():
        with pytest.raises(ArgumentError, match=message):
            vadd(a, bad, c)
        assert (c == 7).all()
