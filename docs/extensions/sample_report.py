"""Sphinx extension: the sample report, made of the recorded log ``docs/sample_log.jsonl``.

The log is the search of the page ``howto/tune_your_kernel``; its template comes from that page.
"""

from __future__ import annotations

import importlib.util
import re
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
NAME = "sample_report.html"


def write_sample(folder: Path) -> Path:
    """Write the sample report into a folder and return its path."""
    import whet
    from whet.autotune.report import write_report

    page = (DOCS / "howto" / "tune_your_kernel.md").read_text()
    kernels = re.findall(r"```python\n(# kernels\.py\n.*?)```", page, re.DOTALL)[0]
    target = folder.resolve() / NAME
    with tempfile.TemporaryDirectory() as place, chdir(place):
        file = Path("kernels.py").resolve()
        file.write_text(kernels)
        spec = importlib.util.spec_from_file_location("sample_kernels", file)
        assert spec is not None and spec.loader is not None
        spec.loader.exec_module(importlib.util.module_from_spec(spec))  # defines the template
        with whet.TuningLog("whet.db") as log:
            log.import_json(DOCS / "sample_log.jsonl")
        return write_report("whet.db", target)


def _finished(app: Any, exception: Exception | None) -> None:
    if exception is None and app.builder.format == "html":
        write_sample(Path(app.outdir))


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("build-finished", _finished)
    return {"parallel_read_safe": True}
