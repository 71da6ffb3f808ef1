"""The findings of `whet doctor`: each looks at one thing, and says what it would give."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import platform
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from whet.compiler.installed import install_extra

VECTORS = ("sse4.2", "avx", "avx2", "fma", "avx512f", "avx512vnni", "amx-tile", "neon", "sve")


@dataclass(frozen=True)
class Finding:
    """One line of the checkup.

    Attributes:
        name: what was looked for.
        found: whether it is there.
        text: what it is, or why it is not there.
        gives: what it would give, and how to get it.
    """

    name: str
    found: bool
    text: str
    gives: str = ""


def checkup() -> list[Finding]:
    """Everything that Whet can make use of on this machine."""
    return [look() for look in CHECKS]


def processor() -> Finding:
    from whet.compiler.target.machine import host

    facts = host.describe()
    cores = f"{facts['physical_cores']} cores, {facts['logical_cpus']} threads"
    allowed = f"{len(facts['affinity'])} allowed to this process"
    quota = f", quota {facts['cpu_quota']:g}" if facts["cpu_quota"] else ""
    return Finding("CPU", True, f"{facts['cpu']} ({facts['arch']}), {cores}, {allowed}{quota}")


def vectors() -> Finding:
    from whet.compiler.target.machine import host

    have = host.features()
    named = [f for f in VECTORS if f in have]
    width = host.vector_bytes()
    wide = (width >= 32 and "fma" in have) or "neon" in have
    return Finding(
        "vectors",
        wide,
        f"{width * 8} bits; {' '.join(named) or 'no vector features'}",
        "AVX2 with FMA would make kernels about four times faster; this processor has none",
    )


def caches() -> Finding:
    from whet.compiler.target.machine import host

    found = host.describe()["caches"]
    if not found:
        return Finding("caches", False, "the system does not say", "nothing is lost")
    return Finding("caches", True, str(found) if not isinstance(found, dict) else _sizes(found))


def _sizes(levels: dict) -> str:
    def size(n: object) -> str:
        if not isinstance(n, int):
            return str(n)
        return f"{n >> 20} MiB" if n >= 1 << 20 else f"{n >> 10} KiB"

    return ", ".join(f"{level} {size(n)}" for level, n in levels.items())


def threads() -> Finding:
    from whet.compiler.target.machine import host

    return Finding("threads", True, f"{host.num_threads()} a parallel loop (WHET_NUM_THREADS)")


def peak() -> Finding:
    from whet.compiler.target.machine.fma import fma_peak
    from whet.measure.stage.load import busy_words
    from whet.measure.stage.machine import environment

    try:
        rate = fma_peak()
    except ImportError as error:
        return Finding("FMA peak", False, str(error), "how good a kernel could be: needs LLVM")
    said = f"{rate / 1e9:.1f} GFLOP/s float32, one core"
    if busy := busy_words(environment()):
        said += f"; it may be more: {busy}"
    return Finding("FMA peak", True, said)


def llvm() -> Finding:
    try:
        import llvmlite
        import llvmlite.binding
    except ImportError as error:
        return Finding("LLVM", False, str(error), "the CPU compiler: pip install llvmlite")
    version = ".".join(map(str, llvmlite.binding.llvm_version_info))
    return Finding("LLVM", True, f"{version} (llvmlite {llvmlite.__version__})")


def nvrtc() -> Finding:
    from whet.compiler.codegen.cuda import library
    from whet.compiler.errors import TargetError

    try:
        found = library.load()
    except TargetError:
        gives = f"compiles CUDA kernels, no GPU needed: {install_extra('nvrtc')}"
        return Finding("NVRTC", False, "no libnvrtc", gives)
    version, known = ".".join(map(str, found.version)), found.architectures
    cuda = library.driver_cuda()
    if cuda is not None and found.version[0] > cuda:
        gives = f"code that this driver loads, by CUDA 12's: {install_extra('nvrtc')}"
        return Finding("NVRTC", False, f"{version} is newer than the driver's CUDA {cuda}", gives)
    return Finding("NVRTC", True, f"{version}, sm_{known[0]} to sm_{known[-1]} ({found.path})")


def cuda_device() -> Finding:
    gives = "measures CUDA kernels, and runs them fast"
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return _no_driver(str(error), gives)
    count = ctypes.c_int()
    code = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if code or not count.value:
        why = _error(driver, code) if code else "CUDA_VISIBLE_DEVICES may hide it"
        text = f"the driver is there, but no device answers: {why}"
        return Finding("CUDA device", False, text, gives)
    names = [_gpu(driver, ordinal) for ordinal in range(count.value)]
    version = ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    cuda = f"CUDA {version.value // 1000}.{version.value % 1000 // 10}"
    return Finding("CUDA device", True, f"{', '.join(names)}; the driver's is {cuda}")


def _no_driver(why: str, gives: str) -> Finding:
    """Why there is no driver to ask: none at all, one where nobody looks, or a broken one."""
    from whet.compiler.runtime.gpu.driver.driver_folders import folder_of_driver, not_looked_in

    if "cannot open shared object file: No such file" not in why:
        return Finding("CUDA device", False, f"NVIDIA's driver cannot be loaded: {why}", gives)
    folder = folder_of_driver()
    if folder is None:
        return Finding("CUDA device", False, "no NVIDIA driver (libcuda.so.1)", gives)
    text, way_out = not_looked_in(folder)
    return Finding("CUDA device", False, text, f"{gives}: {way_out}")


def _error(driver: ctypes.CDLL, code: int) -> str:
    text = ctypes.c_char_p()
    driver.cuGetErrorName(code, ctypes.byref(text))
    return (text.value or b"").decode(errors="replace") or f"error {code}"


def _gpu(driver: ctypes.CDLL, ordinal: int) -> str:
    device, text = ctypes.c_int(), ctypes.create_string_buffer(128)
    major, minor = ctypes.c_int(), ctypes.c_int()
    driver.cuDeviceGet(ctypes.byref(device), ordinal)
    driver.cuDeviceGetName(text, len(text), device)
    driver.cuDeviceComputeCapability(ctypes.byref(major), ctypes.byref(minor), device)
    return f"{text.value.decode(errors='replace')} (sm_{major.value}{minor.value})"


def emulator() -> Finding:
    from whet.compiler import settings

    compiler = settings.cxx_compiler().split()[0]
    if shutil.which(compiler) is None:
        gives = "runs CUDA kernels where there is no GPU, and finds races: install g++"
        return Finding("CUDA emulator", False, f"there is no C++ compiler {compiler!r}", gives)
    return Finding("CUDA emulator", True, f'whet.device("cuda-emulator"), by {compiler}')


def pycuda() -> Finding:
    """Where there is a driver it is imported, too: what a newer one was built for cannot be."""
    from whet.compiler.codegen.cuda.library import driver_cuda
    from whet.compiler.errors import TargetError
    from whet.compiler.runtime.gpu.driver.pycuda_driver import imported

    gives = f"launches CUDA kernels: {install_extra('cuda')}, or scripts/build_pycuda"
    found = _package("pycuda", "pycuda", gives)()
    if not found.found or driver_cuda() is None:
        return found
    try:
        imported()
    except TargetError as error:
        return Finding("pycuda", False, error.args[1], gives)
    return found


def _package(name: str, module: str, gives: str) -> Callable[[], Finding]:
    """A finding about an installed package; it is not imported, which takes seconds for some.

    ``{plots}`` in what it gives stands for the command that installs that extra, and so for others.
    """

    def look() -> Finding:
        if importlib.util.find_spec(module) is None:
            text = re.sub(r"\{(\w+)\}", lambda extra: install_extra(extra[1]), gives)
            return Finding(name, False, "not installed", text)
        for distribution in (module, f"{module}-cpu"):
            try:
                return Finding(name, True, importlib.metadata.version(distribution))
            except importlib.metadata.PackageNotFoundError:
                continue
        return Finding(name, True, "installed")

    return look


def python() -> Finding:
    return Finding("Python", True, f"{platform.python_version()} on {platform.platform()}")


CHECKS: tuple[Callable[[], Finding], ...] = (
    python,
    processor,
    vectors,
    caches,
    threads,
    peak,
    llvm,
    _package("Optuna", "optuna", "samplers: pip install optuna"),
    _package("XGBoost", "xgboost", 'the cost model (sampler="xgb"): pip install xgboost-cpu'),
    _package("SQLAlchemy", "sqlalchemy", "the log: pip install sqlalchemy"),
    _package("Ray", "ray", 'many machines at once (workers="ray://..."): {cluster}'),
    _package("psycopg", "psycopg", "logs in PostgreSQL: {postgresql}"),
    nvrtc,
    emulator,
    pycuda,
    cuda_device,
    _package("pandas", "pandas", "result.trials_dataframe(): {plots}"),
    _package("plotly", "plotly", "Optuna's plots of result.study: {plots}"),
    _package("optuna-dashboard", "optuna_dashboard", "result.study in a browser: {plots}"),
    _package("torch", "torch", "a peer in the benchmarks: {bench}"),
)
"""The checks, in the order of the report."""
