"""Targets as text, JSON and dict; what is filled in from this machine; the host's facts."""

import os
import pickle
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from whet.compiler.errors import TargetError
from whet.compiler.target import Target
from whet.compiler.target.machine import features, host
from whet.compiler.target.machine.fma import fma_peak


def test_text_dict_and_json_text_are_one_target():
    text = Target("llvm -mcpu=x86-64-v3 -mattr=+avx2,+fma --num-cores 3")
    data = Target(
        {"kind": "llvm", "mcpu": "x86-64-v3", "mattr": ["+avx2", "+fma"], "num-threads": 3}
    )
    assert text == data and hash(text) == hash(data)
    assert text.attrs == {"mattr": "+avx2,+fma", "mcpu": "x86-64-v3", "num_threads": 3}
    assert Target(str(text)) == text
    assert Target(text.to_json()) == text
    assert Target('{"kind": "llvm", "mcpu": "znver3"}') == Target("llvm -mcpu=znver3")
    assert pickle.loads(pickle.dumps(text)) == text
    assert text != Target("llvm")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("lvm", "no target kind 'lvm'\n  did you mean 'llvm'? kinds: c, cuda, llvm"),
        ("", "the text is empty"),
        ("llvm -mcpuu=x", "no option 'mcpuu'\n  did you mean 'mcpu'?"),
        ("llvm -mcpu=a -mcpu=b", "option 'mcpu' is given twice"),
        ("llvm -num-threads=many", "option 'num_threads' takes int, not 'many'"),
        ("llvm -num-threads=0", "at least one thread"),
        ("llvm -vector-bytes=24", "16, 32 or 64 bytes"),
        ("llvm fast", "'fast' is not an option"),
        ("llvm -mcpu", "option 'mcpu' has no value"),
        ({"mcpu": "x"}, 'the key "kind" is missing'),
        ("{kind", "this is not JSON"),
        (3, "a target is a text, a dict or a Target"),
    ],
)
def test_wrong_targets_are_explained(spec, message):
    with pytest.raises(TargetError) as caught:
        Target(spec)
    assert message in str(caught.value)


def test_a_target_does_not_change():
    with pytest.raises(AttributeError):
        Target("llvm").kind = "c"


def test_canonical_names_this_machine_and_is_stable():
    full = Target("llvm").canonical()
    assert full.canonical() == full
    assert set(full.attrs) >= {"mtriple", "mcpu", "mattr", "vector_bytes", "num_threads"}
    assert full.vector_bytes == host.vector_bytes()
    assert full.key == Target("llvm").key and full.key.startswith("llvm-")
    assert Target("llvm -num-threads=77").key != full.key
    assert Target("llvm -num-threads=77").num_threads == 77


@pytest.mark.skipif(host.architecture() != "x86_64", reason="features of x86-64")
def test_features_and_not_names_give_the_width():
    narrow = Target("llvm -mattr=-avx2").canonical()
    assert narrow.vector_bytes == 16
    assert "+avx2" not in narrow.attrs["mattr"] and "avx512" not in narrow.attrs["mattr"]
    assert Target("llvm -mcpu=skylake-avx512").vector_bytes == 64
    assert Target("llvm -mcpu=haswell").vector_bytes == 32
    assert Target("llvm -mcpu=haswell -mattr=-avx2,-avx").vector_bytes == 16
    assert features.level(frozenset(features._V3)) == "x86-64-v3"
    assert features.closed({"avx512f", "avx512bw", "sse3"}) == {"sse3"}


def test_a_feature_that_the_system_does_not_list_is_not_used(monkeypatch):
    if host.architecture() != "x86_64" or "fma" not in host.features():
        pytest.skip("needs an x86-64 CPU with FMA")
    listed = host.cpuinfo("flags").replace(" fma ", " ")
    monkeypatch.delenv("WHET_CPU", raising=False)
    monkeypatch.setattr(host, "cpuinfo", lambda field: listed)
    forget()
    try:
        assert "fma" not in host.features() and "avx512f" not in host.features()
        assert host.levels() == ("x86-64-v2", "native")
        monkeypatch.setenv("WHET_CPU", "x86-64-v3")
        with pytest.raises(TargetError, match="WHET_CPU=x86-64-v3: this processor lacks fma\n"):
            host.features()
    finally:
        forget()


