"""Quick compiles of the emulator: headers as GCC has read them, and code that is kept already."""

import os
import subprocess
import sys

import pytest

from whet.compiler.emulator import compile_emulated
from whet.compiler.emulator.compile import _version, compiler_command
from whet.compiler.emulator.precompiled import link_precompiled
from whet.compiler.errors import CodegenError

KERNEL = 'extern "C" __global__ void k(WHET_GLOBAL(int) A) { A[0] = 1; }'


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Lists what is kept, in a cache of the test's own."""
    monkeypatch.setenv("WHET_CACHE_DIR", str(tmp_path / "cache"))
    return lambda: list((tmp_path / "cache" / "precompiled").rglob("*.gch"))


def linked(folder, text, version=None):
    """Link a header as it was read as ``text``, beside one with another text; what a file sees."""
    folder.mkdir(exist_ok=True)
    command, *_ = compiler_command()
    (folder / "h.h").write_text(text)
    link_precompiled(folder, "h.h", {"h.h": text}, [command], version or _version(command))
    (folder / "h.h").write_text("#define SEEN file")
    (folder / "a.cpp").write_text('#include "h.h"\nSEEN')
    done = subprocess.run(
        [command, "-E", "-P", "-fpch-preprocess", "a.cpp"],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    return "kept" if "pch_preprocess" in done.stdout else done.stdout.split()[-1]


@pytest.mark.skipif("clang" in _version(compiler_command()[0]), reason="GCC's way")
def test_gcc_takes_what_it_has_read(tmp_path, kept):
    assert linked(tmp_path / "a", "#define SEEN kept") == "kept" and len(kept()) == 1
    assert linked(tmp_path / "b", "#define SEEN kept") == "kept" and len(kept()) == 1
    assert linked(tmp_path / "c", "#error no") == "file" and len(kept()) == 1
    assert linked(tmp_path / "d", "#define SEEN d", "clang 21") == "file" and len(kept()) == 1


def test_without_a_cache_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("WHET_CACHE_DIR", "")
    assert linked(tmp_path, "#define SEEN kept") == "file"


@pytest.mark.skipif("clang" in _version(compiler_command()[0]), reason="GCC's way")
def test_what_cannot_be_kept_is_made_once(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("WHET_CACHE_DIR", str(tmp_path / "file"))
    asked, run = [], subprocess.run
    monkeypatch.setattr(
        subprocess, "run", lambda words, **more: asked.append(words) or run(words, **more)
    )
    for name in "ab":
        assert linked(tmp_path / name, "#define SEEN kept") == "file"
    assert sum("c++-header" in words for words in asked) == 1


@pytest.mark.skipif("clang" in _version(compiler_command()[0]), reason="GCC's way")
def test_only_quick_compilations_keep_one(kept):
    compile_emulated(KERNEL, checks=True)
    assert kept() == []
    compile_emulated(KERNEL, checks=True, quick=True)
    compile_emulated(KERNEL.replace("1", "2"), checks=True, quick=True)
    assert len(kept()) == 1


def test_messages_name_no_folder_that_is_gone(kept):
    wrong = KERNEL.replace("A[0] = 1", "whet_load<float>(A, 0, 0, 0, 0)")
    for _ in range(2):
        with pytest.raises(CodegenError, match="whet_load") as error:
            compile_emulated(wrong, checks=True, quick=True)
        assert "whet-emulator" not in str(error.value) and "buffers.h" in str(error.value)
    assert len(kept()) == 1


def test_what_runs_fast_is_taken_where_it_is_kept(kept):
    fast = compile_emulated(KERNEL, checks=True)
    assert compile_emulated(KERNEL, checks=True, quick=True) == fast
    other = KERNEL.replace("= 1", "= 2")
    soon = compile_emulated(other, checks=True, quick=True)
    assert soon not in (fast, compile_emulated(other, checks=True))


def test_the_end_of_a_forked_child_leaves_its_parents_code():
    text = """
import os, sys
from whet.compiler.emulator.compile import _own_folder
folder = _own_folder()
if os.fork() == 0:
    sys.exit(0)
os.wait()
print(folder, folder.exists())
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    folder, there = done.stdout.split()
    assert there == "True" and not os.path.exists(folder), done.stderr
