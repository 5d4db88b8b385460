"""Ranks as processes, started by mpirun or torchrun, compute the same bits as ranks as threads of one process."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import time

import lanes
import language
import models
import oracle
import pytest
import torch
import vision
from conftest import ROOT
from processes import BASE, by_hand, check_started, finish, free_port, launch, need_mpi, start, start_by_hand
from refusals import PLAIN, data_for, program, train  # noqa: F401
from safetensors.torch import load_file, save_file

MESHES = ["dp=2", "tp=2", "dp=2,tp=2", "pp=2", "dp=2,pp=2"]
FILES = ["losses.txt", "gradients.safetensors", "weights.safetensors", "outputs.safetensors"]


def outputs(name):
    return ["--losses", f"{name}-losses.txt", "--gradients", f"{name}-gradients.safetensors",
            "--export-weights", f"{name}-weights.safetensors"]  # fmt: skip


@pytest.fixture(scope="module", params=MESHES)
def compiled(request, tmp_path_factory, exports):
    """Compiles a program and runs it with all ranks in one process.

    Returns (folder, number of ranks, command, evaluation command, output).
    """
    folder = tmp_path_factory.mktemp("processes")
    ranks = oracle.ranks_of(request.param)
    oracle.compile_model(folder, oracle.export("gpt", exports), request.param, "--micro-batches", "2", *PLAIN)
    data = data_for(folder)
    command = ["./program", "--data", data, "--steps", "4", "--shuffle", "--eval-data", data, "--eval-every", "2", "--quiet"]
    said = oracle.run([*command, "--ranks", ranks, *outputs("one")], folder)
    evaluate = ["./program", "--eval", "--eval-data", data, "--quiet"]
    oracle.run([*evaluate, "--outputs", "one-outputs.safetensors"], folder)
    return folder, ranks, command, evaluate, said


def check_same(folder, name, files=FILES[:3]):
    for file in files:
        assert (folder / f"{name}-{file}").read_bytes() == (folder / f"one-{file}").read_bytes(), file


@pytest.mark.cover(1)
@pytest.mark.parametrize("how", ["mpirun", "torchrun", "standalone"])
def test_processes_compute_what_one_process_does(compiled, how):
    folder, ranks, command, evaluate, said = compiled
    if how == "standalone" and ranks == 2:
        pytest.skip("tested with four ranks")
    launcher, environment = launch(how, ranks)
    status, printed = finish(start([*launcher, *command, *outputs(how)], folder, environment))
    assert status == 0, printed
    check_same(folder, how)
    evaluations = [line for line in said.splitlines() if "eval loss" in line]
    assert [line for line in printed.splitlines() if "eval loss" in line] == evaluations, "only rank 0 prints evaluations"
    if how == "mpirun":
        line = [*launcher, *evaluate, "--outputs", f"{how}-outputs.safetensors"]
        status, printed = finish(start(line, folder, environment))
        assert status == 0, printed
        check_same(folder, how, FILES[3:])


@pytest.mark.part(2)
@pytest.mark.parametrize("make, mesh, flags", [
    lanes.full(models.llama, "dp=2", ()), lanes.full(models.mlp, "dp=2", ()), (vision.resnet, "dp=2", ()),
    lanes.full(models.gpt2_deep, "pp=4", ("--schedule", "zb-h1")), (models.gpt2_deep, "pp=2", ("--num-chunks", "2", "--schedule", "zb-v")),
    lanes.full(language.bert, "dp=2,pp=2", ()), lanes.full(models.gpt2, "dp=2", ("--zero", "2")), (models.llama, "dp=2,tp=2", ("--zero", "3")),
    (language.bart, "pp=2,tp=2", ("--schedule", "gpipe")), lanes.full(vision.resnet, "pp=2", ()),
], ids=lambda part: getattr(part, "__name__", None))  # fmt: skip
def test_other_models_over_mpi(tmp_path, make, mesh, flags):
    """Weights and running statistics after three steps of two micro-batches have the same bits as with threads."""
    ranks = oracle.ranks_of(mesh)
    launcher, environment = launch("mpirun", ranks)
    model = make()
    oracle.compile_model(tmp_path, model.export(tmp_path / "model.pt2"), mesh, "--micro-batches", "2", *flags, *PLAIN)
    save_file(oracle.draw_batches(model, 2, steps=3), tmp_path / "data.safetensors")
    command = ["./program", "--data", "data.safetensors", "--steps", "3", "--quiet"]
    oracle.run([*command, "--ranks", ranks, *outputs("one")], tmp_path)
    status, printed = finish(start([*launcher, *command, *outputs("mpirun")], tmp_path, environment))
    assert status == 0, printed
    check_same(tmp_path, "mpirun")


def test_two_jobs_at_once(tmp_path, program):
    """The torchrun agents of the jobs use different ports. Each rank finds rank 0 of its own job."""
    data = data_for(tmp_path)
    line = [program, "--data", data, "--quiet", "--steps"]
    jobs = []
    for index, steps in enumerate(["2", "3"]):
        launcher, environment = launch("standalone", 2)
        jobs.append(start([*launcher, *line, steps, "--losses", f"{index}.txt"], tmp_path, environment))
    for job in jobs:
        status, printed = finish(job)
        assert status == 0, printed
    assert [len((tmp_path / f"{index}.txt").read_text().splitlines()) for index in range(2)] == [2, 3]


def test_files_of_a_folder_and_a_trace(request, tmp_path, compiled):
    folder, ranks, command, _, _ = compiled
    flags = ["--max-file-size", "3000"]
    oracle.run([*command, "--ranks", ranks, *flags, "--export-weights", tmp_path / "one"], folder)
    for process in start_by_hand(
        [*command, *flags, "--export-weights", tmp_path / "many", "--trace", tmp_path / "trace.json"], folder, ranks
    ):
        status, printed = finish(process)
        assert status == 0, printed
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(names) > 2 and names == sorted(path.name for path in (tmp_path / "many").iterdir())
    one, many = (json.loads((tmp_path / name / "model.safetensors.index.json").read_text()) for name in ("one", "many"))
    assert one["weight_map"] == many["weight_map"]
    for name in set(one["weight_map"].values()):
        ours, theirs = load_file(tmp_path / "one" / name), load_file(tmp_path / "many" / name)
        assert ours.keys() == theirs.keys() and all(torch.equal(ours[n], theirs[n]) for n in ours), name
    for rank in range(ranks):
        assert f'"name": "rank {rank}"' in (tmp_path / "trace.json").read_text()
    assert check_started(json.loads((tmp_path / "trace.json").read_text())["traceEvents"]) or "tp" in request.node.name


# ---- rendezvous files -----------------------------------------------------------------------------------


def start_by_file(command, folder, file, ranks, **more):
    shared = {**BASE, "WORLD_SIZE": str(len(ranks)), "PSRT_RENDEZVOUS_FILE": str(file), **more}
    return [start(command, folder, {**shared, "RANK": str(rank)}) for rank in ranks]


LEFT = {"parashard_rendezvous": 2, "job": 7, "secret": "00" * 32, "port": 9, "addresses": ["127.0.0.1"]}  # no process listens at this address


@pytest.mark.part(2)
@pytest.mark.parametrize("left", [None, LEFT], ids=["new", "left by a job that was killed"])
def test_processes_connect_by_a_file(tmp_path, compiled, left):
    """The ranks that search for rank 0 start first."""
    folder, ranks, command, _, _ = compiled
    file = tmp_path / "meet"
    if left:
        file.write_text(json.dumps(left))
    for process in start_by_file([*command, *outputs("file")], folder, file, range(ranks - 1, -1, -1)):
        status, printed = finish(process)
        assert status == 0, printed
    check_same(folder, "file")
    assert not file.exists()


@pytest.mark.parametrize("text", ["mine", '{"mine": 1}', json.dumps({**LEFT, "parashard_rendezvous": 3}), "[]", ""], ids=str)
def test_file_that_is_not_a_rendezvous_file_stays(tmp_path, program, text):
    file = tmp_path / "mine.txt"
    file.write_text(text)
    first, second = [finish(process) for process in start_by_file([program, "--data", data_for(tmp_path)], tmp_path, file, range(2))]
    assert first[0] == second[0] == 2 and "rank 1: " in second[1]
    assert f'"{file}"' in first[1] and "give a file that does not exist" in first[1]
    assert file.read_text() == text


def test_only_the_user_can_read_the_file(tmp_path, program):
    """The file contains the job's secret. A file of another user is refused, because that user could redirect the processes."""
    file = tmp_path / "meet"
    shared = {**BASE, "WORLD_SIZE": "2", "RANK": "0", "PSRT_RENDEZVOUS_FILE": str(file)}
    first = start([program, "--data", data_for(tmp_path)], tmp_path, shared)  # without rank 1, the file is not removed
    try:
        until = time.monotonic() + 5
        while not file.exists() and time.monotonic() < until:
            time.sleep(0.01)
        assert file.stat().st_mode & 0o777 == 0o600
    finally:
        first.kill()
        finish(first)
    if os.geteuid() != 0:
        pytest.skip("only root can change the owner of a file")
    file.write_text(json.dumps(LEFT))
    os.chown(file, 65534, 65534)
    status, said = finish(start([program, "--data", data_for(tmp_path)], tmp_path, shared))
    assert status == 2 and "belongs to user 65534" in said, said


