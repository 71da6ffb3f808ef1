"""`scripts/build_pycuda`: what it refuses, how it links; with `--gpu-full` the whole build."""

import argparse
import importlib.util
import os
import subprocess
import sys
import tarfile
import zipfile
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "build_pycuda"

# As pycuda's: options come from siteconf.py, symbols from a library that the linker does not see.
SETUP = """
from setuptools import Extension, setup
exec(open("siteconf.py").read())
assert CUDA_ENABLE_CURAND is False and CUDART_LIB_DIR == []
setup(
    name="pycuda",
    version="2026.1",
    packages=["pycuda"],
    ext_package="pycuda",
    ext_modules=[
        Extension(
            "_driver",
            ["driver.cpp"],
            include_dirs=CUDA_INC_DIR,
            library_dirs=CUDADRV_LIB_DIR,
            libraries=["cuda"],
        )
    ],
)
"""
DRIVER = """
#include <Python.h>
#include "cuda.h"
extern "C" int cuInit(unsigned);
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_driver", "", -1, nullptr};
PyMODINIT_FUNC PyInit__driver() { return VERSION == 12 && cuInit(0) ? nullptr
                                                                     : PyModule_Create(&module); }
"""

PYPROJECT = """
[build-system]
requires = ["setuptools", "wheel", "numpy>=1.24"]
"""


@pytest.fixture(scope="module")
def script():
    loader = SourceFileLoader("build_pycuda", str(SCRIPT))
    spec = importlib.util.spec_from_loader("build_pycuda", loader)
    module = importlib.util.module_from_spec(spec)
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = written
    return module


def asks(**more):
    """The command line."""
    return argparse.Namespace(**{"python": sys.executable, "wheels": None, "cuda": None} | more)


def program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_python_that_does_not_fit_is_refused(script, tmp_path):
    with pytest.raises(SystemExit, match=r"is Python 3\.10\.13: 3\.11 or newer is needed"):
        script.version_of(program(tmp_path / "old", "echo 3.10.13 True"))
    with pytest.raises(SystemExit, match=r"Python\.h of .* is missing: install its headers"):
        script.version_of(program(tmp_path / "bare", "echo 3.12.1 False"))
    for name in (str(tmp_path / "none"), program(tmp_path / "broken", "exit 1")):
        with pytest.raises(SystemExit, match="cannot be started"):
            script.version_of(name)
    assert script.version_of(program(tmp_path / "new", "echo 3.13.0 True")) == "Python 3.13.0"
    assert script.version_of(sys.executable).startswith("Python 3.")


def test_a_missing_compiler_is_named(script, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler -O2")
    with pytest.raises(SystemExit, match=r"there is no C\+\+ compiler 'no-such-compiler'"):
        script.check_compiler()


@pytest.mark.parametrize("place", ["include", f"targets/{os.uname().machine}-linux/include", "."])
def test_headers_of_a_toolkit_are_found(script, tmp_path, place):
    with pytest.raises(SystemExit, match=r"has no folder with cuda\.h and cudaProfiler\.h"):
        script.toolkit_headers(tmp_path)
    folder = tmp_path / place
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cuda.h").touch()
    with pytest.raises(SystemExit, match="has no folder"):
        script.toolkit_headers(tmp_path)
    (folder / "cudaProfiler.h").touch()
    assert script.toolkit_headers(tmp_path) == [folder]


def test_an_extension_is_linked_with_a_driver_that_is_not_there(script, tmp_path, monkeypatch):
    unpacked, headers, work = tmp_path / "pycuda-2026.1", tmp_path / "include", tmp_path / "work"
    for folder in (unpacked / "pycuda", headers, work):
        folder.mkdir(parents=True)
    (unpacked / "setup.py").write_text(SETUP)
    (unpacked / "driver.cpp").write_text(DRIVER)
    (unpacked / "pycuda" / "__init__.py").touch()
    (headers / "cuda.h").write_text("#define VERSION 12\n")
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "1")  # this environment's setuptools will do
    wheel = script.build(asks(), unpacked, [headers], work)
    script.check(wheel)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    says = import_of(tmp_path / "site", "pycuda._driver")
    assert "libcuda.so.1: cannot open shared object file" in says or not says


