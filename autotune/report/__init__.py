"""The report: what a log holds as one HTML file with plots, which opens without a network.

`gather` reads a log; `knobs`, `model`, `failures` and `times` make figures of it; `scales`, `plot`
and `charts` draw them as inline SVG; `summary`, `sections` and `page` put the page together, whose
every text goes through `markup`.
"""

from whet.autotune.report.page import report, write_report

__all__ = ["report", "write_report"]
