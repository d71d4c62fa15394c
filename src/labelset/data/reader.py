"""`load` and `stream`: a data set, or new rows some at a time, from a built-in name, a file, a
folder of pictures, or a description; new rows by the schema that a model remembers."""

from __future__ import annotations

import csv
import logging
import math
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from labelset import check, csr
from labelset.data import formats
from labelset.data.builtin import build, names
from labelset.data.columns import INPUTS, Piece, below, beside, exactly
from labelset.data.dataset import Dataset, numbered
from labelset.data.description import FILES, Description, Schema
from labelset.data.growing import no_labels
from labelset.data.label_column import alike, names_in, punctuated
from labelset.data.reading import STDIN, BadFile, files_of, kind_of, reading, standard_input
from labelset.data.sparse import SparseRows
from labelset.data.store import ENTRIES, Array, spooled, stacked

if TYPE_CHECKING:
    from labelset.data.guess import Guess

log = logging.getLogger("labelset")

MOST = 20_000_000
"""More labels or features than this, where only the file says so, are taken for a mistake in it."""
NAMED = 10
"""Rows that are left out, and named."""


def load(source: Any, *, labelled: bool = True, **flags: Any) -> Dataset:
    """A data set from what `source` names; `flags` are the keys of a description file.

    A built-in name (digits, icons, yeast), whose own settings are then the flags; a file (npz, npy,
    svmlight, ARFF, CSV, Parquet, jsonl; most of them also gzipped); a folder of pictures with a CSV
    file; a description, a small TOML file; or a frame of pandas or polars, an Arrow table, a data
    set of Hugging Face. Rows without labels are refused unless `labelled` is False. `./digits` is a
    file even where `digits` is built in.

    >>> load("digits", train=100, valid=10, test=20)
    Dataset(130 rows, images 1 x 24 x 24, 10 labels, 1.8 labels per row, parts 100 / 10 / 20)
    """
    if isinstance(source, str) and source in names():
        return build(source, **flags).make()
    if _is_frame(source):
        from labelset.data.frames import read_frame

        ask = Description.of(flags)
        piece = read_frame(source, ask)
        if piece.labels is None and not labelled:
            piece = replace(piece, labels=no_labels(piece.rows), names=[])
        return _dataset(piece, ask, type(source).__name__)
    ask = described(source, flags)
    made = _guessed(ask, flags) if labelled else None
    if made is None:
        return assembled(ask, str(source), labelled)
    dataset = assembled(ask.saying(made.keys), str(source))
    explained = made.as_json()
    return replace(dataset, card=dataset.card | {"guess": explained})


def _is_frame(source: Any) -> bool:
    if isinstance(source, str | PathLike):
        return False
    from labelset.data.frames import is_frame

    return is_frame(source)


def _guessed(ask: Description, flags: Mapping[str, Any]) -> Guess | None:
    """What the columns of a table are, as far as nobody said so; only the delimiter of labels
    where their column is known."""
    from labelset.data.guess import Doubtful, guess_file

    path = _only_file(ask)
    if path is None or ask.labels is not None or ask.label_columns is not None:
        return None
    kind = formats.format_of(path, ask, "data")
    said = {
        f.name: getattr(ask, f.name)
        for f in fields(Description)
        if f.name in flags or getattr(ask, f.name) != f.default
    }
    for key in ("data", "format", "memory"):
        said.pop(key, None)
    if kind not in ("csv", "parquet", "jsonl") or {"label_column", "delimiter"} <= set(said):
        return None
    try:
        with reading(path):
            made = guess_file(files_of(path)[0], kind, said)
    except (ValueError, RecursionError, ArithmeticError):
        return None  # the reader of the whole file says what is wrong, and where
    if not made.rows or (
        kind == "jsonl" and any(column.name == "labels" for column in made.columns)
    ):
        return None  # keys that say what they are
    if ask.label_column is not None:
        mark = made.keys.get("delimiter")
        sure = mark is not None and mark != ask.delimiter and not made.doubts
        keys = {"delimiter": mark} if sure else {}
        return replace(made, keys=keys, doubts=(), remarks=()) if keys else None
    if made.doubts:
        raise Doubtful(path, made)
    return made


