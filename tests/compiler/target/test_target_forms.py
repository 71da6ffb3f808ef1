"""Targets in TVM's forms: hosts, tags, flags, properties, canonical calls, generic functions."""

import json
import pickle
import subprocess
import sys

import pytest

import whet
from whet.compiler.errors import ArgumentError, TargetError
from whet.compiler.target import (
    KINDS,
    Target,
    TargetKind,
    canon_multi_target,
    canon_multi_target_and_host,
    canon_target,
    canon_target_and_host,
    canon_target_map_and_host,
    generic_func,
    get_native_generic_func,
    list_tags,
    override_native_generic_func,
    register_tag,
    tags,
    target_or_current,
)
from whet.compiler.target.gpu_limits import limits_of
from whet.compiler.target.machine import local_gpu

# text


def test_bare_flags_are_bools_and_words_may_be_apart():
    t = Target("llvm -system-lib --fast-math -num-cores 4 --mcpu x86-64-v3 -fast-math-nnan=0")
    assert t.attrs == {
        "fast_math": True,
        "fast_math_nnan": False,
        "mcpu": "x86-64-v3",
        "num_threads": 4,
        "system_lib": True,
    }
    assert t.attrs["num-cores"] == 4 and t.attrs.get("fast-math") is True
    assert t.attrs.get("opt-level") is None and t.attrs.get("opt-level", 2) == 2
    with pytest.raises(KeyError):
        t.attrs["opt-level"]
    assert Target(str(t)) == t
    assert Target("llvm -fast-math false").attrs == {"fast_math": False}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("llvm -fast-math=maybe", "option 'fast_math' takes bool, not 'maybe'"),
        ("llvm -fast-math -fast-math", "option 'fast_math' is given twice"),
        ("llvm -num-cores=2 -num-threads=3", "option 'num_threads' is given twice"),
        ("llvm -host=llvm -host=llvm", "option 'host' is given twice"),
        ("llvm -opt-level=7", "LLVM's levels are 0, 1, 2 and 3"),
        ("llvm -mfloat-abi=hot", "it is soft or hard"),
        ("llvm -mtriple=pdp11-linux-gnu", "no code is made for the architecture of 'pdp11"),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=i386", "there is no 64-bit x86 processor 'i386'"),
        (
            "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64 -mattr=-sse2",
            "without sse2 there is no code for floats on x86-64",
        ),
        ("llvm -mtriple=x86_64-linux-gnu -mattr=-sse,+avx2", "leave -sse out of mattr"),
        ("cuda -mattr=+avx2", "target kind 'cuda' has no option 'mattr'"),
        (
            "nvidia/nvidia-h2000",
            "there is no tag 'nvidia/nvidia-h2000'\n  did you mean 'nvidia/nvidia-h200'",
        ),
        ("sifive/nothing", "  tags: sifive/u74\n  whet.target.list_tags() has all"),
        ('{"kind": "llvm", "host": {"kind": "lvm"}}', "there is no target kind 'lvm'"),
        ({"kind": "llvm", "num-cores": "4x"}, "option 'num_threads' takes int"),
        ("llvm -num-cores=-1", "num_threads=-1\n  at least one thread"),
        ("llvm -cl-opt=-unroll-runtime", "target kind 'llvm' has no option 'cl-opt'"),
        ("cuda -arch=bogus", "no GPU of architecture 'bogus'"),
        ("cuda -arch=sm_1", "no GPU of architecture 'sm_1'"),
        ("cuda -arch=sm_42", "no GPU of architecture 'sm_42'"),
        ("cuda -arch=sm_999", "known: sm_50, sm_52, sm_53, sm_60"),
        ("cuda -arch=sm_80a", "no GPU of architecture 'sm_80a'"),
        ("cuda -arch=80", "no GPU of architecture '80'\n  it is sm_ and"),
        ("cuda -host=cuda", "Target('cuda', host='cuda'): a host is a CPU"),
    ],
)
def test_wrong_targets(spec, message):
    with pytest.raises(TargetError) as caught:
        Target(spec)
    assert message in str(caught.value)