# ---- job secrets ------------------------------------------------------------------------------------------------------


def meet_with(program, folder, secrets, **more):
    """Starts one rank per secret (None: without a secret)."""
    shared = {**BASE, "WORLD_SIZE": str(len(secrets)), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), **more}
    return [start([program, "--data", data_for(folder), "--steps", "1", "--quiet"], folder,
                  {**shared, "RANK": str(rank), **({"PSRT_JOB_SECRET": secret} if secret else {})})
            for rank, secret in enumerate(secrets)]  # fmt: skip


def test_processes_with_one_secret_connect(tmp_path, program):
    for process in meet_with(program, tmp_path, ["0123456789abcdef"] * 2):
        status, said = finish(process)
        assert status == 0 and not said, said


@pytest.mark.alone
@pytest.mark.parametrize("other, by_file", [("fedcba9876543210", False), (None, False), (None, True)])
def test_process_without_the_secret_is_refused_by_name(tmp_path, program, other, by_file):
    """A rank without the secret is refused, even if it can read the rendezvous file."""
    place = {"PSRT_RENDEZVOUS_FILE": str(tmp_path / "meet")} if by_file else {}
    ranks = meet_with(program, tmp_path, ["0123456789abcdef", other], PSRT_TIMEOUT="1", **place)
    (status, said), (second, refused) = [finish(process) for process in ranks]
    assert status == second == 3
    assert "warning: a process at 127.0.0.1 claims to be rank 1 but does not know this job's secret" in said, said
    assert "another secret (PSRT_JOB_SECRET)" in refused, refused


