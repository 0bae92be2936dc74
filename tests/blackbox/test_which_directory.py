"""Which data directory a command asks that names none: an edge's and a cloud's lie beside one another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from brokers import selvedge

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud")]

# What adds something, and would once have made a directory to add it to.
ADDING = [
    ("edge", "add", "hall-1"),
    ("edge", "invite", "hall-1"),
    ("device", "add", "pump-7"),
    ("device", "add", "pump-7", "--edge", "hall-1"),
    ("app", "add", "dash"),
    ("tenant", "add", "acme"),
    ("user", "add", "anna", "--role", "viewer"),
]
# What nobody has to have.
ASKING = [("get", "edges"), ("get", "devices"), ("user", "list"), ("twin", "get", "pump-7"), ("support-bundle",)]


def here(directory: Path, *roles: str) -> Path:
    """A place where these have run: each has a user of its role's name."""
    for role in roles:
        data = f"selvedge-data/{role}"
        made = selvedge("user", "add", role, "--role", "viewer", "--data", data, cwd=directory)
        assert f"note: {data} was not there and was made" in made.stderr
    return directory


def names(directory: Path, role: str, *words: str) -> list[str]:
    """What a list of one of them has."""
    said = selvedge(*words, "--data", f"selvedge-data/{role}", "--output", "json", cwd=directory).stdout
    return [each.get("id") or each["user"] for each in json.loads(said)]


def test_edges_and_what_is_said_with_edge_are_the_clouds(tmp_path):
    both = here(tmp_path, "edge", "cloud")
    for words in (("edge", "add", "hall-1"), ("edge", "credential", "list", "hall-1"), ("edge", "disable", "hall-1")):
        selvedge(*words, cwd=both)
    assert names(both, "cloud", "edge", "list") == ["hall-1"] and names(both, "edge", "edge", "list") == []
    selvedge("device", "add", "valve-1", "--edge", "hall-1", cwd=both)
    selvedge("device", "move", "valve-1", "--here", cwd=both)
    assert names(both, "cloud", "device", "list") == ["valve-1"] and names(both, "edge", "device", "list") == []
    said = selvedge("get", "edges", cwd=both, check=False)
    assert "say which" not in said.stderr, said


def test_what_both_have_is_asked_of_neither_before_it_is_said_which(tmp_path):
    both = here(tmp_path, "edge", "cloud")
    for words in (("user", "add", "anna", "--role", "viewer"), ("get", "devices"), ("device", "add", "pump-7")):
        said = selvedge(*words, cwd=both, check=False)
        assert said.returncode == 1
        assert "--data ./selvedge-data/edge" in said.stderr and "--data ./selvedge-data/cloud" in said.stderr, said
    assert [names(both, role, "user", "list") for role in ("edge", "cloud")] == [["edge"], ["cloud"]]


@pytest.mark.parametrize("role", ["edge", "cloud"])
def test_the_only_one_that_is_here_is_asked(tmp_path, role):
    one = here(tmp_path, role)
    selvedge("user", "add", "anna", "--role", "viewer", cwd=one)
    assert names(one, role, "user", "list") == ["anna", role]
    assert [path.name for path in (one / "selvedge-data").iterdir()] == [role]


@pytest.mark.parametrize("words", ADDING + ASKING, ids=" ".join)
def test_where_neither_has_run_no_command_makes_a_directory(tmp_path, words):
    said = selvedge(*words, cwd=tmp_path, check=False)
    assert said.returncode == 1 and "start one" in said.stderr and "--data DIR" in said.stderr, said
    assert not list(tmp_path.iterdir())


def test_what_only_a_cloud_has_is_not_made_of_an_edge(tmp_path):
    edge = here(tmp_path, "edge")
    said = selvedge("edge", "add", "hall-1", cwd=edge, check=False)
    assert said.returncode == 1 and "./selvedge-data/cloud: no cloud has run here" in said.stderr, said
    assert [path.name for path in (edge / "selvedge-data").iterdir()] == ["edge"]
