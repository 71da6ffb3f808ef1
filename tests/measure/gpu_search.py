"""A search on a GPU that is the stand-in: run in a process whose libcuda it is."""

import sys

import gpu_fakes
import numpy as np

import whet
from whet.compiler.runtime.gpu.driver.interface import driver_of
from whet.db import TuningLog, device_key
from whet.measure import LocalPool, MeasureOptions


def main(path: str) -> None:
    """Tune a product on the machine's two GPUs, then build the best one of the log."""
    gpu_fakes.use_standin()
    task = whet.create_task("matmul", args=(32, 32, 32), target="cuda -arch=sm_80")
    options = MeasureOptions(build_timeout=60.0, run_timeout=30.0, repeat=3, min_repeat_ms=0.1)
    with LocalPool(
        1,
        device="cuda:0,cuda:1",
        options=options,
        build_function="gpu_fakes:emulated_build",
        run_function="gpu_fakes:standin_run",
        prepare_function="gpu_fakes:standin_prepare",
    ) as pool:
        devices = [whet.cuda(0), "cuda:1"]
        found = whet.tune(task, 2, path, "random", pool, devices, progress=False)
    assert found.outcomes() == {"ok": 2}, [t.result for t in found.trials]
    assert not found.predicted
    assert "predicted" not in str(found)
    for trial in found.trials:
        facts = trial.result.environment
        assert facts["cost"] == "measured" and facts["checked"] and facts["gpu"]["name"]
    with TuningLog(path, write=False) as log:
        (device,) = log.devices()
        assert device_key(device).startswith("cuda-") and not device.get("cost")
        assert log.best(task.workload, task.target, "cuda-emulator") is None
    kernel = whet.build(task, log=path)  # this machine's GPU is meant
    # A GPU of one process alone would have refused its worker a context.
    assert not driver_of("cuda")._contexts
    a, b = (np.random.default_rng(k).random((32, 32)).astype("float32") for k in (1, 2))
    held = [whet.nd.array(x, whet.cuda(0)) for x in (a, b, np.zeros_like(a))]
    kernel(*held)
    np.testing.assert_allclose(held[2].numpy(), a @ b, rtol=1e-4)
    print("all is well")


if __name__ == "__main__":
    main(sys.argv[1])
