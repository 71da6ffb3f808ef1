"""Memory that runs out is an error of ours and Python's MemoryError."""

import pickle

import pytest

import whet
from whet.compiler.abi.signature import KernelSignature
from whet.compiler.codegen.llvm.entry.checked_entry import NO_MEMORY, decode
from whet.compiler.errors import OutOfMemoryError, WhetError


def test_a_kernel_without_memory():
    error = decode(KernelSignature("f", (), ()), NO_MEMORY)
    assert isinstance(error, OutOfMemoryError)
    assert isinstance(error, WhetError) and isinstance(error, MemoryError)
    assert "f(): there is no memory for an intermediate buffer" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_an_array_that_is_too_large():
    with pytest.raises(OutOfMemoryError, match=r"nd.empty\(\(1152921504606846,\), 'float32'\)"):
        whet.nd.empty((1 << 60) // 1000, "float32")
