"""Packaged kernels: the numbers of each level, without LLVM, and the same bytes each time."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from packaged import LEVELS, check_numbers, environment, python, tasks

import whet
from whet.compiler.errors import ArgumentError, ArtifactError, TargetError
from whet.compiler.runtime.package import processor
from whet.compiler.runtime.package.load import memory_path, read
from whet.compiler.target.machine import host
from whet.compiler.target.machine.features import X86_LEVELS, X86_NEEDS
from whet.compiler.target.machine.processor_features import ASKED

X86 = host.architecture() == "x86_64"

IN_PYTHON = """
import os
import packaged
import whet.compiler.runtime.package.load as loading
package = loading.load(sys.argv[1])
packaged.check_numbers(package)
assert "llvmlite" not in sys.modules
print(package.level("product"))
"""


def test_numbers_are_numpys(packaged):
    package = whet.load(packaged)
    assert list(package) == ["dense", "product", "exp"] and len(package) == 3
    assert "dense" in package and "conv" not in package and 7 not in package
    check_numbers(package)
    assert repr(package) == "<whet package kernels.whet: dense, product, exp>"
    widest = {v.library for kernel in package.index.kernels for v in kernel.variants[:1]}
    assert {package.level(name) for name in package} == {
        package.index.libraries[k].level for k in widest
    }
    why = package.tuned_by("dense")
    assert (why["how"], why["why"]) == ("default", "no log was given")


@pytest.mark.skipif(not X86, reason="levels are x86-64's")
@pytest.mark.parametrize("level", LEVELS)
def test_a_process_without_llvm_takes_the_code_of_its_level(level, packaged):
    assert python(IN_PYTHON, packaged, WHET_CPU=level).split() == [level]


@pytest.mark.skipif(not X86, reason="levels are x86-64's")
def test_a_processor_that_lacks_features_takes_older_code(packaged, monkeypatch):
    everything = processor._features("")
    without = {"x86-64-v4": {"avx512vl"}, "x86-64-v3": {"fma"}}
    for level, missing in without.items():
        if level not in LEVELS[1:]:
            continue
        monkeypatch.setattr(processor, "_features", lambda _, m=missing: everything - m)
        package = whet.load(packaged)
        below = LEVELS[LEVELS.index(level) - 1]
        assert {package.level(name) for name in package} == {below}
        check_numbers(package)
    monkeypatch.setattr(processor, "_features", lambda _: frozenset({"sse3"}))
    package = whet.load(packaged)
    with pytest.raises(ArtifactError, match=r"none of its code runs on this CPU .* needs cx16"):
        package["dense"]
    with pytest.raises(ArtifactError, match="none of its code runs"):
        package.level("dense")
    assert len(package) == 3


@pytest.mark.skipif(not X86, reason="levels are x86-64's")
def test_older_code_has_no_wider_registers(packaged, tmp_path):
    """A library's instructions, disassembled: the level is not a word alone."""
    _, data, index = read("test", packaged)
    wide = {"x86-64-v2": ("%ymm", "%zmm"), "x86-64-v3": ("%zmm",)}
    seen = 0
    for one in index.libraries:
        if one.level not in wide:
            continue
        (tmp_path / "k.so").write_bytes(data[one.offset : one.offset + one.size])
        text = subprocess.run(
            ["objdump", "-d", str(tmp_path / "k.so")], capture_output=True, text=True, check=True
        ).stdout
        assert "%xmm" in text and not any(register in text for register in wide[one.level])
        seen += 1
    assert seen


def test_each_feature_of_a_target_can_be_asked_for():
    asked = {*X86_NEEDS, *ASKED["x86_64"]} - {"sse", "sse2"}
    assert asked <= processor.X86.keys()
    header = Path(whet.runtime.include_dir()) / "whet" / "package_processor.h"
    listed = header.read_text()  # a C program asks for the same ones
    assert all(f'{{"{name}", ' in listed for name in (*processor.X86, *processor.AARCH64))


