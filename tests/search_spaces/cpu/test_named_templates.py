"""Named templates: one workload for several spellings, errors, versions, bytes, other processes."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

import whet
from whet import te, topi
from whet.compiler.errors import ArgumentError, SpaceError
from whet.measure import ReplayPool
from whet.search_spaces import get_template
from whet.search_spaces.graph.canonical_args import AXES, DTYPE, REAL, SHAPE
from whet.search_spaces.graph.graph_templates import graph_template
from whet.search_spaces.graph.template import VERSION

TARGET = "llvm -num-threads=1"


def workload(name, *args):
    return get_template(name).workload(*args)


def test_several_spellings_are_one_workload():
    assert workload("softmax", (4, 8)) == workload("softmax", [4, 8], 1, "float")
    assert workload("softmax", (4, 8)).args == ((4, 8), 1, "float32")
    assert workload("sum", (4, 8)) == workload("sum", (4, 8), (-1, 0))
    assert workload("sum", 12) == workload("sum", (12,), 0)
    assert workload("transpose", (4, 8)) == workload("transpose", (4, 8), (-1, 0))
    assert workload("layer_norm", (4, 8)) == workload("layer_norm", (4, 8), -1, 1e-5)
    assert workload("max_pool2d", (1, 2, 8, 8), 3, 2) == workload(
        "max_pool2d", (1, 2, 8, 8), (3, 3), (2, 2), 0, (1, 1)
    )
    assert workload("pad", (4, 8), (1, 2)) == workload("pad", (4, 8), (1, 2), (1, 2))


@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        ("softmax", ((4, 8), 2), "there is no axis 2 in 2 dimensions"),
        ("softmax", ((4, -8),), "negative extent"),
        ("softmax", ("4x8",), "is no shape"),
        ("softmax", ((4, 8), 1, "float33"), "no such data type"),
        ("sum", ((4, 8), (0, -2)), "names an axis twice"),
        ("sum", ((4, 8), "rows"), "are no axes"),
        ("transpose", ((4, 8), (0, 0)), "no order of 2 dimensions"),
        ("layer_norm", ((4, 8), 1, "small"), "is no number"),
        ("add", ((4, 8), (4, 7)), "do not go together"),
        ("bias_gelu", ((),), "at least one dimension"),
        ("max_pool2d", ((4, 8), 3), "images are"),
        ("max_pool2d", ((1, 2, 8, 8), 3, 1, -1), "is negative"),
        ("max_pool2d", ((1, 2, 8, 8), (3, 3, 3)), "neither an int nor a pair"),
        ("max_pool2d", ((1, 2, 8, 8), 9), "larger than the padded image"),
        ("avg_pool2d", ((1, 2, 8, 8), 3, 1, 0, 1), "neither True nor False"),
        ("concatenate", ((4, 8), 0), "no list of shapes"),
        ("concatenate", (((4, 8), (3, 8)), 1), "has the extents"),
        ("pad", ((4, 8), (1,)), r"before \(1,\) has 1 number for 2 dim.*\n  .*\(1, 0\)"),
        ("pad", ((2, 3), (1, 1), (-1, 0)), r"after \(-1, 0\) has a negative number\n  0 or more"),
        ("pad", ((2, 3), "rows"), r"before 'rows' is no tuple of ints\n  \(1, 1\)"),
        (
            "softmax",
            (128, 256),
            r'no axis 256 in 1 dimension\n  axis from -1 to 0; .*"\(128, 256\)"',
        ),
        ("transpose", (128, 256), r'no order of 1 dimension\n  .*"\(128, 256\)" on a command line'),
        ("softmax", ((),), "no axis -1 in 0 dimensions\n  a shape of at least one dimension"),
        (
            "layer_norm",
            ((4, 4), (1, 0)),
            r"axes \(1, 0\) are not in ascending .*\n  write \(0, 1\)",
        ),
        ("rms_norm", ((65, 4, 5), (1, 2, 0)), r"write \(0, 1, 2\), with .* of shape \(65, 4, 5\)"),
        ("layer_norm", ((4, 4), ()), r"axes \(\) names no axis\n  one or more"),
        ("batch_norm", ((4, 5), 1, 1e-5, "int32"), r"batch_norm\(.*: dtype 'int32' holds integers"),
        ("bias_gelu", ((4, 5), "int32"), r"dtype 'int32' holds integers, .*\n  dtype \"float32\""),
        ("mean", ((4, 5), 0, "int32"), r"mean\(.*: dtype 'int32' holds integers"),
        ("layer_norm", ((4, 5), -1, 1e-5, "int8"), "dtype 'int8' holds integers"),
        ("rms_norm", ((4, 5), -1, 1e-5, "int8"), "dtype 'int8' holds integers"),
        ("adaptive_avg_pool2d", ((1, 2, 3, 3), (0, 5)), r"output_size \(0, 5\) has a 0\n  1 or"),
        ("adaptive_avg_pool2d", ((1, 2, 0, 3), 2), "images of 0x3 have no pixels for 2x2 windows"),
        ("max_pool2d", ((1, 2, 8, 8), 0), "kernel 0 has a 0"),
        ("resize2d", ((1, 1, 0, 4), (2, 3)), r"of 0x4 have no pixel that 2x3 .*\n  .*at least one"),
        (
            "layout_transform",
            ((1, 2, 3, 4), "NCHW", ""),
            "layout '' lacks N, C, H, W, which 'NCHW'",
        ),
        (
            "layout_transform",
            ((1, 2, 3, 4), "NCHW", "NHWDC"),
            "layout 'NCHW' lacks D, which 'NHWDC'",
        ),
        ("layout_transform", ((1, 2, 3), "NCHW", "NHWC"), "'NCHW' has 4 dimensions, the tensor 3"),
        ("argmax", ((0,),), r"argmax\(.*: axis 0 has 0 elements"),
        ("argmin", ((4, 0), 1), r"argmin\(.*: axis 1 has 0 elements"),
        (
            "dense",
            (2, 3, 4, "float32", (("clip", 0, float("inf")),)),
            r"inf in \('clip', .*\n.*None",
        ),
        ("dense", (2, 3, 4, "float32", (("clip", None, None),)), "both ends are open\n  leave"),
        (
            "layer_norm",
            ((2, 3), -1, float("inf")),
            "is inf, which JSON cannot hold\n  give a finite",
        ),
        ("pad", ((4, 8), (1, 1), (1, 1), 3), "is no word"),
        ("gather", ((4, 8), (4,)), "1 dimensions of indices for 2"),
    ],
)
def test_what_cannot_be(name, args, text):
    with pytest.raises((ArgumentError, SpaceError), match=text):
        whet.create_task(name, args=args, target=TARGET)


def test_axes_that_gamma_has_may_be_spelt_from_the_end():
    assert workload("layer_norm", (4, 5, 6), (-2, -1)) == workload("layer_norm", (4, 5, 6), (1, 2))
    assert workload("rms_norm", (4, 5), None) == workload("rms_norm", (4, 5), (0, -1))
    assert workload("sum", (4, 5), (1, 0)) == workload("sum", (4, 5), (0, 1))


@pytest.mark.parametrize("dtype", [np.float64, np.dtype("float64"), np.dtype("float64").type])
def test_element_types_of_numpy_stand_for_their_names(dtype):
    assert workload("softmax", (4, 8), -1, dtype) == workload("softmax", (4, 8), -1, "float64")
    assert workload("dense", 2, 3, 4, dtype) == workload("dense", 2, 3, 4, "float64")
    half = (("cast", np.float16),)
    assert workload("dense", 2, 3, 4, dtype, half).args[4] == (("cast", "float16"),)
    with pytest.raises(SpaceError, match=r"argument 3 is a type, .*\n  .*'float32', or numpy's"):
        workload("dense", 2, 3, 4, float)


@pytest.mark.parametrize("name", ["sum", "max", "min", "mean"])
@pytest.mark.parametrize(("shape", "axes"), [((4, 5), ()), ((), None), ((), ())], ids=str)
def test_reductions_over_no_axis_are_what_they_are_of(name, shape, axes):
    task = whet.create_task(name, args=(shape, axes), target=TARGET)
    kernel = whet.build(*task.instantiate(), target=task.target)
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    x, out = np.asarray(x), np.full(shape, np.nan, "float32")
    kernel(x, out)
    np.testing.assert_array_equal(out, getattr(x, name)(axis=axes))


def test_places_where_there_are_no_rows():
    task = whet.create_task("argmax", args=((0, 4), 1), target=TARGET)
    out = np.empty(0, "int32")
    whet.build(*task.instantiate(), target=task.target)(np.empty((0, 4), "float32"), out)
    assert task.flop == 0


def test_the_rules_version_is_a_part_of_the_templates():
    assert get_template("softmax").version == 1 + 1000 * VERSION


def test_bytes_are_those_of_inputs_and_outputs():
    def bytes_of(name, *args):
        return whet.create_task(name, args=args, target=TARGET).bytes

    assert bytes_of("softmax", (10, 20)) == 2 * 4 * 200
    assert bytes_of("sum", (10, 20), 0, "float64") == 8 * (200 + 20)
    assert bytes_of("argmax", (10, 20)) == 4 * (200 + 10)
    assert bytes_of("layer_norm", (10, 20)) == 4 * (400 + 40)
    assert bytes_of("matmul", 4, 5, 6) == 4 * (20 + 30 + 24)


def test_flop_are_counted():
    assert whet.create_task("sum", args=((10, 24), 0), target=TARGET).flop == 240
    assert whet.create_task("add", args=((10, 24), (24,)), target=TARGET).flop == 240


def test_empty_and_single_axes():
    for name, shape, axis, wanted in (
        ("sum", (0, 5), 0, np.zeros(5)),
        ("max", (0, 5), 0, np.full(5, -np.inf)),
        ("min", (4, 0), 1, np.full(4, np.inf)),
        ("sum", (4, 1), 1, None),
        ("max", (1, 5), 0, None),
    ):
        task = whet.create_task(name, args=(shape, axis), target=TARGET)
        kernel = whet.build(*task.instantiate(), target=task.target)
        x = np.random.default_rng(0).standard_normal(shape).astype("float32")
        out = np.full([n for d, n in enumerate(shape) if d != axis], np.nan, "float32")
        kernel(x, out)
        np.testing.assert_array_equal(out, x.reshape(out.shape) if wanted is None else wanted)


def test_a_template_of_ones_own():
    @graph_template("tests/scaled", SHAPE, AXES, REAL, DTYPE, version=3)
    def scaled(shape, axes=None, by=2.0, dtype="float32"):
        X = te.placeholder(shape, dtype, name="X")
        return [X], [topi.multiply(topi.sum(X, axes), te.const(by, dtype))]

    assert scaled.version == 3 + 1000 * VERSION
    task = whet.create_task("tests/scaled", args=((8, 9), 1), target=TARGET)
    assert task.args == ((8, 9), (1,), 2.0, "float32")
    again = pickle.loads(pickle.dumps(get_template("softmax")))
    assert again is get_template("softmax")

    @graph_template("tests/wrong", SHAPE)
    def wrong(shape):
        return te.placeholder(shape, name="X")

    with pytest.raises(SpaceError, match=r"returns \(\[inputs\], \[outputs\]\)"):
        whet.create_task("tests/wrong", args=((3,),), target=TARGET)


def test_a_name_beside_outputs_is_a_word_for_people():
    X = te.placeholder((4, 8), name="X")
    task = whet.create_task("softmax", outputs=[topi.nn.softmax(X)], target=TARGET)
    assert task.name.startswith("graph/softmax/")


def test_another_process_builds_from_a_log(tmp_path):
    log = tmp_path / "w.db"
    task = whet.create_task("softmax", args=((8, 40),), target=TARGET)
    pool = ReplayPool(lambda inp: 1e-6)
    whet.tune(task, trials=3, log=log, workers=pool, progress=False)
    code = f"""
import numpy as np, whet
task = whet.create_task("softmax", args=((8, 40),), target={TARGET!r})
f = whet.build(task, log={str(log)!r})
x = np.random.default_rng(0).standard_normal((8, 40)).astype("float32")
y = np.empty_like(x)
f(x, y)
np.testing.assert_allclose(y.sum(1), 1, rtol=1e-5)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
