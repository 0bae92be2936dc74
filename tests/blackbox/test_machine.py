"""A test that the machine is too poor for is skipped on a developer's machine, and fails in CI."""

import pytest

import machine

pytestmark = pytest.mark.contract


@pytest.fixture
def poor(monkeypatch):
    """A machine that lets nobody mount anything."""

    def refused() -> None:
        raise machine.Lacking("must be superuser")

    monkeypatch.setitem(machine.PROBES, "poor", refused)
    yield
    machine.absence.cache_clear()


def test_what_is_lacking_skips_the_test_with_the_reason(poor, monkeypatch):
    """Nobody has to be root to run the rest."""
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="poor: must be superuser"):
        machine.require("poor")


def test_what_is_lacking_fails_the_test_in_ci(poor, monkeypatch):
    """A claim that CI does not test is none."""
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="poor: must be superuser"):
        machine.require("poor")


def test_every_test_that_names_a_need_names_one_that_is_known(request):
    """A name that is mistyped would skip nothing, and say so only where it is lacking."""
    named = [name for item in request.session.items for marker in item.iter_markers("machine") for name in marker.args]
    assert set(named) <= set(machine.PROBES)
