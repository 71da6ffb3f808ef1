"""Targets as values: they do not change, what is exported is the same again, what a CPU has."""

import json
import pickle

import pytest

from whet.compiler.errors import TargetError
from whet.compiler.target import Target
from whet.compiler.target.machine import host
from whet.compiler.target.machine.features import X86_NEEDS
from whet.compiler.target.machine.processor_features import features_of


@pytest.mark.parametrize(
    ("target", "has", "lacks", "dot"),
    [
        ("llvm -mcpu=x86-64", "sse2", "sse3 avx aes", False),
        ("llvm -mcpu=znver3", "avx2 fma bmi2 vaes cx16", "avx512f avxvnni", False),
        ("llvm -mcpu=skylake-avx512", "avx512f avx512vl avx512bw", "avx512vnni", False),
        ("aws/cpu/c5.24xlarge", "avx512f avx512vnni", "avx512bf16", True),
        ("amd/zen4", "avx512vnni avx512bf16 gfni", "avxvnni avx512fp16", True),
        ("intel/sapphirerapids", "amx_int8 avx512fp16 avxvnni", "amx_fp16", True),
        ("intel/alderlake", "avx2 avxvnni", "avx512f", True),
        ("aws/graviton3", "neon dotprod sve bf16 i8mm", "sve2 sme", True),
        ("aws/graviton2", "neon dotprod fullfp16", "sve i8mm", True),
        ("raspberry-pi/4b-aarch64", "neon crc", "dotprod lse", False),
        ("sifive/u74", "m a c d", "v", False),
        ("nvidia/nvidia-a100", "", "avx2", True),
    ],
)
def test_features_of_named_processors(target, has, lacks, dot):
    t = Target(target)
    if t.kind == "llvm" and "mtriple" not in t.attrs:
        t = Target(f"{target} -mtriple=x86_64-linux-gnu")
    assert all(getattr(t.features, f"has_{name}") for name in has.split())
    assert not any(getattr(t.features, f"has_{name}") for name in lacks.split())
    assert t.supports_integer_dot_product is dot


@pytest.mark.skipif(host.architecture() != "x86_64", reason="features of x86-64")
def test_features_of_this_machine_are_the_hosts():
    found = Target("llvm").features
    assert all(name in found for name in host.features())
    assert {name for name in found if name in X86_NEEDS} == host.features()


def test_options_cannot_be_changed_after_the_target_is_made():
    t = Target("llvm -num-cores=2")
    for change in (
        lambda: t.attrs.__setitem__("mcpu", "znver3"),
        lambda: t.attrs.__delitem__("num_threads"),
        lambda: t.attrs.update(mcpu="znver3"),
        lambda: t.attrs.setdefault("mcpu", "znver3"),
        lambda: t.attrs.pop("num_threads"),
        lambda: t.attrs.__ior__({"mcpu": "znver3"}),
        t.attrs.popitem,
        t.attrs.clear,
    ):
        with pytest.raises(TypeError, match="a Target does not change"):
            change()
    assert t.attrs == {"num_threads": 2} == json.loads(json.dumps(t.attrs))
    again = pickle.loads(pickle.dumps(t.attrs))
    assert again == t.attrs and again["num-cores"] == 2


@pytest.mark.parametrize(
    "target",
    [
        *("llvm", "cuda", "cuda -host=llvm", "llvm -device=mine", "llvm -keys=x86 -device=mine"),
        *("nvidia/nvidia-a100", "nvidia/jetson-agx-orin", "amd/zen4", "apple/m1", "c -cc=gcc"),
    ],
)
def test_what_is_exported_is_the_target_again(target):
    t = Target(target)
    again = Target(t.export())
    assert again == t and again.keys == t.keys and again.tag == t.tag and again.key == t.key
    assert Target(json.dumps(t.export())) == t


def test_keys_that_are_written_out_as_text_stay():
    full = "-mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3 -mattr= -vector-bytes=32"
    plain = Target(f"llvm {full} -num-threads=2")
    assert plain.key == "llvm-54aca721d9e7"  # logs are keyed by them
    assert Target(f"llvm {full} -num-threads=2 -keys=cpu").key == "llvm-7a1b65502022"


def test_a_dict_may_name_a_tag():
    assert Target({"tag": "nvidia/nvidia-a100"}) == Target("nvidia/nvidia-a100")
    more = Target({"tag": "aws/cpu/c5.large", "num-cores": 7, "host": "c"})
    assert (more.mcpu, more.num_threads, more.tag) == ("skylake-avx512", 7, "aws/cpu/c5.large")
    assert more.host == Target("c")
    with pytest.raises(TargetError, match=r"there is no tag 'nvidia/nvidia-a1000'\n.*nvidia-a100"):
        Target({"tag": "nvidia/nvidia-a1000"})


@pytest.mark.parametrize("level", ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("feature", ["", *X86_NEEDS])
def test_levels_say_what_llvm_says(level, feature):
    """A level and a feature beside it are told without LLVM, which says the same."""
    switched = f"+{feature}" if feature else ""
    told = features_of("x86_64-unknown-linux-gnu", level, switched)
    # a feature that every processor here has is switched on: LLVM is asked
    asked = ",".join(x for x in (switched, "+sse2") if x)
    assert "sse2" not in X86_NEEDS
    assert told == features_of("x86_64-unknown-linux-gnu", level, asked)
