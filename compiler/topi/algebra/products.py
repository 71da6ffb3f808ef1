"""Products over axes that a caller names: einsum, tensordot, sparse matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute, extern, reduce_axis
from whet.compiler.tir import Buffer, Stmt, ir_builder
from whet.compiler.tir.ops.ops import cast, const, floordiv, floormod
from whet.compiler.topi.half_precision import stored, summed_in
from whet.compiler.topi.shapes import check_integers, is_one, one_axis, static


def einsum(subscripts: str, *operand: Tensor) -> Tensor:
    """Einstein's sum, as numpy's: ``einsum("ij,jk->ik", a, b)``.

    Args:
        subscripts: a letter a dimension; ``...`` for those that are broadcast; without ``->`` the
            letters that occur once, in alphabetical order.
        operand: tensors of one type.

    Returns:
        Dimensions as behind ``->``; letters that are missing there are summed up.

    Raises:
        ArgumentError: subscripts and shapes do not fit, or the types differ.
    """
    request = f"einsum({subscripts!r}, {', '.join(map(str, operand))})"
    terms, out = parsed(subscripts, [t.ndim for t in operand], request)
    if len({t.dtype for t in operand}) != 1:
        raise ArgumentError(request, "the types of the operands differ", "cast them")
    extents: dict[str, Any] = {}
    for term, t in zip(terms, operand):
        for letter, d in zip(term, t.shape):
            known = extents.setdefault(letter, d)
            if is_one(known):
                extents[letter] = d
            elif not is_one(d) and str(known) != str(d):
                raise ArgumentError(request, f"{letter!r} is {known} and {d}")
    dtype = operand[0].dtype
    wide = summed_in(dtype)
    letters = [x for term in terms for x in term]
    summed = [x for x in dict.fromkeys(letters) if x not in out]
    axes = {x: reduce_axis((0, extents[x]), name=f"k_{x}" if x.isalpha() else "k") for x in summed}

    def element(*i: Any) -> Any:
        at = {**dict(zip(out, i)), **{x: a.var for x, a in axes.items()}}
        total = None
        for term, t in zip(terms, operand):
            own = [const(0) if is_one(d) else at[x] for x, d in zip(term, t.shape)]
            value = cast(wide, t(*own))
            total = value if total is None else total * value
        return te.sum(total, axis=list(axes.values())) if axes else total

    made = compute(tuple(extents[x] for x in out), element, "T_einsum")
    return stored(made, dtype)


def parsed(
    subscripts: str, ranks: Sequence[int], request: str
) -> tuple[list[list[str]], list[str]]:
    """The letters of each operand and of the result; a number for each dimension of ``...``.

    Raises:
        ArgumentError: they do not fit the operands' dimensions.
    """
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    given = left.split(",")
    if len(given) != len(ranks):
        raise ArgumentError(request, f"{len(given)} terms for {len(ranks)} operands")
    most = max(
        (n - len(g.replace("...", "")) for g, n in zip(given, ranks) if "..." in g), default=0
    )
    dots = [str(k) for k in range(most)]
    terms = []
    for g, n in zip(given, ranks):
        before, has, behind = g.partition("...")
        many = n - len(before) - len(behind)
        if many < 0 or (many and not has):
            raise ArgumentError(
                request, f"the term {g!r} is for another number than {n} dimensions"
            )
        terms.append([*before, *dots[most - many :], *behind] if has else list(before))
    letters = [x for term in terms for x in term if x not in dots]
    if not arrow:
        once = sorted({x for x in letters if letters.count(x) == 1})
        return terms, [*dots, *once]
    before, has, behind = right.partition("...")
    out = [*before, *(dots if has else ()), *behind]
    if len(set(out)) != len(out) or not set(out) <= {*letters, *dots}:
        raise ArgumentError(request, f"the result {right!r} repeats or invents a letter")
    return terms, out


def tensordot(a: Tensor, b: Tensor, axes: int | Sequence[Any] = 2) -> Tensor:
    """The sum of products over axes of two tensors, as numpy's.

    Args:
        axes: so many last ones of ``a`` and first ones of ``b``, or two lists, in pairs.

    Returns:
        The other dimensions of ``a``, then those of ``b``.

    Raises:
        ArgumentError: the axes do not fit.
    """
    request = f"tensordot({a}, {b}, axes={axes})"
    if isinstance(axes, int):
        left = list(range(a.ndim - axes, a.ndim))
        right = list(range(axes))
    else:
        pair = [[x] if isinstance(x, int) else list(x) for x in axes]
        left = [one_axis(x, a.ndim, request) for x in pair[0]]
        right = [one_axis(x, b.ndim, request) for x in pair[1]]
    if len(left) != len(right):
        raise ArgumentError(request, f"{len(left)} axes of one and {len(right)} of the other")
    letters = [chr(ord("a") + k) for k in range(a.ndim)]
    other = [chr(ord("A") + k) for k in range(b.ndim)]
    for x, y in zip(left, right):
        other[y] = letters[x]
    out = [x for k, x in enumerate(letters) if k not in left]
    out += [x for k, x in enumerate(other) if k not in right]
    return einsum(f"{''.join(letters)},{''.join(other)}->{''.join(out)}", a, b)


def sparse_dense(
    dense_data: Tensor, sparse_data: Tensor, sparse_indices: Tensor, sparse_indptr: Tensor
) -> Tensor:
    """``dense_data @ W.T`` for a matrix ``W`` (N, K) in compressed rows (CSR), or rows of blocks.

    Args:
        dense_data: (M, K).
        sparse_data: (elements,), those of ``W`` that are stored, row by row; or (blocks, r, c),
            blocks of r rows and c columns (BSR).
        sparse_indices: (elements,), the column of each, in blocks; not checked.
        sparse_indptr: (N / r + 1,), where each row begins.

    Returns:
        (M, N), of the type of ``dense_data``.

    Raises:
        ArgumentError: shapes or types do not fit.
    """
    request = f"sparse_dense({dense_data}, {sparse_data}, {sparse_indices}, {sparse_indptr})"
    for t in (sparse_indices, sparse_indptr):
        check_integers(t, request)
    if (dense_data.ndim, sparse_indices.ndim, sparse_indptr.ndim) != (2, 1, 1) or (
        sparse_data.ndim not in (1, 3)
    ):
        raise ArgumentError(request, "give a matrix and three vectors, or blocks and two")
    r, c = (static(d, request) for d in sparse_data.shape[1:] or (1, 1))
    rows = (static(sparse_indptr.shape[0], request) - 1) * r
    batch = static(dense_data.shape[0], request)
    dtype = dense_data.dtype
    wide = summed_in(dtype)

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = ir_builder.create()
        dense, columns, begins = (ib.buffer_ptr(ins[k]) for k in (0, 2, 3))
        data = ib.buffer_ptr(ins[1], shape=(sparse_data.shape[0], r, c))
        made = ib.buffer_ptr(outs[0])
        if not rows * batch:
            ib.emit(const(0))
            return ib.get()
        with ib.for_range(0, rows, name="n", kind="parallel") as n:
            row = floordiv(n, r)
            begin, end = (ib.let(f"end{k}", cast("int32", begins[row + k])) for k in (0, 1))
            with ib.for_range(0, batch, name="m") as m:
                total = ib.allocate(wide, 1, name="total", scope="local")
                total[0] = const(0, wide)
                with (
                    ib.for_range(begin, end, name="k") as k,
                    ib.for_range(0, c, name="j") as j,
                ):
                    other = cast(wide, dense[m, cast("int32", columns[k]) * c + j])
                    total[0] = total[0] + cast(wide, data[k, floormod(n, r), j]) * other
                made[m, n] = cast(dtype, total[0])
        return ib.get()

    given = [dense_data, sparse_data, sparse_indices, sparse_indptr]
    return extern((batch, rows), given, body, "T_sparse_dense", dtype)
