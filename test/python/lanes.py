"""Lanes of tests: `quick` is a part of `middle`, and `middle` is a part of `all` (scripts/test, docs/testing.md).

A test or a cell of a table carries its lane as a mark: `quick` is in every lane, `full` is in `all` alone. Without a mark it
is in `middle` and `all`.
"""
import dataclasses
import itertools

import pairwise
import pytest

LANES = ("quick", "middle", "all")
MARKS = {
    "quick": "is in every lane",
    "full": "is in --lane all alone",
    "cover(strength)": "of all cells, the middle lane has some in which every value (1) or pair of values (2) occurs",
    "alone": "measures time: no other test runs beside it",
}


def is_in(lane, marks):
    """Whether a test with these marks is in the lane. `full` wins: a quick file may have a cell that is full."""
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


def fields_of(item):
    """Returns the values of a cell, one for each parametrize. Values are compared by identity: they may be functions."""
    values, row = dict(item.callspec.params), {}
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0].replace(" ", "").split(",") if isinstance(mark.args[0], str) else mark.args[0]
        row[",".join(names)] = tuple(id(values.pop(name)) for name in names)
    return {**row, **{name: id(value) for name, value in values.items()}}


def thin(items):
    """Marks cells of tests with the mark `cover` as `full`, beyond the cover. Each parametrize is a field."""
    tests = {}
    for item in items:
        if item.get_closest_marker("cover"):
            tests.setdefault(item.nodeid.split("[", 1)[0], []).append(item)
    for cells_of_test in tests.values():
        strength = cells_of_test[0].get_closest_marker("cover").args[0]
        positions = pairwise.cover([fields_of(item) for item in cells_of_test], strength=strength)
        for index in set(range(len(cells_of_test))) - set(positions):
            cells_of_test[index].add_marker(pytest.mark.full)
