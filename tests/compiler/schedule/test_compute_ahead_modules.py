"""Modules whose weights are packed ahead: called, timed, sent, exported, loaded, used from C."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from linked_programs import compiled

from whet.compiler import driver, te
from whet.compiler.abi.signature import KernelSignature
from whet.compiler.runtime import Module, cpu, load_module
from whet.compiler.runtime.arrays import nd

W = np.arange(24, dtype=np.float32).reshape(4, 6)
X = np.array([1, -2, 3, 0.5], np.float32)


def built(target="llvm"):
    """``y = W.T @ x``, with W transposed ahead of the calls."""
    w, x = te.placeholder((4, 6), name="W"), te.placeholder((4,), name="X")
    p = te.compute((6, 4), lambda j, i: w[i, j], name="P")
    k = te.reduce_axis((0, 4), name="k")
    y = te.compute((6,), lambda j: te.sum(p[j, k] * x[k], axis=k), name="Y")
    s = te.create_schedule(y.op)
    s[p].compute_ahead()
    return driver.build(s, [w, x, y], target, name="product")


@pytest.fixture(scope="module")
def module():
    return built()


def check(f):
    out = np.full(6, np.nan, np.float32)
    packed = f.pack_weights(W)
    np.testing.assert_array_equal(packed, W.T)
    f(packed, X, out)
    np.testing.assert_allclose(out, W.T @ X, rtol=1e-6)


def test_a_packed_array_is_new_compact_and_aligned(module):
    before = W.copy()
    made = [module.pack_weights(W) for _ in range(20)]
    for a in made:
        assert type(a) is np.ndarray and a.flags.c_contiguous and a.flags.writeable
        assert a.__array_interface__["data"][0] % 64 == 0
        np.testing.assert_array_equal(a, W.T)
    assert len({a.__array_interface__["data"][0] for a in made}) == 20
    np.testing.assert_array_equal(W, before)


def test_any_array_of_a_call_can_be_a_weight(module):
    frozen = W.copy()
    frozen.flags.writeable = False
    for w in (nd.array(W), frozen):
        np.testing.assert_array_equal(module.pack_weights(w), W.T)
    out = nd.empty((6,), "float32")
    module(nd.array(module.pack_weights(W)), nd.array(X), out)
    np.testing.assert_allclose(out.numpy(), W.T @ X, rtol=1e-6)


def test_the_timer_times_the_kernel(module):
    out = np.empty(6, np.float32)
    time = module.time_evaluator(module.entry_name, cpu(0), number=3, repeat=2)
    assert time(module.pack_weights(W), X, out).mean > 0
    np.testing.assert_allclose(out, W.T @ X, rtol=1e-6)


def test_a_signature_is_plain_data(module):
    signature = module.entry_func.signature
    assert signature.ahead is not None
    assert KernelSignature.from_json(signature.to_json()) == signature
    assert pickle.loads(pickle.dumps(signature)) == signature
    plain = module["product_ahead"].signature
    assert "ahead" not in plain.to_json() and KernelSignature.from_json(plain.to_json()) == plain


def test_an_artifact_packs_where_it_is_loaded(module):
    check(Module.from_artifact(pickle.loads(pickle.dumps(module.artifact))))


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("ending", ["so", "tar", "o"])
def test_libraries_pack(tmp_path, ending, target):
    f = built(target)
    path = tmp_path / f"product.{ending}"
    f.export_library(path)
    loaded = load_module(path)
    assert loaded.functions == ["product", "product_ahead"]
    assert loaded.entry_func.signature == f.entry_func.signature
    check(f)
    check(loaded)


def test_a_process_without_the_compiler_packs(tmp_path, module):
    module.export_library(tmp_path / "product.so")
    code = f"""
import sys
import numpy as np
from whet.compiler.runtime import load_module
f = load_module({str(tmp_path / "product.so")!r})
w = np.arange(24, dtype="float32").reshape(4, 6)
out = np.empty(6, "float32")
f(f.pack_weights(w), np.ones(4, "float32"), out)
assert (out == w.sum(0)).all()
loaded = [m for m in ("llvmlite", "whet.compiler.te", "whet.autotune") if m in sys.modules]
assert not loaded, loaded
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


C_PROGRAM = r"""
#include <stdio.h>
#include <whet/runtime.h>

WHET_KERNEL(product);
WHET_KERNEL(product_ahead);

int main(void) {
  float w[24], p[24], x[4] = {1, 1, 1, 1}, y[6];
  int64_t four_six[] = {4, 6}, six_four[] = {6, 4}, four[] = {4}, six[] = {6};
  DLDataType f32 = {kDLFloat, 32, 1};
  DLDevice cpu = {kDLCPU, 0};
  for (int i = 0; i < 24; i++) w[i] = (float)i;
  DLTensor W = {w, cpu, 2, f32, four_six, NULL, 0};
  DLTensor P = {p, cpu, 2, f32, six_four, NULL, 0};
  DLTensor X = {x, cpu, 1, f32, four, NULL, 0};
  DLTensor Y = {y, cpu, 1, f32, six, NULL, 0};
  void *packs[] = {&W, &P}, *call[] = {&P, &X, &Y};
  int bad = product_ahead(packs, 2) != WHET_OK || product(call, 3) != WHET_OK;
  for (int i = 0; i < 6; i++) printf("%g ", y[i]);
  return bad;
}
"""


def test_a_c_program_packs(tmp_path, module):
    module.export_library(tmp_path / "product.so")
    program = compiled(tmp_path, C_PROGRAM, str(tmp_path / "product.so"))
    done = subprocess.run([program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "36 40 44 48 52 56 ")
