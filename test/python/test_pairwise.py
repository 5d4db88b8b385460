"""Pairwise covers contain every pair in few rows, and define which rows of the tables (cases.py) are in the middle lane.

Parts of other tests are in the middle lane by turns.
"""
import dataclasses
import itertools
import random
import re

import cases
import lanes
import pairwise
import pytest
from conftest import ROOT

pytestmark = pytest.mark.quick


def product(**fields):
    return [dict(zip(fields, values)) for values in itertools.product(*fields.values())]


def check(rows, positions, strength=2):
    assert positions == sorted(set(positions))
    found = set().union(*(pairwise.pairs_of(rows[i], strength) for i in positions))
    assert found == set().union(*(pairwise.pairs_of(row, strength) for row in rows))


@pytest.mark.parametrize("rows, most", [
    (product(a="xy", b=[0, 1], c="pq"), 4),
    (product(a="xyz", b=[0, 1, 2], c="pqr", d="stu"), 12),  # at least 9 rows are needed
    (product(a=range(14), b="xy", c=range(4), d="pq"), 60),  # at least 56 rows are needed
    (product(a="xy"), 0),
    ([], 0),
])  # fmt: skip
def test_every_pair_occurs_in_few_rows(rows, most):
    positions = pairwise.cover(rows)
    check(rows, positions)
    assert len(positions) <= most and positions == pairwise.cover(rows)


def test_single_values_occur_equally_often():
    """With strength 1, values occur equally often: of 8 kinds and 2 meshes, each kind in one row and each mesh in 4 rows."""
    rows = product(kind=range(8), mesh="xy")
    found = [rows[i] for i in pairwise.cover(rows, strength=1)]
    assert [row["kind"] for row in found] == list(range(8)) and [row["mesh"] for row in found].count("x") == 4


def test_pairs_that_cannot_occur_are_not_required():
    rows = [row for row in product(a=range(5), b=range(5), c=range(5)) if row["a"] != row["b"]]
    check(rows, pairwise.cover(rows))


def test_chosen_rows_stay():
    rows = product(a=range(4), b=range(4), c=range(4))
    positions = pairwise.cover(rows, [7, 11])
    check(rows, positions)
    assert {7, 11} <= set(positions)


def test_drawn_tables():
    drawing = random.Random(0)
    for _ in range(50):
        rows = product(**{f"f{i}": range(drawing.randint(1, 4)) for i in range(drawing.randint(2, 4))})
        rows = drawing.sample(rows, drawing.randint(1, len(rows)))
        check(rows, pairwise.cover(rows, drawing.sample(range(len(rows)), drawing.randint(0, min(3, len(rows))))))


TABLES = {name: table for name, table in vars(cases).items()
          if isinstance(table, list) and table and isinstance(table[0], cases.Case)}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_the_middle_lane_has_every_pair_of_a_table(name):
    """The lane `all` has every row. For some tables, the middle lane only has every value."""
    table = TABLES[name]
    # docs/testing.md has the reason for each of these tables.
    strength = 1 if name in ("ALIGNED", "CUDA", "SEARCHED", "SEQUENCE") else 2
    cells = lanes.cover(table, strength=strength)
    assert [cell.values[0] for cell in cells] == table
    middle = [cell.values[0] for cell in cells if "full" not in [mark.name for mark in cell.marks]]
    check([dataclasses.asdict(case) for case in table], [table.index(case) for case in middle], strength)


def test_the_page_has_the_sizes_of_the_tables():
    """The page of tests has the number of cells of each table, and of those in the middle lane."""
    page = (ROOT / "docs/testing.md").read_text()
    rows = re.findall(r"^\| `([A-Z]+)`.*? \| (\d+) \| (\d+) \| (pairs|values)", page, re.M)
    assert {name for name, *_ in rows} <= set(TABLES) and len(rows) > 6
    for name, count, middle, covers in rows:
        cells = lanes.cover(TABLES[name], strength=2 if covers == "pairs" else 1)
        kept = sum("full" not in [mark.name for mark in cell.marks] for cell in cells)
        # The middle lane also has the cells of CASES that are in the quick lane.
        sizes = (len(cells), kept if name != "CASES" else int(middle))
        assert sizes == (int(count), int(middle)), f"correct the row of {name} in docs/testing.md: it has {sizes} cells"


@pytest.mark.parametrize("marks, lanes_of_it", [
    (set(), ["middle", "all"]), ({"quick"}, ["quick", "middle", "all"]), ({"full"}, ["all"]), ({"quick", "full", "usefixtures"}, ["all"])])  # fmt: skip
def test_a_mark_is_a_lane(marks, lanes_of_it):
    assert [lane for lane in lanes.LANES if lanes.is_in(lane, marks)] == lanes_of_it


class Item:
    """A cell of a test with the mark `part`."""

    def __init__(self, nodeid, parts):
        self.nodeid, self.marks = nodeid, {"part": pytest.mark.part(parts).mark}

    def get_closest_marker(self, name):
        return self.marks.get(name)

    def add_marker(self, mark):
        self.marks[mark.name] = mark


@pytest.mark.parametrize("count, parts", [(7, 3), (2, 3), (1, 4), (12, 2)])
def test_parts_of_many_commits_are_all_cells(count, parts):
    seen = set()
    for commit in range(60):
        items = [Item(f"test_x.py::test_x[{index}]", parts) for index in range(count)]
        lanes.take_parts(items, str(commit))
        kept = {index for index, item in enumerate(items) if "full" not in item.marks}
        assert kept and len(kept) <= -(-count // parts)
        seen |= kept
    assert seen == set(range(count))
