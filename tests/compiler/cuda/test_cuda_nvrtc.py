"""NVRTC: the prelude for every architecture, resources, the cache, and what it refuses."""

import dataclasses
import re

import pytest

from whet.compiler import settings
from whet.compiler.abi.artifact import Resources
from whet.compiler.codegen.cuda import library, nvrtc, prelude
from whet.compiler.codegen.cuda.cubin import resources_of
from whet.compiler.codegen.cuda.nvrtc import NvrtcError, compile_cubin, compile_ptx
from whet.compiler.errors import ArgumentError, CodegenError, TargetError

pytestmark = pytest.mark.skipif(
    not nvrtc.available(), reason="NVRTC is not installed: pip install 'whet-autotune[nvrtc]'"
)
ARCHS = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")


def kernel(body, params="", name="k", bounds=32):
    return f'extern "C" __global__ void __launch_bounds__({bounds}) {name}({params}) {{\n{body}\n}}'


# every name of the prelude; what its PTX must hold
_FLOATS = "{t} x = A[0], y = A[1]; A[2] = ((x + y) * x - y) / (-x); A[3] = {t}(float(x) + 1.0f); "
_ORDER = "if (x < y) A[4] = x; if (x <= y) A[5] = x; if (x > y) A[6] = x; if (x >= y) A[7] = y; "
_EQUAL = "if (x == y) A[8] = x; if (x != y) A[9] = x; A[10] = {t}(D[0]);"
PARTS = {
    **{
        t: (
            (_FLOATS + _ORDER + _EQUAL).replace("{t}", t),
            f"WHET_GLOBAL({t}) A, WHET_GLOBAL(const double) D",
            made,
        )
        for t, made in (("float16", ["mul.f16", "add.f16", "cvt.rn.f16.f64"]), ("bfloat16", []))
    },
    "memory": (
        "WHET_EXTENT(A, 64); WHET_SHARED_BUFFER(float, S, 128, 64); WHET_LOCAL(float, C, 4);"
        "whet_store<float32x4>(S, threadIdx.x * 4, whet_load<float32x4>(A, threadIdx.x * 4));"
        "__syncthreads(); for (int k = 0; k < 4; ++k) C[k] = S[threadIdx.x + k];"
        "__syncwarp(); float32x4 v = {}; v[1] = C[2]; v[0] = C[0] + C[1];"
        "whet_store<float32x4>(B, threadIdx.x * 4, v);",
        "WHET_GLOBAL(const float) A, WHET_GLOBAL(float) B",
        ["ld.global.nc.v4", "st.shared.v4", "st.global.v4", "bar.sync", "bar.warp.sync"],
    ),
    **{
        f"copy_{t}": (
            f"whet_store<{t}>(B, threadIdx.x * 16, whet_load<{t}>(A, threadIdx.x * 16));",
            f"WHET_GLOBAL(const {c}) A, WHET_GLOBAL({c}) B",
            [f"ld.global.nc.{move}", f"st.global.{move}"],
        )
        for t, c, move in (
            ("int8x2", "signed char", "u16"),
            ("uint8x16", "unsigned char", "v4.u32"),
            ("boolx4", "bool", "u32"),
            ("float16x8", "float16", "v4.u32"),
            ("bfloat16x4", "bfloat16", "v2.u32"),
            ("int16x4", "short", "v2.u32"),
            ("uint16x2", "unsigned short", "u32"),
            ("int32x2", "int", "v2.u32"),
            ("uint32x4", "unsigned int", "v4.u32"),
            ("int64x2", "long long", "v4.u32"),
            ("uint64x2", "unsigned long long", "v4.u32"),
            ("float64x2", "double", "v4.u32"),
        )
    },
    **{
        f"shuffle_{t}": (
            f"{t} v = A[threadIdx.x]; v = whet_warp_shuffle(v, 3); "
            "v = whet_warp_shuffle_down(v, 16); v = whet_warp_shuffle_up(v, 1); "
            "A[threadIdx.x] = whet_warp_shuffle_xor(v, 4, 8);",
            f"WHET_GLOBAL({t}) A",
            [f"shfl.sync.{m}.b32" for m in ("idx", "down", "up", "bfly")],
        )
        for t in ("float", "double", "float16", "bfloat16", "int", "long long", "bool")
    },
    "dp4a": (
        "A[0] = whet_dp4a(A[1], A[2], A[3]); B[0] = whet_dp4a(B[1], B[2], B[3]);"
        "A[4] = whet_dp4a(whet_load<int>(C, 4), whet_load<int>(C, 8), 0);"
        "A[5] = whet_pack(C[1], C[12], C[15], C[9]);"
        "const int8x4 c = whet_load<int8x4>(C, 4), d = whet_load<int8x4>(C, 8);"
        "whet_store<int32x4>(A, 8, whet_transpose4x4<int32x4>(c, d, d, c));"
        "const uint8x4 u = {};"
        "whet_store<uint32x4>(B, 8, whet_transpose4x4<uint32x4>(u, u, u, u));",
        "WHET_GLOBAL(int) A, WHET_GLOBAL(unsigned int) B, WHET_GLOBAL(const signed char) C",
        ["dp4a.s32.s32", "dp4a.u32.u32", "prmt.b32"],
    ),
    "vector": (
        "whet_vector<float, 4> v = {}; v[2] = A[0]; A[1] = v[2];",
        "WHET_GLOBAL(float) A",
        [],
    ),
    "trap": ('if (n < 0) whet_trap(3, "n is negative");', "int n", ["__assertfail"]),
}


