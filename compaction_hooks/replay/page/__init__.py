"""A report of replayed sessions: one HTML page that loads nothing, and the chart of a session as SVG."""

from compaction_hooks.replay.page.chart import ContextChart, chart_of, write_chart
from compaction_hooks.replay.page.data import read_report
from compaction_hooks.replay.page.shape import ReportData
from compaction_hooks.replay.page.write import write_report

__all__ = ["ContextChart", "ReportData", "chart_of", "read_report", "write_chart", "write_report"]
