"""A comparison as one HTML file that opens anywhere, and as figures for papers."""

from typing import TYPE_CHECKING

from labelset.lazy import door

if TYPE_CHECKING:
    from labelset.report.content import CandidateInput, ReportInput, SummaryRow, as_input
    from labelset.report.figures import write_figures
    from labelset.report.page import write_report
else:
    __getattr__, __dir__ = door(__name__)


__all__ = [
    "CandidateInput",
    "ReportInput",
    "SummaryRow",
    "as_input",
    "write_figures",
    "write_report",
]
