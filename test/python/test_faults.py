"""If a rank dies, hangs, fails or cannot be reached, the job ends on all ranks within seconds. The errors name the rank."""
import os
import signal
import socket
import subprocess
import time

import lanes
import oracle
import pytest
import torch
from processes import BASE, finish, launch, start, start_by_hand
from refusals import PLAIN, data_for
from safetensors.torch import load_file


@pytest.fixture(scope="module", params=["dp=2,pp=2", lanes.full("dp=2,tp=2")])
def job(request, tmp_path_factory, exports):
    """A program for four ranks and a command that trains it for hours. Its ranks exchange messages and sum gradients."""
    folder = tmp_path_factory.mktemp("faults")
    oracle.compile_model(folder, oracle.export("gpt", exports), request.param, *PLAIN)
    return folder, ["./program", "--data", data_for(folder), "--steps", "1000000", "--losses", "losses.txt", "--quiet"]


def await_steps(folder, count=3):
    """Waits until the job has done `count` steps."""
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


@pytest.fixture
def ended(request):
    """Returns a function that measures how long a job takes to end. Records the time for `--junitxml`.

    ended() starts the measurement. ended(within=5) fails if more than 5 seconds have passed.
    """
    begin = []

    def measure(within=None):
        if within is None:
            begin.append(time.monotonic())
            return
        took = time.monotonic() - begin[-1]
        request.node.user_properties.append(("ended_in_s", round(took, 2)))
        assert took < within

    return measure


def check_ended(processes, victim, ended, seconds, *words):
    """Checks that all ranks except `victim` end within `seconds` with status 3, and that their errors name the victim."""
    try:
        for rank, process in enumerate(processes):
            if rank != victim:
                status, said = finish(process, timeout=30)
                assert status == 3, f"rank {rank}: {status}\n{said}"
                assert f"error: rank {rank}, step " in said and f"rank {victim} " in said, said
                assert any(f"in {what}" in said for what in ("all_reduce over", "a computation", "reading", "agreeing", "receiving", "sending")), said
                for word in words:
                    assert word in said
        ended(within=seconds)
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("victim", [0, 1, 3])
def test_killed_rank(job, ended, victim):
    processes = start_training(job)
    ended()
    processes[victim].kill()
    check_ended(processes, victim, ended, 5, f"rank {victim} was lost")


@pytest.mark.part(2)
@pytest.mark.alone
@pytest.mark.parametrize("victim", [0, 2])
def test_hung_rank(job, ended, victim):
    processes = start_training(job, PSRT_TIMEOUT="2")
    ended()
    processes[victim].send_signal(signal.SIGSTOP)
    check_ended(processes, victim, ended, 2 + 5, f"rank {victim} has not answered for 2 s")


def test_rank_that_pauses_is_waited_for(job):
    """A pause that is shorter than PSRT_TIMEOUT does not end the job."""
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


@pytest.mark.parametrize("mesh", ["dp=2,tp=2", "dp=2,pp=2"])
def test_failing_rank(tmp_path, exports, mesh):
    folder = tmp_path
    oracle.compile_model(folder, oracle.export("gpt", exports), mesh, *PLAIN, can_fail=True)
    command = ["./program", "--data", data_for(folder), "--steps", "1000000", "--quiet"]
    processes = start_by_hand(command, folder, 4, PSRT_TEST_FAIL="rank=2,step=5")
    begin = time.monotonic()
    results = [finish(process) for process in processes]
    assert time.monotonic() - begin < 20
    assert [status for status, _ in results] == [3, 3, 3, 3], results
    assert "rank 2, step 5: failed as PSRT_TEST_FAIL asked" in results[2][1]
    for rank in (0, 1, 3):
        assert "rank 2 failed: failed as PSRT_TEST_FAIL asked; this rank was in " in results[rank][1]


def read_losses(folder):
    return (folder / "losses.txt").read_text().splitlines()


def check_stopped_well(folder, weights):
    """Checks that all lines of losses are complete, and that the weights are written completely."""
    assert all(float(line) > 0 for line in read_losses(folder))
    assert all(torch.isfinite(tensor).all() for tensor in load_file(folder / weights).values())