def stream(
    source: Any, schema: Schema | None = None, *, rows: int = 1024, **flags: Any
) -> Iterator[Dataset]:
    """Data sets of up to `rows` rows, without labels, for prediction; `flags` as for `load`.

    With the `schema` of the rows that a model was trained on, columns are found by their names,
    wherever they stand, others are left alone, and what is missing is an error; numbers come out as
    the model's did. `-` is standard input, in the `format` that is given. Of a folder of pictures
    without a CSV file every picture is a row, those of folders in it too, by name.

    What comes first is there before the rest is read. Only where all rows together decide what
    they mean, a file is read twice: whether svmlight counts from 0 or 1, whether pictures are grey.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "x.csv"
    ...     _ = path.write_text("a,b\\n1,2\\n3,4\\n5,6\\n")
    ...     parts = stream(path, Schema(columns=["b"], width=1), rows=2)
    ...     [part.features.tolist() for part in parts]
    [[[2.0], [4.0]], [[6.0]]]
    """
    check.whole("rows", rows, low=1)
    if _is_frame(source):
        from labelset.data.frames import frame_blocks

        name = Path(type(source).__name__)
        keys = {} if schema is None else _remembered(name, schema)
        ask = replace(Description.of(keys | flags), schema=schema)
        parts = _plain_rows(frame_blocks(source, ask), ask, name)
        yield from _batches(parts, rows)
        return
    with _standard_input(source, flags) as given, _listed(*given) as (place, flags):
        ask = described(place, flags, schema)
        yield from _batches(_unlabelled(ask, str(place)), rows)


@contextmanager
def _standard_input(
    source: str | Path, flags: dict[str, Any]
) -> Iterator[tuple[str | Path, dict[str, Any]]]:
    """Where to read: `-` itself in formats that are read line by line, else a file that holds all
    that comes in."""
    if str(source) != STDIN:
        yield source, flags
        return
    kind = flags.get("format") or "jsonl"
    if kind == "tsv":
        kind, flags = "csv", {"separator": "\t", **flags}
    flags = flags | {"format": kind}
    check.one_of("format", kind, tuple(formats.FORMATS))
    place = STDIN
    with tempfile.TemporaryDirectory() as folder:
        if kind not in ("csv", "jsonl"):
            place = str(Path(folder) / f"rows.{kind}")
            with reading(Path(STDIN)), Path(place).open("wb") as file:
                shutil.copyfileobj(standard_input(), file)
        try:
            yield place, flags
        except ValueError as error:
            message = str(error).replace(place, "standard input", 1)
            raise BadFile(message if place != STDIN else str(error)) from None


@contextmanager
def _listed(
    place: str | Path, flags: dict[str, Any]
) -> Iterator[tuple[str | Path, dict[str, Any]]]:
    """Of a folder of pictures without a CSV file, one that names them all."""
    folder = Path(place)
    tables = folder.is_dir() and any(kind_of(path) in ("csv", "tsv") for path in folder.iterdir())
    if not folder.is_dir() or tables or "data" in flags:
        yield place, flags
        return
    ends = {f".{kind}" for kind in formats.pictures.ENDINGS}
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in ends)
    if not found:
        raise BadFile(f"{place}: holds neither a CSV file nor pictures ({', '.join(sorted(ends))})")
    with tempfile.TemporaryDirectory() as beside:
        table = Path(beside) / "pictures.csv"
        with table.open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file)
            lines.writerow(("file", "name"))
            lines.writerows(2 * (path.relative_to(folder).as_posix(),) for path in found)
        keys = {"images": str(folder), "image_column": "file", "id_column": "name"}
        yield table, flags | keys | {"separator": ",", "header": True}


