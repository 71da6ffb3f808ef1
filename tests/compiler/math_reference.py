"""How far a function of float32 is from the exact value: inputs, float64 references, errors in ulp.

Used by the tests and by ``scripts/check_math``.
"""

from dataclasses import dataclass

import numpy as np

from whet.compiler import driver, te

CHUNK = 1 << 14  # larger arrays are mapped anew each time: three times as long


def _erf(x):
    """erf in float64: 2/sqrt(pi) * exp(-x*x) * sum of (2*x*x)**n * x / (1*3*5*...*(2*n + 1))."""
    t = np.minimum(np.abs(x), 6.0)
    if np.all(t == 6.0):
        return np.copysign(1.0, x)
    square = 2 * t * t
    term = t.copy()
    total = t.copy()
    for n in range(1, 200):
        term = term * square / (2 * n + 1)
        total += term
        if not np.any(term > 1e-17 * total):
            break
    out = np.copysign(2 / np.sqrt(np.pi) * np.exp(-t * t) * total, x)
    return np.where(np.isnan(x), np.nan, out)


#: function -> (what te computes, the same in float64)
FUNCTIONS = {
    "exp": (te.exp, np.exp),
    "exp2": (te.exp2, np.exp2),
    "exp10": (te.exp10, lambda x: np.power(10.0, x)),
    "log": (te.log, np.log),
    "log2": (te.log2, np.log2),
    "log10": (te.log10, np.log10),
    "tanh": (te.tanh, np.tanh),
    "sigmoid": (te.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "erf": (te.erf, _erf),
    "sin": (te.sin, np.sin),
    "cos": (te.cos, np.cos),
    "sqrt": (te.sqrt, np.sqrt),
    "rsqrt": (te.rsqrt, lambda x: 1 / np.sqrt(x)),
}

#: level of accuracy -> function -> the largest error in ulp; in fast code of ordinary numbers,
#: with AVX-512 or without FMA where that is most
LIMITS = {
    "2ulp": {**dict.fromkeys(FUNCTIONS, 2.0), "sqrt": 0.5, "exp": 1.5, "log": 1.5},
    "4ulp": {**dict.fromkeys(FUNCTIONS, 4.0), "sqrt": 0.5},
    "fast": {
        **dict.fromkeys(("sin", "cos"), 2.0),
        **dict.fromkeys(("exp", "exp10", "sigmoid"), 80.0),
        **dict.fromkeys(("log", "log2", "log10"), 5.0),
        **dict.fromkeys(("exp2", "rsqrt"), 4.0),
        "tanh": 110.0,
        "erf": 170.0,
        "sqrt": 0.5,
    },
}


@dataclass
class Worst:
    """The largest error in ulp, where it is, and what came out and should have."""

    ulp: float = 0.0
    x: float = 0.0
    got: float = 0.0
    want: float = 0.0

    def __str__(self):
        return f"{self.ulp:.4f} ulp at {self.x!r}: {self.got!r} instead of {self.want!r}"


def kernel(name, n, target="llvm", lanes=64):
    """A kernel that computes the function of ``n`` floats, with vectors and a tail of scalars."""
    a = te.placeholder((n,), "float32", name="A")
    b = te.compute((n,), lambda i: FUNCTIONS[name][0](a[i]), name="B")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.axis[0], factor=lanes)
    s[b].vectorize(inner)
    return driver.build(s, [a, b], target)


def errors(got, want):
    """The distance from the exact value in units of the last place of the exact value.

    Beyond the largest float32 the exact value is infinity; a NaN, an infinity or a zero (with its
    sign) in one of the two and not in the other is an infinite error.
    """
    with np.errstate(all="ignore"):
        near = want.astype("float32")
        exponent = (want.view("int64") >> 52) & 0x7FF
        unit = ((np.maximum(exponent, 1023 - 126) - 23) << 52).view("float64")
        wide = got.astype("float64")
        if np.isinf(got).any():
            wide = np.where(np.isinf(wide), np.copysign(2.0**128, wide), wide)
        out = np.abs(wide - want) / unit
    odd = ~np.isfinite(near) | (want == 0) | np.isnan(got)
    if odd.any():
        same = (got == near) & (np.signbit(got) == np.signbit(near))
        same |= np.isnan(got) & np.isnan(near)
        out = np.where(odd, np.where(same, 0.0, np.inf), out)
    return out


def is_ordinary(x, want):
    """Where neither argument nor result is denormal or near the largest numbers."""
    smallest, size = 2.0**-125, np.abs(x)
    with np.errstate(invalid="ignore"):
        near = (np.abs(want) > smallest) & (np.abs(want) < 2.0**127)
        return near & (size > smallest) & (size < 1e38)


def worst(name, run, x, ordinary=False):
    """The worst of ``x`` under the function ``name`` as ``run`` computes it.

    With ``ordinary`` of those for which fast code promises something.
    """
    got = run(x)
    with np.errstate(all="ignore"):
        want = FUNCTIONS[name][1](x.astype("float64"))
    u = errors(got, want)
    if ordinary:
        u = np.where(is_ordinary(x, want), u, 0.0)
    k = int(np.argmax(u))
    return Worst(float(u[k]), float(x[k]), float(got[k]), float(want[k]))


def stratified(seed, each=1000):
    """All exponents and both signs with random mantissas, specials, and where reductions change."""
    rng = np.random.default_rng(seed)
    exponents = np.repeat(np.arange(256, dtype="uint32"), each)
    mantissas = rng.integers(0, 1 << 23, exponents.size, dtype="uint32")
    mantissas[::each], mantissas[1::each], mantissas[2::each] = 0, 1, (1 << 23) - 1
    bits = (exponents << 23) | mantissas
    everywhere = np.concatenate([bits, bits | np.uint32(1 << 31)]).view("float32")
    wide = rng.uniform(-130, 130, 60 * each).astype("float32")
    close = np.concatenate([rng.uniform(0.4, 2.1, 60 * each), rng.uniform(-9, 9, 60 * each)])
    steps = np.arange(-200, 200)
    borders = np.concatenate(
        [
            (steps + 0.5) * np.log(2),
            steps + 0.5,
            (steps + 0.5) * np.log10(2),
            steps * np.pi / 4,
            np.ldexp(np.pi / 2, np.arange(20)),
            [np.sqrt(0.5), np.sqrt(2), 0.55, 0.9277, 65536, 104, -104, 88.7, -87.4, 10, 4, 20],
        ]
    ).astype("float32")
    around = borders.view("int32")[:, None] + np.arange(-3, 4, dtype="int32")
    near = np.ascontiguousarray(around).view("float32").ravel()
    return np.concatenate([everywhere, wide, close.astype("float32"), near])
