"""Memory of building a model and of running it, in fresh processes, beside its weights.

    python benchmarks/models/memory.py [NAME ...] [--save]

NAME is an ONNX file or one of the networks that the ``onnx`` package brings; by default VGG-19 and
ResNet-50. "Build" is the peak of resident memory while ``whet.compile`` reads the file and keeps
what it built in an empty cache, "run" that while a package is loaded and called: both above what a
small model took before, and in multiples of the weights, or of the packed weights and the arena.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[k]) for k in (1, 2)]

import harness

import argparse
import json
import os
import subprocess
import tempfile

WORKER = """
import json, sys, time
import numpy as np
import whet

what, model, package, small = sys.argv[1:]

def resident(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(key))

def once(model):
    for _ in range(2):
        model(*(np.ones(v.shape, v.dtype) for v in model.inputs))

target = "llvm -num_threads=1"
if what == "build":
    whet.compile(small + ".onnx", target=target).export(small)
else:
    once(whet.load(small))
before = resident("VmRSS")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak begins again
begin = time.perf_counter()
if what == "build":
    made = whet.compile(model, target=target)
    peak = resident("VmHWM")
    made.export(package)
else:
    made = whet.load(package)
    once(made)
    peak = resident("VmHWM")
seconds = time.perf_counter() - begin
print(json.dumps({"bytes": peak - before, "packed": made._constants.nbytes,
                  "arena": made.arena.size, "seconds": seconds}))
"""


def measured(file: Path, folder: Path) -> dict[str, float]:
    """The figures of one model's file."""
    import onnx

    weights = sum(len(t.raw_data) for t in onnx.load(file).graph.initializer)
    names = [str(file), str(folder / f"{file.stem}.whet"), str(folder / "small")]
    env = os.environ | {"WHET_CACHE": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
    found = {}
    for what in ("build", "run"):
        done = subprocess.run(
            [sys.executable, "-c", WORKER, what, *names],
            env=env,
            check=True,
            stdout=subprocess.PIPE,
        )
        found[what] = json.loads(done.stdout)
    packed = found["run"]["packed"] + found["run"]["arena"]
    return {
        "weights_mib": weights / 2**20,
        "build_mib": found["build"]["bytes"] / 2**20,
        "run_mib": found["run"]["bytes"] / 2**20,
        "build": found["build"]["bytes"] / weights,
        "run": found["run"]["bytes"] / packed,
    }


def small_model(path: Path) -> None:
    """Write a model that loads all that building takes, and has next to no weights."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper, save

    tensor = helper.make_tensor_value_info
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1])]
    nodes += [helper.make_node("Add", ["w0", "w0"], ["w"])]  # computed at import
    nodes += [helper.make_node("MaxPool", ["c"], ["p"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])]
    nodes += [helper.make_node("Softmax", ["p"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    nodes[:2] = nodes[1::-1]
    sizes, floats = [1, 8, 9, 9], TensorProto.FLOAT
    w = numpy_helper.from_array(np.ones((8, 8, 3, 3), np.float32), "w0")
    graph = helper.make_graph(
        nodes, "small", [tensor("x", floats, sizes)], [tensor("y", floats, sizes)], [w]
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), path)


def main() -> None:
    """Print the table."""
    from whet.bench.light_models import LIGHT, randomised

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["vgg19", "resnet50"])
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/")
    options = parser.parse_args()
    found, lines = {}, []
    for name in options.names:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            small_model(folder / "small.onnx")
            file = Path(name)
            if name in LIGHT:
                file = folder / f"{name}.onnx"
                file.write_bytes(randomised(name).SerializeToString())
            found[name] = one = measured(file, folder)
        lines.append(
            f"{file.stem}: weights {one['weights_mib']:.0f} MiB; build {one['build_mib']:.0f} MiB, "
            f"{one['build']:.2f} x; run {one['run_mib']:.0f} MiB, {one['run']:.2f} x packed "
            "weights and arena"
        )
    harness.report("models_memory", lines, {"memory": found}, "1 thread")


if __name__ == "__main__":
    main()
