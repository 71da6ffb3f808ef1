"""Exported files that were cut off or changed: an error says so, and no process dies."""

import ctypes
import gzip
import io
import json
import lzma
import os
import random
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from raw_kernels import MIXED, MIXED_RAW, VADD, VADD_RAW, module

from whet.compiler import settings
from whet.compiler.errors import ArtifactError
from whet.compiler.runtime import load_module
from whet.compiler.runtime.library import integrity
from whet.compiler.runtime.library.export import compile_files

pytestmark = pytest.mark.skipif(
    shutil.which(settings.c_compiler().split()[0]) is None or not sys.platform.startswith("linux"),
    reason="no C compiler here, or no ELF",
)

# Loads each file of a folder in a process of its own; a name, and what came of it.
PROGRAM = """
import os, sys
from pathlib import Path
from whet.compiler.errors import ArtifactError
from whet.compiler.runtime import load_module

for path in sorted(Path(sys.argv[1]).iterdir()):
    child = os.fork()
    if not child:
        try:
            load_module(path)
            os._exit(0)
        except ArtifactError as error:
            os._exit(1 if str(path) in str(error) else 2)
        except BaseException:
            os._exit(3)
    print(path.name, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
LOADED, REFUSED = 0, 1


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The bytes of a library, an object and an archive."""
    folder = tmp_path_factory.mktemp("exported")
    built = module((VADD, VADD_RAW), (MIXED, MIXED_RAW))
    return {
        kind: Path(built.export_library(folder / f"kernels.{kind}")).read_bytes()
        for kind in ("so", "o", "tar")
    }


def outcomes(folder):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return {name: int(code) for name, code in (line.split() for line in done.stdout.splitlines())}


def without_checksum(data):
    return data[: -integrity._TRAILER]