@pytest.mark.skipif(not X86, reason="levels are x86-64's")
def test_features_without_llvm_are_those_with_it(monkeypatch):
    monkeypatch.delenv("WHET_CPU", raising=False)
    assert processor.features() & X86_NEEDS.keys() == host.features()
    monkeypatch.setenv("WHET_CPU", "x86-64-v2")
    assert processor.features() == dict(X86_LEVELS)["x86-64-v2"]
    monkeypatch.setenv("WHET_CPU", "x86-64-v9")
    with pytest.raises(TargetError, match="WHET_CPU=x86-64-v9: x86_64 has no such level"):
        processor.features()


def test_mistakes_of_calls_are_explained(packaged):
    package = whet.load(packaged)
    a, b, c = (np.ones(s, "float32") for s in ((24, 40), (40, 56), (24, 55)))
    with pytest.raises(ArgumentError, match=r"C\.shape\[1\] is 55, expected 56"):
        package["product"](a, b, c)
    with pytest.raises(ArgumentError, match=r"did you mean 'product'\? kernels: dense, product"):
        package["prodct"]
    with pytest.raises(KeyError):
        package[7]
    assert package.get("conv") is None


def test_the_same_tasks_give_the_same_bytes(packaged, tmp_path):
    folder = tmp_path / "temporary"
    folder.mkdir()
    code = "import sys, packaged, whet; whet.package(packaged.tasks(), sys.argv[1], untuned=True)"
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "other.whet")],
        check=True, env=environment(TMPDIR=str(folder), PYTHONHASHSEED="77"),
    )  # fmt: skip
    assert (tmp_path / "other.whet").read_bytes() == packaged.read_bytes()


def test_the_same_library_is_mapped_once(packaged, tmp_path):
    (tmp_path / "copy.whet").write_bytes(packaged.read_bytes())
    one, two = whet.load(packaged), whet.load(tmp_path / "copy.whet")
    assert one["product"] is two["product"]
    assert memory_path(3, bytes(32)) == "/proc/self/fd" + "/" * 64 + "3"
    assert memory_path(3, b"\x05" + bytes(31)) == "/proc/self/fd/.///./" + "/" * 61 + "3"


def test_kernels_outlive_their_file_and_package(packaged, tmp_path):
    (tmp_path / "gone.whet").write_bytes(packaged.read_bytes())
    product = whet.load(tmp_path / "gone.whet")["product"]
    (tmp_path / "gone.whet").unlink()
    a, b, c = (np.ones(s, "float32") for s in ((24, 40), (40, 56), (24, 56)))
    product(a, b, c)
    assert (c == 40).all()


def test_kernels_for_a_gpu_are_data(tmp_path):
    task = whet.create_task("matmul", args=(32, 32, 32), target="cuda -arch=sm_80")
    index = whet.package({"on_gpu": task}, tmp_path / "gpu.whet", untuned=True)
    assert [(one.kind, one.arch) for one in index.libraries] == [("cuda", "sm_80")]
    function = whet.load(tmp_path / "gpu.whet")["on_gpu"]
    a, b = (np.arange(1024, dtype="float32").reshape(32, 32) % k for k in (7, 5))
    device = whet.device("cuda-emulator")
    on_device = [whet.nd.array(x, device) for x in (a, b, np.empty((32, 32), "float32"))]
    function(*on_device)
    np.testing.assert_allclose(on_device[2].numpy(), a @ b, rtol=1e-5)


def test_all_tasks_can_be_of_another_machine(tmp_path):
    import aarch64

    if aarch64.missing():
        pytest.skip(aarch64.missing())
    index = whet.package(tasks(), tmp_path / "k.whet", untuned=True, levels=["aarch64"])
    assert [(one.level, one.needs) for one in index.libraries] == [("aarch64", ())]
    package = whet.load(tmp_path / "k.whet")
    with pytest.raises(ArtifactError, match="aarch64 is for aarch64"):
        package["dense"]
