"""TVM's ``error``: what it raises of each kind is raised here as the class on the right."""

from whet.compiler import errors
from whet.compiler.errors import *  # noqa: F403  (Whet's own errors are found here, too)
from whet.tvm.names import explained

InternalError = errors.CodegenError
DiagnosticError = errors.WhetError
OpError = errors.WhetError
OpNotImplemented = errors.TargetError
OpAttributeRequired = errors.ArgumentError
OpAttributeInvalid = errors.ArgumentError

__getattr__ = explained(__name__, "error", "whet.error", "error")