def _unlabelled(ask: Description, source: str) -> Iterator[Dataset]:
    """Rows in order, in memory, some at a time."""
    path = _only_file(ask)
    read = None if path is None else formats.blocks_of(formats.format_of(path, ask, "data"))
    if path is None or read is None:
        whole = assembled(ask, source, labelled=False)
        columns = whole.schema.columns if whole.schema else None
        if not len(whole):  # arrays under other keys are no rows either
            _conforming(whole, columns, ask, Path(source))
        for some in whole.blocks():
            rows = replace(some, labels=no_labels(len(some)), names=[], split=None)
            yield _conforming(rows, columns, ask, Path(source))
        return
    names = label_attributes(ask)
    if names is not None:
        read = partial(formats.arff.blocks, names=names)
    opened, seen = None, 0
    for piece in read(path, ask, "data"):
        if piece.files is None:
            yield _conforming(_without_labels(piece, slice(None)), piece.columns, ask, path)
            continue
        good, files, said = _readable(piece, ask)
        if said:
            log.warning("%s", said)
        files = files or list(picture_files(piece, ask, seen))
        if opened is None:
            parts = ((part, _readable(part, ask)[1]) for part in read(path, ask, "data"))
            every = (file for part, some in parts for file in some or picture_files(part, ask))
            mode = ask.image_mode or formats.pictures.mode_of(every)
            opened = formats.pictures.Pictures(ask.image_size, mode)
        seen, size = seen + piece.rows, opened.together(files[0])
        for start in range(0, piece.rows, size):
            at = slice(start, start + size)
            some = _without_labels(piece, at, opened.read(files[at]))
            if good is not None:
                some = some.rows([row - start for row in good if start <= row < start + size])
            yield _conforming(some, piece.columns, ask, path)


def _plain_rows(pieces: Iterable[Piece], ask: Description, path: Path) -> Iterator[Dataset]:
    for piece in pieces:
        yield _conforming(_without_labels(piece, slice(None)), piece.columns, ask, path)


def _without_labels(piece: Piece, at: slice, images: Tensor | None = None) -> Dataset:
    count = len(range(piece.rows)[at])
    return Dataset(
        labels=no_labels(count),
        names=[],
        features=None if piece.features is None else piece.features[at],
        texts=None if piece.texts is None else list(piece.texts[at]),
        images=images,
        ids=None if piece.ids is None else list(piece.ids[at]),
    )


def _batches(parts: Iterable[Dataset], rows: int) -> Iterator[Dataset]:
    """Cut where the rows themselves say so, not where a format ends its blocks: the same rows go
    through a model in the same company, and so get the same scores to the last bit."""
    waiting, count, weight = list[Dataset](), 0, 0
    for part in parts:
        ends, start, before = np.cumsum(_weights(part)), 0, 0
        while start < len(part):
            full = int(np.searchsorted(ends, before + ENTRIES - weight)) + 1
            end = min(start + rows - count, full, len(part))
            waiting.append(part if end - start == len(part) else part.rows(slice(start, end)))
            count, weight = count + end - start, weight + int(ends[end - 1]) - before
            start, before = end, int(ends[end - 1])
            if count == rows or weight >= ENTRIES:
                yield _joined(waiting)
                waiting, count, weight = [], 0, 0
    if waiting:
        yield _joined(waiting)


def _weights(part: Dataset) -> Array:
    """(rows,) numbers and letters of each row."""
    each = np.zeros(len(part), dtype=np.int64)
    if isinstance(part.features, SparseRows):
        each += part.features.indptr.diff().numpy()
    elif part.features is not None:
        each += part.features.shape[1]
    if part.images is not None:
        each += math.prod(part.images.shape[1:]) // 16
    if part.texts is not None:
        each += np.fromiter(map(len, part.texts), dtype=np.int64, count=len(part))
    return each


def _joined(parts: list[Dataset]) -> Dataset:
    if len(parts) == 1:
        return parts[0]
    held: dict[str, Any] = {
        what: None if getattr(parts[0], what) is None else stacked(getattr(p, what) for p in parts)
        for what in (*INPUTS, "ids")
    }
    return replace(parts[0], labels=no_labels(sum(map(len, parts))), **held)


