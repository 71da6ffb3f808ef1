"""Requirements of a check of a GPU: driver, environment, packages, pycuda, PyTorch, Triton.

It runs in whatever Python the machine has, before anything is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import site
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path

from check_command import Ended, ended, said
from check_report import Failed, Report, Skipped, tail

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".venv-gpu"
"""The environment."""
MARK = "gpu_check.pth"
"""A file of it: what has none is no environment of this script, and is not removed."""
TOOLKITS = ("/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda")
DRIVERS: tuple[str, ...] = run_path(str(ROOT / "compiler/runtime/gpu/driver/driver_folders.py"))[
    "FOLDERS"
]
"""Where the driver's library is on machines whose loader does not know it. The file is run by
itself, as Whet cannot be imported yet."""
NVRTC = "nvidia-cuda-nvrtc"
OLDER = "torch<2.9"
"""PyTorch for drivers of CUDA 12: later ones on PyPI are made with CUDA 13."""
NEWEST = 13

DRIVER = """
import ctypes, json
cuda, number, name = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.create_string_buffer(256)
code = cuda.cuInit(0)
text = ctypes.c_char_p()
cuda.cuGetErrorName(code, ctypes.byref(text))
cuda.cuDriverGetVersion(ctypes.byref(number))
found = {"cuda": number.value, "error": (text.value or b"").decode() if code else "", "names": []}
if not code:
    cuda.cuDeviceGetCount(ctypes.byref(number))
    for device in range(number.value):
        cuda.cuDeviceGetName(name, 256, device)
        found["names"].append(name.value.decode())
print(json.dumps(found))
"""
LACKING = """
import sys
from importlib.metadata import PackageNotFoundError, version
try:
    from packaging.requirements import Requirement
except ImportError:
    from pip._vendor.packaging.requirements import Requirement
for text in sys.argv[1:]:
    one = Requirement(text)
    if one.marker is not None and not one.marker.evaluate():
        continue
    try:
        there = one.specifier.contains(version(one.name), prereleases=True)
    except PackageNotFoundError:
        there = False
    if not there:
        print(text)
"""
COMPILER = """
from whet.compiler.codegen.cuda import library
found = library.load()
assert found.version[0] <= (library.driver_cuda() or 99), "it is newer than the driver"
print("NVRTC {}.{}".format(*found.version))
"""
PYCUDA = "import pycuda, pycuda.driver"
PEERS = """
import sys, torch, triton
print(f"PyTorch {torch.__version__}, Triton {triton.__version__}")
sys.exit(0 if torch.cuda.is_available() else f"PyTorch {torch.__version__} sees no GPU")
"""


# --- the driver


def driver() -> str:
    """The driver and its GPUs, by NVIDIA's library; nothing is installed for it.

    Raises:
        Failed: there is no such library, or it finds no GPU.
    """
    found = driver_facts()
    if found["error"] or not found["names"]:
        why = found["error"] or "CUDA_VISIBLE_DEVICES may hide them"
        raise Failed(f"the driver finds no GPU: {why}")
    names = ", ".join(found["names"])
    return f"{names}; the driver's CUDA is {found['cuda'] // 1000}.{found['cuda'] % 1000 // 10}"


def driver_facts() -> dict:
    """The driver's answer, from a process of its own."""
    find_driver()
    out = said([sys.executable, "-c", DRIVER], 60)
    return dict(json.loads(out.splitlines()[-1]))


def find_driver() -> None:
    """Put the driver's library on the path of later processes where the loader does not find it.

    Raises:
        Failed: there is none.
    """
    code = 'import ctypes; ctypes.CDLL("libcuda.so.1")'
    if ended([sys.executable, "-c", code], 60).code == 0:
        return
    places = [place for place in DRIVERS if Path(place, "libcuda.so.1").exists()]
    if not places:
        raise Failed(f"there is no libcuda.so.1, nor in {', '.join(DRIVERS)}: no driver")
    before = os.environ.get("LD_LIBRARY_PATH")
    os.environ["LD_LIBRARY_PATH"] = f"{places[0]}:{before}" if before else places[0]


def cuda_of_driver() -> int:
    """The version of CUDA, its first number, that the driver knows; 0 where it does not say."""
    try:
        return int(driver_facts()["cuda"]) // 1000
    except Failed:
        return 0


# --- the environment


def environment(options: argparse.Namespace) -> str:
    """A Python that has what this one has, this checkout, and a place for what is missing."""
    if sys.version_info < (3, 11):  # noqa: UP036 - this script is all that an older one reads
        raise Failed(f"Whet needs Python 3.11 or newer; this is {sys.version.split()[0]}")
    options.folder = _free(options.folder)
    # This Python's own pip does as well; Debian's venv can make none without a package more.
    said([sys.executable, "-m", "venv", "--without-pip", str(options.folder)], 120)
    known = "\n".join([str(ROOT), *folders_of_packages()])
    Path(own(options), MARK).write_text(known + "\n")
    return f"{options.folder}, Python {sys.version.split()[0]}"


