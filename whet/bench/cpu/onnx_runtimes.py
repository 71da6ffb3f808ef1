"""onnxruntime and OpenVINO as peers: each runs the ONNX model of a work, in float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from types import SimpleNamespace as Args
from typing import TYPE_CHECKING, Any

import numpy as np

from whet.bench.operators.in_onnx import InOnnx
from whet.bench.operators.operator import Call, Operator, Peers
from whet.compiler import settings
from whet.compiler.installed import install_extra

if TYPE_CHECKING:
    from whet.autotune import Task

Runtime = Callable[[int, bytes, dict[str, np.ndarray]], Call]


def add_runtimes(
    peers: Peers,
    threads: int,
    task: Task,
    operator: Operator,
    a: Args,
    inputs: Sequence[np.ndarray],
) -> None:
    """Add the runtimes that are installed; why another is no peer is noted.

    Weights are part of the model where ours are packed ahead, and inputs where they are not; of a
    graph there are both.

    Args:
        peers: what is added to.
        threads: how many each may use.
        task: what is done.
        operator: of the task; it has an ONNX model.
        a: the template's arguments.
        inputs: the kernel's inputs, with weights as they are before they are packed.
    """
    given = operator.front(a, *inputs)
    dtypes = [param.dtype for param in task.kernel_args if param.written]
    named = bool(getattr(a, "packed", False))
    ways = [named] if hasattr(a, "dtype") or not operator.weights else [False, True]
    for library, runtime in RUNTIMES.items():
        missing = [name for name in ("onnx", library) if find_spec(name) is None]
        if missing:
            peers.left_out.append(f"{library}: {missing[0]} is not installed: {_INSTALL}")
        elif settings.cpu_level():
            peers.left_out.append(f"{library}: nothing keeps it from this machine's wider vectors")
        else:
            for held in ways:
                make = partial(_call, runtime, threads, operator, a, given, dtypes, held)
                peers.add(f"{library} packed" if held else library, make, packed=held)


_INSTALL = install_extra("bench")


def _call(
    runtime: Runtime,
    threads: int,
    operator: Operator,
    a: Args,
    inputs: Sequence[np.ndarray],
    dtypes: Sequence[str],
    held: bool,
) -> Call:
    assert operator.onnx is not None
    names = [f"in{k}" for k in range(len(inputs))]
    arrays = {n: np.ascontiguousarray(x) for n, x in zip(names, inputs)}
    constants = {names[k]: arrays.pop(names[k]) for k in operator.weights} if held else {}
    words = InOnnx(arrays, constants)
    found = operator.onnx(words, a, *names)
    outputs = list(found) if isinstance(found, tuple | list) else [found]
    return runtime(threads, words.model(outputs, dtypes), arrays)


def _onnxruntime(threads: int, model: bytes, inputs: dict[str, np.ndarray]) -> Call:
    """A session that reads and writes arrays of ours."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    results = tuple(session.run(None, inputs))
    binding = session.io_binding()
    for name, array in inputs.items():
        _bound(binding.bind_input, name, array)
    for output, array in zip(session.get_outputs(), results):
        _bound(binding.bind_output, output.name, array)

    def run(arrays: Any = inputs) -> Any:  # which keeps what is bound
        session.run_with_iobinding(binding)
        return results

    return run


def _bound(bind: Callable[..., None], name: str, array: np.ndarray) -> None:
    bind(name, "cpu", 0, array.dtype, list(array.shape), array.ctypes.data)


def _openvino(threads: int, model: bytes, inputs: dict[str, np.ndarray]) -> Call:
    """A request that reads and writes arrays of ours."""
    import openvino

    options = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": "f32",
        "ENABLE_CPU_PINNING": False,
    }
    core = openvino.Core()
    request = core.compile_model(core.read_model(model), "CPU", options).create_infer_request()
    for name, array in inputs.items():
        request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
    request.infer()
    results = tuple(tensor.data for tensor in request.output_tensors)

    def run(arrays: Any = inputs) -> Any:  # which keeps what is shared
        request.infer()
        return results

    return run


RUNTIMES: dict[str, Runtime] = {"onnxruntime": _onnxruntime, "openvino": _openvino}
"""Library -> what makes a call of a model, in so many threads, on arrays of ours."""
