"""Compiles the programs and writes their expected results, on the machine with the build tree."""
import dataclasses
import fnmatch
import json
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

from . import cases, ops, peer

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PARASHARD_BIN", ROOT / "build/release/bin")).parent


class Preparation:
    """Compiles programs for a target into a folder. `only` has globs of program names."""

    def __init__(self, folder, target, only):
        self.folder, self.target, self.only = folder, target, only
        self.rehearsal = cases.is_rehearsal(target)
        self.seconds = {}  # seconds that ps-compile takes, by program

    def wants(self, name):
        return any(fnmatch.fnmatch(name, pattern) for pattern in self.only)

    def compile(self, model, name, *flags, target=None, mesh="dp=1"):
        started = time.monotonic()
        line = [BUILD / "bin/ps-compile", model, "-o", self.folder / name, "--mesh", mesh, "--target", target or self.target, *flags]
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
        self.seconds[name] = time.monotonic() - started

    def run_on_cpu(self, model, mesh, flags, data):
        """Compiles the same model for this machine's CPU, trains it, and returns its losses."""
        self.compile(model, "cpu", *flags, target="cpu", mesh=mesh)
        losses = self.folder / "losses"
        line = [self.folder / "cpu", "--data", data, "--steps", str(cases.STEPS), "--losses", losses, "--quiet"]
        subprocess.run(line, check=True, cwd=self.folder, stdout=subprocess.DEVNULL)
        found = [float(line) for line in losses.read_text().split()]
        for left in [losses, self.folder / "cpu"]:
            left.unlink()
        return found


def use_tests():
    sys.path.insert(0, str(ROOT / "test/python"))
    import models
    import oracle
    import test_import_ops

    return models, oracle, test_import_ops


def make_middle(models, name, rehearsal):
    """Returns a model of cases.MIDDLE. Its weights are rounded to a few bits, so that the archive compresses well."""
    kind, sizes = cases.MIDDLE[name]
    model = getattr(models, kind)(**{**sizes, **(cases.MIDDLE_REHEARSED if rehearsal else {})})
    for parameter in model.module.parameters():
        parameter.data = (parameter.data * 512).round() / 512
    return model


def prepare_training(preparation, models, oracle):
    """Compiles the programs of small models. Returns the data and the CPU losses of each, by name."""
    from safetensors.torch import save_file

    wanted, folder, archives = {}, preparation.folder, set()
    for name, (model, mesh, flags) in {**cases.PARITY, **cases.RANKS}.items():
        if not preparation.wants(name):
            continue
        archive, data = folder / f"{model}.pt2", folder / f"{model}.safetensors"
        if archive not in archives:
            is_middle = model in cases.MIDDLE
            zoo = make_middle(models, model, preparation.rehearsal) if is_middle else oracle.zoo(model)
            zoo.export(archive)
            save_file({n: v.contiguous() for n, v in oracle.draw_batches(zoo, 1 if is_middle else 4, steps=cases.STEPS).items()}, data)
            archives.add(archive)
        flags = (*cases.ADAMW, *flags, "--weights", "copy")
        preparation.compile(archive, name, *flags, mesh=mesh)
        wanted[name] = {"data": data.name, "losses": preparation.run_on_cpu(archive, mesh, flags, data)}
        print(f"prepared {name}", flush=True)
    for archive in archives:
        archive.unlink()
    return wanted


def export_bench(bench, path):
    """Exports a bench's model, without weights: the GPT that peer.py also runs in PyTorch, or a Llama through parashard.export."""
    if bench.kind == "gpt":
        peer.export(path, bench.spec())
        return
    with tempfile.TemporaryDirectory() as folder:
        config = peer.llama_config(bench.vocabulary, bench.time, **bench.sizes)
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(config))
        line = [sys.executable, "-m", "parashard.export", f"hf:{folder}", "--meta", "--batch", str(bench.batch), "--seq", str(bench.time), "-o", path]
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT / "python-bindings")})