def described(
    source: str | Path, flags: Mapping[str, Any], schema: Schema | None = None
) -> Description:
    """Which files to read, and how; new rows by what the `schema` remembers."""
    path = Path(source)
    if schema is not None:
        flags = _remembered(path, schema) | dict(flags)
    if path.is_dir():
        ask = _folder(path, flags, schema is not None)
    elif not files_of(path)[0].is_file() and str(source) != STDIN:
        raise ValueError(
            f"{source}: no such file or folder, and no built-in data set of that name "
            f"({check.nearest(str(source), names())})"
        )
    elif kind_of(path) == "toml":
        ask = Description.read(path, flags)
    else:
        ask = Description.of({"data": str(path), **flags})
    if schema is None:
        return ask
    return replace(ask, schema=schema)


def _remembered(path: Path, schema: Schema) -> dict[str, Any]:
    """The keys of a description that hold for a new file too."""
    keys = dict(schema.options)
    ending = kind_of(path)
    if str(path) != STDIN and ending not in ("txt", "") and ending in formats.ENDINGS:
        keys.pop("format", None)
    keys.pop("separator", None)
    if schema.width is not None:
        keys["n_features"] = schema.width
    return keys


def _conforming(rows: Dataset, columns: list[str] | None, ask: Description, path: Path) -> Dataset:
    """Only what the model reads, with numbers of its type."""
    schema = ask.schema
    if schema is None:
        return rows
    wanted = ("features", schema.width), ("texts", schema.texts), ("images", schema.picture)
    for what, needed in wanted:
        if needed and getattr(rows, what) is None:
            raise BadFile(f"{path}: holds no {what}, which the model reads")
    x = rows.features if schema.width is not None else None
    if x is not None:
        x = _features(x, columns if ask.feature_columns is None else None, schema, path)
    images = rows.images if schema.picture else None
    if images is not None and list(images.shape[1:]) != schema.picture:
        sizes = (" x ".join(map(str, shape)) for shape in (images.shape[1:], schema.picture or ()))
        got, trained = sizes
        raise BadFile(
            f"{path}: images are {got}, those that the model was trained on {trained}; give "
            "image_size to make them alike"
        )
    return replace(rows, features=x, texts=rows.texts if schema.texts else None, images=images)


def _features(x: Any, columns: list[str] | None, schema: Schema, path: Path) -> Any:
    if columns and schema.columns and columns != schema.columns and len(columns) == x.shape[1]:
        with reading(path):
            x = x[:, [exactly(columns, name) for name in schema.columns]]
    if x.shape[1] != schema.width:
        raise BadFile(
            f"{path}: has {x.shape[1]} features a row, the model was trained on {schema.width}"
        )
    if schema.sparse and not isinstance(x, SparseRows):
        rows, at = (x != 0).nonzero(as_tuple=True)
        x = SparseRows.from_csr(csr.pointers(rows, len(x)), at, x.shape[1], x[rows, at])
    if not schema.sparse:
        x = x.dense() if isinstance(x, SparseRows) else x
        x = x.to(torch.float64 if schema.double else torch.float32)
    if isinstance(schema.scale, float) and schema.stored is not None and not schema.sparse:
        most = np.iinfo(schema.stored).max if "int" in schema.stored else np.inf
        if x.numel() and float(x.nan_to_num().abs().max()) > 1.001 * most * abs(schema.scale):
            raise BadFile(
                f"{path}: the model was trained on {schema.stored} numbers times {schema.scale:g}; "
                "multiply these likewise"
            )
    return x


def _folder(path: Path, flags: Mapping[str, Any], remembered: bool = False) -> Description:
    """A folder of pictures: its one CSV file names them, and its other columns are the labels."""
    tables = sorted(p for p in path.iterdir() if kind_of(p) in ("csv", "tsv"))
    if "data" not in flags and len(tables) != 1:
        raise BadFile(
            f"{path}: expected one CSV file that names the pictures and their labels, found "
            f"{len(tables)}; give data='...'"
        )
    table = Path(flags.get("data") or tables[0])
    column = flags.get("image_column") or _image_column(table, flags)
    given: dict[str, Any] = {"data": str(table), "images": str(path), "image_column": column}
    if not {"labels", "label_columns", "label_column"} & set(flags) and not remembered:
        given["label_columns"] = ["*"]  # all that is nothing else
    return Description.of(dict(flags) | given)