def all_parts():
    return "\n".join(
        kernel(body, params, f"k_{part}".replace(" ", "_"))
        for part, (body, params, _) in PARTS.items()
    )


@pytest.mark.parametrize("arch", ARCHS)
def test_every_function_of_the_prelude(arch):
    compiled = compile_cubin(all_parts(), arch)
    assert compiled.cubin.startswith(b"\x7fELF")
    assert len(compiled.resources) == len(PARTS)
    assert all(r.registers > 0 and r.code_bytes > 0 for r in compiled.resources.values())
    assert "warning" not in compiled.log


def test_every_name_is_compiled():
    text = all_parts()
    assert [name for name in prelude.NAMES if name not in text] == []


@pytest.mark.parametrize("part", PARTS)
def test_instructions(part):
    body, params, made = PARTS[part]
    ptx = compile_ptx(kernel(body, params), "sm_80")
    assert ".target sm_80" in ptx
    assert [x for x in made if x not in ptx] == []


def test_a_16_bit_float_of_an_architecture_that_rounds_by_itself():
    body, params, _ = PARTS["bfloat16"]
    assert "cvt.rn.bf16.f32" in compile_ptx(kernel(body, params), "sm_80")
    assert "bf16" not in compile_ptx(kernel(body, params), "sm_75").replace("bfloat16", "")


# resources


def heavy():
    """More values alive than 32 registers a thread can hold."""
    return kernel(
        "float c[64]; for (int i = 0; i < 64; ++i) c[i] = A[i * 7 + threadIdx.x];\n"
        "__syncthreads(); float s = 0;\n"
        "for (int r = 0; r < n; ++r)\n"
        "#pragma unroll\n"
        "for (int i = 0; i < 64; ++i) { c[i] = c[i] * s + c[(i * 5 + 3) % 64]; s += c[i]; }\n"
        "A[threadIdx.x] = s; for (int i = 0; i < 64; ++i) A[i * 3 + threadIdx.x] = c[i];",
        "WHET_GLOBAL(float) A, int n",
        bounds=2048 // 2,
    )


@pytest.mark.parametrize("arch", ("sm_80", "sm_90", "sm_120"))
def test_resources_are_what_the_compiler_says(arch):
    static = kernel(
        "__shared__ float t[96]; t[threadIdx.x] = A[0]; A[1] = t[threadIdx.x ^ 1];",
        "WHET_GLOBAL(float) A",
        "static_memory",
    )
    compiled = compile_cubin(heavy() + "\n" + static, arch)
    said = dict(
        zip(
            re.findall(r"entry function '(\w+)'", compiled.log),
            map(int, re.findall(r"Used (\d+) registers", compiled.log)),
        )
    )
    found = compiled.resources
    assert {name: r.registers for name, r in found.items()} == said
    assert found["k"].spill_stores > 0 and found["k"].spill_loads > 0
    assert found["k"].stack_bytes >= found["k"].spill_stores // 64
    assert found["static_memory"].static_shared_bytes == 384
    assert found["static_memory"].spill_stores == 0
    assert found["k"].static_shared_bytes == 0
    assert found["k"].code_bytes > found["static_memory"].code_bytes


def test_the_arena_is_not_static_memory():
    body, params, _ = PARTS["memory"]
    assert compile_cubin(kernel(body, params), "sm_90").resources["k"].static_shared_bytes == 0


@pytest.mark.parametrize("data", (b"", b"not an ELF file", b"\x7fELF" + bytes(20)))
def test_what_is_no_cubin(data):
    with pytest.raises(CodegenError, match=rf"a cubin of {len(data)} bytes(.|\n)*no ELF file"):
        resources_of(data)


