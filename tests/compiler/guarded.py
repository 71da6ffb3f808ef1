"""Arrays that end (or begin) where memory that may not be touched begins (or ends)."""

import ctypes
import mmap

import numpy as np

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_PAGE = mmap.PAGESIZE
_PROT_NONE = 0


def guarded(array, at_end=True):
    """A copy of an array in memory of its own, between two pages whose touch is a segfault."""
    size = max(array.nbytes, 1)
    pages = -(-size // _PAGE)
    block = mmap.mmap(-1, (pages + 2) * _PAGE)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(block))
    offset = _PAGE + (pages * _PAGE - array.nbytes if at_end else 0)
    out = np.frombuffer(block, dtype=array.dtype, count=array.size, offset=offset)
    out = out.reshape(array.shape)
    out[...] = array
    for page in (0, pages + 1):
        if _libc.mprotect(begin + page * _PAGE, _PAGE, _PROT_NONE):
            raise OSError(ctypes.get_errno(), "mprotect")
    return out
