"""The documents as a reader follows them: what they type at a terminal, word for word, and what it prints."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import brokers
import machine
from brokers import ROOT
from typist import Terminal, commands, play

pytestmark = [pytest.mark.contract, pytest.mark.needs("apply")]
README = (ROOT / "README.md").read_text()
# Left out, because what is tested was built by it.
BUILD = ("make build", [])


@pytest.fixture
def terminal(tmp_path):
    """Opens terminals in a scratch directory that has the program where the README has it, and in the path."""
    (tmp_path / "target/fast").mkdir(parents=True)
    (tmp_path / "target/fast/selvedge").symlink_to(brokers.BINARY)
    opened = []

    def open_one() -> Terminal:
        opened.append(Terminal(tmp_path))
        return opened[-1]

    yield open_one
    for one in reversed(opened):
        one.close()


TYPED = [("README.md", "The first five minutes"), ("docs/topics.md", "Examples"), ("docs/routes.md", "Examples")]


@pytest.mark.parametrize(("document", "heading"), TYPED, ids=[each[0] for each in TYPED])
def test_what_a_document_types_prints_what_it_says(terminal, tmp_path, document, heading):
    """Every command as it is printed there, on the port that clients take by themselves."""
    if brokers.Broker._listening(1883):
        machine.lacking("port 1883, which the documents use, is taken")
    typed = commands((ROOT / document).read_text(), heading)
    play(terminal, tmp_path, [each for each in typed if each != BUILD])


def test_make_build_makes_the_program_that_the_readme_starts():
    """The one line of it that the test above leaves out."""
    assert BUILD in commands(README, "The first five minutes")
    said = subprocess.run(["make", "-n", "build"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    assert "cargo build --profile fast -p selvedge" in said.stdout


def test_the_targets_of_make_that_the_readme_names_are_there():
    """`make help` lists each."""
    help_text = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, timeout=30).stdout
    named = set(re.findall(r"(?:`|^\$ )make ([a-z-]+)", README, re.MULTILINE)) - {"help"}
    assert named and all(f"make {target} " in help_text for target in named), named


def test_the_files_that_the_documents_link_to_are_there():
    """Of the README, the architecture and the decisions."""
    documents = {ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").rglob("*.md")}
    for document in documents - {ROOT / "docs/decisions/template.md"}:
        for link in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / link).exists(), f"{document.name} links to {link}"


def test_the_tests_that_the_map_of_bad_input_names_are_there():
    """A row of the table in this directory's README without its test would be an empty claim."""
    here = Path(__file__).parent
    named = re.findall(r"`(test_\w+\.py)(?:::(\w+))?(…?)", (here / "README.md").read_text())
    assert len(named) > 20
    for file, function, rest in named:
        assert f"def {function}{'' if rest or not function else '('}" in (here / file).read_text(), function
