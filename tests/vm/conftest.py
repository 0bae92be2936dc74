"""Fixtures: a machine for all tests of a file."""

from __future__ import annotations

import pytest

from gateway import Gateway


@pytest.fixture(scope="module")
def gateway():
    """One that was just installed."""
    one = Gateway()
    try:
        one.wait_for_boot()
        yield one
    finally:
        one.stop()