def test_secret_that_can_be_guessed_is_refused(tmp_path, program):
    (status, said), _ = [finish(process) for process in meet_with(program, tmp_path, ["guess"] * 2)]
    assert status == 2 and "PSRT_JOB_SECRET has 5 characters" in said, said


def test_environment_variables_are_documented():
    """docs/ describes each variable that the runtime reads. processes.md lists the variables that choose libraries, since they are security-relevant."""
    docs = {path.name: path.read_text() for path in (ROOT / "docs").glob("*.md")}
    trust = docs["processes.md"].split("\n## Who can take part\n")[1].split("\n## ")[0]
    texts = [path.read_text() for path in (ROOT / "runtime").rglob("*.cpp") if not {"testing", "conformance"} & set(path.parts)]
    names = [(text, name) for text in texts for name in re.findall(r'(?:getenv|variable)\("(PSRT_\w+)"', text)]
    read, loading = {name for _, name in names}, {name for text, name in names if "dlopen(" in text}
    assert {"PSRT_COMM_MPI", "PSRT_NCCL"} <= loading and {"PSRT_JOB_SECRET", "PSRT_RENDEZVOUS_FILE"} <= read
    assert not [name for name in read if not any(name in text for text in docs.values())]
    assert not [name for name in loading | {"PSRT_JOB_SECRET", "PSRT_RENDEZVOUS_FILE"} if f"`{name}`" not in trust]