def lengths(data, count):
    """Lengths in the whole file, and all close to its end."""
    return {0, 1, 63, 64, *(len(data) * k // count for k in range(count))} | {
        len(data) - k for k in range(1, 9)
    }


@pytest.mark.parametrize("kind", ["so", "o", "tar"])
def test_files_that_were_cut_off(exported, kind, tmp_path):
    data = exported[kind]
    for n in lengths(data, 30):
        (tmp_path / f"{n}.{kind}").write_bytes(data[:n])
    found = outcomes(tmp_path)
    if kind == "tar":  # blocks of zeros follow the last file, which nobody misses
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            end = max(member.offset_data + member.size for member in archive)
        found = {name: code for name, code in found.items() if code or int(name[:-4]) < end}
    assert len(found) > 20 and set(found.values()) == {REFUSED}


def test_a_library_without_a_checksum_is_taken_by_its_headers(exported, tmp_path):
    data = without_checksum(exported["so"])
    for n in (*lengths(data, 18), len(data)):
        (tmp_path / f"{n}.so").write_bytes(data[:n])
    found = outcomes(tmp_path)
    assert found.pop(f"{len(data)}.so") == LOADED
    assert len(found) > 18 and set(found.values()) == {REFUSED}


@pytest.mark.parametrize("kind", ["so", "o", "tar"])
def test_files_with_another_bit(exported, kind, tmp_path):
    data = exported[kind]
    body = len(data) - integrity._TRAILER
    for at in random.sample(range(body), 30):
        changed = bytearray(data)
        changed[at] ^= 1 << random.randrange(8)
        (tmp_path / f"{at}.{kind}").write_bytes(changed)
    found = outcomes(tmp_path)
    assert len(found) == 30 and set(found.values()) == {REFUSED}


@pytest.mark.parametrize("kind", ["so", "o"])
def test_files_that_end_in_zeros(exported, kind, tmp_path):
    """As after a crash of a machine: pages at the end were never written."""
    data = exported[kind]
    for n in (integrity._TRAILER, 512, 4096, len(data) // 2):
        (tmp_path / f"{n}.{kind}").write_bytes(data[:-n] + bytes(n))
    found = outcomes(tmp_path)
    assert len(found) == 4 and set(found.values()) == {REFUSED}


@pytest.mark.parametrize("kind", ["so", "o", "tar"])
def test_a_file_is_loaded_without_its_checksum_and_through_a_copy(exported, kind, tmp_path):
    (tmp_path / f"old.{kind}").write_bytes(without_checksum(exported[kind]))
    loaded = load_module(tmp_path / f"old.{kind}")
    a, c = np.ones(5, np.float32), np.zeros(5, np.float32)
    loaded(a, a, c)
    assert (c == 2).all()
    (tmp_path / f"new.{kind}").write_bytes(exported[kind])
    copy = load_module(tmp_path / f"new.{kind}").export_library(tmp_path / f"copy.{kind}")
    assert Path(copy).read_bytes() == exported[kind]


def linked(tmp_path, source):
    (tmp_path / "some.c").write_text(source)
    compile_files(str(tmp_path / "some.so"), [str(tmp_path / "some.c")])
    return (tmp_path / "some.so").read_bytes()


def changed(data, at, layout):
    return data[:at] + layout + data[at + len(layout) :]


def test_other_files(exported, tmp_path):
    library, relocatable = exported["so"], exported["o"]
    old = without_checksum(library)
    files = {
        "empty.so": (b"", "has no bytes"),
        "empty.o": (b"", "has no bytes"),
        "empty.tar": (b"", "has no bytes"),
        "text.o": (b"INPUT(/etc/passwd)", "is no object: it begins with b'INPU'"),
        "foreign.so": (linked(tmp_path, "int f(void) { return 1; }"), "holds no kernels of Whet"),
        "object.so": (relocatable, "it is an ELF file, and no library"),
        "library.o": (library, "it is an ELF file, and no object"),
        "machine.so": (changed(old, 18, b"\xb7\0"), "a library for another machine"),
        "class.so": (changed(old, 4, b"\1"), "a library for another machine"),
        "order.so": (changed(old, 5, b"\2"), "a library for another machine"),
        "headers.so": (changed(old, 54, b"\1\0"), "segments' headers have 1 bytes, not 56"),
        "begin.so": (changed(old, 32, b"\xff" * 8), "damaged: .* cannot be read|ends at byte"),
        "sections.so": (changed(old, 40, b"\0\0\0\x40"), "table of its sections ends at byte 1,07"),
        "half.so": (library[: -integrity._TRAILER // 2], "23 bytes are missing at its end"),
    }
    for name, (data, message) in files.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ArtifactError, match=message) as caught:
            load_module(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)
    (tmp_path / "folder.so").mkdir()
    with pytest.raises(ArtifactError, match="it is a folder"):
        load_module(tmp_path / "folder.so")


def archive(path, *members):
    with tarfile.open(path, "w") as file:
        for name, content in members:
            about = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                about.size = len(content)
                file.addfile(about, io.BytesIO(content))
            else:
                about.type, about.linkname = content
                file.addfile(about)


def junk():
    data = random.randbytes(4000)
    packed = gzip.compress(data)
    return {
        "noise": data,
        "zeros": bytes(20_000),
        "half of gzip": packed[:2000],
        "gzip with another byte": packed[:1000] + b"\0" + packed[1001:],
        "gzip of nothing": gzip.compress(b""),
        "half of xz": lzma.compress(data)[:2000],
        "xz of noise": lzma.compress(data),
        "text": b"no archive",
    }


@pytest.mark.parametrize("kind", junk())
def test_junk_is_no_archive(kind, tmp_path):
    (tmp_path / "junk.tar").write_bytes(junk()[kind])
    with pytest.raises(ArtifactError, match=r"no archive of a library|holds no object"):
        load_module(tmp_path / "junk.tar")


def test_an_archive_writes_and_reads_nothing_outside(exported, tmp_path):
    before = tmp_path / "victim.o"
    before.write_bytes(b"as it was")
    here = str(before).encode()
    for members in (
        [("../../victim.o", b"x"), (str(before), b"x")],
        [("a.o", (tarfile.SYMTYPE, str(before))), ("a.o", b"x")],
        [("a.o", (tarfile.LNKTYPE, str(before)))],
        [("..", b"x"), ("a/..", b"x"), ("/", b"x")],
        [("a.o", (tarfile.SYMTYPE, here.decode()))],
        [("whet/..", b"x")],
    ):
        archive(tmp_path / "bad.tar", *members)
        with pytest.raises(ArtifactError):
            load_module(tmp_path / "bad.tar")
        assert before.read_bytes() == b"as it was" and len(os.listdir(tmp_path)) == 2


def test_an_archive_with_a_hole_is_not_read(tmp_path):
    about = tarfile.TarInfo("kernels.o")
    about.size = 1 << 40
    (tmp_path / "bad.tar").write_bytes(about.tobuf(tarfile.GNU_FORMAT) + bytes(10240))
    with pytest.raises(ArtifactError, match=r"'kernels\.o' has 1,099,511,627,776 bytes"):
        load_module(tmp_path / "bad.tar")


VALID = {
    "whet": 2,
    "signatures": [VADD.to_json()],
    "target": {"kind": "cuda", "arch": "sm_80"},
    "linked": False,
    "source": "text",
    "plans": [],
    "kernels": [],
    "others": [],
    "imports": [],
}


def with_param(**fields):
    first, *rest = VADD.to_json()["params"]
    return [{**VADD.to_json(), "params": [{**first, **fields}, *rest]}]


def told_wrong():
    deep = "[" * 100_000 + "]" * 100_000
    begin = json.dumps(VALID).removesuffix("]}")
    nested = begin * 2000 + "]}" * 2000
    return {
        "no JSON": "{",
        "a list": "[]",
        "a number": "7",
        "deep": deep,
        "deep imports": nested,
        "not UTF-8": b"\xff\xfe{}",
        "signatures": {"signatures": 7},
        "a name": {"signatures": [{**VADD.to_json(), "name": 7}]},
        "a symbol": {"signatures": [{**VADD.to_json(), "symbols": [None]}]},
        "an unbound symbol": {"signatures": [{**VADD.to_json(), "symbols": ["m"]}]},
        "a parameter": {"signatures": [{**VADD.to_json(), "params": [3]}]},
        "parameters": {"signatures": [{**VADD.to_json(), "params": None}]},
        "an extent": {"signatures": with_param(shape=[{}])},
        "a huge extent": {"signatures": with_param(shape=[2**70])},
        "a negative extent": {"signatures": with_param(shape=[-1])},
        "a fraction": {"signatures": with_param(shape=[1.5])},
        "no expression": {"signatures": with_param(shape=["("])},
        "a deep expression": {"signatures": with_param(shape=["(" * 5000 + "n" + ")" * 5000])},
        "a dtype": {"signatures": with_param(dtype="float31")},
        "no dtype": {"signatures": with_param(dtype=None)},
        "a target": {"target": 7},
        "no target": {"target": None},
        "linked": {"linked": True},
        "plans": {"plans": [{"function": 3}]},
        "launches": {"plans": [{"function": "vadd", "temporaries": [], "launches": 5}]},
        "imports": {"imports": 7},
        "an import": {"imports": [7]},
        "others": {"others": [7]},
        "code": {"cubin": 7, "ptx": ""},
        "cut code": {"cubin": "eJwDAAAAAAE", "ptx": ""},
    }


@pytest.mark.parametrize("case", told_wrong())
def test_what_a_file_tells_of_itself_is_looked_at(case, tmp_path):
    told = told_wrong()[case]
    if isinstance(told, dict):
        told = json.dumps({**VALID, **told})
    content = told if isinstance(told, bytes) else told.encode()
    archive(tmp_path / "bad.tar", ("metadata.json", content))
    with pytest.raises(ArtifactError) as caught:
        load_module(tmp_path / "bad.tar")
    assert len(str(caught.value)) < 1000


def test_the_file_that_tells_the_truth_is_loaded(tmp_path):
    archive(tmp_path / "good.tar", ("metadata.json", json.dumps(VALID).encode()))
    assert load_module(tmp_path / "good.tar").functions == ["vadd"]


def test_programs_still_link_with_a_library(exported, tmp_path):
    (tmp_path / "libkernels.so").write_bytes(exported["so"])
    (tmp_path / "main.c").write_text(
        "int vadd(void **, int); int main(void) { return vadd((void **)0, 0) ? 0 : 1; }"
    )
    program, options = str(tmp_path / "main"), [f"-L{tmp_path}", "-lkernels"]
    command = [*settings.c_compiler().split(), str(tmp_path / "main.c"), "-o", program, *options]
    subprocess.run([*command, f"-Wl,-rpath,{tmp_path}"], check=True)
    assert ctypes.CDLL(str(tmp_path / "libkernels.so")).vadd