def _free(folder: Path) -> Path:
    """A folder that can be made: the one that was asked for, without what this script left there.

    Raises:
        Failed: something else is there.
    """
    ours = folder == FOLDER or any(folder.glob(f"lib/*/*/{MARK}"))
    if folder.is_dir() and any(folder.iterdir()) and not ours:
        raise Failed(f"{folder} is no environment of this script: name another --folder")
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "lib").mkdir()
    except OSError:
        return Path(tempfile.mkdtemp(prefix="whet-gpu-check-"))
    return folder


def folders_of_packages() -> list[str]:
    """Where this Python's packages are: its own, its system's and its user's."""
    named = [p for p in sys.path if Path(p).name in ("site-packages", "dist-packages")]
    paths = {sysconfig.get_path(p) for p in ("purelib", "platlib")} | set(site.getsitepackages())
    found = [*named, *sorted(p for p in paths if p)]
    return [p for p in dict.fromkeys(found) if Path(p).is_dir()]


def own(options: argparse.Namespace) -> Path:
    """The environment's folder of packages."""
    text = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(said([str(python(options)), "-c", text], 60).strip())


def python(options: argparse.Namespace) -> Path:
    """The Python of the environment."""
    return Path(options.folder / "bin" / "python").absolute()


# --- packages


def pip(options: argparse.Namespace, *words: str, seconds: float | None = None) -> None:
    """Install something, in so many seconds at most; without a network from a folder."""
    offline = ["--no-index", "--find-links", str(options.wheels)] if options.wheels else []
    quiet = ["--quiet", "--disable-pip-version-check", "--retries", "1", "--timeout", "15"]
    said([*_pip(options), "install", *quiet, *offline, *words], seconds)


def _pip(options: argparse.Namespace) -> list[str]:
    """pip: this Python's, the one that comes with Python, or a wheel's, which runs as it is.

    Raises:
        Failed: there is none.
    """
    own_one = [str(python(options)), "-m", "pip"]
    for make in ([*own_one, "--version"], [*own_one[:2], "ensurepip"]):
        if ended(make, 60).code == 0:
            return own_one
    wheels = sorted(options.wheels.glob("pip-*.whl")) if options.wheels else []
    if not wheels:
        raise Failed("this Python has no pip: put a wheel of it into --wheels")
    return [str(python(options)), f"{wheels[-1]}/pip"]


def project() -> dict:
    """The ``[project]`` table of pyproject.toml."""
    import tomllib

    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"])


def packages(options: argparse.Namespace, seconds: float) -> str:
    """Install Whet's dependencies that the checks need; one by one if not all of it can be had.

    Args:
        options: the command line.
        seconds: that it may take.

    Raises:
        Failed: something is missing in the end; the checks that need it fail, and others do not.
    """
    extras = project()["optional-dependencies"]
    wanted = [*project()["dependencies"], *extras["nvrtc"], *extras["bfloat16"]]
    missing, compiler = lacking(options, wanted)
    if missing:
        _install(options, missing, seconds)
        missing, compiler = lacking(options, wanted)
    if missing:
        names = ", ".join(text.split(";")[0].strip() for text in missing)
        raise Failed(f"could not be installed: {names}")
    return f"{len(wanted)} packages; {compiler}"


def lacking(options: argparse.Namespace, wanted: list[str]) -> tuple[list[str], str]:
    """The packages that the environment lacks, and the compiler that it has, whoever brought it."""
    words = [str(python(options)), "-c", LACKING, *wanted]
    looked = ended(words, 60)
    if looked.code:  # no pip, which reads requirements: one that can be had, or a wheel's
        paths = [str(Path(_pip(options)[-1]).parent), os.environ.get("PYTHONPATH", "")]
        text = said(words, 60, {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))})
    else:
        text = looked.out
    found = text.splitlines()
    asked = ended([str(python(options)), "-c", COMPILER], 60)
    if asked.code == 0:
        found = [text for text in found if not text.startswith(NVRTC)]
    return found, asked.out.strip() or "no NVRTC that the driver knows"


def _install(options: argparse.Namespace, missing: list[str], seconds: float) -> None:
    """All at once; where that fails, what can be had, so that some checks can be made."""
    for words in (missing, *([one] for one in missing)):
        try:
            pip(options, *words, seconds=seconds if words is missing else seconds / len(missing))
        except Failed as error:
            print(f"      {str(error).splitlines()[0]}", flush=True)
        else:
            if words is missing:
                return