def test_json_with_hosts_within():
    data = {
        "kind": "cuda",
        "arch": "sm_80",
        "libs": ["cublas", "cudnn"],
        "host": {"kind": "llvm", "mcpu": "haswell", "keys": ["x86", "cpu"]},
    }
    t = Target(json.dumps(data))
    assert t == Target(data) and t.host == Target("llvm -mcpu=haswell -keys=x86,cpu")
    assert t.libs == ["cublas", "cudnn"] and t.host.keys == ("x86", "cpu")
    assert Target(t.to_json()) == t and pickle.loads(pickle.dumps(t)) == t and Target(str(t)) == t
    assert t.export()["host"]["mcpu"] == "haswell" and t.export()["keys"] == ["cuda", "gpu"]


def test_hosts():
    t = Target("cuda", host="llvm -num-threads=1")
    assert t.host == Target("llvm -num-threads=1") and t != Target("cuda")
    assert Target(t, host="llvm").host == Target("llvm") and Target(t).host == t.host
    assert t.with_host(None) == Target("cuda") and t.with_host("c").host.kind == "c"
    assert Target("llvm").host is None
    full = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3 -mattr=+avx2 "
    full += "-vector-bytes=32 -num-threads=2"
    assert Target(full).key == "llvm-043d34232404"  # logs are keyed by it
    assert Target(full, host="llvm").key != Target(full).key


# properties


def test_kind_is_a_name_with_a_name():
    kind = Target("llvm").kind
    assert kind == "llvm" and kind.name == "llvm" and type(kind.name) is str
    assert json.dumps({"kind": kind}) == '{"kind": "llvm"}'
    kinds = Target.list_kinds()
    assert {"c", "cuda", "llvm", "opencl", "ext_dev", "hybrid"} <= {*kinds} and "x" not in kinds
    assert kinds == sorted(kinds) and all(Target(kind).kind == kind for kind in kinds)


def test_properties():
    cpu = Target("llvm -keys=x86 -device=mine -model=box -mattr=+avx2,+fma -mcpu=haswell")
    assert cpu.keys == ("x86", "mine", "cpu") and Target("llvm").keys == ("cpu",)
    assert (cpu.device_name, cpu.model, cpu.mcpu) == ("mine", "box", "haswell")
    assert cpu.mattr == ["+avx2", "+fma"] and Target("llvm").mattr == []
    assert Target("llvm").model == "unknown" and Target("llvm").mcpu == ""
    assert cpu.max_function_args == -1 and cpu.vtcm_capacity == 0 and cpu.libs == []
    assert cpu.thread_warp_size == 1 and Target("llvm -num-cores=3").max_num_threads == 3
    gpu = Target("cuda -arch=sm_80")
    assert gpu.keys == ("cuda", "gpu") and gpu.arch == "sm_80"
    assert gpu.max_num_threads == 1024 and gpu.thread_warp_size == 32
    assert gpu.canonical().max_shared_memory_per_block == 163 * 1024
    assert Target("cuda -max-shared-memory-per-block=49152").max_shared_memory_per_block == 49152
    assert gpu.get_target_device_type() == 2 and cpu.get_target_device_type() == 1
    assert gpu.get_kind_attr("default_host") == "llvm" and gpu.get_kind_attr("colour") is None


def test_integer_dot_products_and_features():
    assert Target("cuda -arch=sm_61").supports_integer_dot_product
    assert not Target("cuda -arch=sm_60").supports_integer_dot_product
    assert Target(
        {"kind": "cuda", "arch": "sm_60", "supports_integer_dot_product": True}
    ).supports_integer_dot_product
    t = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3 -mattr=+avx512vnni,-bmi,-cx16")
    assert t.supports_integer_dot_product
    assert t.features.has_avx512vnni and t.features.has_sse4_2
    assert not t.features.has_bmi and not t.features.has_neon and not t.features.has_cx16
    assert "sse4.2" in t.features and "avx512f" in t.features, "it is needed by avx512vnni"
    without = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3 -mattr=-avx2").features
    assert "avx" in without and "avx2" not in without
    with pytest.raises(AttributeError, match="has_<feature>"):
        t.features.avx2  # noqa: B018