def carried_sources(folder, name="pycuda-2026.1"):
    """A folder with the sources of an extension as pycuda's, and nothing that builds it."""
    unpacked = folder / name
    (unpacked / "pycuda").mkdir(parents=True)
    (unpacked / "setup.py").write_text(SETUP)
    (unpacked / "pyproject.toml").write_text(PYPROJECT)
    (unpacked / "driver.cpp").write_text(DRIVER)
    (unpacked / "pycuda" / "__init__.py").touch()
    wheels = folder / "wheels"
    wheels.mkdir()
    with tarfile.open(wheels / f"{name}.tar.gz", "w:gz") as archive:
        archive.add(unpacked, name)
    return wheels


def test_sources_that_were_carried_are_built_without_a_network(tmp_path):
    """The index that pip would ask is not there: a build of its own environment would ask it."""
    wheels, cuda = carried_sources(tmp_path), tmp_path / "cuda"
    cuda.mkdir()
    (cuda / "cuda.h").write_text("#define VERSION 12\n")
    (cuda / "cudaProfiler.h").touch()
    environ = {k: v for k, v in os.environ.items() if not k.startswith("PIP_")}
    environ |= {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_CONFIG_FILE": os.devnull}
    words = ["--python", sys.executable, "--wheels", wheels, "--cuda", cuda]
    done = subprocess.run(
        [SCRIPT, *words, "--output", tmp_path / "made"],
        env=environ, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    wheel = Path(done.stdout.splitlines()[-1])
    assert wheel.parent == tmp_path / "made" and wheel.name.startswith("pycuda-2026.1-")


def test_what_is_not_carried_is_named(script, tmp_path, monkeypatch):
    options = asks(wheels=tmp_path)
    with pytest.raises(SystemExit, match=r"there is no pycuda-2026\.1\.tar\.gz in .*pip download"):
        script.sources(options, tmp_path)
    assert script.isolation(options) == ["--no-build-isolation"]
    assert script.isolation(asks()) == []
    bare = program(tmp_path / "bare", f'exec {sys.executable} -S -I "$@"')
    options = asks(wheels=tmp_path, python=bare)
    with pytest.raises(SystemExit, match="put wheels of setuptools, wheel, numpy into"):
        script.isolation(options)
    with pytest.raises(SystemExit, match="has no pip: put a wheel of it into --wheels"):
        script.pip_of(options)
    for name in ("setuptools", "wheel", "numpy", "pip"):
        (tmp_path / f"{name}-1.0-py3-none-any.whl").touch()
    assert script.isolation(options) == []  # pip makes the build's environment of these
    assert script.pip_of(options) == [bare, f"{tmp_path}/pip-1.0-py3-none-any.whl/pip"]


def test_every_call_of_pip_gives_a_silent_network_up(script, tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(
        script, "run", lambda words, **environment: calls.append((words, environment))
    )
    script.pip(asks(), "install", "a.whl")
    script.pip(asks(wheels=tmp_path), "wheel", "folder", LDFLAGS="-s")
    for words, environment in calls:
        assert words[words.index("--retries") + 1] == environment["PIP_RETRIES"] == "1"
        assert words[words.index("--timeout") + 1] == environment["PIP_TIMEOUT"] == "15"
    (online, _), (offline, environment) = calls
    assert "--no-index" not in online and offline[-1] == "folder"
    assert offline[offline.index("--find-links") + 1] == str(tmp_path)
    assert environment["PIP_NO_INDEX"] == "1" and environment["LDFLAGS"] == "-s"


def import_of(site, name):
    done = subprocess.run(
        [sys.executable, "-c", f"import {name}"],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
    )
    return done.stderr


def test_an_extension_that_would_not_find_the_driver_is_refused(script, tmp_path):
    wheel = tmp_path / "pycuda-2026.1-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("pycuda/_driver.cpython-311.so", b"\x7fELF libcudart.so.1\0")
    with pytest.raises(SystemExit, match=r"was linked without libcuda\.so\.1"):
        script.check(wheel)


def test_a_failed_command_ends_the_script(script, capfd):
    with pytest.raises(SystemExit, match=r"build_pycuda: `sh -c exit 3` ended with 3"):
        script.run(["sh", "-c", "exit 3"])
    script.run(["sh", "-c", "echo $LDFLAGS"], LDFLAGS="as given")
    out, err = capfd.readouterr()
    assert out == "" and "as given" in err  # standard output is for the wheel's path


def test_the_whole_build(request, tmp_path):
    if not request.config.getoption("--gpu-full", default=False):
        pytest.skip("takes minutes and the network: --gpu-full")
    done = subprocess.run(
        [SCRIPT, "--python", sys.executable, "--output", tmp_path / "wheels"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    wheel = Path(done.stdout.splitlines()[-1])
    assert wheel.parent == tmp_path / "wheels" and wheel.name.startswith("pycuda-2026.1-")
