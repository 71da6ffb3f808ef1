"""Building for GPUs without one: cubins, what they take, what is pruned, what is predicted."""

import pytest

import whet
from whet import te
from whet.autotune import create_task
from whet.compiler.codegen.cuda import nvrtc
from whet.measure import MeasureInput
from whet.measure.gpu import builder
from whet.measure.gpu import pruning as unrolled_check
from whet.measure.gpu.builder import build_for_emulator, build_for_gpu
from whet.search_spaces import get_config, template

SM80 = "cuda -arch=sm_80"
needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="NVRTC is not installed")


@template("test/gpu_registers")
def heavy(n):
    """Sums of rows, ``each`` of them a thread, whose accumulators are all in use at once."""
    A = te.placeholder((n, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    B = te.compute((n, n), lambda i, j: te.sum(A[i, k] * A[k, j], axis=k), name="B")
    cfg = get_config()
    cfg.define_knob("each", [1, 8, 24])
    cfg.define_knob("threads", [8, 64])
    s = te.create_schedule(B.op)
    tile = s.cache_write(B, "local")
    i, j = s[B].op.axis
    each, threads = cfg["each"].val, cfg["threads"].val
    io, ii = s[B].split(i, each)
    jo, ji = s[B].split(j, each)
    jb, jt = s[B].split(jo, threads)
    s[B].reorder(io, jb, jt, ii, ji)
    for axis, tag in ((io, "blockIdx.y"), (jb, "blockIdx.x"), (jt, "threadIdx.x")):
        s[B].bind(axis, te.thread_axis(tag))
    s[tile].compute_at(s[B], jt)
    a, b = s[tile].op.axis
    s[tile].reorder(s[tile].op.reduce_axis[0], a, b)
    s[tile].unroll(a)
    s[tile].unroll(b)
    return s, [A, B]


def candidate(n, made=heavy, *args, **choices):
    task = create_task(made, args=(n, *args), target=SM80)
    space = task.config_space
    config = space.from_choices(space.default.as_dict() | choices)
    return MeasureInput(task.workload, task.target.to_json(), config, task.template.ref())


@needs_nvrtc
def test_a_cubin_needs_no_gpu():
    built = build_for_gpu(candidate(256, each=1, threads=64))
    assert built.status == "ok" and built.artifact.object.startswith(b"\x7fELF")
    assert 8 <= built.facts["registers"] <= 255 and built.facts["spilt_bytes"] == 0
    assert built.artifact.plans and built.program_hash
    assert set(built.timings) == {"lower_s", "build_s"}


@needs_nvrtc
@pytest.mark.parametrize("build", [build_for_gpu, build_for_emulator])
def test_what_spills_is_pruned(build):
    """576 accumulators a thread: no GPU has so many registers."""
    built = build(candidate(384, each=24, threads=8))
    assert built.status == "pruned" and built.artifact is None
    assert "do not fit" in built.error and "Traceback" not in built.error


@template("test/gpu_unrolled")
def unrolled(n, default=1):
    """A sum whose iterations, ``each`` of them a thread, are unrolled."""
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[i, j] + 1.0, name="B")
    cfg = get_config()
    cfg.define_knob("each", [default, *{1, n} - {default}])
    s = te.create_schedule(B.op)
    i, j = s[B].op.axis
    io, ii = s[B].split(i, cfg["each"].val)
    s[B].bind(j, te.thread_axis("threadIdx.x"))
    s[B].bind(io, te.thread_axis("blockIdx.x"))
    s[B].unroll(ii)
    return s, [A, B]


@pytest.mark.parametrize("build", [build_for_gpu, build_for_emulator])
def test_what_would_be_compiled_for_seconds_is_pruned(monkeypatch, build):
    seen = []
    monkeypatch.setattr(nvrtc, "compile_cubin", lambda *given: seen.append(given))
    monkeypatch.setattr(nvrtc, "available", lambda: False)
    monkeypatch.setattr(unrolled_check, "UNROLLED", 63)
    built = build(candidate(64, unrolled, each=64))
    assert built.status == "pruned" and built.facts == {"pruned": "unrolled"} and not seen
    assert "its unrolled loops make 64 stores; a search compiles up to 63" in built.error
    assert "whet.build compiles it all the same" in built.error
    monkeypatch.setattr(unrolled_check, "UNROLLED", 64)
    build(candidate(64, unrolled, each=64))
    assert len(seen) == (build is build_for_gpu)


def test_what_the_default_unrolls_is_the_templates_own_choice(monkeypatch):
    monkeypatch.setattr(unrolled_check, "UNROLLED", 31)
    assert build_for_emulator(candidate(32, unrolled, 32, each=32)).status == "ok"
    assert build_for_emulator(candidate(32, unrolled, 1, each=32)).status == "pruned"


@needs_nvrtc
def test_a_users_own_build_compiles_what_a_search_prunes(monkeypatch):
    monkeypatch.setattr(unrolled_check, "UNROLLED", 31)
    inp = candidate(32, unrolled, each=32)
    with whet.Target(SM80):
        built = whet.build(*unrolled.instantiate(inp.workload, inp.config), target=SM80)
    assert built.resources()["default_function_kernel0"].registers > 0


def test_the_emulators_artifact_is_text_with_a_prediction():
    built = build_for_emulator(candidate(1024, each=8, threads=64))
    assert built.status == "ok" and built.artifact.object == b""
    model = built.facts["model"]
    assert model["gpu"].startswith("NVIDIA A100") and model["version"] >= 1
    assert 1024**3 / 10e12 < model["seconds"] < 1.0
    assert model["instructions"] >= 1024**3 and 0 < model["occupancy"] <= 1
    assert model["limited_by"] in ("memory", "l2", "l1", "issue", "arithmetic", "latency")
    assert built.facts["compiled"] is nvrtc.available()


def test_what_would_be_compiled_too_long_is_predicted_only(monkeypatch):
    monkeypatch.setattr(nvrtc, "available", lambda: False)
    warmed = []
    monkeypatch.setattr(
        "whet.compiler.emulator.compile.compile_emulated",
        lambda source, checks, quick: warmed.append(quick),
    )
    short = build_for_emulator(candidate(16, each=8, threads=8)).facts["model"]
    assert warmed == [True] and not builder.too_much(short)
    monkeypatch.setattr(builder, "LINES", short["lines"] - 1)
    long = build_for_emulator(candidate(16, each=8, threads=8))
    assert long.status == "ok" and len(warmed) == 1
    assert f"{float(short['lines']):.4g} lines, and" in builder.too_much(long.facts["model"])


def test_without_a_compiler_registers_are_estimated(monkeypatch):
    known = build_for_emulator(candidate(1024, each=8, threads=64)).facts["model"]
    monkeypatch.setattr(nvrtc, "available", lambda: False)
    built = build_for_emulator(candidate(1024, each=8, threads=64))
    assert built.facts["compiled"] is False and "registers" not in built.facts
    assert built.facts["model"]["seconds"] == pytest.approx(known["seconds"], rel=0.5)
