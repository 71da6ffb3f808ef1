"""`scripts/gpu_check` on machines that lack things: what it installs, and what it does without."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "tests" / "gpu_check"


@pytest.fixture(scope="module", autouse=True)
def folders():
    """The benchmark's modules are no package."""
    sys.path.insert(0, str(FOLDER))
    yield
    sys.path.remove(str(FOLDER))


@pytest.fixture
def install(folders):
    import check_install

    return check_install


def gone(code, out="", err=""):
    from check_command import Ended

    return Ended(code, out, err)


def asked(tmp_path, **more):
    given = {"device": "cuda:0", "only": [], "wheels": None, "folder": tmp_path / "env"}
    return argparse.Namespace(**given | more)


# --- commands


def test_a_command_is_shown_as_it_comes_and_ends_when_its_time_is_over(monkeypatch):
    import check_command
    from check_command import ended

    words = ["sh", "-c", "echo one; echo why >&2; exec sleep 600"]
    for seconds in (0.5, 5.0, 50.0):  # on a busy machine it may not have come to that
        shown = []
        found = ended(words, seconds, show=shown.append)
        if found.err:
            break
    assert (found.code, found.out, found.err, shown) == (None, "one\n", "why\n", ["one"])
    # A child of its own that holds what it writes to is not waited for.
    monkeypatch.setattr(check_command, "KILLED", 0.5)
    found = ended(["sh", "-c", "sleep 600 & echo $!"])
    os.kill(int(found.out), signal.SIGKILL)


def test_what_a_killed_command_has_started_ends_with_it(tmp_path):
    from check_command import ended

    child = tmp_path / "child"
    script = f"trap '' TERM; sleep 600 & echo $! > {child}.new; mv {child}.new {child}; wait"
    for seconds in (0.5, 5.0, 50.0):  # on a busy machine it may not have come to that
        assert ended(["sh", "-c", script], seconds).code is None
        if child.exists():
            break
    state = Path(f"/proc/{child.read_text().strip()}/stat")
    deadline = time.monotonic() + 120
    while state.exists() and state.read_text().split()[2] != "Z":
        assert time.monotonic() < deadline, "the child lives on"
        time.sleep(0.02)


def test_a_command_that_fails_says_why():
    from check_command import said
    from check_report import Failed

    with pytest.raises(Failed, match=r"(?s)ended with 1: ZeroDivisionError.*Traceback"):
        said([sys.executable, "-c", "1 / 0"])
    with pytest.raises(Failed, match="was not done after 0 s"):
        said([sys.executable, "-c", "import time; time.sleep(60)"], 0.2)
    with pytest.raises(Failed, match=r"/no/such/thing cannot be started: .*No such file"):
        said(["/no/such/thing"])


def test_what_is_found_is_kept_at_once(tmp_path, capsys):
    from check_report import Report, read_items

    kept = tmp_path / "report.json"
    report = Report(1.0, kept=kept)
    report.run("first", lambda: "fine")
    assert [item.name for item in read_items(json.loads(kept.read_text()))] == ["first"]
    kept.unlink()
    kept.mkdir()  # nothing can be written there
    report.run("second", lambda: "fine")
    assert report.passed("second") and "cannot be written" in capsys.readouterr().out


# --- the environment


def test_nobody_elses_folder_is_removed(install, tmp_path):
    from check_report import Failed

    theirs = tmp_path / "project"
    theirs.mkdir()
    (theirs / "thesis.tex").write_text("years of work")
    with pytest.raises(Failed, match="is no environment of this script: name another --folder"):
        install.environment(asked(tmp_path, folder=theirs))
    assert (theirs / "thesis.tex").exists()
    ours = tmp_path / "lib" / "python3" / "site-packages"
    ours.mkdir(parents=True)
    (ours / install.MARK).write_text("")
    (tmp_path / "half").write_text("")
    assert install._free(tmp_path) == tmp_path and not (tmp_path / "half").exists()


