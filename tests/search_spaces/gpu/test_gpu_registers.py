"""Default configs of templates for GPUs: NVIDIA's compiler gives them registers enough."""

import gpu_checks
import pytest

import whet
from whet.compiler.codegen.cuda import nvrtc

ALLOWED = {("conv 3x3", "sm_80"): 4}
"""Bytes a thread that may be spilt: one address, put away before the loop and read once a round of
some thousand instructions. Of 129 registers a multiprocessor would hold four blocks, not five."""

pytestmark = pytest.mark.skipif(not nvrtc.available(), reason="NVRTC's wheel is not installed")

WORKS = {
    "matmul": ("matmul", (4096, 4096, 4096)),
    "half matmul": ("matmul", (4096, 4096, 4096, False, True, "float16")),
    "small dense": ("dense", (16, 1024, 1024)),
    "batch_matmul": ("batch_matmul", (96, 128, 64, 128)),
    "conv 3x3": ("conv2d_nchw", (16, 64, 56, 56, 64, 3, 3, 1, 1)),
    "conv 7x7": ("conv2d_nchw", (16, 3, 224, 224, 64, 7, 7, 2, 3)),
    "conv of few pixels": ("conv2d_nchw", (16, 512, 7, 7, 512, 3, 3, 1, 1)),
    "conv nhwc": ("conv2d_nhwc", (16, 256, 14, 14, 256, 3, 3, 1, 1)),
    "depthwise": ("depthwise_conv2d_nchw", (16, 144, 56, 56, 3, 3, 1, 1)),
    "softmax": ("softmax", ((4096, 4096),)),
    "long softmax": ("softmax", ((512, 32768),)),
    "layer_norm": ("layer_norm", ((4096, 1024),)),
    "sum": ("sum", ((4096, 4096), 0)),
    "gelu": ("bias_gelu", ((4096, 4096), "float16")),
    "transpose": ("transpose", ((4096, 4096),)),
}


@pytest.mark.gpu_matrix(8)
@pytest.mark.parametrize("arch", ("sm_80", "sm_90"))
@pytest.mark.parametrize("which", WORKS)
def test_nothing_else_is_spilt(which, arch):
    name, args = WORKS[which]
    task = whet.create_task(name, args=args, target=f"cuda -arch={arch}")
    s, tensors = task.instantiate()
    text = whet.build(s, tensors, task.target).get_source("cuda")
    allowed = ALLOWED.get((which, arch), 0)
    for kernel, used in nvrtc.compile_cubin(text, arch).resources.items():
        assert max(used.spill_stores, used.spill_loads) <= allowed, (kernel, used)


def test_what_the_compiler_refuses_fails_a_check(monkeypatch):
    with pytest.raises(nvrtc.NvrtcError, match="stray"):
        gpu_checks.compiles("stray", full=True)
    good = 'extern "C" __global__ void k(WHET_GLOBAL(int) A) { A[0] = 1; }'
    monkeypatch.setattr(gpu_checks, "COMPILED", 1 << 40)
    assert gpu_checks.compiles(good, full=True) and not gpu_checks.compiles(good, full=False)
    monkeypatch.setattr(gpu_checks, "COMPILED", 1)
    assert gpu_checks.compiles(good, full=False)