def listening_ports(process):
    """Returns the TCP ports on which a process listens."""
    links = [os.readlink(path) for path in pathlib.Path(f"/proc/{process.pid}/fd").iterdir() if path.is_symlink()]
    inodes = {link[8:-1] for link in links if link.startswith("socket:[")}
    lines = [line.split() for name in ("tcp", "tcp6") for line in pathlib.Path("/proc/net", name).read_text().splitlines()[1:]]
    return [int(line[1].rsplit(":", 1)[1], 16) for line in lines if line[3] == "0A" and line[9] in inodes]


def await_true(condition, seconds=20):
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    assert condition()


@pytest.mark.alone
def test_silent_connections_cost_no_time_and_listeners_close(tmp_path, program):
    """Opens twenty silent connections to each port of rank 0 before rank 1 starts. During training, no process listens on a port."""
    shared = {**BASE, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    line = [program, "--data", data_for(tmp_path), "--steps", "1000000", "--losses", "losses.txt", "--quiet"]
    ranks, held = [start(line, tmp_path, {**shared, "RANK": "0"})], []
    try:
        await_true(lambda: len(listening_ports(ranks[0])) == 2)
        held = [socket.create_connection(("127.0.0.1", port)) for port in listening_ports(ranks[0]) for _ in range(20)]
        begin = time.monotonic()
        ranks.append(start(line, tmp_path, {**shared, "RANK": "1"}))
        await_true(lambda: (tmp_path / "losses.txt").exists() and (tmp_path / "losses.txt").read_text())
        assert time.monotonic() - begin < 5
        assert [listening_ports(process) for process in ranks] == [[], []]
        ranks[1].send_signal(signal.SIGTERM)
        assert [finish(process) for process in ranks] == [(0, ""), (0, "")]
    finally:
        for one in held:
            one.close()
        for process in ranks:
            process.kill()


def test_rendezvous_file_of_another_job_is_refused(tmp_path, program):
    """A second rank 0 with the same file is refused. Rank 1 starts last, and finds the first job."""
    file = tmp_path / "meet"
    shared = {**BASE, "WORLD_SIZE": "2", "PSRT_RENDEZVOUS_FILE": str(file)}
    line = [program, "--data", data_for(tmp_path), "--quiet", "--steps"]
    first = start([*line, "1"], tmp_path, {**shared, "RANK": "0"})
    await_true(file.exists)
    status, said = finish(start([*line, "2"], tmp_path, {**shared, "RANK": "0"}))
    assert status == 2 and f'"{file}", which another job is using now' in said, said
    second = start([*line, "1"], tmp_path, {**shared, "RANK": "1"})
    assert [finish(process) for process in (first, second)] == [(0, ""), (0, "")]


@pytest.mark.alone
def test_two_jobs_at_one_port_do_not_mix(tmp_path, program):
    """Without a secret, jobs are distinguished by their flags. Rank 1 of the other job connects first, and is refused."""
    shared = {**BASE, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "PSRT_TIMEOUT": "5"}
    line = [program, "--data", data_for(tmp_path), "--quiet", "--steps"]
    first = start([*line, "1"], tmp_path, {**shared, "RANK": "0"})
    stranger = start([*line, "2"], tmp_path, {**shared, "RANK": "1", "PSRT_TIMEOUT": "1"})
    time.sleep(0.5)
    second = start([*line, "1"], tmp_path, {**shared, "RANK": "1"})
    assert [finish(process) for process in (first, second)] == [(0, ""), (0, "")]
    status, said = finish(stranger)
    assert status == 3 and "has other flags or another program and may belong to another job" in said, said


def test_file_that_cannot_be_written(tmp_path, program):
    file = tmp_path / "nowhere" / "meet"
    process, _ = start_by_file([program, "--data", data_for(tmp_path)], tmp_path, file, range(2), PSRT_TIMEOUT="1")
    status, said = finish(process)
    assert status == 1 and f'cannot write "{file}"' in said, said


@pytest.mark.parametrize("rank", [0, 1])
def test_rendezvous_file_of_an_incomplete_job(tmp_path, program, rank):
    file = tmp_path / "meet"
    shared = {**BASE, "WORLD_SIZE": "2", "PSRT_RENDEZVOUS_FILE": str(file), "PSRT_TIMEOUT": "1", "RANK": str(rank)}
    status, said = finish(start([program, "--data", data_for(tmp_path)], tmp_path, shared))
    assert status == 3, said
    assert (f'was not found within 1 s (PSRT_TIMEOUT) at the address in "{file}"' if rank else "1 of 2 processes did not connect") in said
    assert not file.exists()


# ---- hosts whose files differ --------------------------------------------------------------------------------------


def run_in_folders(program, folders, flags, **more):
    """Starts one rank per folder, as on hosts with separate disks. Returns [(exit status, output)]."""
    shared = {**BASE, "WORLD_SIZE": str(len(folders)), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), **more}
    ranks = [start([program, *flags], folder, {**shared, "RANK": str(rank)}) for rank, folder in enumerate(folders)]
    return [finish(rank) for rank in ranks]


