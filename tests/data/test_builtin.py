"""Built-in data sets."""

import sys
import time

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from labelset.data import inspect, load, names
from labelset.data.builtin import build


def test_names():
    assert names() == ["digits", "icons", "yeast"]


# ---- digits --------------------------------------------------------------------------------------


def test_digits_at_a_glance():
    load_digits()  # the import is not the data set's time
    start = time.process_time()
    data = load("digits")
    assert time.process_time() - start < 5  # about one on a free core
    assert data.sizes() == (4000, 800, 1200)
    assert data.images.shape == (6000, 1, 24, 24)
    assert data.images.dtype == torch.uint8
    assert data.names == [str(i) for i in range(10)]
    report = inspect(data)
    assert report.most == 4
    assert report.duplicates == 0
    for part in report.parts.values():
        assert not part.dead
        assert 0 < part.without_labels < 0.1 * part.rows
    often = data.labels.dense().sum(0)
    assert (often.diff() < 0).all()  # 0 is the most frequent, 9 the rarest
    assert often[0] > 4 * often[9]


def test_digits_are_reproducible():
    small = {"train": 50, "valid": 10, "test": 20}
    one = load("digits", **small)
    assert one.fingerprint() == load("digits", **small).fingerprint()
    assert one.fingerprint() != load("digits", seed=1, **small).fingerprint()
    assert load("digits", train=5, valid=0, test=3, size=32, noise=0).images.shape == (8, 1, 32, 32)


def found_in(picture, handwritten):
    """Which handwritten digits lie in a picture without noise, by looking at every place."""
    windows = np.lib.stride_tricks.sliding_window_view(picture, (8, 8)).reshape(-1, 8, 8)
    return [i for window in windows for i in handwritten.get(window.tobytes(), ())]


def test_labels_are_the_digits_shown_and_parts_share_none():
    """Cut every scene open: the digits found are the labels, and no part uses another's."""
    raw, handwritten = load_digits(), {}
    for i, image in enumerate(np.round(raw.images / 16 * 255).astype(np.uint8)):
        handwritten.setdefault(image.tobytes(), []).append(i)
    data = load("digits", train=400, valid=100, test=100, noise=0.0, seed=3)
    used = {0: set(), 1: set(), 2: set()}
    for row in range(len(data)):
        found = found_in(data.images[row, 0].numpy(), handwritten)
        used[int(data.split[row])] |= set(found)
        shown = sorted({int(raw.target[i]) for i in found})
        assert shown == data.labels[row].indices.tolist()
    assert min(map(len, used.values())) > 50
    assert not used[0] & used[1]
    assert not used[0] & used[2]
    assert not used[1] & used[2]


@pytest.mark.parametrize("wrong", [{"train": -1}, {"size": 10}, {"noise": -1.0}, {"seed": 0.5}])
def test_bad_settings(wrong):
    with pytest.raises((ValueError, TypeError), match=next(iter(wrong))):
        build("digits", **wrong)


# ---- icons and yeast -----------------------------------------------------------------------------


def installed(package):
    from importlib.util import find_spec

    return pytest.mark.skipif(find_spec(package) is None, reason=f"{package} is not installed")


@installed("qtawesome")
@installed("PIL")
def test_icons():
    data = load("icons")
    assert len(data) > 7000
    assert data.images.shape[1:] == (1, 32, 32)
    assert data.ids == sorted(data.ids)
    for row in range(0, len(data), 500):
        words = {data.names[i] for i in data.labels[row].indices.tolist()}
        assert words == set(data.ids[row].split("-")) & set(data.names)
    often = np.sort(data.labels.dense().sum(0).numpy())
    assert often[0] >= 20
    assert often[-1] > 20 * np.median(often)  # a long tail
    report = inspect(data)
    assert set(report.leaks.values()) == {0}
    assert not any(part.dead for part in report.parts.values())
    lit = data.images.float().mean((1, 2, 3))
    assert (lit > 0).float().mean() > 0.99  # hardly a letter is missing from the font
    assert data.fingerprint() == load("icons").fingerprint()
    assert load("icons", size=16, least=100).images.shape[2:] == (16, 16)
    assert "qtawesome" not in sys.modules


@installed("river")
def test_yeast():
    data = load("yeast")
    assert data.features.shape == (2417, 103)
    assert data.labels.shape == (2417, 14)
    assert data.sizes() == (1500, 0, 917)
    report = inspect(data)
    assert report.cardinality == pytest.approx(4.237, abs=5e-4)
    assert (report.most, report.label_sets) == (11, 198)
    assert "river" not in sys.modules


LACKING = {"digits": "sklearn.datasets", "icons": "PIL.Image", "yeast": "river"}


@pytest.mark.parametrize("name", ["digits"])
def test_a_package_that_is_not_there_is_named(monkeypatch, name):
    monkeypatch.setitem(sys.modules, LACKING[name], None)
    with pytest.raises(ImportError, match=r"sklearn: pip install 'labelset\[data\]'"):
        load(name)


def test_data_packages_that_are_not_there_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr("labelset.files.find_spec", lambda name: None)
    for name, package in (("icons", "qtawesome"), ("yeast", "river")):
        with pytest.raises(ImportError, match=rf"{package}: pip install 'labelset\[data\]'"):
            load(name)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    (tmp_path / "a.png").write_bytes(b"")
    (tmp_path / "l.csv").write_text("file,y\na.png,1\n")
    with pytest.raises(ImportError, match=r"PIL: pip install 'labelset\[data\]'"):
        load(tmp_path)