def test_a_folder_that_cannot_be_made_is_another(install, tmp_path):
    (tmp_path / "file").write_text("")
    made = install._free(tmp_path / "file" / "env")
    assert made.is_dir() and made.name.startswith("whet-gpu-check-")
    made.rmdir()


def test_the_environment_has_what_this_python_has(install, tmp_path):
    """Its pip, too: none of its own is made, which Debian's venv could not."""
    options = asked(tmp_path)
    assert install.environment(options).startswith(str(tmp_path / "env"))
    assert not list((tmp_path / "env").glob("lib/*/*/pip"))
    assert install._pip(options)[1:] == ["-m", "pip"]
    known = (install.own(options) / install.MARK).read_text().splitlines()
    assert known[0] == str(ROOT) and set(install.folders_of_packages()) <= set(known)
    assert install.lacking(options, ["numpy"])[0] == []


def test_a_wheel_of_pip_runs_as_it_is(install, tmp_path, monkeypatch):
    from check_report import Failed

    monkeypatch.setattr(install, "ended", lambda *given: gone(1, "", "No module named pip"))
    with pytest.raises(Failed, match="has no pip: put a wheel of it into --wheels"):
        install._pip(asked(tmp_path))
    for version in ("24.0", "25.1"):
        (tmp_path / f"pip-{version}-py3-none-any.whl").write_text("")
    words = install._pip(asked(tmp_path, wheels=tmp_path))
    assert words[1] == f"{tmp_path}/pip-25.1-py3-none-any.whl/pip"


def test_requirements_are_read_without_an_installed_pip(install, tmp_path, monkeypatch):
    """By the wheel's own reader of them: a Python of `uv` has none that is installed."""
    bare, wheel = tmp_path / "python", tmp_path / "pip-25.1-py3-none-any.whl"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')  # without its packages
    bare.chmod(0o755)
    reader = Path(importlib.util.find_spec("packaging").origin).parent
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("pip/__init__.py", "")
        file.writestr("pip/_vendor/__init__.py", "")
        for one in reader.rglob("*.py"):
            file.write(one, Path("pip/_vendor/packaging", one.relative_to(reader)))
    monkeypatch.setattr(install, "python", lambda options: bare)
    monkeypatch.setattr(install, "_pip", lambda options: [str(bare), f"{wheel}/pip"])
    wanted = ["no-such-thing>=1", "no-such-os; os_name == 'x'"]
    assert install.lacking(asked(tmp_path), wanted)[0] == wanted[:1]


# --- packages


@pytest.fixture
def here(install, monkeypatch):
    """The environment is this Python."""
    monkeypatch.setattr(install, "python", lambda options: Path(sys.executable))
    return install


def test_what_is_there_is_not_asked_for(here, tmp_path, monkeypatch):
    monkeypatch.setattr(here, "pip", lambda *given, **more: pytest.fail("pip was asked"))
    assert re.match(r"\d+ packages; NVRTC 1\d\.\d", here.packages(asked(tmp_path), 9.0))


def test_what_is_missing_is_named_and_the_rest_installed(here, tmp_path, monkeypatch, capsys):
    from check_report import Failed

    tried = []

    def refuses(options, *words, seconds):
        tried.append(words)
        if "no-such-thing>=1" in words:
            raise Failed("pip ended with 1: it is not to be had\nmore")

    project = here.project()
    project["dependencies"] += ["numpy>=9999", "no-such-thing>=1", "no-such-os; os_name == 'x'"]
    monkeypatch.setattr(here, "project", lambda: project)
    monkeypatch.setattr(here, "COMPILER", "print('NVRTC 13.0')")
    monkeypatch.setattr(here, "pip", refuses)
    with pytest.raises(Failed, match=r"could not be installed: numpy>=9999, no-such-thing>=1$"):
        here.packages(asked(tmp_path), 9.0)
    both = ("numpy>=9999", "no-such-thing>=1")
    assert tried == [both, *((one,) for one in both)]
    assert capsys.readouterr().out.count("it is not to be had") == 2
    assert not any("ray" in word for words in tried for word in words)