@pytest.fixture
def two_hosts(tmp_path, program):
    """Two folders with the same data, weights and checkpoint."""
    hosts = [tmp_path / "a", tmp_path / "b"]
    for host in hosts:
        host.mkdir()
        data_for(host)
    oracle.run([program, "--data", "data.safetensors", "--steps", 2, "--save", "saved", "--quiet"], hosts[0])
    oracle.run([program, "--export-weights", "w.safetensors", "--quiet"], hosts[0])
    oracle.run([program, "--export-weights", "folder", "--max-file-size", 3000, "--quiet"], hosts[0])
    for name in ("saved", "folder"):  # copied, because each run and export has a unique id
        shutil.copytree(hosts[0] / name, hosts[1] / name)
    shutil.copy(hosts[0] / "w.safetensors", hosts[1])
    return hosts


def add_one(path):
    save_file({n: v + 1 if v.is_floating_point() else v for n, v in load_file(path).items()}, path)


def drop_samples(path):
    save_file({n: v[:2].contiguous() for n, v in load_file(path).items()}, path)


def save_with_other_values(host, program):
    shutil.rmtree(host / "saved")
    add_one(host / "w.safetensors")
    flags = ["--data", "data.safetensors", "--steps", 2, "--save", "saved", "--quiet"]
    oracle.run([program, *flags, "--weights", "w.safetensors"], host)


TRAIN = ("--data", "data.safetensors", "--steps", "3", "--quiet")


@pytest.mark.parametrize("change,flags,file", [
    (None, TRAIN, None), (None, (*TRAIN, "--weights", "folder"), None), (None, (*TRAIN, "--load", "saved"), None),
    (lambda host, _: drop_samples(host / "data.safetensors"), TRAIN, "data.safetensors"),
    (lambda host, _: drop_samples(host / "data.safetensors"), ("--eval", "--eval-data", "data.safetensors"), "data.safetensors"),
    (lambda host, _: add_one(host / "w.safetensors"), (*TRAIN, "--weights", "w.safetensors"), "w.safetensors"),
    (lambda host, _: add_one(min((host / "folder").glob("model-*"))), (*TRAIN, "--weights", "folder"), "folder/model-00001-of"),
    (lambda host, _: data_for(host, "data2.safetensors"), ("--data", "data*.safetensors", *TRAIN[2:]), "data2.safetensors"),
    (save_with_other_values, (*TRAIN, "--load", "saved"), "saved/step-000002/index.json"),
])  # fmt: skip
def test_files_that_differ_between_hosts_are_refused(two_hosts, program, change, flags, file):
    if change:
        change(two_hosts[1], program)
    (status, said), (other, silent) = run_in_folders(program, two_hosts, flags, PSRT_TIMEOUT="10")
    if file is None:
        assert (status, other) == (0, 0), said + silent
        return
    assert (status, other, silent) == (1, 1, ""), said + silent
    assert f'"{file}' in said and "copy them to every host" in said, said
    assert "differs between rank 1 and rank 0" in said or "but rank 0 reads no further file" in said


@pytest.mark.part(2)
@pytest.mark.parametrize("before", [(), ("--load", "latest")])
def test_folder_that_is_not_shared_is_refused_at_the_start(two_hosts, program, before):
    flags = (*TRAIN, *before, "--losses", "l.txt", "--save", "apart")
    (status, said), (other, silent) = run_in_folders(program, two_hosts, flags)
    assert (status, other, silent) == (2, 2, ""), said + silent
    assert '--save "apart": rank 1 does not see the file ".lock" of rank 0' in said and "all hosts share" in said
    assert not (two_hosts[0] / "l.txt").exists() and not (two_hosts[0] / "apart").exists()


