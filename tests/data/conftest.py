"""What tests of memory share."""

import os
import subprocess

import pytest

RETURNED = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
}
"""What is freed goes back to the system at once, so that only what is held counts."""


@pytest.fixture(scope="session")
def printed_by():
    """The lines that a process prints, in which only what is held counts as memory."""

    def run(command, **options):
        there = os.environ | RETURNED
        done = subprocess.run(command, capture_output=True, text=True, env=there, **options)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout.splitlines()

    return run
