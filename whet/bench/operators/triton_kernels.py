# mypy: ignore-errors
"""Kernels in Triton, which `triton_peers` tunes and launches. Importing this needs Triton.

Whatever the storage, they compute in float32, as our kernels do; products in true float32.
"""

import triton
import triton.language as tl


@triton.jit
def matmul(
    a, b, c, n, m, k, a_step, a_row, a_k, b_step, b_k, b_column, c_step, c_row,
    BN: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Tiles of C (n, m) = A (n, k) times B (k, m), a batch along the grid's second dimension."""
    tiles_n, tiles_m = tl.cdiv(n, BN), tl.cdiv(m, BM)
    # Neighbours in time share tiles of A and of B in the L2 cache.
    tile = tl.program_id(0)
    group = tile // (GROUP * tiles_m)
    height = min(tiles_n - group * GROUP, GROUP)
    i = group * GROUP + tile % (GROUP * tiles_m) % height
    j = tile % (GROUP * tiles_m) // height
    batch = tl.program_id(1).to(tl.int64)
    rows, columns, ks = i * BN + tl.arange(0, BN), j * BM + tl.arange(0, BM), tl.arange(0, BK)
    left = a + batch * a_step + (rows[:, None] % n) * a_row + ks[None, :] * a_k
    right = b + batch * b_step + ks[:, None] * b_k + (columns[None, :] % m) * b_column
    acc = tl.zeros((BN, BM), tl.float32)
    for step in range(tl.cdiv(k, BK)):
        inside = ks < k - step * BK
        x = tl.load(left, inside[None, :], 0.0)
        y = tl.load(right, inside[:, None], 0.0)
        acc = tl.dot(x, y, acc, input_precision="ieee")
        left += BK * a_k
        right += BK * b_k
    where = c + batch * c_step + rows[:, None] * c_row + columns[None, :]
    tl.store(where, acc, (rows[:, None] < n) & (columns[None, :] < m))


@triton.jit
def softmax(x, out, n, LOG: tl.constexpr, BLOCK: tl.constexpr):
    """A row of n numbers a program, kept in registers."""
    row = tl.program_id(0).to(tl.int64) * n
    columns = tl.arange(0, BLOCK)
    v = tl.load(x + row + columns, columns < n, -float("inf")).to(tl.float32)
    low = v - tl.max(v, 0)
    e = tl.exp(low)
    total = tl.sum(e, 0)
    result = low - tl.log(total) if LOG else e / total
    tl.store(out + row + columns, result, columns < n)


@triton.jit
def layer_norm(x, gamma, beta, out, n, epsilon, CENTRED: tl.constexpr, BLOCK: tl.constexpr):
    """A row a program; without CENTRED it is divided by its root mean square, and not shifted."""
    row = tl.program_id(0).to(tl.int64) * n
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    v = tl.load(x + row + columns, inside, 0.0).to(tl.float32)
    if CENTRED:
        v = tl.where(inside, v - tl.sum(v, 0) / n, 0.0)
    scale = tl.rsqrt(tl.sum(v * v, 0) / n + epsilon)
    result = v * scale * tl.load(gamma + columns, inside, 0.0).to(tl.float32)
    if CENTRED:
        result += tl.load(beta + columns, inside, 0.0).to(tl.float32)
    tl.store(out + row + columns, result, inside)


@triton.jit
def add(x, y, out, size, BLOCK: tl.constexpr):
    """Two arrays of as many elements."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    tl.store(out + at, tl.load(x + at, inside) + tl.load(y + at, inside), inside)


@triton.jit
def bias_gelu(x, bias, out, size, n, BLOCK: tl.constexpr):
    """Gelu by the error function of rows of n numbers with a bias."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    v = tl.load(x + at, inside).to(tl.float32) + tl.load(bias + at % n, inside).to(tl.float32)
    tl.store(out + at, 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476)), inside)


@triton.jit
def transpose(x, out, n, m, BN: tl.constexpr, BM: tl.constexpr):
    """Tiles of (n, m) to (m, n)."""
    rows = (tl.program_id(0) * BN + tl.arange(0, BN)).to(tl.int64)
    columns = (tl.program_id(1) * BM + tl.arange(0, BM)).to(tl.int64)
    tile = tl.load(
        x + rows[:, None] * m + columns[None, :], (rows[:, None] < n) & (columns[None, :] < m)
    )
    inside = (columns[:, None] < m) & (rows[None, :] < n)
    tl.store(out + columns[:, None] * n + rows[None, :], tl.trans(tile), inside)


@triton.jit
def reduce_rows(x, out, n, rows, scale, MAX: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Sums, or largest ones, of rows of n numbers, a few rows a program."""
    at = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    start = x + (at.to(tl.int64) * n)[:, None]
    none = -float("inf") if MAX else 0.0
    acc = tl.full((ROWS, BLOCK), none, tl.float32)
    for column in range(0, n, BLOCK):
        columns = column + tl.arange(0, BLOCK)
        inside = (at < rows)[:, None] & (columns < n)[None, :]
        v = tl.load(start + columns[None, :], inside, none).to(tl.float32)
        acc = tl.maximum(acc, v) if MAX else acc + v
    found = tl.max(acc, 1) if MAX else tl.sum(acc, 1) * scale
    tl.store(out + at, found, at < rows)


@triton.jit
def reduce_columns(
    x, out, rows, m, part, scale, MAX: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr
):
    """Sums, or largest ones, of columns over `part` rows: a row of `out` for each part."""
    columns = tl.program_id(0) * BM + tl.arange(0, BM)
    none = -float("inf") if MAX else 0.0
    acc = tl.full((BN, BM), none, tl.float32)
    first = tl.program_id(1) * part
    last = min(first + part, rows)
    for row in range(first, last, BN):
        at = row + tl.arange(0, BN)
        inside = (at < last)[:, None] & (columns < m)[None, :]
        where = x + at.to(tl.int64)[:, None] * m + columns[None, :]
        v = tl.load(where, inside, none).to(tl.float32)
        acc = tl.maximum(acc, v) if MAX else acc + v
    found = tl.max(acc, 0) if MAX else tl.sum(acc, 0) * scale
    tl.store(out + tl.program_id(1).to(tl.int64) * m + columns, found, columns < m)
