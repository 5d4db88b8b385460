"""Lanes of tests: `quick` is a part of `middle`, and `middle` is a part of `all` (scripts/test, docs/testing.md).

A test or a cell of a table carries its lane as a mark: `quick` is in every lane, `full` is in `all` alone. Without a mark it
is in `middle` and `all`.
"""
import dataclasses
import itertools

import pairwise
import pytest

LANES = ("quick", "middle", "all")
MARKS = {"quick": "is in every lane", "full": "is in --lane all alone", "alone": "measures time: no other test runs beside it"}


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


def cover(cases, is_quick=lambda case: False):
    """Returns each case of a table as a parameter of a test. The middle lane has a pairwise cover of the table's fields."""
    quick = [index for index, case in enumerate(cases) if is_quick(case)]
    positions = pairwise.cover([dataclasses.asdict(case) for case in cases], quick)
    return [pytest.param(case, marks=marks, id=str(case)) for case, marks in cells(cases, positions, quick)]


def product(**fields):
    """Parametrizes a test by all combinations of values. The middle lane has a pairwise cover of them.

    Example: product(mesh=MESHES, micro_batches=[1, 4], zero=[0, 1, 2, 3]).
    """
    rows = list(itertools.product(*fields.values()))
    positions = pairwise.cover([dict(zip(fields, row)) for row in rows])
    return pytest.mark.parametrize(list(fields), [pytest.param(*row, marks=marks) for row, marks in cells(rows, positions)])