def _image_column(table: Path, flags: Mapping[str, Any]) -> str:
    """The first column whose first cell ends like a picture's name."""
    with reading(table):
        head, cells = formats.locate.first_rows(table, flags.get("separator"))
        for name, cell in zip(head, cells, strict=False):
            if cell.strip().lower().rpartition(".")[2] in formats.pictures.ENDINGS:
                return name
    raise BadFile(f"{table}: no column names pictures; say which with image_column")


def label_attributes(ask: Description) -> list[str] | None:
    """Their names, where Mulan's XML tells them."""
    if isinstance(ask.labels, str) and kind_of(Path(ask.labels)) == "xml":
        return formats.arff.label_names(Path(ask.labels))
    return None


def assembled(ask: Description, source: str, labelled: bool = True) -> Dataset:
    """All files of a description as one data set."""
    parts = ask.parts()
    exact = label_attributes(ask)
    if exact is not None:
        parts["train"].pop("labels")
    pieces: dict[str, dict[str, Piece]] = {part: {} for part in parts}
    for role in FILES:
        having = [part for part in parts if role in parts[part]]
        read = _read([parts[part][role] for part in having], ask, role, exact)
        for part, piece in zip(having, read, strict=True):
            pieces[part][role] = piece
    for part, found in pieces.items():
        if not found:
            raise BadFile(f"{source}: names no file with {part} rows; give data or features")
    piece = below({part: beside(found) for part, found in pieces.items()})
    if piece.labels is None and not labelled:
        piece = replace(piece, labels=no_labels(piece.rows), names=[])
    return _dataset(piece, ask, source)


def _read(
    paths: Sequence[Path], ask: Description, role: str, exact: list[str] | None
) -> list[Piece]:
    """All files of one key, read together, so that they are numbered alike."""
    if not paths:
        return []
    kinds = [formats.format_of(path, ask, role) for path in paths]
    if len(set(kinds)) > 1:
        raise BadFile(f"{paths[1]}: is {kinds[1]}, {paths[0]} is {kinds[0]}; convert one")
    read = formats.reader_of(kinds[0])
    if kinds[0] == "arff":
        return read(paths, ask, role, exact)
    if exact is not None:
        ask = replace(ask, label_columns=exact)
    return read(paths, ask, role)


def _dataset(piece: Piece, ask: Description, source: str) -> Dataset:
    good, files, note = _readable(piece, ask)
    if good is None:
        return _whole(piece, ask, source)
    made = _whole(replace(piece, files=[*map(str, files)]), ask, source)
    notes = [*made.card["notes"], *([note] if note else [])]
    return replace(made.rows(good), card=made.card | {"notes": notes})


def _readable(piece: Piece, ask: Description) -> tuple[list[int] | None, list[Path], str]:
    """With `drop_broken`: rows whose picture can be read, the pictures of all rows, one of these
    standing for those that are left out, and what is left out, in words."""
    if piece.files is None or not ask.drop_broken:
        return None, [], ""
    places = [(_place(piece, ask) / name).absolute() for name in piece.files]
    broken = {
        row: why for row, place in enumerate(places) if (why := formats.pictures.why_not(place))
    }
    good = [row for row in range(piece.rows) if row not in broken]
    if not good:
        raise BadFile(f"{piece.path}: no picture of its {piece.rows} rows can be read")
    files = [places[good[0]] if row in broken else place for row, place in enumerate(places)]
    named = "; ".join(f"row {row}, {why}" for row, why in islice(broken.items(), NAMED))
    more = f"; and {len(broken) - NAMED} more" if len(broken) > NAMED else ""
    note = f"{len(broken)} of {piece.rows} rows left out by drop_broken: {named}{more}"
    return good, files, note if broken else ""


