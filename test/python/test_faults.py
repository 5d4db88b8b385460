"""A rank that dies, hangs, fails or cannot be reached ends the job on every rank within seconds, and is named."""
import os
import signal
import socket
import time

import oracle
import pytest
from processes import BASE, finish, launch, start, start_by_hand
from refusals import PLAIN, data_for


@pytest.fixture(scope="module")
def job(tmp_path_factory, exports):
    """A program for four ranks and a command that trains it for hours."""
    folder = tmp_path_factory.mktemp("faults")
    oracle.compile_model(folder, oracle.export("gpt", exports), "dp=2,tp=2", *PLAIN)
    return folder, ["./program", "--data", data_for(folder), "--steps", "1000000", "--losses", "losses.txt", "--quiet"]


def await_steps(folder, count=3):
    """Returns when the job has taken some steps."""
    for _ in range(600):
        path = folder / "losses.txt"
        if path.exists() and len(path.read_text().splitlines()) >= count:
            return
        time.sleep(0.05)
    raise AssertionError("the job does not train")


def start_training(job, **environment):
    folder, command = job
    (folder / "losses.txt").unlink(missing_ok=True)
    processes = start_by_hand(command, folder, 4, **environment)
    await_steps(folder)
    return processes


def check_ended(processes, victim, seconds, *words):
    """All but the victim end by themselves in that time, with status 3 and the victim's number."""
    begin = time.monotonic()
    try:
        for rank, process in enumerate(processes):
            if rank != victim:
                status, said = finish(process, timeout=30)
                assert status == 3, f"rank {rank}: {status}\n{said}"
                assert f"error: rank {rank}, step " in said and f"rank {victim} " in said, said
                assert any(f"in {what}" in said for what in ("all_reduce over", "a computation", "reading", "agreeing")), said
                for word in words:
                    assert word in said
        assert time.monotonic() - begin < seconds
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("victim", [0, 1, 3])
def test_killed_rank(job, victim):
    processes = start_training(job)
    processes[victim].kill()
    check_ended(processes, victim, 5, f"rank {victim} was lost")


@pytest.mark.parametrize("victim", [0, 2])
def test_hung_rank(job, victim):
    processes = start_training(job, PSRT_TIMEOUT="2")
    processes[victim].send_signal(signal.SIGSTOP)
    check_ended(processes, victim, 2 + 5, f"rank {victim} has not answered for 2 s")


def test_rank_that_pauses_is_waited_for(job):
    """Shorter than the time allowed: the job goes on."""
    folder, _ = job
    processes = start_training(job, PSRT_TIMEOUT="20")
    processes[1].send_signal(signal.SIGSTOP)
    time.sleep(3)
    steps = len((folder / "losses.txt").read_text().splitlines())
    processes[1].send_signal(signal.SIGCONT)
    await_steps(folder, steps + 3)
    for process in processes:
        process.send_signal(signal.SIGTERM)
    assert [finish(process)[0] for process in processes] == [0, 0, 0, 0]


def test_failing_rank(job):
    folder, command = job
    processes = start_by_hand(command, folder, 4, PSRT_TEST_FAIL="rank=2,step=5")
    begin = time.monotonic()
    results = [finish(process) for process in processes]
    assert time.monotonic() - begin < 20
    assert [status for status, _ in results] == [3, 3, 3, 3], results
    assert "rank 2, step 5: failed as PSRT_TEST_FAIL asked" in results[2][1]
    for rank in (0, 1, 3):
        assert "rank 2 failed: failed as PSRT_TEST_FAIL asked; this rank was in " in results[rank][1]


def test_sigterm_of_one_ends_all_after_the_step(job):
    folder, _ = job
    processes = start_training(job)
    processes[3].send_signal(signal.SIGTERM)
    results = [finish(process) for process in processes]
    assert [status for status, _ in results] == [0, 0, 0, 0], results


def test_killed_rank_under_mpirun(job):
    """mpirun ends the others itself; what they say first names the rank."""
    folder, command = job
    (folder / "losses.txt").unlink(missing_ok=True)
    launcher, environment = launch("mpirun", 4)
    script = 'echo $$ > pid$OMPI_COMM_WORLD_RANK; exec "$@"'
    running = start([*launcher, "bash", "-c", script, "bash", *command], folder, environment)
    await_steps(folder)
    os.kill(int((folder / "pid2").read_text()), signal.SIGKILL)
    begin = time.monotonic()
    status, said = finish(running)
    assert time.monotonic() - begin < 5 and status != 0
    assert "rank 2 was lost" in said, said


def test_rank_that_does_not_come(job):
    folder, command = job
    environment = {"WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29871", "PSRT_TIMEOUT": "1"}
    first = start(command, folder, {**BASE, **environment, "RANK": "0"})
    status, said = finish(first)
    assert status == 3 and "3 of 4 processes have not come to rank 0 within 1 s" in said, said
    other = start(command, folder, {**BASE, **environment, "RANK": "1"})
    status, said = finish(other)
    assert status == 3 and "rank 0 of this job was not found within 1 s" in said and "refused" in said, said


def test_port_that_is_taken(job):
    folder, command = job
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        first = start(command, folder, {**BASE, "RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port})
        status, said = finish(first)
        assert status == 3 and f"rank 0 cannot listen at port {port}" in said and "in use" in said, said


def test_host_that_cannot_be_reached(job):
    """An address that no host has, and a name that is none."""
    folder, command = job
    shared = {**BASE, "RANK": "1", "WORLD_SIZE": "4", "MASTER_PORT": "29871", "PSRT_TIMEOUT": "1",
              "TORCHELASTIC_USE_AGENT_STORE": "True"}  # fmt: skip
    begin = time.monotonic()
    status, said = finish(start(command, folder, {**shared, "MASTER_ADDR": "192.0.2.1"}))
    assert status == 3 and "192.0.2.1 ports 29872 to 29903" in said, said
    assert time.monotonic() - begin < 1 + 5
    status, said = finish(start(command, folder, {**shared, "MASTER_ADDR": "no-such-host.invalid"}))
    assert status == 3 and '"no-such-host.invalid", has no address' in said, said


def test_file_that_cannot_be_written(job):
    """Rank 0 alone writes; all end with its status, and it alone says why."""
    folder, command = job
    line = [*command[:3], "--steps", "2", "--export-weights", "/dev/full/weights.safetensors", "--quiet"]
    results = [finish(process) for process in start_by_hand(line, folder, 4)]
    assert [status for status, _ in results] == [1, 1, 1, 1], results
    assert "cannot write" in results[0][1] and not any(said for _, said in results[1:]), results
