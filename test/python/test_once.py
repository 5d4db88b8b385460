"""Coordination of workers (once.py): files are created once and completely, and a turn that is held alone excludes all others."""
import multiprocessing
import os
import time

import once
import pytest

pytestmark = pytest.mark.quick


def build(path):
    path.write_text("half")
    time.sleep(0.2)
    path.write_text(f"whole, by {os.getpid()}")


def make_and_tell(path, queue):
    queue.put(once.make(path, build).read_text())


def test_one_of_several_processes_makes_a_file(tmp_path):
    context, path = multiprocessing.get_context("fork"), tmp_path / "file.pt2"
    queue = context.Queue()
    makers = [context.Process(target=make_and_tell, args=(path, queue)) for _ in range(4)]
    for maker in makers:
        maker.start()
    found = {queue.get(timeout=60) for _ in makers}
    for maker in makers:
        maker.join()
    assert len(found) == 1 and found.pop().startswith("whole")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file.pt2", "file.pt2.lock"]


def test_a_failure_leaves_nothing_and_the_next_one_tries_again(tmp_path):
    def fail(path):
        path.write_text("half")
        raise ValueError

    with pytest.raises(ValueError):
        once.make(tmp_path / "file", fail)
    assert [p.name for p in tmp_path.iterdir()] == ["file.lock"]
    assert once.make(tmp_path / "file", build).read_text().startswith("whole")


def take_turns(folder, is_alone, log):
    for _ in range(10):
        with once.hold_turn(folder, is_alone):
            for word in ("begin", "end"):
                log.put((os.getpid(), is_alone, word))
                time.sleep(0.005)


def test_an_exclusive_turn_does_not_overlap_others(tmp_path):
    context = multiprocessing.get_context("fork")
    log = context.SimpleQueue()
    takers = [context.Process(target=take_turns, args=(tmp_path, is_alone, log)) for is_alone in (False, False, False, True, True)]
    for taker in takers:
        taker.start()
    held, beside = {}, 0
    for _ in range(len(takers) * 20):
        process, is_alone, word = log.get()
        if word == "end":
            del held[process]
            continue
        assert not any(held.values()) and not (is_alone and held)
        held[process] = is_alone
        beside = max(beside, len(held))
    assert beside > 1 and not held
    for taker in takers:
        taker.join()
