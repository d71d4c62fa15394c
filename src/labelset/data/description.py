"""A data set on disk, described: the keys of a small TOML file, the same as flags of `load`."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Self, get_args, get_origin, get_type_hints

from labelset import check
from labelset.catalog import hyper
from labelset.data.reading import lines, reading

if TYPE_CHECKING:
    from labelset.data.dataset import Dataset

FILES = ("data", "features", "labels", "texts", "split")
"""The keys that name a file to read; `test` and `valid` may hold a table of these."""
WEIGHTS = (".npy", ".npz")
"""Endings of files with weights; other names are those of columns."""
KINDS = {str: "text", int: "a whole number", bool: "true or false", list: "a list", dict: "a table"}


@dataclass(frozen=True, kw_only=True)
class Schema:
    """How the rows of a data set were read, as a saved model remembers it: new rows are read
    against it, whatever the format of their file.

    >>> Schema.from_json(Schema(columns=["a", "b"], width=2).as_json()).columns
    ['a', 'b']
    """

    options: dict[str, Any] = field(default_factory=dict)
    """Keys of a `Description` that say how to read, not which files."""
    columns: list[str] | None = None
    """The columns of the features, in order; None where they have no names."""
    categories: dict[str, list[str]] = field(default_factory=dict)
    """Of a column with words: those that are a feature each, `column=word`."""
    dates: list[str] = field(default_factory=list)
    """Columns of dates, which are read as days since 1970."""
    width: int | None = None
    """How many features a row has; None where it has none."""
    sparse: bool = False
    double: bool = False
    """Whether features are float64, because float32 would round them."""
    scale: float | list[float] | None = None
    """What numbers of the type `stored` are to be multiplied by."""
    stored: str | None = None
    texts: list[str] = field(default_factory=list)
    """The columns (or JSON keys) of the text."""
    picture: list[int] | None = None
    """Channels, height and width."""

    @classmethod
    def of(cls, dataset: Dataset) -> Schema:
        """What the shapes of a data set say."""
        x, images = dataset.features, dataset.images
        return cls(
            width=None if x is None else int(x.shape[1]),
            sparse=dataset.sparse,
            double="float64" in str(getattr(x, "dtype", "")),
            texts=[] if dataset.texts is None else ["text"],
            picture=None if images is None else list(images.shape[1:]),
        )

    def feature_names(self) -> list[str] | None:
        """Of each feature, a word of a category being one; None where columns have no names.

        >>> Schema(columns=["age", "hue"], categories={"hue": ["red", "blue"]}).feature_names()
        ['age', 'hue=red', 'hue=blue']
        """
        if self.columns is None:
            return None
        words = {name: [f"{name}={word}" for word in own] for name, own in self.categories.items()}
        return [name for column in self.columns for name in words.get(column, [column])]

    def only(self, inputs: tuple[str, ...]) -> Self:
        """Without the inputs that a model does not read."""
        keys = self.options if "images" in inputs else self.options | {"image_column": None}
        return replace(
            self,
            options={key: value for key, value in keys.items() if value is not None},
            columns=self.columns if "features" in inputs else None,
            width=self.width if "features" in inputs else None,
            texts=self.texts if "texts" in inputs else [],
            picture=self.picture if "images" in inputs else None,
        )

    def as_json(self) -> dict[str, Any]:
        """Plain numbers, words, lists and dictionaries."""
        return asdict(self)

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Schema:
        """What `as_json` described."""
        return cls(**saved)


@dataclass(frozen=True, kw_only=True)
class Description:
    """Which files hold a data set, and how to read them.

    >>> Description.of({"data": "table.csv", "label_column": "tags"}).delimiter
    '|'
    >>> Description.of({"label_colum": "tags"})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    TypeError: no key is called 'label_colum': did you mean 'label_column'? ...
    """

    data: str | None = hyper(None, "the main file: whatever it holds is taken")
    features: str | None = hyper(None, "a file with the features")
    labels: str | int | None = hyper(None, "a file with the labels, Mulan's XML, or their number")
    texts: str | None = hyper(None, "a file with the texts (jsonl, CSV, or .txt: one per line)")
    images: str | None = hyper(None, "the folder in which the pictures lie")
    split: str | None = hyper(None, "a file with train, valid or test (or 0, 1, 2) for each row")
    valid: str | dict[str, str] | None = hyper(None, "validation rows: a file, or a table of files")
    test: str | dict[str, str] | None = hyper(None, "test rows: a file, or a table of files")
    format: str | None = hyper(None, "the format of `data`, where its ending does not say")

    label_columns: list[str] | None = hyper(
        None, "columns that are labels; `*` stands for anything"
    )
    label_column: str | None = hyper(None, "one column with all labels of a row")
    delimiter: str = hyper("|", "what stands between labels in `label_column`")
    labels_at: str | None = hyper(None, 'where `labels` = 14 columns lie: "end" or "start"')
    label_names: str | list[str] | None = hyper(None, "the names: a list, or a file, one per line")
    label_key: str = hyper("Y", "in npz files: the labels' key, or the start of their keys")
    unknown: int | None = hyper(None, "the number that marks an unknown label, such as -1")

    text_column: list[str] | None = hyper(
        None, "the column (or JSON key) with the text; several, title,body, are read as one text"
    )
    id_column: str | None = hyper(None, "the column (or JSON key) that names the row")
    split_column: str | None = hyper(None, "the column (or JSON key) with train, valid or test")
    group_column: str | None = hyper(
        None, "the column (or JSON key) that says which rows stay in one part, such as a patient"
    )
    time_column: str | None = hyper(
        None, "the column (or JSON key) with dates or numbers: the newest rows become the test rows"
    )
    weights: str | None = hyper(
        None, "what each row counts: a column, a JSON key, or an .npy or .npz file (x labels, too)"
    )
    image_column: str | None = hyper(None, "the column (or JSON key) with the picture's file name")
    feature_columns: list[str] | None = hyper(None, "columns that are features; else all the rest")
    category_columns: list[str] | None = hyper(
        None, "columns of words, each of which becomes a feature, colour=red"
    )
    date_columns: list[str] | None = hyper(None, "columns of dates, read as days since 1970")
    date_format: str | None = hyper(None, "how dates are written, such as %d/%m/%Y (2024-01-31)")
    ignore_columns: list[str] | None = hyper(None, "columns to leave out; `*` stands for anything")
    separator: str | None = hyper(None, "what stands between cells of a CSV file")
    decimal: str = hyper(".", "the decimal point of numbers in a CSV file, such as ,")
    header: bool = hyper(True, "whether a CSV file starts with the names of its columns")

    base: int | None = hyper(None, "number of the first feature in svmlight files: 0 or 1")
    label_base: int | None = hyper(None, "number of the first label in svmlight files: 0 or 1")
    n_features: int | None = hyper(None, "how many features there are, where the file does not say")

    image_size: int | None = hyper(None, "make all pictures this high and wide")
    image_mode: str | None = hyper(None, '"L" grey, "RGB" colour; else grey if all of them are')

    drop_broken: bool = hyper(False, "leave out rows whose picture is not there or cannot be read")

    memory: int = hyper(64, "megabytes of inputs to keep in memory; more go to a temporary file")

    schema: Schema | None = hyper(None, "of new rows: how those of the model were read; no key")

    @classmethod
    def of(cls, keys: Mapping[str, Any], folder: Path | None = None) -> Description:
        """From keys and values; file names are relative to `folder`."""
        hints = _keys(cls)
        for key in keys:
            if key not in hints:
                raise TypeError(f"no key is called {key!r}: {check.nearest(key, hints)}")
        held = {key: _listed(value, hints[key]) for key, value in keys.items()}
        for key, value in held.items():
            _fits(key, value, hints[key])
        return cls(**{key: _placed(key, value, folder) for key, value in held.items()})

    @classmethod
    def read(cls, path: Path, flags: Mapping[str, Any]) -> Description:
        """From a TOML file; `flags` win over what it says."""
        with reading(path):
            try:
                keys = tomllib.loads("".join(lines(path)))
            except tomllib.TOMLDecodeError as error:  # which says where
                raise ValueError(f"not TOML: {error}") from None
            found = cls.of(keys, path.parent)
        held = {f.name: getattr(found, f.name) for f in fields(cls) if f.name in keys}
        return cls.of(held | dict(flags))

    def __post_init__(self) -> None:
        for key, choices in (("labels_at", ("end", "start")), ("image_mode", ("L", "RGB"))):
            if getattr(self, key) is not None:
                check.one_of(key, getattr(self, key), choices)
        for key in ("base", "label_base"):
            if getattr(self, key) not in (None, 0, 1):
                raise ValueError(f"{key} must be 0 or 1, got {getattr(self, key)!r}")
        for key in ("n_features", "image_size"):
            if getattr(self, key) is not None:
                check.whole(key, getattr(self, key), low=1)
        check.whole("memory", self.memory)
        check.one_of("decimal", self.decimal, (".", ","))
        if not self.delimiter:
            raise ValueError('delimiter must not be empty; give " " for blanks')
        if self.label_columns is not None and self.label_column is not None:
            raise ValueError("give label_columns or label_column, not both")

    def saying(self, keys: Mapping[str, Any]) -> Self:
        """The same with these keys."""
        hints = _keys(type(self))
        return replace(self, **{key: _listed(value, hints[key]) for key, value in keys.items()})

    @property
    def weight_column(self) -> str | None:
        """The column with weights, unless a file has them."""
        return None if (self.weights or "").endswith(WEIGHTS) else self.weights

    def parts(self) -> dict[str, dict[str, Path]]:
        """Part -> key -> file. One part is called "train", whatever rows it holds."""
        main = {key: getattr(self, key) for key in FILES}
        files = {"train": {k: Path(v) for k, v in main.items() if isinstance(v, str)}}
        key = "data" if self.data is not None else "features"
        for part in ("valid", "test"):
            given = getattr(self, part)
            if given is not None:
                table = given if isinstance(given, dict) else {key: given}
                files[part] = {k: Path(v) for k, v in table.items()}
        return files


def _keys(cls: type[Description]) -> dict[str, Any]:
    """The keys of a description file, and what may stand there."""
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in fields(cls) if f.name != "schema"}


def _listed(value: Any, hint: Any) -> Any:
    """Where only a list will do, `a,b` stands for one."""
    kinds = {get_origin(kind) or kind for kind in get_args(hint) or (hint,)}
    if isinstance(value, str) and list in kinds and str not in kinds:
        return [part.strip() for part in value.split(",")]
    return value


def _fits(key: str, value: Any, hint: Any) -> None:
    """The value has the kind that the key's annotation states."""
    kinds = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    for kind in kinds:
        outer = get_origin(kind) or kind
        if isinstance(value, bool) and outer is not bool:
            continue
        if outer is list and isinstance(value, (list, tuple)):
            fits = all(isinstance(item, str) for item in value)
        elif outer is dict and isinstance(value, dict):
            fits = _table(key, value)
        else:
            fits = isinstance(value, (str, os.PathLike) if outer is str else outer)
        if fits:
            return
    names = " or ".join(KINDS[get_origin(kind) or kind] for kind in kinds if kind is not NoneType)
    raise TypeError(f"{key} must be {names}, got {value!r}")


def _table(key: str, value: dict[str, Any]) -> bool:
    """Whether it is a table of files; a wrong key or value in it is an error of its own."""
    for inner, name in value.items():
        if inner not in FILES:
            raise TypeError(f"no key of {key} is called {inner!r}: {check.nearest(inner, FILES)}")
        if not isinstance(name, (str, os.PathLike)):
            raise TypeError(f"{key}.{inner} must name a file, got {name!r}")
    return True


def _placed(key: str, value: Any, folder: Path | None) -> Any:
    """File names relative to the folder of the description."""
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, dict):
        return {k: _placed("data", v, folder) for k, v in value.items()}
    if isinstance(value, (str, os.PathLike)) and key in (*FILES, "images", "valid", "test"):
        return str(value if folder is None else folder / value)
    if isinstance(value, str) and key == "label_names" and folder is not None:
        return str(folder / value)
    if key == "weights" and str(value).endswith(WEIGHTS) and folder is not None:
        return str(folder / value)
    return os.fspath(value) if isinstance(value, os.PathLike) else value