def test_the_canonical_gpu():
    t = Target("cuda").canonical()
    assert t.canonical() is t and t.key == Target("cuda").key and t.vector_bytes == 16
    assert Target("cuda -arch=sm_90").key != t.key


@pytest.mark.parametrize(
    ("arch", "shared_kb", "threads"),
    [("sm_75", 64, 1024), ("sm_80", 163, 2048), ("sm_86", 99, 1536), ("sm_89", 99, 1536),
     ("sm_90", 227, 2048), ("sm_90a", 227, 2048), ("sm_100", 227, 2048), ("sm_120", 99, 1536),
     ("sm_52", 48, 1024)],
)  # fmt: skip
def test_what_an_architecture_has(arch, shared_kb, threads):
    t = Target(f"cuda -arch={arch}").canonical()
    assert t.max_shared_memory_per_block == shared_kb * 1024
    assert t.attrs["registers_per_block"] == 65536 and t.max_num_threads == 1024
    limits = limits_of(arch)
    assert limits.shared_bytes == shared_kb * 1024 and limits.threads_multiprocessor == threads
    assert limits.shared_bytes <= limits.shared_bytes_multiprocessor


@pytest.mark.parametrize(
    ("arch", "fma32", "fma64", "many"),
    [("sm_70", 64, 32, 80), ("sm_75", 64, 2, 40), ("sm_80", 64, 32, 108), ("sm_86", 128, 2, 82),
     ("sm_89", 128, 2, 128), ("sm_90", 128, 64, 132), ("sm_100", 128, 64, 148),
     ("sm_120", 128, 2, 170)],
)  # fmt: skip
def test_what_a_multiprocessor_does_in_a_cycle(arch, fma32, fma64, many):
    """The programming guide's throughput of arithmetic instructions, and data sheets."""
    limits = limits_of(arch)
    assert (limits.fma32, limits.fma64, limits.special) == (fma32, fma64, 16)
    assert limits.multiprocessors == many and limits.sub_partitions == 4


def test_a_gpu_that_is_here_has_an_architecture_that_the_table_lacks(monkeypatch):
    monkeypatch.setattr(local_gpu, "local_arch", lambda: "sm_130")
    assert Target("cuda -arch=sm_130").arch == "sm_130"
    with pytest.raises(TargetError, match="no GPU of architecture 'sm_131'"):
        Target("cuda -arch=sm_131")


def test_what_is_no_architecture_has_no_limits():
    with pytest.raises(TargetError, match=r"the limits of arch='ampere': it is no architecture"):
        limits_of("ampere")


def test_a_gpu_that_is_not_named_is_the_one_that_is_here(monkeypatch):
    canonical = sys.modules["whet.compiler.target.canonical"]
    for here, arch in (("sm_90", "sm_90"), ("", "sm_80")):
        monkeypatch.setattr(local_gpu, "local_arch", lambda here=here: here)
        canonical._canonical_gpu.cache_clear()
        assert Target("cuda").canonical().arch == arch
        assert Target("cuda -arch=sm_75").canonical().arch == "sm_75"
    canonical._canonical_gpu.cache_clear()


# tags


