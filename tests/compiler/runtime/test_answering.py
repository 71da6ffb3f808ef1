"""Calls that go straight to machine code: every way to call, every error."""

import functools
import gc
import weakref

import numpy as np
import pytest

import whet
from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.runtime.module import Module
from whet.compiler.runtime.vectorcall import Answering


def added(name="vadd"):
    a = te.placeholder((16,), name="A")
    b = te.placeholder((16,), name="B")
    c = te.compute((16,), lambda i: a[i] + b[i], name="C")
    return whet.build(te.create_schedule(c.op), [a, b, c], name=name)


def arrays():
    a, b = np.arange(16, dtype="float32"), np.ones(16, "float32")
    return a, b, np.full(16, np.nan, "float32")


@pytest.fixture(scope="module")
def module():
    return added()


@pytest.mark.parametrize("of", [lambda m: m, lambda m: m["vadd"], lambda m: m.entry_func])
def test_every_way_to_call(module, of):
    f = of(module)

    names = {}

    class Holder:
        call = f

    ways = {
        "plain": lambda a, b, c: f(a, b, c),
        "a tuple": lambda a, b, c: f(*(a, b, c)),
        "no names": lambda a, b, c: f(a, b, c, **names),
        "__call__": lambda a, b, c: f.__call__(a, b, c),
        "partial": lambda a, b, c: functools.partial(f, a)(b, c),
        "map": lambda a, b, c: list(map(f, [a], [b], [c])),
        "of an object": lambda a, b, c: Holder().call(a, b, c),
        "fast": lambda a, b, c: getattr(f, "entry_func", f).fast(a, b, c),
        "arrays of ours": lambda a, b, c: f(whet.nd.array(a), b, c),
    }
    for name, call in ways.items():
        for _ in range(3):
            a, b, c = arrays()
            call(a, b, c)
            assert (c == a + b).all(), name


def test_what_a_call_is_stays_what_it_was():
    f = added()
    assert type(f) is Module
    a, b, c = arrays()
    f(a, b, c)
    assert isinstance(f, Module) and isinstance(f, Answering) and type(f).__name__ == "Module"
    assert type(f).__module__ == Module.__module__ and type(f).__doc__ == Module.__doc__
    assert type(added()) is Module  # the class itself is as it was
    f.note = "kept"
    assert (
        f.note == "kept" and f.entry_name == "vadd" and str(f["vadd"].signature) in repr(f["vadd"])
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda a, b, c: (a, b), "2 arguments given, it takes 3"),
        (lambda a, b, c: (a, b, c, c), "4 arguments given, it takes 3"),
        (lambda a, b, c: (), "0 arguments given, it takes 3"),
        (lambda a, b, c: (a, None, c), "a NoneType is not an array"),
        (lambda a, b, c: (a, 3, c), "a int is not an array"),
        (lambda a, b, c: (a.astype("float64"), b, c), "A.dtype is float64, expected float32"),
        (lambda a, b, c: (a, b.astype(">f4"), c), "B.dtype is >f4, expected float32"),
        (lambda a, b, c: (a[:15], b, c), r"A.shape\[0\] is 15, expected 16"),
        (lambda a, b, c: (a, b.reshape(4, 4), c), "B.ndim is 2, expected 1"),
        (lambda a, b, c: (np.ones(32, "float32")[::2], b, c), "A.strides are not row-major"),
        (lambda a, b, c: (a, b[::-1], c), "B.strides are not row-major"),
        (lambda a, b, c: (np.zeros(65, "int8")[1:].view("float32"), b, c), "not aligned"),
        (lambda a, b, c: (a, b, np.frombuffer(bytes(64), "float32")), "it is read-only"),
    ],
)  # fmt: skip
def test_wrong_arguments_after_right_ones(module, change, why):
    a, b, c = arrays()
    for _ in range(2):
        module(a, b, c)
        for f in (module, module["vadd"]):
            with pytest.raises(ArgumentError, match=why):
                f(*change(a, b, c))


def test_names_are_refused(module):
    a, b, c = arrays()
    module(a, b, c)
    for f in (module, module["vadd"]):
        with pytest.raises(ArgumentError, match=r"vadd\(C=...\): a kernel takes its arguments in"):
            f(a, b, C=c)


def test_an_array_that_changes_between_two_calls_is_looked_at_again(module):
    a, b, c = arrays()
    module(a, b, c)
    a.shape = (4, 4)
    with pytest.raises(ArgumentError, match=r"A.ndim is 2"):
        module(a, b, c)
    a.shape = (16,)
    c.flags.writeable = False
    with pytest.raises(ArgumentError, match="read-only"):
        module(a, b, c)
    c.flags.writeable = True
    a.dtype = "int32"
    with pytest.raises(ArgumentError, match=r"A.dtype is int32"):
        module(a, b, c)


def test_a_subclass_with_its_own_call_keeps_it():
    class Loud(Module):
        def __call__(self, *args):
            calls.append(len(args))
            return super().__call__(*args)

    calls = []
    loud = Loud(added("loud").artifact)
    for _ in range(3):
        a, b, c = arrays()
        loud(a, b, c)
        assert (c == a + b).all()
    assert calls == [3, 3, 3]


def test_nothing_keeps_a_module_that_was_called():
    f = added()
    f(*arrays())
    gone, function = weakref.ref(f), f["vadd"].fast
    code = weakref.ref(f._code)
    del f
    gc.collect()
    assert gone() is None and code() is not None
    a, b, c = arrays()
    function(a, b, c)  # keeps the code
    assert (c == a + b).all()
    del function
    gc.collect()
    assert code() is None


def test_references_are_counted():
    import sys

    f, (a, b, c) = added(), arrays()
    f(a, b, c)
    before = [sys.getrefcount(x) for x in (a, b, c, f, type(f))]
    for _ in range(1000):
        assert f(a, b, c) is None
    assert [sys.getrefcount(x) for x in (a, b, c, f, type(f))] == before


def test_a_copy_is_called_by_itself():
    import copy

    f, (a, b, c) = added(), arrays()
    f(a, b, c)  # it has its pointer now
    for one in (copy.copy(f), copy.copy(copy.copy(f)), copy.copy(f.entry_func)):
        c[:] = np.nan
        one(a, b, c)
        assert (c == a + b).all()
