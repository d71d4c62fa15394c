"""A comparison as one HTML file that opens anywhere, and as figures for papers."""

from labelset.report._figures import write_figures
from labelset.report._input import CandidateInput, ReportInput, SummaryRow
from labelset.report._page import write_report

__all__ = ["CandidateInput", "ReportInput", "SummaryRow", "write_figures", "write_report"]