def test_any_compiler_that_the_driver_knows_will_do(here, tmp_path, monkeypatch):
    monkeypatch.setattr(here, "COMPILER", "print('NVRTC 13.0')")
    wanted = ["nvidia-cuda-nvrtc-cu12>=9999", "numpy"]
    assert here.lacking(asked(tmp_path), wanted) == ([], "NVRTC 13.0")
    monkeypatch.setattr(here, "COMPILER", "raise AssertionError")
    found, compiler = here.lacking(asked(tmp_path), wanted)
    assert found == wanted[:1] and compiler == "no NVRTC that the driver knows"


def test_pycuda_is_had_in_one_of_four_ways(install, tmp_path, monkeypatch):
    from check_report import Failed, Skipped

    with pytest.raises(Skipped):
        install.pycuda(asked(tmp_path, device="cuda-emulator"), 9.0)
    built, answers = [], []
    monkeypatch.setattr(install, "_imports_pycuda", lambda options: answers.pop(0))
    monkeypatch.setattr(install, "toolkits", lambda: iter(["/a", "/b"]))
    monkeypatch.setattr(install, "pip", lambda options, *words, seconds: None)

    def builds(options, more, seconds):
        built.append(more)
        if more != ["--cuda", "/b"]:
            raise Failed(f"no headers {more}")
        return "a.whl"

    monkeypatch.setattr(install, "_built", builds)
    wheels = asked(tmp_path, wheels=tmp_path)
    answers[:] = [True]
    assert install.pycuda(wheels, 9.0) == "was there"
    answers[:] = [False, True]
    assert install.pycuda(wheels, 9.0) == f"from {tmp_path}" and not built
    answers[:] = [False, False]  # a wheel that cannot be imported: it is built
    assert install.pycuda(wheels, 9.0) == "a.whl"
    assert built == [[], ["--cuda", "/a"], ["--cuda", "/b"]]
    answers[:] = [False]
    monkeypatch.setattr(install, "toolkits", lambda: iter([]))
    with pytest.raises(Failed, match=r"it cannot be had: no headers \[\]"):
        install.pycuda(asked(tmp_path), 9.0)


# --- the driver


def test_a_driver_that_the_loader_does_not_know_is_found(install, tmp_path, monkeypatch):
    """Containers have it in a folder of its own."""
    from check_report import Failed

    from whet.compiler.emulator.standin import folder

    monkeypatch.setenv("LD_LIBRARY_PATH", "")  # so that it is as before, afterwards
    monkeypatch.delenv("LD_LIBRARY_PATH")
    if not install.ended([sys.executable, "-c", "import ctypes; ctypes.CDLL('libcuda.so.1')"]).code:
        pytest.skip("this machine's loader knows a driver")
    monkeypatch.setattr(install, "DRIVERS", (str(tmp_path),))
    with pytest.raises(Failed, match=r"there is no libcuda\.so\.1, nor in"):
        install.driver()
    monkeypatch.setattr(install, "DRIVERS", (str(tmp_path), str(folder())))
    said = install.driver()
    assert re.fullmatch(r"Whet stand-in, Whet stand-in; the driver's CUDA is \d+\.\d+", said)
    assert os.environ["LD_LIBRARY_PATH"] == str(folder())
    assert install.cuda_of_driver() >= 12


def test_the_driver_is_looked_for_where_whet_does(install):
    """The script runs before Whet can be imported."""
    from whet.compiler.runtime.gpu.driver.driver_folders import FOLDERS

    assert install.DRIVERS == FOLDERS


def test_a_driver_without_a_gpu_says_so(install, monkeypatch):
    from check_report import Failed

    facts = {"cuda": 13000, "error": "CUDA_ERROR_NO_DEVICE", "names": []}
    monkeypatch.setattr(install, "driver_facts", lambda: facts)
    with pytest.raises(Failed, match="finds no GPU: CUDA_ERROR_NO_DEVICE"):
        install.driver()
    monkeypatch.setattr(install, "driver_facts", lambda: facts | {"error": ""})
    with pytest.raises(Failed, match="CUDA_VISIBLE_DEVICES may hide them"):
        install.driver()