def test_sigterm_of_one_ends_all_after_the_step(job, ended):
    folder, command = job
    (folder / "stopped.safetensors").unlink(missing_ok=True)
    processes = start_training((folder, [*command, "--export-weights", "stopped.safetensors"]))
    ended()
    processes[3].send_signal(signal.SIGTERM)
    results = [finish(process) for process in processes]
    ended(within=5)
    assert [status for status, _ in results] == [0, 0, 0, 0], results
    check_stopped_well(folder, "stopped.safetensors")


# ---- under mpirun --------------------------------------------------------------------------------------------------


def start_under_mpirun(job, *flags, **environment):
    """Starts the job with mpirun. Returns mpirun's process, and the process id of each rank."""
    folder, command = job
    (folder / "losses.txt").unlink(missing_ok=True)
    launcher, base = launch("mpirun", 4)
    script = 'echo $$ > pid$OMPI_COMM_WORLD_RANK; exec "$@"'
    line = [launcher[0], *flags, *launcher[1:], "bash", "-c", script, "bash", *command]
    running = start(line, folder, {**base, **environment})
    await_steps(folder)
    return running, [int((folder / f"pid{rank}").read_text()) for rank in range(4)]


def test_killed_rank_under_mpirun(job, ended):
    """mpirun ends the other ranks. Their first message names the killed rank."""
    running, pids = start_under_mpirun(job)
    ended()
    os.kill(pids[2], signal.SIGKILL)
    status, said = finish(running)
    ended(within=5)
    assert status != 0
    assert "rank 2 was lost" in said, said


@pytest.mark.alone
def test_hung_rank_under_mpirun(job, ended):
    running, pids = start_under_mpirun(job, PSRT_TIMEOUT="2")
    ended()
    os.kill(pids[1], signal.SIGSTOP)
    try:
        status, said = finish(running)
        ended(within=2 + 5)
        assert status == 3 and "rank 1 has not answered for 2 s" in said and "this rank was in " in said, said
    finally:
        if running.poll() is None:
            running.kill()


@pytest.mark.part(2)
@pytest.mark.parametrize("whom", ["a rank", "mpirun"])
def test_sigterm_under_mpirun(job, ended, whom):
    folder, command = job
    (folder / "stopped.safetensors").unlink(missing_ok=True)
    running, pids = start_under_mpirun(
        (folder, [*command, "--export-weights", "stopped.safetensors"]), "--mca", "odls_base_sigkill_timeout", "3"
    )
    ended()
    if whom == "mpirun":
        running.send_signal(signal.SIGTERM)
    else:
        os.kill(pids[2], signal.SIGTERM)
    status, said = finish(running)
    # After SIGTERM, mpirun itself waits for 3 seconds, even if its ranks have ended. Its exit status reports the signal.
    ended(within=3 + 5 if whom == "mpirun" else 5)
    assert status == 0 or whom == "mpirun", said
    check_stopped_well(folder, "stopped.safetensors")


# ---- peers that cannot be reached ----------------------------------------------------------------------------------


def test_rank_that_does_not_connect(job):
    folder, command = job
    environment = {"WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29871", "PSRT_TIMEOUT": "1"}
    first = start(command, folder, {**BASE, **environment, "RANK": "0"})
    status, said = finish(first)
    assert status == 3 and "3 of 4 processes did not connect to rank 0 within 1 s" in said, said
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
    """An address that no host has, and a host name that does not exist."""
    folder, command = job
    shared = {**BASE, "RANK": "1", "WORLD_SIZE": "4", "MASTER_PORT": "29871", "PSRT_TIMEOUT": "1",
              "TORCHELASTIC_USE_AGENT_STORE": "True"}  # fmt: skip
    begin = time.monotonic()
    status, said = finish(start(command, folder, {**shared, "MASTER_ADDR": "192.0.2.1"}))
    assert status == 3 and "192.0.2.1 ports 29872 to 29903" in said, said
    assert time.monotonic() - begin < 1 + 5
    status, said = finish(start(command, folder, {**shared, "MASTER_ADDR": "no-such-host.invalid"}))
    assert status == 3 and '"no-such-host.invalid", does not resolve to an address' in said, said


# ---- a disk that is full -------------------------------------------------------------------------------------------


