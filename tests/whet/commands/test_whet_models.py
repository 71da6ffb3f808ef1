"""`whet show` and `whet bench` of a model: tables, the drawing, peers, errors in words."""

import xml.etree.ElementTree as ET
from itertools import pairwise

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import whet
from whet.autotune.models import steps
from whet.bench.cpu.in_float64 import exact_outputs
from whet.bench.cpu.models import drawn_inputs, error_of
from whet.bench.layers import layered
from whet.cli import main
from whet.commands.bench import command as bench
from whet.commands.package import command as package
from whet.commands.show import command as show

TARGET = "llvm -num_threads=1"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def file(tmp_path):
    """A branch, a reshape, two outputs; and what it computes, in float64."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((6, 6)).astype("float32")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        helper.make_node("MatMul", ["a", "w"], ["b"], name="second"),
        helper.make_node("Reshape", ["b", "shape"], ["c"]),
        helper.make_node("Softmax", ["c"], ["y"], axis=1),
        helper.make_node("Cast", ["y"], ["z"], to=TensorProto.FLOAT),
        helper.make_node("Exp", ["z"], ["e"]),
    ]
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [tensor("x", TensorProto.FLOAT, ["batch", 6])],
        [tensor(n, TensorProto.FLOAT, None) for n in ("a", "e")],
        [
            numpy_helper.from_array(w, "w"),
            numpy_helper.from_array(np.array([-1, 3], "int64"), "shape"),
        ],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    path = tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString())

    def reference(x):
        a = x.astype("float64") @ w
        e = np.exp((a @ w).reshape(-1, 3))
        return a, np.exp(e / e.sum(1, keepdims=True))

    return path, made, reference


def said(command, *words):
    return CliRunner().invoke(command, [str(w) for w in words], catch_exceptions=False)


def test_show_names_the_groups_and_draws_them(file, tmp_path):
    drawing = tmp_path / "model.svg"
    words = file[0], "--shape", "batch=2", "--target", TARGET, "--measure", "-o", drawing
    done = said(show, *words)
    assert done.exit_code == 0, done.output
    table = done.output.splitlines()
    groups = [line for line in table if line.endswith("default")]
    assert len(groups) == 3 and table[0].split() == [
        "group", "output", "work", "memory", "time", "share", "tuned", "by",
    ]  # fmt: skip
    assert "3 groups, 2 kernels" in done.output and "144 FLOP" in groups[0]
    assert sum(float(line.split("%")[0].split()[-1]) for line in groups) == pytest.approx(100, 0.01)
    root = ET.fromstring(drawing.read_text())
    boxes = root.findall(f"{SVG}g")
    assert len(boxes) == 3 + 1 + 2  # groups, the input, the outputs
    assert len(root.findall(f"{SVG}path")) == 1 + 1 + 1 + 2  # x, a, b, both outputs
    titles = [t.text for t in root.iter(f"{SVG}title")]
    assert any("'first'" in t or "first" in t for t in titles)


def test_show_counts_launches_of_a_gpu(file):
    done = said(show, file[0], "--shape", "batch=2", "--target", "cuda -arch=sm_90")
    assert done.exit_code == 0, done.output
    assert "launches" in done.output.splitlines()[0]


def test_bench_is_checked_against_float64_and_names_its_peers(file):
    done = said(bench, file[0], "--shape", "batch=2", "--target", TARGET, "--rounds", "2")
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    errors = {
        line.split()[0]: line.split()[-1] for line in lines if line.endswith(("e-07", "e-08"))
    }
    assert {"default", "onnxruntime"} <= errors.keys()
    assert any(line.endswith("beside float64") for line in lines)
    assert any(line.startswith("onnxruntime: 1 thread, ") for line in lines)
    assert any(line.startswith("not compared: torch.compile") for line in lines)


def test_float64_is_exact(file, seeds):
    _, made, reference = file
    graph = whet.from_onnx(made, {"batch": 4})
    (x,) = drawn_inputs(graph.inputs, seeds(1)[0])
    found = exact_outputs(made, {"x": x})
    assert error_of(found, reference(x)) < 1e-14
    assert error_of([found[0], found[1] * 1.01], reference(x)) == pytest.approx(0.01, 1e-6)


@pytest.mark.parametrize(
    ("command", "words", "why"),
    [
        (show, ["-o", "model.png"], "a model is drawn as SVG"),
        (show, ["-o", "nowhere/model.svg"], "there is no such folder"),
        (bench, ["--device", "cuda:0"], "a model is compared on a CPU"),
        (bench, ["--plot", "a.svg"], "are for an operator"),
        (bench, ["--trials", "4"], "whet tune model.onnx"),
        (bench, ["--compile"], "--compile are for an operator"),
        (show, ["--op", "matmul"], "are for a log"),
        (package, [], "-o FILE is missing"),
        (package, ["--show", "a.whet", "--shape", "batch=1"], "stands alone"),
    ],
)
def test_wrong_words(command, words, why):
    first = [] if "--show" in words else ["model.onnx"]
    done = said(command, *first, *words)
    assert done.exit_code == 2 and why in done.output


def _contestants(output):
    """Of each comparison what ran: its first column."""
    found = []
    for line in output.splitlines():
        if line.lstrip().startswith("median"):
            found.append([])
        elif line.endswith(("e-07", "e-08", "0.0e+00")):
            found[-1].append(line.partition("  ")[0])
    return found


def test_bench_of_a_range_is_at_its_ends_and_beside_models_of_one_size(file, monkeypatch):
    monkeypatch.chdir(file[0].parent)
    words = file[0], "--target", TARGET, "--rounds", "2"
    done = said(bench, *words, "--shape", "batch=1..5")
    assert done.exit_code == 0, done.output
    assert "model.onnx, batch=1: " in done.output and "model.onnx, batch=5: " in done.output
    for found in _contestants(done.output):
        assert {"default", "default, any size", "onnxruntime"} <= set(found)
    assert done.output.count("not tuned: no whet.db") == 1
    tasks, _ = zip(*whet.model_tasks("model.onnx", {"batch": 3}, TARGET))
    whet.tune(tasks, trials=len(tasks), log="whet.db", progress=False)
    done = said(bench, *words, "--shape", "x=1..5,6", "--at", "x[0]=3")
    assert done.exit_code == 0, done.output
    (missing,) = [
        x for x in done.output.splitlines() if x.startswith("not tuned: whet.db has noth")
    ]
    assert "--shape x=1..5,6 " in missing and "\nmodel.onnx: " in done.output
    (found,) = _contestants(done.output)
    assert {"default", "tuned", "default, any size"} <= set(found)


def test_bench_of_several_sizes_is_at_each(file, monkeypatch):
    monkeypatch.chdir(file[0].parent)
    done = said(bench, file[0], "--shape", "batch=1,4", "--target", TARGET, "--rounds", "2")
    assert done.exit_code == 0, done.output
    assert [line for line in done.output.splitlines() if line.startswith("model.onnx, batch=")]
    assert len(_contestants(done.output)) == 2


def test_bench_names_the_command_of_each_size_that_is_not_tuned(file, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.onnx").write_bytes(file[0].read_bytes())
    tasks, _ = zip(*whet.model_tasks("model.onnx", {"batch": 2}, TARGET))
    whet.tune(tasks, trials=len(tasks), log="whet.db", progress=False)
    words = "model.onnx", "--target", TARGET, "--rounds", "1"
    done = said(bench, *words, "--shape", "batch=2,3,3")
    assert len(_contestants(done.output)) == 2
    missing = [line for line in done.output.splitlines() if line.startswith("not tuned")]
    (line,) = missing
    assert "whet tune model.onnx --shape batch=3 --target" in line
    done = said(bench, *words, "--shape", "batch=2..40", "--at", "batch=2", "--at", "batch=2")
    assert len(_contestants(done.output)) == 1
    missing = [line for line in done.output.splitlines() if line.startswith("not tuned")]
    assert all("whet tune model.onnx --shape batch=2..40 " in line for line in missing)


def test_bench_of_sizes_that_do_not_fit(file, monkeypatch, capsys):
    from whet.bench.cpu import models

    def drawn(values):
        if values[0].shape[0] > 8:
            raise MemoryError("Unable to allocate 1 TiB")
        return drawn_inputs(values)

    monkeypatch.setattr(models, "drawn_inputs", drawn)
    words = ["bench", str(file[0]), "--target", TARGET, "--rounds", "1", "--shape"]
    for sizes, way in (("batch=2..9", "--at batch=2: sizes"), ("batch=9", "smaller sizes")):
        assert main([*words, sizes]) == 1
        assert f"at batch=9: Unable to allocate 1 TiB\n  {way}" in capsys.readouterr().err


def test_bench_of_a_range_beside_several_sizes(file, capsys):
    assert main(["bench", str(file[0]), "--shape", "batch=1,2..8"]) == 1
    assert "--shape batch=1..8, or numbers for all sizes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--shape", "batch=1..8", "--at", "batch=9"], "it is outside of --shape batch=1..8"),
        (["--shape", "batch=1..8", "--at", "bach=3"], "'bach' is none of the ranges, batch\n  did"),
        (
            ["--shape", "x=1..8,2..6", "--at", "x[0]=3", "--at", "x[1]=3"],
            "needed, in one --at\n  --at x[0]=1,x[1]=2",
        ),
        (["--shape", "batch=1..8", "--at", "batch"], "--at 'batch': e.g. batch=8"),
        (["--shape", "batch=1..8", "--at", "batch=4,batch=5"], "each name once"),
        (
            ["--shape", "batch=8", "--at", "batch=8"],
            "no size is a range, such as --shape",
        ),
    ],
)
def test_wrong_sizes_of_a_range(file, words, why):
    done = said(bench, file[0], *words)
    assert done.exit_code == 2 and why in done.output


def test_a_table_is_of_one_size(file):
    done = said(show, file[0], "--shape", "batch=1,8")
    assert done.exit_code == 2
    assert "--shape batch=1,8 names 2 sizes, and a" in done.output
    assert done.output.endswith(" is of one\n  --shape batch=1\n")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["show", "model.onnx"], "--shape batch=1, or --shape x=..."),
        (["tune", "model.onnx", "--shape", "x=1,3"], "--shape x=1,3: the file's input 'x' is"),
        (["show", "modle.onnx"], "modle.onnx: there is no such file\n  did you mean 'model.onnx'"),
        (
            ["show", "model.onnx", "--shape", "batch=1", "--log", "no.db"],
            "whet tune model.onnx --shape batch=1 --log no.db writes one",
        ),
        (["bench", "model.bin"], "a model's name ends in .onnx"),
        (["tune", "./folder"], "it is a folder"),
        (["tune", "model.onn"], "model.onn: there is no such file; a model's name ends in .onnx"),
        (["show", "model.onx"], "model.onx: there is no such file; a model's name ends in .onnx"),
    ],
)
def test_errors_are_in_the_words_of_a_command_line(file, monkeypatch, capsys, words, why):
    monkeypatch.chdir(file[0].parent)
    file[0].with_suffix(".bin").write_bytes(b"x")
    (file[0].parent / "folder").mkdir()
    assert main(words) in (1, 2)
    found = capsys.readouterr().err
    assert why in found and "from_onnx(" not in found and "shapes={" not in found


def test_the_log_beside_is_taken_and_the_warning_is_of_the_model(file, monkeypatch, capsys):
    monkeypatch.chdir(file[0].parent)
    tasks, _ = zip(*whet.model_tasks("model.onnx", {"batch": 1}, TARGET))
    whet.tune(tasks[0], trials=1, log="whet.db", progress=False)
    assert main(["show", "model.onnx", "--shape", "batch=1", "--target", TARGET]) == 0
    found = capsys.readouterr()
    assert ", 2 tuned, " in found.out
    assert found.err.splitlines() == [
        "UntunedWarning: whet.db has no trial for 1 of 2 kernels, which has the default config",
        f"  whet tune model.onnx --shape batch=1 --target '{TARGET}' --log whet.db",
    ]
    with pytest.warns(whet.db.UntunedWarning) as caught:
        whet.compile("model.onnx", {"batch": 1}, "llvm -num_threads=2", "whet.db", cache=False)
    assert caught[0].filename == __file__
    assert "1 of these: it was tuned for other targets only" in str(caught[0].message)
    assert "--target 'llvm -num_threads=2' --log whet.db" in str(caught[0].message)


def test_long_builds_say_where_they_are(file, monkeypatch, capsys):
    monkeypatch.setattr(steps, "SILENCE_S", 0.0)
    whet.compile(file[0], {"batch": 1}, TARGET, cache=False)
    said = capsys.readouterr().err.splitlines()
    assert [line.partition("] ")[2] for line in said] == [
        "compiling: kernel 1/2", "compiling: kernel 2/2",
    ]  # fmt: skip
    monkeypatch.setattr(steps, "SILENCE_S", 1e9)
    whet.compile(file[0], {"batch": 1}, TARGET, cache=False)
    assert not capsys.readouterr().err


def test_ctrl_c_is_said(file, monkeypatch, capsys):
    def interrupted(*_, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("whet.commands.models.show.show_model", interrupted)
    assert main(["show", str(file[0])]) == 130
    assert capsys.readouterr().err.strip() == "interrupted"


def test_words_of_models_are_for_models():
    assert "are for a model" in said(show, "whet.db", "--measure").output
    for word in (["--shape", "n=1"], ["--at", "n=1"]):
        assert f"{word[0]} is for a model" in said(bench, "matmul", "8", "8", "8", *word).output


def test_layers_keep_boxes_apart_and_edges_downwards(seeds):
    for seed in seeds(20):
        rng = np.random.default_rng(seed)
        boxes = int(rng.integers(2, 14))
        pairs = {tuple(sorted(rng.choice(boxes, 2, replace=False).tolist())) for _ in range(18)}
        plan = layered(boxes, sorted(pairs))
        for (a, b), path in zip(sorted(pairs), plan.paths):
            assert path[0] == plan.centres[a] and path[-1] == plan.centres[b]
            assert all(q[1] - p[1] == 1 for p, q in pairwise(path))
        for k, (x, y) in enumerate(plan.centres):
            assert 0.5 - 1e-9 <= x <= plan.width - 0.5 + 1e-9 and 0 <= y < plan.height
            for other, down in plan.centres[:k]:
                assert down != y or abs(other - x) >= 1 - 1e-9


def test_a_chain_is_straight():
    plan = layered(5, [(0, 1), (1, 2), (2, 3), (3, 4), (1, 3)])
    assert len({round(x, 9) for x, _ in plan.centres}) <= 3
    assert plan.centres[0][0] == pytest.approx(plan.centres[1][0])