# --- peers


@pytest.mark.parametrize(
    "there, cuda, words",
    [
        ("ModuleNotFoundError: No module named 'torch'", 13, []),
        ("ModuleNotFoundError: No module named 'triton'", 12, ["torch<2.9"]),
        ("PyTorch 2.9.0+cpu sees no GPU", 13, ["--ignore-installed"]),
    ],
)
def test_peers_are_installed(install, tmp_path, monkeypatch, there, cuda, words):
    answers, wanted = [gone(1, "", there), gone(0, "PyTorch 2.9.0, Triton 3.5.0\n")], []
    monkeypatch.setattr(install, "seen", lambda options: answers.pop(0))
    monkeypatch.setattr(install, "cuda_of_driver", lambda: cuda)
    monkeypatch.setattr(
        install, "pip", lambda options, *more, **limit: wanted.append((more, limit))
    )
    assert install.peers(asked(tmp_path), 99.0) == "PyTorch 2.9.0, Triton 3.5.0"
    ((given, limits),) = wanted
    assert list(given[:-2]) == words and limits == {"seconds": 99.0}
    assert [re.match("[a-z]+", x)[0] for x in given[-2:]] == ["torch", "triton"]


def test_peers_that_cannot_be_had_are_named(install, tmp_path, monkeypatch):
    from check_report import Failed, Skipped

    def refuses(options, *words, seconds):
        (tmp_path / "torch").mkdir()
        raise Failed("pip ended with 1")

    options = asked(tmp_path, wheels=tmp_path)
    monkeypatch.setattr(install, "seen", lambda options: gone(1, "", "No module named 'torch'"))
    monkeypatch.setattr(install, "own", lambda options: tmp_path)
    monkeypatch.setattr(install, "pip", refuses)
    with pytest.raises(Skipped, match="goals beside peers are not judged: pip ended with 1"):
        install.peers(options, 9.0)
    assert not (tmp_path / "torch").exists()  # half of it would be found, and could not be imported
    options.only = ["kernels", "runtime misuse"]
    with pytest.raises(Skipped, match="nothing that was asked for needs them"):
        install.peers(options, 9.0)


# --- all of it


def test_a_search_has_less_than_all_of_the_time():
    words = [sys.executable, str(ROOT / "scripts" / "gpu_check"), "--tune", "8"]
    found = subprocess.run(words, capture_output=True, text=True)
    assert found.returncode == 2 and "--tune 8 is of --minutes 8: give more" in found.stderr


def test_checks_that_end_without_a_summary_are_a_line_of_the_report(tmp_path, monkeypatch, capsys):
    """Whatever they had kept before stays."""
    loader = SourceFileLoader("gpu_check", str(ROOT / "scripts" / "gpu_check"))
    script = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader.exec_module(script)
    monkeypatch.setattr(script, "python", lambda options: Path(sys.executable))
    options = asked(
        tmp_path, device="cuda-emulator", only=["nonsense"], minutes=1.0, tune=None, log=None,
        jobs=None, out=tmp_path / "out.json",
    )  # fmt: skip
    options.folder.mkdir()
    report = script.Report(1.0, kept=options.out)
    report.run("install packages", lambda: "all")
    assert script.checks(report, options) == 1
    states = {i["name"]: i["state"] for i in json.loads(options.out.read_text())["items"]}
    assert states == {"install packages": "PASS", "checks": "FAIL"}
    assert "FAILED checks\n  ended: 2" in capsys.readouterr().out

    def killed(words, seconds, show):
        kept = script.Report(1.0, script.read_items(json.loads(options.out.read_text())))
        kept.add("device", "PASS", 1.0, "a GPU")
        options.out.write_text(json.dumps(kept.to_json()))
        return gone(None, "PASS device")

    monkeypatch.setattr(script, "ended", killed)
    assert script.checks(script.Report(1.0, kept=options.out), options) == 1
    items = json.loads(options.out.read_text())["items"]
    assert [i["state"] for i in items] == ["PASS", "FAIL", "PASS", "LATE"]