def test_a_damaged_cubin():
    cubin = compile_cubin(kernel("", ""), "sm_80").cubin
    with pytest.raises(CodegenError, match="read the resources of a cubin"):
        resources_of(cubin[: len(cubin) // 2])


def test_resources_are_data():
    assert dataclasses.asdict(Resources(registers=32))["spill_stores"] == 0


# what is refused


def test_a_text_that_is_wrong():
    with pytest.raises(
        NvrtcError, match=r"sm_80: NVRTC says (.|\n)*kernel\.cu\(2\): error(.|\n)*nix"
    ):
        compile_cubin(kernel("A[0] = nix;", "WHET_GLOBAL(float) A"), "sm_80")


def test_what_the_assembler_refuses_is_told_in_its_words():
    much = kernel(
        "__shared__ float t[20000]; t[threadIdx.x] = A[0]; A[1] = t[threadIdx.x ^ 1];",
        "WHET_GLOBAL(float) A",
    )
    with pytest.raises(NvrtcError, match="too much shared data"):
        compile_cubin(much, "sm_80")


def test_an_architecture_that_does_not_exist():
    with pytest.raises(TargetError, match=r"sm_33: NVRTC \d+\.\d+ does not know(.|\n)*sm_80"):
        compile_cubin(kernel(""), "sm_33")
    with pytest.raises(ArgumentError, match="'ampere': that is no architecture"):
        compile_cubin(kernel(""), "ampere")


def test_no_nvrtc(monkeypatch):
    monkeypatch.setattr(library, "_candidates", lambda: iter(["libnvrtc.so.0"]))
    library.load.cache_clear()
    try:
        with pytest.raises(TargetError, match=r"no NVRTC(.|\n)*pip install .*\[nvrtc\]"):
            compile_cubin(kernel(""), "sm_80")
    finally:
        library.load.cache_clear()


def test_a_driver_gets_no_newer_cuda(monkeypatch, tmp_path):
    for folder, name in (("cu13", "libnvrtc.so.13"), ("cuda_nvrtc", "libnvrtc.so.12")):
        (tmp_path / folder / "lib").mkdir(parents=True)
        (tmp_path / folder / "lib" / name).touch()
        (tmp_path / folder / "lib" / f"{name}.0.88").touch()

    class Spec:
        submodule_search_locations = [str(tmp_path)]

    monkeypatch.setattr(library.importlib.util, "find_spec", lambda name: Spec)

    def majors(driver):
        return [p.name[-2:] for p in library.paths(driver)]

    assert majors(None) == majors(13) == majors(14) == ["13", "12"]
    assert majors(12) == ["12", "13"]


# the cache


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WHET_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def never(*_):
    raise AssertionError("it was compiled again")


def test_the_same_is_compiled_once(cache, monkeypatch):
    text = kernel("A[0] = 1;", "WHET_GLOBAL(float) A")
    first, ptx = compile_cubin(text, "sm_80"), compile_ptx(text, "sm_80")
    monkeypatch.setattr(nvrtc, "_compiled", never)
    again = compile_cubin(text, "sm_80")
    assert again == first
    assert again.resources == first.resources
    assert again.ptx == ptx
    for other in ((text + " ", "sm_80"), (text, "sm_90")):
        with pytest.raises(AssertionError, match="again"):
            compile_cubin(*other)


def test_another_prelude_is_other_code(cache, monkeypatch):
    text = kernel("")
    compile_cubin(text, "sm_80")
    before = prelude.text()
    monkeypatch.setattr(prelude, "text", lambda: before + "\n// another")
    monkeypatch.setattr(nvrtc, "_compiled", never)
    with pytest.raises(AssertionError, match="again"):
        compile_cubin(text, "sm_80")


@pytest.mark.parametrize("damage", (lambda d: d[:-10], lambda d: b"", lambda d: b"{}\n" + d))
def test_a_damaged_file_is_compiled_again(cache, damage):
    text = kernel("A[0] = 2;", "WHET_GLOBAL(float) A")
    first = compile_cubin(text, "sm_80")
    (file,) = (p for p in cache.rglob("*") if p.is_file())
    file.write_bytes(damage(file.read_bytes()))
    assert compile_cubin(text, "sm_80").cubin == first.cubin


def test_no_cache_where_there_is_no_folder(monkeypatch):
    monkeypatch.setenv("WHET_CACHE_DIR", "")
    assert settings.cache_dir() is None
    assert compile_cubin(kernel(""), "sm_80").resources["k"].code_bytes > 0