def prepare_benches(preparation):
    folder = preparation.folder
    archive = folder / "bench.pt2"
    benches = cases.benches(preparation.target)
    for name, bench in benches.items():
        if preparation.wants(name):
            export_bench(bench, archive)
            preparation.compile(archive, name, *cases.BENCH_FLAGS)
            print(f"prepared {name}: compiled in {preparation.seconds[name]:.1f} s", flush=True)
    for name, way in cases.WAYS.items():
        if preparation.wants(name):
            bench = benches[way.bench]
            export_bench(dataclasses.replace(bench, vocabulary=bench.vocabulary - cases.SPARE_TOKENS) if way.is_odd else bench, archive)
            preparation.compile(archive, name, *way.flags)
    archive.unlink(missing_ok=True)


def prepare_faults(preparation, oracle):
    """Compiles three programs that fail: one for a newer GPU architecture, one that is too large for any GPU, and one that fails if PSRT_TEST_FAIL is set."""
    archive = preparation.folder / "fault.pt2"
    if preparation.wants("failing"):
        oracle.zoo("mlp").export(archive)
        oracle.compile_model(preparation.folder, archive, "dp=2", "--target", preparation.target, *cases.ADAMW, "--weights", "copy", out="failing",
                             can_fail=True)
    if preparation.wants("later"):
        oracle.zoo("mlp").export(archive)
        preparation.compile(archive, "later", *cases.ADAMW, "--weights", "copy", target="cuda:sm_90" if preparation.rehearsal else "cuda:sm_100")
    if preparation.wants("large"):
        first = next(iter(cases.benches(preparation.target).values()))
        export_bench(dataclasses.replace(first, batch=first.batch * (1 if preparation.rehearsal else 64)), archive)
        preparation.compile(archive, "large", *cases.BENCH_FLAGS)
    archive.unlink(missing_ok=True)


def copy_tests(preparation):
    """Copies the runtime's tests, and the libraries that a GPU machine may lack."""
    tests = [test for test in cases.TESTS if preparation.wants(test)]
    for test in tests:
        shutil.copy(BUILD / "bin" / test, preparation.folder)
        linked = subprocess.run(["ldd", BUILD / "bin" / test], check=True, capture_output=True, text=True).stdout
        for name, path in re.findall(r"(\S+) => (\S+)", linked):
            if name.split(".so")[0] in ("libdnnl", "libgomp", "libOpenCL"):
                shutil.copy(path, preparation.folder / name)


def pack(folder):
    """Packs all files into one archive, and removes the files. Programs share most of their bytes, so a large LZMA window compresses them well."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    window = [{"id": lzma.FILTER_LZMA2, "preset": 3, "dict_size": 1 << 26}]
    with lzma.open(folder / cases.ARCHIVE, "wb", filters=window) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for path in files:
            tar.add(path, path.name)
    for path in files:
        path.unlink()
    return (folder / cases.ARCHIVE).stat().st_size


def count_tree():
    """Returns the bytes of the repository's files, which are also copied to the GPU machine."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True).stdout.split("\0")
    return sum((ROOT / name).stat().st_size for name in listed if name and (ROOT / name).is_file())


def prepare(folder, target, only):
    if folder.is_dir() and {path.name for path in folder.iterdir()} - {cases.ARCHIVE}:
        raise OSError(f"{folder} has files that `prepare` has not written; choose another folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        return fill(folder, target, only)
    except BaseException:  # removes incomplete output
        shutil.rmtree(folder, ignore_errors=True)
        raise


def fill(folder, target, only):
    models, oracle, small_ops = use_tests()
    preparation = Preparation(folder.resolve(), target, only)
    wanted = {"target": target, "programs": prepare_training(preparation, models, oracle), "ops": {}}
    if preparation.wants("ops"):
        wanted["ops"] = ops.prepare(preparation.folder, preparation.compile, small_ops, preparation.rehearsal)
    prepare_benches(preparation)
    prepare_faults(preparation, oracle)
    copy_tests(preparation)
    if not any(folder.iterdir()):
        raise OSError(f"--only {' '.join(only)} does not match a program; scripts/gpu_checks/cases.py has the names")
    wanted["compile_seconds"] = preparation.seconds
    (folder / "wanted.json").write_text(json.dumps(wanted))
    size = pack(folder)
    tree = count_tree()
    print(f"{folder / cases.ARCHIVE}: {size / 2**20:.1f} MiB, with the repository's files {(size + tree) / 2**20:.1f}")
    return 0 if size + tree < cases.MOST_BYTES else 1
