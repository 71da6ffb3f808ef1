"""``torch.compile(module, backend="whet")``."""

from __future__ import annotations

from whet.frontends.dynamo.report import Report, report, reports

__all__ = ["Report", "report", "reports"]
