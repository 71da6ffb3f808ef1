"""A template whose estimates are plain to see, and records of its configs."""

from __future__ import annotations

import warnings
from contextlib import contextmanager

from whet.autotune import create_task
from whet.compiler import te
from whet.db import UntunedWarning
from whet.measure.device.names import this_device
from whet.measure.values import MeasureResult
from whet.search_spaces import Config, get_config, template

ONE = "llvm -num_threads=1"
ROWS = {"order": "rows", "careful": True}
"""The default order: neighbours in memory, a vector at a time."""
COLUMNS = {"order": "columns", "careful": True}
"""Element by element, each a row further: slower, as the estimate says."""


@template("test/apply_scale")
def scale(n, m):
    """B = 2 A. 48 rows take only a careful config."""
    a = te.placeholder((n, m), "float32", name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] * 2.0, name="B")
    s = te.create_schedule(b.op)
    cfg = get_config()
    i, j = s[b].op.axis
    cfg.define_split("tile", j, num_outputs=2, default=(m // 8, 8))
    cfg.define_knob("order", ["rows", "columns"])
    cfg.define_knob("careful", [True, False])
    if n == 48 and not cfg["careful"].val:
        cfg.raise_error("48 rows are too many")
    jo, ji = cfg["tile"].apply(s, b, j)
    if cfg["order"].val == "columns":
        s[b].reorder(jo, ji, i)
    else:
        s[b].vectorize(ji)
    return s, [a, b]


def scale_task(n=64, m=64, target=ONE):
    return create_task(scale, args=(n, m), target=target)


def tiled(task, inner, **choices):
    """A config of the template's, by the inner size of its tiles."""
    m = task.args[1]
    return task.config_space.from_choices({"tile": (m // inner, inner), **ROWS, **choices})


def record(log, task, config, *costs, device=None, first=0):
    """A search's run with a trial of ``config``, or of several; its number."""
    configs = [config] if isinstance(config, Config) else list(config)
    run = log.start_run(task.workload, task.target, device or this_device(), configs[0].fingerprint)
    for number, (one, cost) in enumerate(zip(configs, costs), first):
        log.add_trial(run, number, one, MeasureResult("ok", (cost,)))
    return run


@contextmanager
def said():
    """The one warning of a build context, as text, in a list; none: an empty list."""
    texts = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield texts
    texts += [str(w.message) for w in caught if w.category is UntunedWarning]
    assert len(texts) <= 1 and len(caught) == len(texts), [str(w.message) for w in caught]
