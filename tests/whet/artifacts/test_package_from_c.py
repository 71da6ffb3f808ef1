"""Packages in C programs: no Python, levels of CPUs, mistakes, opening and closing."""

import shutil
import subprocess
from pathlib import Path

import aarch64
import pytest
from packaged import LEVELS, compiled, compiler, environment, tasks

import whet
from whet.compiler.target.machine import host

SOURCE = Path(__file__).with_name("package_main.c")

pytestmark = pytest.mark.skipif(not compiler(), reason="no C compiler here, or no ELF")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    return compiled(SOURCE, folder / "main", "-std=c99", "-O1", "-lm")


def run(program, *arguments, **env):
    done = subprocess.run(
        [program, *map(str, arguments)], capture_output=True, text=True, env=environment(**env)
    )
    return done.returncode, done.stdout


SAID = (
    "argument 2: shape[1] is not what the kernel wants\n"
    "the number of arguments is wrong\n"
)  # fmt: skip


def test_numbers_shapes_and_counts(program, packaged):
    level = whet.load(packaged).level("product")
    code, said = run(program, packaged, "numbers")
    assert (code, said) == (0, f"dense product exp right at {level}\n{SAID}")


@pytest.mark.skipif(not LEVELS, reason="levels are x86-64's")
@pytest.mark.parametrize("level", LEVELS)
def test_a_lesser_processor_takes_older_code(level, program, packaged):
    code, said = run(program, packaged, "numbers", WHET_CPU=level)
    assert (code, said) == (0, f"dense product exp right at {level}\n{SAID}")


@pytest.mark.skipif(not LEVELS, reason="levels are x86-64's")
def test_a_processor_that_is_too_old(program, packaged):
    code, said = run(program, packaged, "kernel", "product", WHET_CPU="x86-64")
    assert (code, said.split(" of ")[0]) == (0, "6 0 product: none")
    assert said.endswith("runs on this CPU, for want of cx16\n")
    code, said = run(program, packaged, "kernel", "product", WHET_CPU="x86-64-v9")
    assert code == 1 and "WHET_CPU is no level: native, x86-64-v2" in said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("product", "0 1 ok"),
        ("exp", "0 1 ok"),
        ("dense_ahead", "0 1 ok"),
        ("prodct", "5 0 prodct: the package has no such kernel"),
        ("product_ahead", "5 0 product_ahead: its library has no such function"),
        ("_ahead", "5 0 _ahead: the package has no such kernel"),
        ("", "5 0 : the package has no such kernel"),
        ("x" * 1000, f"5 0 {'x' * 120}: the package has no such kernel"),
        ("x" * 1000 + "_ahead", f"5 0 {'x' * 120}: the package has no such kernel"),
    ],
)
def test_kernels_by_name(name, said, program, packaged):
    assert run(program, packaged, "kernel", name) == (0, said + "\n")


def test_null_pointers_and_little_room_for_text(program, packaged):
    assert run(program, packaged, "null") == (0, "9 9 9 1 nowhere 1\n")


def test_files_that_are_none(program, tmp_path):
    (tmp_path / "text").write_text("no package")
    (tmp_path / "empty").write_text("")
    for name, said in {
        "text": "it is no package of Whet",
        "empty": "it is damaged: it was cut off",
        "missing": "No such file or directory",
        ".": "Is a directory",
    }.items():
        code, text = run(program, tmp_path / name, "numbers")
        assert code == 1 and text.endswith(f": {said}\n"), text


def test_two_packages_opened_and_closed_in_turns(program, packaged, tmp_path):
    """A closed library's path can be another's, and the system must not take one for the other."""
    other = tmp_path / "other.whet"
    product = whet.create_task("matmul", args=(5, 6, 7), target="llvm")
    whet.package({"product": product}, other, untuned=True, levels=["own"])
    assert run(program, packaged, "again", packaged, other) == (0, "0" * 300 + "\n")


def test_the_header_is_for_cpp_too(packaged, tmp_path):
    if shutil.which("g++") is None:
        pytest.skip("no g++ here")
    source = tmp_path / "main.cpp"
    source.write_text(SOURCE.read_text())
    program = compiled(source, tmp_path / "main", "-O1", command=["g++"])
    assert run(program, packaged, "numbers")[0] == 0


def test_two_files_of_a_program_can_include_the_header(tmp_path):
    (tmp_path / "main.c").write_text("#include <whet/package.h>\n#include \"other.c\"\n"
                                     "int main(void) { return other(); }\n")  # fmt: skip
    (tmp_path / "other.c").write_text(
        "#include <whet/package.h>\n"
        "static int other(void) { return whet_package_count(NULL) != 0; }\n"
    )
    program = compiled(tmp_path / "main.c", tmp_path / "main", "-std=c11")
    assert run(program) == (0, "")


def test_an_aarch64_takes_its_code(tmp_path):
    """Of one file for both architectures, under qemu."""
    if aarch64.missing():
        pytest.skip(aarch64.missing())
    path = tmp_path / "both.whet"
    index = whet.package(tasks(), path, untuned=True, levels=["aarch64", "own"])
    assert [one.arch for one in index.libraries] == ["aarch64", host.architecture()]
    command = [aarch64.PREFIX + "gcc"]
    program = compiled(SOURCE, tmp_path / "main", "-std=c99", "-O1", "-lm", command=command)
    done = aarch64.run(program, path, "numbers", WHET_NUM_THREADS="2", WHET_CPU="native")
    assert (done.returncode, done.stdout.decode()) == (
        0,
        f"dense product exp right at aarch64\n{SAID}",
    )