# ---- errors of users ------------------------------------------------------------------------------------------


@pytest.mark.part(2)
@pytest.mark.parametrize("how", ["mpirun", "torchrun"])
def test_another_number_of_processes_is_refused(tmp_path, program, how):
    launcher, environment = launch(how, 3)
    status, printed = finish(start([*launcher, program, "--data", data_for(tmp_path)], tmp_path, environment))
    assert status != 0
    assert "the program is compiled for 2 ranks (mesh dp=2), not 3; compile with: ps-compile" in printed, printed


AT_MASTER = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29671"}


@pytest.mark.parametrize(
    "environment,words",
    [
        ({"RANK": "1", "WORLD_SIZE": "2"}, ["error: rank 1: started as rank 1 of 2", "MASTER_ADDR"]),
        ({"RANK": "1", "WORLD_SIZE": "3", **AT_MASTER}, ["rank 1: the program is compiled for 2 ranks", "not 3"]),
        ({"RANK": "1", "WORLD_SIZE": "2", **AT_MASTER, "PSRT_JOB_SECRET": "short"}, ["rank 1: PSRT_JOB_SECRET"]),
        ({"RANK": "4294967297", "WORLD_SIZE": "4294967298"}, ["WORLD_SIZE is 4294967298; expected 1 to 2147483647"]),
        ({"RANK": "4294967296", "WORLD_SIZE": "2"}, ["RANK is 4294967296; expected 0 to 2147483647"]),
        ({"RANK": "-1", "WORLD_SIZE": "2"}, ["RANK is -1"]),
        ({"RANK": "0", "WORLD_SIZE": "0"}, ["WORLD_SIZE is 0; expected 1 to"]),
        ({"RANK": "0", "WORLD_SIZE": "-2"}, ["WORLD_SIZE is -2"]),
        ({"RANK": "0", "WORLD_SIZE": "2"}, ["MASTER_ADDR", "rank 0 of 2"]),
        ({"RANK": "0", "WORLD_SIZE": "x"}, ['WORLD_SIZE is "x", not a whole number']),
        ({"RANK": "1.5", "WORLD_SIZE": "2"}, ['RANK is "1.5", not a whole number']),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}, ["SLURM_STEP_NODELIST"]),
        ({"PMI_RANK": "0", "PMI_SIZE": "2"}, ["PMI_SIZE is 2, but MPI", "has 1 processes", "--comm tcp"]),
    ],
    ids=str,
)
def test_incomplete_environment(tmp_path, program, environment, words):
    if "PMI_SIZE" in environment:
        need_mpi()
    command = [program, "--data", data_for(tmp_path), "--losses", "losses.txt"]
    status, printed = finish(start(command, tmp_path, {**BASE, **environment}))
    assert status == 2, printed
    for word in words:
        assert word in printed
    assert not (tmp_path / "losses.txt").exists()


def test_flags_that_a_rank_refuses_are_reported(tmp_path, program):
    """Each rank checks its own flags, since ranks may have different flags."""
    environment = {**BASE, "RANK": "1", "WORLD_SIZE": "2", **AT_MASTER}
    status, printed = finish(start([program, "--data", data_for(tmp_path), "--bogus"], tmp_path, environment))
    assert status == 2 and printed.startswith("error: rank 1: ") and "--bogus" in printed, printed


@pytest.mark.alone
def test_process_that_does_not_start_mpi_is_not_waited_for(tmp_path, program):
    launcher, environment = launch("mpirun", 1)
    line = [*launcher, "-x", "PSRT_TIMEOUT", program, "--data", data_for(tmp_path), "--steps", "1", ":", "-n", "1", "sleep", "40"]
    begin = time.monotonic()
    status, said = finish(start(line, tmp_path, {**environment, "PSRT_TIMEOUT": "2"}))
    assert status != 0 and "MPI did not connect the processes within 2 s (PSRT_TIMEOUT)" in said, said
    assert time.monotonic() - begin < 20


def test_comm_local_under_a_launcher_is_refused(tmp_path, program):
    first, second = start_by_hand([program, "--comm", "local", "--data", data_for(tmp_path)], tmp_path, 2)
    for process, words in [(first, "./program --ranks 2"), (second, "")]:
        status, printed = finish(process)
        assert status == 2 and words in printed


