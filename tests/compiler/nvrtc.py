"""NVIDIA's compiler as a library: compiles CUDA C with no GPU, where its wheel is installed."""

import ctypes
import importlib.util
from pathlib import Path

import pytest


def _folder(name):
    spec = importlib.util.find_spec("nvidia")
    for place in list(spec.submodule_search_locations or []) if spec else []:
        for folder in (Path(place, name), Path(place, "cu13")):
            if folder.is_dir():
                return folder
    return None


def library():
    """The library; the test is skipped where there is none."""
    folder = _folder("cuda_nvrtc")
    found = sorted(folder.glob("lib/libnvrtc.so*")) if folder else []
    if not found:
        pytest.skip(
            "NVRTC is not installed: pip install nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12"
        )
    for builtins in folder.glob("lib/libnvrtc-builtins.so*"):
        ctypes.CDLL(str(builtins))  # NVRTC does not find it by itself
    return ctypes.CDLL(str(found[0]))


def compile_cuda(text, arch):
    """What the compiler says about CUDA C for an architecture; empty where all is well."""
    lib, program = library(), ctypes.c_void_p()
    assert (
        lib.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None)
        == 0
    )
    options = [f"--gpu-architecture={arch}".encode()]
    headers = _folder("cuda_runtime")
    if headers:
        options.append(f"-I{headers / 'include'}".encode())
    given = (ctypes.c_char_p * len(options))(*options)
    code = lib.nvrtcCompileProgram(program, len(options), given)
    size = ctypes.c_size_t()
    lib.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    lib.nvrtcGetProgramLog(program, log)
    lib.nvrtcDestroyProgram(ctypes.byref(program))
    return log.value.decode() if code else ""
