"""Packages that were cut off, changed or made to harm: errors in Python and C, no dead process."""

import copy
import json
import random
import subprocess
from pathlib import Path

import pytest
from packaged import BASE, compiled, compiler, environment, index_and_blobs, python, sealed, tasks

import whet
from whet.compiler.errors import ArtifactError
from whet.compiler.runtime.package import container
from whet.compiler.runtime.package.index import MOST_KERNELS, MOST_LIBRARIES

# Loads a file again and again, changed as each line of stdin says; an outcome a line. A line is
# "cut N", "flip AT BIT" or "file PATH".
IN_PYTHON = """
import whet
from whet.compiler.errors import ArtifactError
from pathlib import Path

data, changed = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2])
for line in Path(sys.argv[3]).read_text().splitlines():
    what, *rest = line.split()
    path = Path(rest[0]) if what == "file" else changed
    if what == "cut":
        changed.write_bytes(data[: int(rest[0])])
    elif what == "flip":
        at, bit = map(int, rest)
        changed.write_bytes(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
    try:
        whet.load(path)
        print("loaded")
    except ArtifactError as error:
        print("refused" if str(path) in str(error) and len(str(error)) < 1500 else str(error))
"""
DAMAGE = (2, 3, 4)  # of package.h: no package, damaged, of another version


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A package with one library, for processes that open it hundreds of times."""
    if not compiler():
        pytest.skip("no C compiler here, or no ELF")
    path = tmp_path_factory.mktemp("small") / "small.whet"
    product = {"product": tasks()["product"]}
    level = "x86-64-v2" if whet.compiler.target.machine.host.architecture() == "x86_64" else "own"
    whet.package(product, path, untuned=True, levels=[level])
    return path


@pytest.fixture(scope="module")
def opener(tmp_path_factory):
    """The C program, with checks of memory where the C compiler has them."""
    if not compiler():
        pytest.skip("no C compiler here, or no ELF")
    folder = tmp_path_factory.mktemp("opener")
    source = Path(__file__).with_name("package_main.c")
    probe = folder / "probe.c"
    probe.write_text("int main(void) { return 0; }\n")
    checks = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    command = [*compiler(), *checks, str(probe), "-o", str(folder / "probe")]
    there = not subprocess.run(command, capture_output=True).returncode
    there = there and not subprocess.run([folder / "probe"], capture_output=True).returncode
    options = ["-std=c99", "-g", "-O1", *(checks if there else ()), "-lm"]
    return compiled(source, folder / "opener", *options)


def codes(opener, paths):
    """The results of ``whet_package_open`` for files, in one process."""
    done = subprocess.run(
        [opener, "-", "each"],
        input="".join(f"{p}\n" for p in paths),
        capture_output=True,
        text=True,
        env=environment(ASAN_OPTIONS="detect_leaks=1"),
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    lines = done.stdout.splitlines()
    assert len(lines) == len(paths)
    return [int(line.split(" ", 1)[0]) for line in lines]


def changes(data):
    """Every kilobyte cut, the last bytes one by one, a bit at 500 places."""
    size = len(data)
    places = {*range(30), *random.sample(range(size), 470)}
    lengths = [*range(0, size, 1024), *range(size - 40, size)]
    flips = [f"flip {at} {random.randrange(8)}" for at in sorted(places)]
    return [f"cut {n}" for n in lengths] + flips


def test_python_refuses_what_was_cut_or_changed(small, tmp_path):
    lines = changes(small.read_bytes())
    (tmp_path / "lines").write_text("\n".join(lines))
    found = python(IN_PYTHON, small, tmp_path / "changed.whet", tmp_path / "lines").splitlines()
    assert len(lines) > 520
    assert [f for f in zip(lines, found, strict=True) if f[1] != "refused"] == []


def test_c_refuses_what_was_cut_or_changed(small, opener, tmp_path):
    data, paths = small.read_bytes(), []
    for k, line in enumerate(changes(data)):
        what, *numbers = line.split()
        at = int(numbers[0])
        changed = bytearray(data if what == "flip" else data[:at])
        if what == "flip":
            changed[at] ^= 1 << int(numbers[1])
        paths.append(tmp_path / f"{k}.whet")
        paths[-1].write_bytes(changed)
    found = codes(opener, [small, *paths])
    assert found[0] == 0 and len(found) > 520
    assert set(found[1:]) <= set(DAMAGE), [
        paths[k] for k, c in enumerate(found[1:]) if c not in DAMAGE
    ]


def hostile(index):
    """Names of wrong indices, each with one, and True where a C program has to see it, too."""

    def changed(change):
        other = copy.deepcopy(index)
        change(other)
        return other

    def library(**fields):
        return changed(lambda i: i["libraries"][0].update(fields)), True

    def kernel(seen=True, **fields):
        return changed(lambda i: i["kernels"][0].update(fields)), seen

    def variant(seen=True, **fields):
        return changed(lambda i: i["kernels"][0]["variants"][0].update(fields)), seen

    first, size = index["libraries"][0]["offset"], index["libraries"][0]["size"]
    cases = {
        f"{name} is {str(value)[:12]}": library(**{name: value})
        for name in ("offset", "size")
        for value in (
            2**62, 2**63 - 1, 2**64 - 1, 2**64 + first, -1, -4096, 1.5, 1e300, "4096", None, True,
            [], {}, 10**400,
        )
    }  # fmt: skip
    cases |= {f"offset {n}": library(offset=n) for n in (0, 1, first - 1, first + 1, first + 2**20)}
    cases |= {f"size {n}": library(size=n) for n in (0, size + 4096, 2**40)}
    cases |= {
        f"library {name} {str(value)[:8]}": library(**{name: value})
        for name in ("kind", "arch", "level", "needs")
        for value in (None, 7, {}, [7], [None], "", "\x00", "a b", 'q"', "x" * 100_000, [["avx"]])
    }
    cases |= {
        f"kernel {name} {str(value)[:8]}": kernel(**{name: value})
        for name in ("name", "variants")
        for value in (None, 7, {}, [7], [[]], "", "a b", "7a", "a.b", "x" * 300, [None])
    }
    cases |= {
        f"library number {value!r:.12}": variant(library=value)
        for value in (1, 2**31, 2**32, 2**62, -1, 0.5, "0", None, [], 10**30)
    }
    for key in ("libraries", "kernels"):
        for value in (None, 7, {}, "x", [7], [None], [[]]):
            cases[f"{key} {value}"] = changed(lambda i, k=key, v=value: i.update({k: v})), True
        cases[f"no {key}"] = changed(lambda i, k=key: i.pop(k)), True
    cases["other text"] = kernel(False, workload=7)
    cases["other config"] = variant(False, config=[])
    cases["deep config"] = variant(False, config={"a": [[[[[[1]]]]]]})
    cases["other reason"] = variant(False, tuned_by=None)
    cases["deep reason"] = variant(False, tuned_by={"why": [["x"]]})
    cases["other signature"] = variant(False, signature=None)
    cases["other models"] = changed(lambda i: i.update(models={})), False

    return cases | crowded(index, changed)


def crowded(index, changed):
    """Names of indices with a library or a kernel too many, each with one."""
    first, cases = index["libraries"][0]["offset"], {}
    one = index["libraries"][0]
    overlap = changed(lambda i: i["libraries"].append({**one, "size": 100}))
    cases["two libraries in one place"] = overlap, True
    part = changed(lambda i: i["libraries"].append({**one, "offset": first + 4096, "size": 1}))
    cases["a library in another"] = part, True
    cases["two kernels of one name"] = changed(lambda i: i["kernels"].append(i["kernels"][0])), True
    names = [{"name": f"k{k}", "workload": "", "variants": []} for k in range(MOST_KERNELS + 1)]
    cases["many kernels"] = {**index, "kernels": names}, True
    cases["many libraries"] = (
        changed(lambda i: i.update(libraries=[one] * (MOST_LIBRARIES + 1))),
        True,
    )
    return cases


def texts(index):
    """Names of texts that are no index, each with one."""
    text = json.dumps(index)
    whole = text.encode()
    return {
        "nothing": b"",
        "spaces": b"   ",
        "half": whole[: len(whole) // 2],
        "open string": b'{"whet": "',
        "open escape": b'{"whet": "\\',
        "a list": b"[]",
        "a number": b"7",
        "a text": b'"libraries"',
        "zeros": bytes(1000),
        "deep lists": b"[" * 100_000 + b"]" * 100_000,
        "deep and open": b"[" * 100_000,
        "deep objects": b'{"a":' * 40_000 + b"1" + b"}" * 40_000,
        "deep in a library": text.replace('"needs": [', '"needs": [' + "[" * 5000).encode(),
        "a key twice": whole.replace(b'"libraries"', b'"kernels": [], "libraries"'),
        "a library's key twice": whole.replace(b'"offset"', b'"offset": 4096, "offset"'),
        "more behind": whole + b"{}",
        "no colon": whole.replace(b'"kernels":', b'"kernels" '),
        "no comma": whole.replace(b", ", b" "),
        "only colons": b'{"libraries":::}',
        "noise": random.Random(7).randbytes(5000),
    }


def test_an_index_with_a_right_checksum_can_be_hostile(small, opener, tmp_path):
    index, blobs = index_and_blobs(small.read_bytes())
    good = tmp_path / "good.whet"
    good.write_bytes(sealed(index, blobs))
    assert list(whet.load(good)) == ["product"]
    cases = hostile(index) | {f"text: {k}": (v, True) for k, v in texts(index).items()}
    paths = {name: tmp_path / f"{k}.whet" for k, name in enumerate(cases)}
    for name, (wrong, _) in cases.items():
        paths[name].write_bytes(sealed(wrong, blobs))
    (tmp_path / "lines").write_text("\n".join(f"file {path}" for path in paths.values()))
    said = python(IN_PYTHON, good, tmp_path / "changed", tmp_path / "lines").splitlines()
    assert {n: s for n, s in zip(paths, said, strict=True) if s != "refused"} == {}
    found = codes(opener, [good, *paths.values()])
    assert found[0] == 0
    seen = {n: c for (n, (_, c_too)), c in zip(cases.items(), found[1:]) if c_too}
    assert {n: c for n, c in seen.items() if c not in (3, 7)} == {} and len(seen) > 120


@pytest.mark.parametrize("length", [BASE, 2**32, 2**63, 2**64 - 1])
def test_an_index_that_is_longer_than_the_file(length, small, opener, tmp_path):
    index, blobs = index_and_blobs(small.read_bytes())
    path = tmp_path / "long.whet"
    path.write_bytes(sealed(index, blobs, length=length))
    with pytest.raises(ArtifactError, match=r"index of [\d,]+ bytes is longer|cannot be read"):
        whet.load(path)
    assert codes(opener, [path]) == [3]


def test_a_newer_version_has_a_way_out(small, opener, tmp_path):
    index, blobs = index_and_blobs(small.read_bytes())
    path = tmp_path / "newer.whet"
    path.write_bytes(sealed(index, blobs, version=2))
    with pytest.raises(ArtifactError, match="version 2, this Whet reads version 1\n  load it with"):
        whet.load(path)
    assert codes(opener, [path]) == [4]


def test_models_of_later_versions_are_passed_over(small, opener, tmp_path):
    index, blobs = index_and_blobs(small.read_bytes())
    assert index["models"] == []
    path = tmp_path / "models.whet"
    path.write_bytes(
        sealed({**index, "models": [{"name": "net", "graph": {"nodes": [[1]]}}]}, blobs)
    )
    assert list(whet.load(path)) == ["product"]
    assert codes(opener, [path]) == [0]


def test_libraries_that_are_none(small, opener, tmp_path):
    """A right checksum, and a library whose headers name what is not in it, or other bytes."""
    index, blobs = index_and_blobs(small.read_bytes())
    size = index["libraries"][0]["size"]
    cut = copy.deepcopy(index)
    cut["libraries"][0]["size"] = 8192
    wrong = {
        "cut": sealed(cut, blobs),
        "zeros": sealed(index, bytes(len(blobs))),
        "machine": sealed(index, blobs[:18] + b"\x08\0" + blobs[20:]),
        "segments": sealed(index, blobs[:32] + b"\xff" * 8 + blobs[40:]),
        "text": sealed(index, b"no library".ljust(len(blobs))),
    }
    assert size > 8192
    for name, data in wrong.items():
        path = tmp_path / f"{name}.whet"
        path.write_bytes(data)
        with pytest.raises(ArtifactError, match="cannot be loaded"):
            whet.load(path)
        assert codes(opener, [path]) == [7]


def test_a_package_that_names_what_its_library_lacks(small, tmp_path):
    index, blobs = index_and_blobs(small.read_bytes())
    index["kernels"][0]["name"] = "other"
    (tmp_path / "k.whet").write_bytes(sealed(index, blobs))
    with pytest.raises(ArtifactError, match="has no such function"):
        whet.load(tmp_path / "k.whet")["other"]


def test_other_files_are_no_packages(small, tmp_path):
    (tmp_path / "empty.whet").write_bytes(b"")
    (tmp_path / "text.whet").write_text("kernels")
    (tmp_path / "head.whet").write_bytes(container.MAGIC)
    for name, message in {
        "empty": "it is damaged: it ends after 0 bytes",
        "text": r"it is no package: it begins with b'kernels'\n.*load_module",
        "head": "it is damaged: its 8 bytes",
        "missing": "there is no such file\n  whet package kernels.py:tasks",
    }.items():
        with pytest.raises(ArtifactError, match=message):
            whet.load(tmp_path / f"{name}.whet")
    with pytest.raises(FileNotFoundError):
        whet.load(tmp_path / "missing.whet")
    with pytest.raises(ArtifactError, match="it is a folder"):
        whet.load(tmp_path)
    with pytest.raises(whet.ArgumentError):
        whet.load(7)  # type: ignore[arg-type]