def test_missing_mpi(tmp_path, program):
    environment = {**BASE, "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0", "PSRT_COMM_MPI": "libnowhere.so"}
    status, printed = finish(start([program, "--data", data_for(tmp_path)], tmp_path, environment))
    assert status == 2 and "libnowhere.so" in printed and "--comm tcp" in printed, printed


@pytest.mark.parametrize("mode, owner, is_loaded", [(0o644, -1, True), (0o666, -1, False), (0o644, 65534, False)])
def test_mpi_next_to_the_program_is_loaded_if_only_the_user_can_write_it(tmp_path, program, mode, owner, is_loaded):
    if owner >= 0 and os.geteuid() != 0:
        pytest.skip("only root can change the owner of a file")
    shutil.copy(program, tmp_path / "program")
    beside = tmp_path / "libpsrt_comm_mpi.so"
    beside.write_text("no library")
    beside.chmod(mode)
    os.chown(beside, owner, -1)
    environment = {**BASE, "PMI_RANK": "0", "PMI_SIZE": "2"}
    status, said = finish(start(["./program", "--data", data_for(tmp_path)], tmp_path, environment))
    assert status == 2 and (str(beside) in said) == is_loaded, said


def test_bad_data_is_reported_once(tmp_path, program):
    """Only one rank reads the bad token and prints the error. All processes end."""
    tokens = torch.zeros(4, 16, dtype=torch.int64)
    tokens[3, 5] = 96
    line = [program, "--data", data_for(tmp_path, input_ids=tokens), "--steps", "1"]
    results = [finish(process) for process in start_by_hand(line, tmp_path, 2)]
    assert [status for status, _ in results] == [1, 1], results
    assert "".join(said for _, said in results).count("value 96 of input") == 1, results


def test_other_flags_on_a_rank_are_refused(tmp_path, program):
    """All ranks take part in writing outputs, so rank 0 would wait for ranks with other flags at the end of the run."""
    environment = {**BASE, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    line = [program, "--data", data_for(tmp_path), "--steps", "1"]
    ranks = [start([*line, *more], tmp_path, {**environment, "RANK": str(rank)})
             for rank, more in enumerate([["--export-weights", "w.safetensors"], ["--threads", "1"]])]  # fmt: skip
    (status, said), (other, silent) = [finish(process) for process in ranks]
    assert status == other == 2 and silent == ""
    for words in ["rank 1 has other flags", "--export-weights w.safetensors", "nothing"]:
        assert words in said
    assert not (tmp_path / "w.safetensors").exists()


@pytest.mark.part(2)
@pytest.mark.parametrize("how", ["hand", "mpirun"])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["dp pp", "pp dp"])
def test_another_program_on_a_rank_is_refused(tmp_path, exports, program, how, order):
    """The programs open different numbers of channels. No rank waits for a channel that the other rank does not open."""
    other = oracle.compile_model(tmp_path, oracle.export("gpt", exports), "pp=2", "--micro-batches", "2", *PLAIN)
    first, second = [(program, other)[i] for i in order]
    flags = ["--data", data_for(tmp_path), "--steps", "2"]
    if how == "mpirun":
        launcher, environment = launch("mpirun", 1)
        results = [finish(start([*launcher, first, *flags, ":", "-n", 1, second, *flags], tmp_path, environment))]
    else:
        shared = by_hand(2)
        ranks = [start([path, *flags], tmp_path, {**shared, "RANK": str(rank)}) for rank, path in enumerate((first, second))]
        results = [finish(process) for process in ranks]
    assert all(status == 2 for status, _ in results), results
    words = f'error: rank 1 runs another program than rank 0: "{second}" instead of "{first}"'
    assert "".join(said for _, said in results).count(words) == 1, results


def test_a_rank_outside_of_the_job_is_reported(tmp_path, program):
    """Each process checks its rank before it connects to the job."""
    shared = {**BASE, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    status, said = finish(start([program, "--data", data_for(tmp_path)], tmp_path, {**shared, "WORLD_SIZE": "2", "RANK": "7"}))
    assert status == 2 and "WORLD_SIZE is 2" in said and "7" in said
