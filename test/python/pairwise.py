"""Computes pairwise covers: a few rows of a table that contain every pair of values of two fields.

Most faults depend on one value, or on two values together (Kuhn et al., 2004: "Software fault interactions"). Example: for a
table of 288 rows with 5 fields, about 60 rows contain every pair.
"""
import collections
import itertools


def pairs_of(row, strength=2):
    """Returns the pairs of a row. Example: {"a": 1, "b": 2, "c": 3} has 3 pairs, such as (("a", 1), ("b", 2)). With strength 1, returns its values."""
    return set(itertools.combinations(sorted(row.items(), key=lambda item: item[0]), strength))


def cover(rows, chosen=(), strength=2):
    """Returns the indices of some rows that together contain every pair of `rows`. The indices in `chosen` are included.

    Repeatedly takes the first of the rows with the most missing pairs, until no pair is missing. The result is deterministic.
    Example: takes 4 of the 8 rows of {x, y} x {0, 1} x {a, b}. With strength 1, the rows contain every value (2 rows in the
    example). If several rows have equally many missing values, the row whose values were taken least often comes first.
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
