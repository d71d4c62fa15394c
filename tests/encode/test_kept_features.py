"""Features that are kept on disk: whole or not at all, also where the disk is full."""

import os
import resource
import subprocess

import pytest
import torch

from labelset.data import Dataset
from labelset.encode import build, encoded
from labelset.files import CannotWrite


def contents(folder):
    """Every file below a folder, by its name."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def small(tmp_path):
    """A file system of 64 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if os.getuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root can mount a small file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def texts(rows=300):
    words = [f"word{i % 17} word{i % 23} word{i * i % 101} all" for i in range(rows)]
    labels = [[i % 2, i % 3 == 0] for i in range(rows)]
    return Dataset.from_arrays(texts=words, labels=labels, split=[i % 3 for i in range(rows)])


def features_kept(folder):
    return encoded(build("tfidf", words=1, characters=0), texts(), folder)[1].dense()


def test_features_on_a_full_file_system(small):
    want = features_kept(None)
    ballast, cache = small / "ballast", small / "cache"
    for room in (0, 4, 8):
        ballast.write_bytes(bytes(1024 * (64 - room)))
        with pytest.raises(CannotWrite, match=r"cannot write .*/tfidf-\w+\.npz: No space left"):
            features_kept(cache)
        assert not contents(cache)
        ballast.unlink()
    for _ in range(2):  # made, then read
        assert torch.equal(features_kept(cache), want)
    assert [path.suffix for path in cache.iterdir()] == [".npz"]


def test_features_that_may_not_grow(tmp_path):
    want, held = features_kept(None), resource.getrlimit(resource.RLIMIT_FSIZE)
    for size in (0, 1000, 5000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, held[1]))
        try:
            with pytest.raises(CannotWrite, match=r"tfidf-\w+\.npz: File too large"):
                features_kept(tmp_path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, held)
        assert not contents(tmp_path)
    assert torch.equal(features_kept(tmp_path), want)


def test_features_cut_short_are_made_anew(tmp_path):
    want = features_kept(tmp_path)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert torch.equal(features_kept(tmp_path), want)
        assert path.read_bytes() == whole