def forget():
    """Drop the cached features of this processor."""
    host._reported.cache_clear()
    host._features.cache_clear()


WIDTHS = {"x86-64-v2": 16, "x86-64-v3": 32, "x86-64-v4": 64}


@pytest.mark.parametrize("level", [x for x in host.levels() if x != "native"])
def test_a_machine_passes_for_one_of_a_level(level, monkeypatch):
    monkeypatch.delenv("WHET_CPU", raising=False)
    own, name = Target("llvm").canonical(), host.fingerprint()
    monkeypatch.setenv("WHET_CPU", level)
    full = Target("llvm").canonical()
    needed = dict(features.X86_LEVELS)[level]
    assert full == Target(f"llvm -mcpu={level} -mattr={full.attrs['mattr']}").canonical()
    assert set(full.attrs["mattr"].replace("+", "").split(",")) == needed == host.features()
    assert full.vector_bytes == host.vector_bytes() == WIDTHS[level]
    assert Target("llvm -mcpu=native").canonical() == full
    assert Target("llvm -mcpu=x86-64-v3").vector_bytes == 32
    assert Target("llvm -mattr=-sse4.2").vector_bytes == 16
    assert host.fingerprint() != name or full == own
    monkeypatch.setenv("WHET_CPU", "native")
    assert Target("llvm").canonical() == own and host.fingerprint() == name
    monkeypatch.setenv("WHET_CPU", "x86-64-v9")
    with pytest.raises(TargetError, match="x86_64 has no such level\n  this machine runs"):
        Target("llvm").canonical()


def test_current_target_is_the_innermost():
    assert Target.current() is None
    with pytest.raises(TargetError, match="no target is in force"):
        Target.current(allow_none=False)
    outer, inner = Target("llvm"), Target("llvm -num-threads=1")
    with outer:
        with inner, inner:
            assert Target.current() is inner
        assert Target.current() is outer
    assert Target.current() is None


def test_host_facts():
    facts = host.describe()
    assert facts["vector_bytes"] in (16, 32, 64)
    assert 1 <= facts["physical_cores"] <= facts["logical_cpus"]
    assert facts["fingerprint"] == host.fingerprint()
    assert sorted(host.affinity()) == facts["affinity"]


def test_threads_follow_the_environment_and_the_affinity(monkeypatch):
    monkeypatch.setenv("WHET_NUM_THREADS", "5")
    assert host.num_threads() == 5
    monkeypatch.setenv("WHET_NUM_THREADS", "none")
    with pytest.raises(TargetError, match="an integer of at least 1"):
        host.num_threads()
    monkeypatch.delenv("WHET_NUM_THREADS")
    if hasattr(os, "sched_setaffinity"):
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(before)})
        try:
            assert host.num_threads() == 1
        finally:
            os.sched_setaffinity(0, before)


def test_fma_peak_is_plausible(monkeypatch):
    # the core's time, not the clock's: others may use it, too
    clock = SimpleNamespace(perf_counter=time.thread_time)
    monkeypatch.setattr("whet.compiler.target.machine.fma.time", clock)
    for _ in range(8):  # its speed may change between the two, where others heat the core
        peak = fma_peak("float32", seconds=0.05)
        half = fma_peak("float64", seconds=0.05)
        if 0.4 < half / peak < 0.6:
            break
    assert 0.4 < half / peak < 0.6
    assert 1e9 < peak < 2e12
    with pytest.raises(TargetError, match="float32 and float64"):
        fma_peak("int8")


def test_naming_a_target_loads_no_llvm():
    code = (
        "import sys; from whet.compiler.target import Target; Target('llvm -num-threads=2');"
        "import whet.compiler.runtime; sys.exit('llvmlite' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
