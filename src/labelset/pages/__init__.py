"""Docs from the code: one page per loss, their index, and the pictures they show."""

from labelset.pages._page import index, page
from labelset.pages._picture import curves, overview
from labelset.pages._write import files, same_but_rounding

__all__ = ["curves", "files", "index", "overview", "page", "same_but_rounding"]
