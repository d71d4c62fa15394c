"""Mulan's XML file: which attributes of an ARFF file are labels."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from labelset.data._dataset import unique_names
from labelset.data._reading import reading

__all__ = ["label_names"]


def label_names(path: Path) -> list[str]:
    """The names, in the order of the file; labels within labels (a hierarchy) are listed too."""
    with reading(path):
        try:
            root = ElementTree.fromstring(path.read_bytes())
        except ElementTree.ParseError as error:
            raise ValueError(f"line {error.position[0]}: not XML ({error})") from None
        elements = [e for e in root.iter() if e.tag.rpartition("}")[2] == "label"]
        names = [e.get("name") for e in elements]
        if not names or None in names:
            raise ValueError('expected <label name="..."/> elements, one per label')
        found = [name for name in names if name is not None]
        unique_names(found)
        return found
