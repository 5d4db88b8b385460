"""Lanes of tests: `quick` is a part of `middle`, and `middle` is a part of `all` (scripts/test, docs/testing.md).

A test, or one cell of a test (a combination of parameters), is in a lane by its mark. `quick`: in every lane. `full`: only in
`all`. Without a mark: in `middle` and `all`.
"""
import dataclasses
import functools
import itertools
import pathlib
import subprocess
import zlib

import pairwise
import pytest

LANES = ("quick", "middle", "all")
MARKS = {
    "quick": "is in every lane",
    "full": "is only in --lane all",
    "cover(strength)": "the middle lane has a subset of the cells in which every value (1) or pair of values (2) of two fields occurs",
    "part(n)": "the middle lane has one of n parts of the cells; another commit has another part",
    "alone": "measures time: no other test runs at the same time",
}


def is_in(lane, marks):
    """Returns whether a test with these marks is in the lane. `full` has priority, since a quick file may have cells with the mark `full`."""
    if "full" in marks:
        return lane == "all"
    return lane != "quick" or "quick" in marks


def cells(rows, positions, quick=()):
    """Returns (row, mark) for each row: `quick` for the indices in `quick`, `full` for indices that are not in `positions`."""
    for index, row in enumerate(rows):
        lane = "quick" if index in quick else None if index in positions else "full"
        yield row, [getattr(pytest.mark, lane)] if lane else []


def cover(cases, is_quick=lambda case: False, strength=2):
    """Returns each case of a table as a parameter of a test.

    The cases of the middle lane contain every pair of values of two fields; with strength 1, every value of a field.
    """
    quick = [index for index, case in enumerate(cases) if is_quick(case)]
    positions = pairwise.cover([dataclasses.asdict(case) for case in cases], quick, strength)
    return [pytest.param(case, marks=marks, id=str(case)) for case, marks in cells(cases, positions, quick)]


def product(**fields):
    """Parametrizes a test by all combinations of values. The middle lane has a pairwise cover of these combinations.

    Example: product(mesh=MESHES, micro_batches=[1, 4], zero=[0, 1, 2, 3]).
    """
    rows = list(itertools.product(*fields.values()))
    positions = pairwise.cover([dict(zip(fields, row)) for row in rows])
    return pytest.mark.parametrize(list(fields), [pytest.param(*row, marks=marks) for row, marks in cells(rows, positions)])


def full(*values):
    """Returns a cell of a test for the lane `all` only."""
    return pytest.param(*values, marks=pytest.mark.full)


def some(names, kept):
    """Returns all names as cells of a test. The middle lane has only the names in `kept`."""
    assert set(kept) < set(names)
    return [name if name in kept else full(name) for name in names]


def fields_of(item):
    """Returns the ids of a cell's values, one entry per parametrize mark. The ids are Python's id(), since values may be functions."""
    values, row = dict(item.callspec.params), {}
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0].replace(" ", "").split(",") if isinstance(mark.args[0], str) else mark.args[0]
        row[",".join(names)] = tuple(id(values.pop(name)) for name in names)
    return {**row, **{name: id(value) for name, value in values.items()}}


def thin(items):
    """For each test with the mark `cover`, chooses cells that cover its values, and marks all other cells as `full`. Each parametrize mark is one field."""
    tests = {}
    for item in items:
        if item.get_closest_marker("cover"):
            tests.setdefault(item.nodeid.split("[", 1)[0], []).append(item)
    for cells_of_test in tests.values():
        strength = cells_of_test[0].get_closest_marker("cover").args[0]
        positions = pairwise.cover([fields_of(item) for item in cells_of_test], strength=strength)
        for index in set(range(len(cells_of_test))) - set(positions):
            cells_of_test[index].add_marker(pytest.mark.full)


@functools.cache
def find_commit():
    """Returns the commit of the sources, or "" without git."""
    command = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(command, cwd=pathlib.Path(__file__).parent, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def take_parts(items, commit):
    """For each test with the mark `part(n)`, draws one n-th of the cells by the commit, at least one, and marks the others as `full`."""
    tests = {}
    for item in items:
        if item.get_closest_marker("part") and not item.get_closest_marker("full"):
            tests.setdefault(item.nodeid.split("[", 1)[0], []).append(item)
    for cells_of_test in tests.values():
        parts = cells_of_test[0].get_closest_marker("part").args[0]
        drawn = sorted(cells_of_test, key=lambda item: zlib.crc32((commit + item.nodeid).encode()))
        for item in drawn[-(-len(drawn) // parts) :]:
            item.add_marker(pytest.mark.full)