def test_file_that_cannot_be_written(job):
    """Only rank 0 writes. All ranks end with its status, but only rank 0 prints the error."""
    folder, command = job
    line = [*command[:3], "--steps", "2", "--export-weights", "/dev/full/weights.safetensors", "--quiet"]
    results = [finish(process) for process in start_by_hand(line, folder, 4)]
    assert [status for status, _ in results] == [2, 2, 2, 2], results
    assert "cannot write" in results[0][1] and not any(said for _, said in results[1:]), results


@pytest.mark.parametrize("ranks", ["threads", "processes"])
def test_losses_on_a_full_disk(job, ended, ranks):
    """The error appears at the first step."""
    folder, command = job
    line = [*command[:3], "--steps", "1000000", "--losses", "/dev/full", "--quiet"]
    ended()
    started = start_by_hand(line, folder, 4) if ranks == "processes" else [start([*line, "--ranks", "4"], folder, BASE)]
    results = [finish(process) for process in started]
    ended(within=20)
    assert all(status == 1 for status, _ in results), results
    (said,) = [said for _, said in results if said]  # only one rank prints the error
    assert 'cannot write "/dev/full": No space left' in said


def start_on_tiny_disk(line, folder, disk, kilobytes, ranks):
    """Starts the job with a disk of `kilobytes` mounted at the folder `disk`, with the folder's files copied to it."""
    if subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", str(disk)], capture_output=True).returncode:
        pytest.skip("mounting a disk is not allowed")
    script = f'cp -r "{disk}" "{disk}.copy.$$" && mount -t tmpfs -o size={kilobytes}k none "{disk}" && ' \
             f'cp "{disk}.copy.$$"/* "{disk}" && rm -r "{disk}.copy.$$"; "$@"; status=$?; ls "{disk}" >&2; ' \
             f'sha256sum "{disk}"/* >&2; exit $status'  # fmt: skip
    line = ["unshare", "-rm", "sh", "-c", script, "sh", *line]
    return start([*line, "--ranks", ranks], folder, BASE)


def hash_of(path):
    return subprocess.run(["sha256sum", str(path)], capture_output=True, text=True).stdout.split()[0]


@pytest.mark.parametrize("form", ["file", "folder"])
def test_weights_on_a_full_disk(job, ended, tmp_path, form):
    """The error appears at the start of the run. Files of an earlier run stay complete, and no other files remain."""
    folder, command = job
    disk = tmp_path / "disk"
    disk.mkdir()
    out = disk / "weights.safetensors" if form == "file" else disk
    flags = [] if form == "file" else ["--max-file-size", "60000"]
    oracle.run([*command[:3], "--ranks", 4, "--steps", 1, "--export-weights", out, "--quiet", *flags], folder)
    before = {path.name: hash_of(path) for path in disk.iterdir()}
    size = sum(path.stat().st_size for path in disk.iterdir())
    line = [*command[:3], "--steps", "1000000", "--export-weights", out, "--quiet", *flags]
    ended()
    status, said = finish(start_on_tiny_disk(line, folder, disk, size * 3 // 2 // 1024, 4))
    ended(within=20)
    assert status == 1 and f'cannot write "{out}' in said and "No space left" in said, said
    after = {line.split()[1].rsplit("/", 1)[1]: line.split()[0] for line in said.splitlines() if str(disk) in line and "error" not in line}
    assert after == before, said


@pytest.mark.parametrize("ranks", ["threads", "processes"])
def test_weights_beyond_a_limit_on_file_sizes(job, tmp_path, ranks):
    """The signal SIGXFSZ does not end the program without a message."""
    folder, command = job
    out = tmp_path / "weights.safetensors"
    out.write_bytes(b"what was there")
    line = ["sh", "-c", 'ulimit -f 8; exec "$@"', "sh", *command[:3], "--steps", "1000000", "--export-weights", out, "--quiet"]
    started = start_by_hand(line, folder, 4) if ranks == "processes" else [start([*line, "--ranks", "4"], folder, BASE)]
    results = [finish(process) for process in started]
    assert all(status == 1 for status, _ in results), results
    assert f'cannot write "{out}": File too large' in results[0][1], results
    assert out.read_bytes() == b"what was there" and [path.name for path in tmp_path.iterdir()] == [out.name]
