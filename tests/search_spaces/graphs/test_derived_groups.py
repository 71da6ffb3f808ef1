"""The analysis of a compute graph: affine accesses, roles, groups, and which rules take them."""

import pytest
from derived_contractions import gated_matmul
from derived_rows import batchnorm_relu, layernorm, logsumexp, moments, product_of_a_part

import whet
from whet import te
from whet.compiler import topi
from whet.compiler.errors import SpaceError
from whet.compiler.target import Target
from whet.search_spaces.graph.access import accesses
from whet.search_spaces.graph.compute_graph import ComputeGraph
from whet.search_spaces.graph.rule import rule_of
from whet.search_spaces.rules.cpu.sums import way_of


def shape(outputs):
    """Each group as (anchor, consumers, staged, members, rows), by names."""

    def names(nodes):
        return [n.name for n in nodes]

    graph = ComputeGraph(outputs, outputs)
    return [
        (g.anchor.name, names(g.consumers), names(g.staged), names(g.members), g.rows)
        for g in graph.groups
    ]


def roles(outputs):
    return {n.name: n.role for n in ComputeGraph(outputs, outputs).nodes}


def placeholder(*shape, name="X"):
    return te.placeholder(shape, name=name)


def test_an_access_has_affine_indices_and_strides():
    X = placeholder(20, 30)
    k = te.reduce_axis((0, 3), name="k")
    Y = te.compute((9, 28), lambda i, j: te.sum(X[i * 2 + 1, j + k] * X[j // 2, 0], axis=k))
    first, second = accesses(Y.op)
    i, j = (a.var for a in Y.op.axis)
    assert first.is_affine and not second.is_affine
    assert [first.stride(v) for v in (i, j, k.var)] == [60, 1, 1]
    assert first.indices[0].const == 1 and first.indices[0].variable is None
    assert second.stride(j) is None and second.indices[1].atoms == ()


@pytest.mark.parametrize("axis, row", [(1, 0), (0, 1)])
def test_softmax_is_one_group_of_rows_or_columns(axis, row):
    Y = topi.nn.softmax(placeholder(64, 32), axis=axis)
    assert shape([Y]) == [
        ("T_softmax_norm", [], [], ["X_red", "T_exp", "T_exp_red", "T_divide"], (row,)),
    ]
    assert roles([Y])["T_subtract"] == "inline"


def test_what_meets_again_is_an_epilogue():
    (*_, E) = gated_matmul(32, 32, 32).args
    assert shape([E]) == [("C", ["D", "gate", "E"], [], [], ())]
    C = topi.matmul(placeholder(32, 32), placeholder(32, 32, name="Y"))
    D = te.compute((32, 32), lambda i, j: C[i, j] + 1.0, name="D")
    E = te.compute((32, 32), lambda i, j: D[i, j] * te.sigmoid(D[j, i]), name="E")
    assert len(shape([E])) > 1, "it reads another element, too"


def test_normalisations_are_one_group():
    assert shape(layernorm(8, 16).outputs) == [("Y", [], [], ["total", "mean", "square"], (0,))]
    assert shape(batchnorm_relu(2, 3, 4, 5).outputs) == [
        ("T_relu", [], [], ["total", "square"], (1,))
    ]
    assert shape(logsumexp(8, 16, 1).outputs) == [("total", ["Y"], [], ["top"], (0,))]


def test_what_two_groups_read_is_on_its_own():
    assert shape(moments(8, 16).outputs) == [
        ("E", [], [], [], ()), ("first", [], [], [], ()), ("second", [], [], [], ())
    ]  # fmt: skip


def test_elementwise_stages_are_fused_behind_a_matmul():
    A, B, bias = placeholder(64, 32), placeholder(32, 48, name="B"), placeholder(48, name="b")
    C = topi.matmul(A, B)
    Y = topi.nn.relu(topi.add(C, bias))
    assert shape([Y]) == [("C", ["T_add", "T_relu"], [], [], ())]
    assert shape([Y, C]) == [("C", [], [], [], ()), ("T_relu", [], [], [], ())]


def test_a_padded_image_belongs_to_its_convolution_and_attention_is_three_groups():
    D, W = placeholder(1, 8, 14, 14), placeholder(16, 8, 3, 3, name="W")
    assert shape([topi.nn.conv2d_nchw(D, W, 1, 1)]) == [("conv", [], ["padded"], [], ())]
    Q, K, V = (placeholder(2, 16, 8, name=n) for n in "QKV")
    k, r = te.reduce_axis((0, 8), name="k"), te.reduce_axis((0, 16), name="r")
    S = te.compute((2, 16, 16), lambda b, i, j: te.sum(Q[b, i, k] * K[b, j, k], axis=k), name="S")
    P = topi.nn.softmax(S)
    out = te.compute((2, 16, 8), lambda b, i, d: te.sum(P[b, i, r] * V[b, r, d], axis=r), name="O")
    assert [(name, rows) for name, _, _, _, rows in shape([out])] == [
        ("S", ()), ("T_softmax_norm", (0, 1)), ("O", ())
    ]  # fmt: skip


def test_reuse_is_what_tiles_pay_for():
    A, x = placeholder(64, 32), placeholder(32, name="v")
    k = te.reduce_axis((0, 32), name="k")
    vector = te.compute((64,), lambda i: te.sum(A[i, k] * x[k], axis=k), name="y")
    assert roles([vector])["y"] == "reduction"
    gram = te.compute((64, 64), lambda i, j: te.sum(A[i, k] * A[j, k], axis=k), name="G")
    assert roles([gram])["G"] == "tiled"
    pooled = topi.nn.pool2d(placeholder(1, 4, 8, 8), [2, 2], [2, 2], [1, 1], [0, 0, 0, 0], "max")
    assert roles([pooled])[pooled.op.name] == "reduction"
    D, W = placeholder(1, 4, 9, 9), placeholder(4, 3, 3, name="W")
    ry, rx = te.reduce_axis((0, 3), name="ry"), te.reduce_axis((0, 3), name="rx")
    depthwise = te.compute(
        (1, 4, 7, 7),
        lambda n, c, y, x: te.sum(D[n, c, y + ry, x + rx] * W[c, ry, rx], axis=[ry, rx]),
        name="depthwise",
    )
    assert roles([depthwise])["depthwise"] == "tiled"


def test_cheap_stages_are_inlined_and_expensive_ones_only_where_nothing_is_computed_twice():
    X = placeholder(40)
    cheap = te.compute((40,), lambda i: X[i] + 1.0, name="cheap")
    dear = te.compute((40,), lambda i: te.exp(X[i]), name="dear")
    twice = te.compute((39,), lambda i: cheap[i] + cheap[i + 1] + dear[i] + dear[i + 1], name="t")
    once = te.compute((40,), lambda i: cheap[i] + dear[i], name="o")
    assert roles([twice]) == {"cheap": "inline", "dear": "injective", "t": "injective"}
    assert roles([once]) == {"cheap": "inline", "dear": "inline", "o": "injective"}


def test_a_chain_that_doubles_with_each_stage_is_cut():
    X = placeholder(70)
    for n in range(12):
        X = _sum_of_neighbours(X, n)
    found = list(roles([X]).values())
    assert found.count("injective") >= 2 and found.count("inline") >= 6


def test_a_long_chain_before_a_matmul_is_looked_at_once():
    X = placeholder(8, 70)
    for n in range(60):  # each stage is read in two places
        X = _product_of_neighbours(X, n)
    ((anchor, _, staged, _, _),) = shape([topi.matmul(X, placeholder(70, 8, name="W"))])
    assert anchor == "C" and staged == [f"p{n}" for n in range(60)]


def _product_of_neighbours(X, n):
    return te.compute(
        (8, 70), lambda i, j: te.exp(X[i, j]) * te.exp(X[i, te.min(j + 1, 69)]), name=f"p{n}"
    )


def _sum_of_neighbours(X, n):
    return te.compute((70,), lambda i: X[i] + X[te.min(i + 1, 69)], name=f"s{n}")


def test_the_way_of_a_sum_follows_memory():
    X = placeholder(6, 40, 50)

    def way(axes):
        Y = topi.sum(X, axes)
        (node,) = [n for n in ComputeGraph([Y], [X, Y]).nodes if n.role == "reduction"]
        found = way_of(node, 8)
        return found.kind, found.axes, found.extent

    assert way(2) == ("along", (0,), 50)
    assert way((1, 2)) == ("along", (0, 1), 2000)
    assert way(1) == ("across", (1,), 50)
    assert way((0, 2)) == ("along", (1,), 50)


def te_matvec(A, x):
    k = te.reduce_axis((0, 8), name="k")
    return te.compute((8,), lambda i: te.sum(A[i, k] * x[k], axis=k), name="y")


def test_rules_by_group():
    def rules(outputs):
        groups = ComputeGraph(outputs, outputs).groups
        return [type(rule_of(g, Target("llvm"))).__name__ for g in groups]

    A, B = placeholder(8, 8), placeholder(8, 8, name="B")
    empty = te.compute((0, 4), lambda i, j: te.const(1.0), name="empty")
    assert rules([topi.matmul(A, B)]) == ["Gemm"]
    whole = [te.placeholder((8, 8), "int32", name=n) for n in "XY"]
    assert rules([topi.matmul(*whole)]) == ["Tiled"]
    image = [placeholder(1, 8, 9, 9), placeholder(8, 8, 3, 3, name="W")]
    assert rules([topi.nn.conv2d_nchw(*image, 1, 1, 1)]) == ["Convolution"]
    assert rules([topi.nn.depthwise_conv2d_nchw(*image, 1, 1, 1)]) == ["Depthwise"]
    assert rules([te_matvec(A, placeholder(8, name="x"))]) == ["MatVec"]
    assert rules([topi.nn.softmax(A)]) == ["Rows"]
    assert rules([topi.sum(A, 1)]) == ["Reduction"]
    assert rules([topi.transpose(A)]) == ["Injective"]
    assert rules([empty]) == ["DefaultLoops"]
    assert rules(product_of_a_part(8, 8).outputs) == ["Reduction"]


def test_a_padding_between_two_products_belongs_to_the_second():
    X, V, W = placeholder(1, 4, 6, 6), placeholder(4, 4, 3, 3, name="V"), placeholder(4, 4, 3, 3)
    first = topi.nn.relu(topi.nn.conv2d_nchw(X, V, 1, 1, 1))
    groups = shape([topi.nn.conv2d_nchw(first, W, 1, 1, 1)])
    assert [len(g) for _, _, g, _, _ in groups] == [1, 1]
    soft = topi.nn.softmax(topi.matmul(placeholder(8, 8), placeholder(8, 8, name="Y")))
    groups = shape([topi.matmul(soft, placeholder(8, 8, name="Z"))])
    assert [len(staged) for _, _, staged, _, _ in groups] == [0, 0, 0]


def test_a_pinned_knob_says_so():
    task = whet.create_task(
        outputs=[topi.sum(placeholder(8, 999), 1)], target="llvm -num-threads=1 -mcpu=x86-64-v3"
    )
    assert "where unroll has no effect with size=1" in str(task.config_space)
    assert task.config_space.from_choices({"size": 8, "unroll": 2})
    with pytest.raises(SpaceError, match="does not admit it: unroll has no effect with size=1"):
        task.config_space.from_choices({"size": 1, "unroll": 2})
