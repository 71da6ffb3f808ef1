"""SASS by whichever disassembler is here, or an error that says where to get one."""

import os
import stat

import pytest

import whet
from whet import te
from whet.compiler import settings
from whet.compiler.codegen.cuda import disassembly, nvrtc
from whet.compiler.errors import ArgumentError, TargetError

needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="NVRTC is not installed")
LISTING = ".text.twice_kernel0:\\n  /*0000*/  LDG.E R2 ;\\n  /*0010*/  EXIT ;"


def tool(folder, name, body):
    """A program that answers as a disassembler does."""
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / name
    made.write_text(f"#!/bin/sh\n{body}\n")
    made.chmod(made.stat().st_mode | stat.S_IXUSR)
    return made


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A machine without any: its own folder is on PATH, and nothing else is."""
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    monkeypatch.setattr(disassembly.importlib.util, "find_spec", lambda name: None)
    return tmp_path


def twice():
    A = te.placeholder((100,), name="A")
    B = te.compute((100,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    return whet.build(s, [A, B], target="cuda -arch=sm_90", name="twice")


def test_none_is_an_error_that_says_where_to_get_one(bare):
    with pytest.raises(TargetError, match=r"(?s)neither nvdisasm nor cuobjdump on PATH.*triton"):
        disassembly.disassembled(b"")
    assert list(disassembly.found_tools()) == []


def test_they_are_found_on_path_in_the_toolkit_and_in_triton(bare, monkeypatch):
    wanted = [
        tool(bare / "path", "nvdisasm", "exit 1"),
        tool(bare / "toolkit" / "bin", "nvdisasm", "exit 1"),
        tool(bare / "triton" / "backends" / "nvidia" / "bin", "nvdisasm", "exit 1"),
        tool(bare / "toolkit" / "bin", "cuobjdump", "exit 1"),
    ]

    class Spec:
        submodule_search_locations = [str(bare / "triton")]

    monkeypatch.setattr(disassembly.importlib.util, "find_spec", lambda name: Spec)
    assert list(disassembly.found_tools()) == wanted
    monkeypatch.delenv("CUDA_HOME")
    assert settings.cuda_home() == "" and wanted[1] not in disassembly.found_tools()


def test_one_that_refuses_is_passed_over(bare):
    old = tool(bare / "path", "nvdisasm", "echo 'unknown architecture sm_90' >&2; exit 1")
    with pytest.raises(TargetError, match=r"nvdisasm: unknown architecture sm_90"):
        disassembly.disassembled(b"cubin")
    shown = f'read x < "$2" && test "$1 $x" = "-sass cubin" && printf "{LISTING}"'
    tool(bare / "toolkit" / "bin", "cuobjdump", shown)
    old.chmod(0o644)  # not to be run at all
    assert "LDG.E R2" in disassembly.disassembled(b"cubin\n")


@needs_nvrtc
def test_get_source_and_save(bare):
    listed = tool(bare / "path", "nvdisasm", f'test "$1" = -c && printf "{LISTING}"')
    f = twice()
    assert "EXIT" in f.get_source("sass")
    f.save(bare / "twice.sass")
    assert (bare / "twice.sass").read_text() == f.get_source("sass")
    os.remove(listed)
    with pytest.raises(TargetError, match="get_source\\('ptx'\\) needs neither"):
        f.get_source("sass")
    with pytest.raises(ArgumentError, match='"ptx", "sass"'):
        f.get_source("asm")


@needs_nvrtc
@pytest.mark.skipif(next(disassembly.found_tools(), None) is None, reason="no disassembler here")
def test_a_real_listing_has_the_kernels_instructions():
    text = twice().get_source("sass")
    assert "twice_kernel0" in text and "LDG.E" in text and "EXIT" in text