def test_tags_stand_for_targets():
    a100 = Target("nvidia/nvidia-a100")
    assert (a100.kind, a100.arch, a100.tag) == ("cuda", "sm_80", "nvidia/nvidia-a100")
    assert a100.attrs["max_shared_memory_per_block"] == 163 * 1024
    assert a100.attrs["registers_per_block"] == 65536 and a100.thread_warp_size == 32
    assert a100.max_num_threads == 1024 and a100.export()["tag"] == a100.tag
    assert pickle.loads(pickle.dumps(a100)).tag == a100.tag and a100.with_host("llvm").tag
    for tag, arch in {
        "nvidia/nvidia-h100": "sm_90",
        "nvidia/nvidia-h200": "sm_90",
        "nvidia/nvidia-v100": "sm_70",
        "nvidia/nvidia-t4": "sm_75",
        "nvidia/nvidia-a10": "sm_86",
        "nvidia/nvidia-a40": "sm_86",
        "nvidia/nvidia-l4": "sm_89",
        "nvidia/nvidia-l40s": "sm_89",
        "nvidia/geforce-rtx-2080-ti": "sm_75",
        "nvidia/geforce-rtx-3090": "sm_86",
        "nvidia/geforce-rtx-4090": "sm_89",
    }.items():
        assert Target(tag).arch == arch
    pi = Target("raspberry-pi/4b-aarch64")
    assert (pi.mcpu, pi.num_threads, pi.keys) == ("cortex-a72", 4, ("arm_cpu", "cpu"))
    assert Target("aws/cpu/c5.large").mcpu == "skylake-avx512"
    assert Target("aws/cpu/c5.24xlarge").num_threads == 48
    assert Target("nvidia/jetson-agx-xavier").host.mcpu == "carmel"


def test_every_tag_is_a_target_that_code_is_made_for():
    found = list_tags()
    assert len(found) > 100 and all(t.tag == name for name, t in found.items())
    cpus = {(t.attrs["mtriple"], t.mcpu) for t in found.values() if t.kind == "llvm"}
    pairs = " ".join(f"{triple},{cpu}" for triple, cpu in sorted(cpus))
    code = (
        "import sys, llvmlite.binding as b\n"
        "b.initialize_all_targets(); b.initialize_all_asmprinters()\n"
        "for pair in sys.argv[1].split():\n"
        "    t, cpu = pair.split(',')\n"
        "    m = b.Target.from_triple(t).create_target_machine(cpu=cpu)\n"
        "    m.emit_object(b.parse_assembly('define i32 @f(i32 %x) { ret i32 %x }'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, pairs], capture_output=True, text=True, check=True
    )
    assert "not a recognized" not in done.stderr


def test_registering_tags(monkeypatch):
    monkeypatch.setattr(tags, "_registered", {})
    t = register_tag("lab/board-7", {"kind": "llvm", "num-cores": 7})
    assert t.num_threads == 7 and Target("lab/board-7") == t and t.tag == "lab/board-7"
    assert "lab/board-7" in list_tags()
    with pytest.raises(TargetError, match="the tag exists already"):
        register_tag("lab/board-7", {"kind": "llvm"})
    with pytest.raises(TargetError, match="the tag exists already"):
        register_tag("nvidia/nvidia-a100", {"kind": "cuda"})
    register_tag("lab/board-7", {"kind": "llvm", "num-cores": 8}, override=True)
    assert Target("lab/board-7").num_threads == 8
    with pytest.raises(TargetError, match="no target kind 'lvm'"):
        register_tag("lab/wrong", {"kind": "lvm"})
    with pytest.raises(TargetError, match="a config is a dict"):
        register_tag("lab/wrong", "llvm")
    assert "lab/wrong" not in list_tags()


# canonical forms of arguments


def test_canon_forms():
    assert canon_target(None) is None and canon_target("llvm") == Target("llvm")
    assert Target.canon_target({"kind": "cuda"}) == Target("cuda")
    t, host = canon_target_and_host("cuda", "llvm")
    assert t == Target("cuda", host="llvm") and host == Target("llvm")
    assert canon_target_and_host(Target("cuda", host="c"))[1] == Target("c")
    assert canon_target_and_host(None) == (None, None)
    with pytest.raises(ArgumentError, match="a host needs a target"):
        canon_target_and_host(None, "llvm")
    assert canon_multi_target(None) is None
    assert canon_multi_target("llvm") == [Target("llvm")]
    assert canon_multi_target({"kind": "llvm"}) == [Target("llvm")]
    assert canon_multi_target({"cpu": "llvm", "gpu": "cuda"}) == [Target("llvm"), Target("cuda")]
    hosted = canon_multi_target_and_host(["cuda", "llvm"], "llvm")
    assert [x.host for x in hosted] == [Target("llvm")] * 2
    with pytest.raises(ArgumentError, match="there is no target"):
        canon_multi_target_and_host([])
    mods, host = canon_target_map_and_host({"cuda": 1, "llvm": 2}, "llvm")
    assert host == Target("llvm") and mods[Target("cuda", host="llvm")] == 1


