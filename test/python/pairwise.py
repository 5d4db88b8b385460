"""Pairwise covers: few rows of a table in which every pair of values of two fields still occurs.

Most faults need one value, or two together (Kuhn et al., 2004: "Software fault interactions"). Every pair of a table of
288 rows with 5 fields stands in some 60 of them.
"""
import heapq
import itertools


def pairs_of(row):
    """Returns the pairs of a row: {"a": 1, "b": 2, "c": 3} has 3, such as (("a", 1), ("b", 2))."""
    return set(itertools.combinations(sorted(row.items(), key=lambda item: item[0]), 2))


def cover(rows, chosen=()):
    """Returns the positions of rows in which every pair of `rows` occurs; those in `chosen` are taken first.

    Takes the row with the most pairs that are still missing, the first of equals, until none is missing. So the result is the
    same each time. Example: of the 8 rows of {x, y} x {0, 1} x {a, b}, it takes 4.
    """
    pairs = [pairs_of(row) for row in rows]
    missing = set().union(*pairs)
    for index in chosen:
        missing -= pairs[index]
    taken = set(chosen)
    # A row's count only falls, so one that is the most after a new count is the most of all.
    queue = [(-len(some), index) for index, some in enumerate(pairs)]
    heapq.heapify(queue)
    while missing:
        _, index = heapq.heappop(queue)
        count = len(pairs[index] & missing)
        if queue and (-count, index) > queue[0]:
            heapq.heappush(queue, (-count, index))
            continue
        taken.add(index)
        missing -= pairs[index]
    return sorted(taken)
