"""The system that a triple names, and which objects go with which."""

import pytest

from whet.compiler.target.machine.systems import runs_under, system_of


@pytest.mark.parametrize(
    ("triple", "system"),
    [
        ("x86_64-unknown-linux-gnu", ("linux", "gnu", "elf")),
        ("x86_64-linux-gnux32", ("linux", "gnux32", "elf")),
        ("armv7l-linux-gnueabihf", ("linux", "gnueabihf", "elf")),
        ("x86_64", ("", "", "elf")),
        ("x86_64-pc-windows-msvc", ("windows", "msvc", "coff")),
        ("x86_64-pc-windows-msvc-elf", ("windows", "msvc", "elf")),
        ("x86_64-w64-mingw32", ("mingw", "", "coff")),
        ("arm64-apple-macos13.1", ("macos", "", "macho")),
        ("arm64-apple-ios-simulator", ("ios", "simulator", "macho")),
        ("x86_64-unknown-uefi", ("uefi", "", "coff")),
        ("riscv64-none-elf", ("none", "", "elf")),
        ("wasm32-unknown-unknown", ("", "", "wasm")),
        ("x86_64-unknown-freebsd14.0", ("freebsd", "", "elf")),
    ],
)
def test_systems(triple, system):
    assert system_of(triple) == system


def test_what_goes_with_what():
    linux = "x86_64-unknown-linux-gnu"
    for triple in (linux, "x86_64", "x86_64-linux", "x86_64-pc-linux-gnu"):
        assert runs_under(triple, linux) and runs_under(linux, triple)
    for triple in ("x86_64-linux-musl", "x86_64-linux-gnux32", "x86_64-linux-android"):
        assert not runs_under(triple, linux)
    assert not runs_under("x86_64-windows-msvc-elf", linux)
    assert runs_under("arm64-apple-macos11", "arm64-apple-macos14.2")
    assert not runs_under("arm64-apple-ios", "arm64-apple-macos14.2")
    assert not runs_under("x86_64", "x86_64-apple-darwin20")
