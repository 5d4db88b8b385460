"""Pairwise covers: few rows of a table in which every pair of values of two fields still occurs.

Most faults need one value, or two together (Kuhn et al., 2004: "Software fault interactions"). Every pair of a table of
288 rows with 5 fields stands in some 60 of them.
"""
import collections
import itertools


def pairs_of(row, strength=2):
    """Returns the pairs of a row: {"a": 1, "b": 2, "c": 3} has 3, such as (("a", 1), ("b", 2)). Strength 1: its values."""
    return set(itertools.combinations(sorted(row.items(), key=lambda item: item[0]), strength))


def cover(rows, chosen=(), strength=2):
    """Returns the positions of rows in which every pair of `rows` occurs; those in `chosen` are taken first.

    Takes the row with the most pairs that are still missing, the first of equals, until none is missing. So the result is the
    same each time. Example: of the 8 rows of {x, y} x {0, 1} x {a, b}, it takes 4. With strength 1 every value occurs: it
    takes 2; of equal rows the one whose values were taken the least is first.
    """
    pairs = [pairs_of(row, strength) for row in rows]
    missing, taken = set().union(*pairs), {}

    def take(index):
        taken[index] = None
        missing.difference_update(pairs[index])
        counts.update(rows[index].items())

    counts = collections.Counter()
    for index in chosen:
        take(index)

    def rank(index):
        used = sum(counts[item] for item in rows[index].items()) if strength == 1 else 0
        return -len(pairs[index] & missing), used, index

    while missing:
        take(min(range(len(rows)), key=rank))
    return sorted(taken)