def test_target_or_current():
    assert target_or_current("llvm") == Target("llvm")
    with pytest.raises(ValueError, match="target is not set"):
        target_or_current(None)
    with Target("cuda") as t:
        assert target_or_current(None) is t and Target.target_or_current(None) is t


# helpers


def test_targets_by_function():
    t = whet.target.cuda(model="a100", arch="sm_80", options="-max_threads_per_block=512")
    assert (t.model, t.arch, t.max_num_threads) == ("a100", "sm_80", 512)
    pi = whet.target.arm_cpu("rasp4b64", options=["-num-cores=4"])
    assert (pi.mcpu, pi.device_name, pi.num_threads) == ("cortex-a72", "arm_cpu", 4)
    assert pi.keys == ("arm_cpu", "cpu") and whet.target.arm_cpu().attrs["mtriple"].startswith("aa")
    assert whet.target.rasp().attrs["mtriple"] == "armv7l-linux-gnueabihf"
    assert whet.target.riscv_cpu("sifive-u74").attrs["mabi"] == "lp64d"
    assert whet.target.create("llvm") == Target("llvm")
    with pytest.raises(TargetError, match="did you mean 'rasp4b'"):
        whet.target.arm_cpu("rasp4bb")
    others = ("rocm", "mali", "bifrost", "intel_graphics", "adreno", "vta", "hexagon", "micro")
    for name in (*others, "stm32"):
        with pytest.raises(TargetError, match="there is no code generator for"):
            getattr(whet.target, name)()


def test_generic_functions_go_by_the_keys_of_the_target():
    @generic_func
    def tile(n):
        return n

    @tile.register(["cpu", "gpu"])
    def _wide(n):
        return 2 * n

    @tile.register("x86")
    def _x86(n):
        return 3 * n

    assert tile(5) == 5 and tile.__name__ == "tile"
    with Target("llvm"):
        assert tile(5) == 10
    with Target("llvm -keys=x86,cpu"):
        assert tile(5) == 15
    with Target("cuda"):
        assert tile(5) == 10
    with pytest.raises(ArgumentError, match="the key has a version already"):
        tile.register(lambda n: 0, "x86")
    tile.register(lambda n: 0, "x86", allow_override=True)
    with Target("llvm -keys=x86"):
        assert tile(5) == 0


def test_named_generic_functions():
    named = get_native_generic_func("test_target_forms.tile")
    with pytest.raises(ArgumentError, match="there is no version for None"):
        named(1)

    @override_native_generic_func("test_target_forms.tile")
    def tile(n):
        return n + 1

    assert tile is named and named(1) == 2
    with pytest.raises(ArgumentError, match="there is one"):
        named.set_default(lambda n: n)


def test_a_third_party_adds_a_kind_with_a_row(monkeypatch):
    mine = TargetKind("mine", "cpu", ("mine", "cpu"), {"colour": str}, "json:dumps")
    monkeypatch.setitem(KINDS, "mine", mine)
    t = Target("mine -colour=red")
    assert t.keys == ("mine", "cpu") and t.kind.row.load_generator() is json.dumps
    assert t.canonical() is t and t.key.startswith("mine-")
    assert Target("llvm -max-function-args=-1").max_function_args == -1
    lost = TargetKind("mine", "cpu", (), {}, "nowhere.at_all:generate")
    with pytest.raises(TargetError, match=r"its generator 'nowhere.at_all:generate' cannot be"):
        lost.load_generator()