def _whole(piece: Piece, ask: Description, source: str) -> Dataset:
    images = piece.images
    with reading(piece.path):
        if piece.labels is None:
            raise ValueError(
                "holds no labels; say where they are with labels (a file, or how many columns), "
                "label_columns or label_column"
            )
        if piece.files is not None:
            for _ in picture_files(piece, ask):
                pass  # whether all are there comes before any is opened
            mode = ask.image_mode or formats.pictures.mode_of(picture_files(piece, ask))
            opened = formats.pictures.Pictures(ask.image_size, mode)
            images = spooled(opened.blocks(picture_files(piece, ask)), ask.memory << 20)
        called = names_in(ask.label_names) or piece.names
        warnings = list[str | None]()
        if called and piece.named and len(piece.labels):
            warnings = [punctuated(called, int(piece.labels.counts().max())), alike(called)]
        width = 0 if piece.features is None else piece.features.shape[1]
        for what, count, said, key in (
            ("label", piece.labels.n, called, "label_names"),
            ("feature", width, ask.n_features, f"n_features={width}"),
        ):
            if count > MOST and not said:
                number = count - 1 + (piece.facts.get("base") or 0) * (what == "feature")
                raise ValueError(
                    f"says that there is {what} number {number}, which is taken for a mistake; if "
                    f"it is none, give {key}"
                )
        roles = {"group": piece.groups, "time": piece.times, "weight": piece.weights}
        for role, there in roles.items():
            if getattr(ask, f"{role}_column") is not None and there is None:
                key = "weights" if role == "weight" else f"{role}_column"
                raise ValueError(f"has no columns with names, of which {key} could be one")
        made = Dataset(
            labels=piece.labels,
            names=called or [str(i) for i in range(piece.labels.n)],
            features=piece.features,
            texts=piece.texts,
            images=images,
            split=piece.split,
            ids=piece.ids,
            groups=None if piece.groups is None else torch.from_numpy(numbered([*piece.groups])),
            times=piece.times,
            card={
                "source": source,
                "notes": [*piece.notes, *filter(None, warnings)],
                "about": piece.about,
            },
        )
        made = replace(made, schema=_schema(made, piece, ask))
        if piece.weights is None and ask.weights is None:
            return made
        from labelset.data.weights import from_file, weighted

        weights = from_file(Path(ask.weights or "")) if piece.weights is None else piece.weights
        return weighted(made, weights)


def _schema(made: Dataset, piece: Piece, ask: Description) -> Schema:
    """What new rows are to be read with."""
    facts = dict(piece.facts)
    keys = ("format", "separator", "decimal", "header", "id_column", "image_column", "image_size")
    options = {key: getattr(ask, key) for key in keys}
    options["base"] = facts.pop("base", None)
    schema = Schema.of(made)
    if schema.picture is not None:
        options["image_mode"] = {1: "L", 3: "RGB"}.get(schema.picture[0])
    return replace(
        schema,
        options={k: v for k, v in options.items() if not (v is None or v is True or v == ".")},
        columns=piece.columns or None,
        texts=(ask.text_column or ["text"]) if schema.texts else [],
        **facts,
    )


def _only_file(ask: Description) -> Path | None:
    """The one file that a description names, Mulan's XML aside."""
    parts = ask.parts()
    files = {key: path for key, path in parts["train"].items() if path.suffix != ".xml"}
    return files["data"] if list(parts) == ["train"] and list(files) == ["data"] else None


def _place(piece: Piece, ask: Description) -> Path:
    return Path(ask.images) if ask.images is not None else piece.path.parent


def picture_files(piece: Piece, ask: Description, first: int = 0) -> Iterator[Path]:
    """Pictures in the folder named, or beside the file that names them; `first`: the number of
    the piece's first row."""
    folder = _place(piece, ask)
    for row, name in enumerate(piece.files or (), first):
        if not (folder / name).is_file():
            raise ValueError(
                f"row {row}: no picture {folder / name}; drop_broken=true leaves such rows out"
            )
        yield folder / name
