"""Lanes of tests: `quick` is a part of `middle`, and `middle` is a part of `all` (scripts/test, docs/testing.md).

A mark of a test, or of one cell (a combination of parameters), gives its lane. `quick`: in every lane. `full`: only in `all`.
Without a mark, a test is in `middle` and `all`.
"""
import dataclasses
import itertools

import pairwise
import pytest

LANES = ("quick", "middle", "all")
MARKS = {
    "quick": "is in every lane",
    "full": "is only in --lane all",
    "cover(strength)": "the middle lane has a subset of the cells in which every value (1) or pair of values (2) of two fields occurs",
    "alone": "measures time: no other test runs at the same time",
}


def is_in(lane, marks):
    """Returns whether a test with these marks is in the lane. `full` has priority: a quick file may have a cell with the mark `full`."""
    if "full" in marks:
        return lane == "all"
    return lane != "quick" or "quick" in marks


def cells(rows, positions, quick=()):
    """Returns (row, marks) for each row: `full` for rows outside of `positions`, `quick` for those in `quick`."""
    for index, row in enumerate(rows):
        lane = "quick" if index in quick else None if index in positions else "full"
        yield row, [getattr(pytest.mark, lane)] if lane else []


def cover(cases, is_quick=lambda case: False, strength=2):
    """Returns each case of a table as a parameter of a test.

    The middle lane has cases in which every pair of values of two fields occurs; with strength 1, every value.
    """
    quick = [index for index, case in enumerate(cases) if is_quick(case)]
    positions = pairwise.cover([dataclasses.asdict(case) for case in cases], quick, strength)
    return [pytest.param(case, marks=marks, id=str(case)) for case, marks in cells(cases, positions, quick)]


def product(**fields):
    """Parametrizes a test by all combinations of values. The middle lane has a pairwise cover of them.

    Example: product(mesh=MESHES, micro_batches=[1, 4], zero=[0, 1, 2, 3]).
    """
    rows = list(itertools.product(*fields.values()))
    positions = pairwise.cover([dict(zip(fields, row)) for row in rows])
    return pytest.mark.parametrize(list(fields), [pytest.param(*row, marks=marks) for row, marks in cells(rows, positions)])


def full(*values):
    """Returns a cell of a test that only the lane all has."""
    return pytest.param(*values, marks=pytest.mark.full)


def some(names, kept):
    """Returns all names as cells of a test. The middle lane has the `kept` ones."""
    assert set(kept) < set(names)
    return [name if name in kept else full(name) for name in names]


def fields_of(item):
    """Returns the identities of a cell's values, one entry per parametrize mark. Values may be functions, which have no other equality."""
    values, row = dict(item.callspec.params), {}
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0].replace(" ", "").split(",") if isinstance(mark.args[0], str) else mark.args[0]
        row[",".join(names)] = tuple(id(values.pop(name)) for name in names)
    return {**row, **{name: id(value) for name, value in values.items()}}


def thin(items):
    """Computes a cover of the cells of each test with the mark `cover`, and marks all other cells as `full`. Each parametrize mark is one field."""
    tests = {}
    for item in items:
        if item.get_closest_marker("cover"):
            tests.setdefault(item.nodeid.split("[", 1)[0], []).append(item)
    for cells_of_test in tests.values():
        strength = cells_of_test[0].get_closest_marker("cover").args[0]
        positions = pairwise.cover([fields_of(item) for item in cells_of_test], strength=strength)
        for index in set(range(len(cells_of_test))) - set(positions):
            cells_of_test[index].add_marker(pytest.mark.full)