def pycuda(options: argparse.Namespace, seconds: float) -> str:
    """pycuda, from this Python, from a wheel, or built here.

    Args:
        options: the command line.
        seconds: that building may take.
    """
    if options.device == "cuda-emulator":
        raise Skipped("the emulator needs none")
    if _imports_pycuda(options):
        return "was there"
    tried = []
    if options.wheels:
        try:
            # What else it names it does not need to be imported.
            pip(options, "--no-deps", "--only-binary=:all:", "pycuda", seconds=seconds)
            if _imports_pycuda(options):
                return f"from {options.wheels}"
            tried.append("the wheel that is there cannot be imported")
        except Failed as error:
            tried.append(str(error))  # no wheel for this Python: it is built
    for more in ([], *(["--cuda", folder] for folder in toolkits())):
        try:
            return _built(options, more, seconds)
        except Failed as error:
            tried.append(str(error))
    raise Failed("\n".join([f"it cannot be had: {tried[0].splitlines()[0]}", *tried]))


def _imports_pycuda(options: argparse.Namespace) -> bool:
    """True if pycuda is there; without a driver, which a stand-in replaces, it cannot tell."""
    found = ended([str(python(options)), "-c", PYCUDA], 60)
    return found.code == 0 or "libcuda.so.1: cannot open" in found.err


def toolkits() -> Iterator[str]:
    """CUDA toolkits of this machine."""
    named = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    nvcc = shutil.which("nvcc")
    found = [*named, *([str(Path(nvcc).resolve().parents[1])] if nvcc else []), *TOOLKITS]
    yield from dict.fromkeys(place for place in found if place and Path(place).is_dir())


def _built(options: argparse.Namespace, more: list[str], seconds: float) -> str:
    """Build its wheel and install it.

    Args:
        options: the command line.
        more: nothing, for headers from PyPI; or a toolkit.
        seconds: that it may take.
    """
    words = [sys.executable, str(ROOT / "scripts" / "build_pycuda"), "--python"]
    words += [str(python(options)), "--output", str(options.folder / "wheels"), *more]
    words += ["--wheels", str(options.wheels)] if options.wheels else []
    wheel = said(words, seconds).splitlines()[-1]
    pip(options, "--no-deps", wheel)
    if not _imports_pycuda(options):
        raise Failed(f"{Path(wheel).name} was built, and cannot be imported")
    return Path(wheel).name


# --- peers


def peers(options: argparse.Namespace, seconds: float) -> str:
    """PyTorch for CUDA and Triton, which the figures are judged beside.

    Raises:
        Skipped: nothing here needs them, or they cannot be had: goals are not judged then.
    """
    if not options.device.startswith("cuda:"):
        raise Skipped("only figures of a GPU have peers")
    users = ("figures", "runtime torch", "runtime tensors")
    if options.only and not any(name.startswith(w) for w in options.only for name in users):
        raise Skipped("nothing that was asked for needs them")
    there = seen(options)
    if there.code == 0:
        return there.out.strip()
    names = ("torch", "triton")
    wanted = [x for x in project()["optional-dependencies"]["bench"] if x.startswith(names)]
    # One for the CPU alone may be there, which pip would find good enough.
    words = ["--ignore-installed"] if "sees no GPU" in there.err else []
    older = [] if options.wheels or cuda_of_driver() >= NEWEST else [OLDER]
    try:
        pip(options, *words, *older, *wanted, seconds=seconds)
    except Failed as error:
        for half in (path for name in names for path in own(options).glob(f"{name}*")):
            shutil.rmtree(half, ignore_errors=True)  # what it has left could not be imported
        raise Skipped(f"goals beside peers are not judged: {error}") from None
    there = seen(options)
    if there.code != 0:
        raise Skipped(f"goals beside peers are not judged: {tail(there.err, 1)}")
    return there.out.strip()


def seen(options: argparse.Namespace) -> Ended:
    """The answer of the environment's PyTorch and Triton; ends with 0 if they see a GPU."""
    return ended([str(python(options)), "-c", PEERS], 120)


# --- all of it


def install(report: Report, options: argparse.Namespace) -> bool:
    """Make ready what is missing; returns whether there is a Python that can check the rest.

    Args:
        report: what is added to.
        options: the command line; its folder may become another one.
    """
    if options.device.startswith("cuda:"):
        report.run("driver", driver)
    report.run("install environment", lambda: environment(options))
    if not report.passed("install environment"):
        return False
    report.run("install packages", lambda: packages(options, report.left / 4))
    report.run("install pycuda", lambda: pycuda(options, report.left / 3))
    report.run("install peers", lambda: peers(options, report.left / 3))
    return True
