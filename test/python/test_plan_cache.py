"""Searches reuse the results of earlier searches for the same model only."""

import json
import re

import models
import pytest
from conftest import ROOT
from conftest import run_tool as run
from refusals import DAMAGES

CLUSTER = json.loads((ROOT / "clusters/cpu-mpi.json").read_text())


class Search:
    """Searches for plans of one model file on one cluster file, with a separate cache."""

    def __init__(self, folder):
        self.folder, self.model, self.cluster = folder, folder / "gpt.pt2", folder / "cluster.json"
        models.gpt_dynamic(layers=2).export(self.model)
        self.cluster.write_text(json.dumps(CLUSTER))

    def run(self, *flags, cache="cache"):
        """Runs a search. Returns the printed answer without times."""
        flags = ["--cluster", f"{self.cluster}:4", "--global-batch", 8, "--mesh", "tp=<=2", *flags]
        done = run("ps-plan", self.model, *flags, XDG_CACHE_HOME=str(self.folder / cache))
        assert done.returncode == 0, done.stderr
        return re.sub(r"priced in [\d.]+ s", "priced", done.stdout)

    def list(self, cache="cache"):
        return list((self.folder / cache / "parashard/plans").iterdir())

    def read(self):
        return {path.name: path.read_bytes() for path in self.list()}


@pytest.fixture
def search(tmp_path):
    return Search(tmp_path)


def test_a_repeated_search_computes_nothing_new(search):
    first, entries = search.run(), search.read()
    assert entries and search.run() == first and search.read() == entries
    # Another constraint needs some of the same programs.
    again = search.run("--zero", 1)
    assert again != first and again == search.run("--zero", 1, cache="other")
    assert len(entries) < len(search.list()) < len(entries) + len(search.list("other"))


@pytest.mark.part(3)
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_entries_are_replaced(search, damage):
    first, entries = search.run(), search.read()
    for path in search.list():
        path.write_bytes(damage(path.read_bytes()))
    assert search.run() == first and search.read() == entries


def test_another_cluster_or_model_of_the_same_name_is_priced_again(search):
    first = search.run()
    slower = {**CLUSTER, "device": {**CLUSTER["device"], "memory_bandwidth": "1GB/s"}}
    search.cluster.write_text(json.dumps(slower))
    second = search.run()
    assert second != first and second == search.run(cache="other")
    search.cluster.write_text(json.dumps(CLUSTER))
    models.gpt_dynamic(layers=3).export(search.model)
    third = search.run()
    assert third != first and third == search.run(cache="other")


def test_a_cache_that_cannot_be_written_changes_nothing(search):
    first = search.run()
    (search.folder / "file").write_text("")
    assert search.run(cache="file") == first
    assert search.run(cache="missing/" + "x" * 300) == first
