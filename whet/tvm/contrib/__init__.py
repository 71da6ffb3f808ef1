"""TVM's ``contrib``: folders for a test, the C compiler, PyTorch's tensors, matmul by a library."""

from whet.tvm.contrib import cblas, cc, dlpack
from whet.tvm.contrib import folder as utils
from whet.tvm.names import explained

__all__ = ["cblas", "cc", "dlpack", "utils"]


__getattr__ = explained(__name__, "contrib", "whet.contrib", "module")
