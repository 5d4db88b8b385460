"""The Python wheel: built from a finished tree, installed in an empty virtual environment, and run without a compiler.

If the tools of the tree contain LLVM (PARASHARD_STATIC_LLVM), they must run on a machine without LLVM, too.
"""
import json
import os
import pathlib
import subprocess
import sys
import sysconfig
import zipfile

import pytest
from conftest import ROOT, package_folder, tools_folder
from test_install import run_hidden

TREE = tools_folder().parent.resolve()

START = """
import importlib, importlib.util, json, sys, time

def load_others():
    for name in ("torch", "triton", "onnx", "onnxruntime"):
        if importlib.util.find_spec(name):
            importlib.import_module(name)

def report(**values):
    loaded = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
    print(json.dumps({"file": parashard.__file__, "loaded": sorted(loaded), **values}))
"""

BEFORE = """
load_others()
start = time.process_time()
import parashard
report(seconds=time.process_time() - start, parallelize=str(parashard.parallelize))
"""

AFTER = """
import copy
import parashard._runtime
import torch

torch.manual_seed(0)
plain = torch.nn.Sequential(torch.nn.Linear(12, 64), torch.nn.GELU(), torch.nn.Linear(64, 10))
x, y = torch.randn(16, 12), torch.randint(0, 10, (16,))
model, optimizer = parashard.parallelize("dp=2", copy.deepcopy(plain), lambda m: torch.optim.SGD(m.parameters(), lr=0.1), example=x)

def train(model, optimizer):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()

losses = [train(model, optimizer)]
load_others()
losses.append(train(model, optimizer))
reference = torch.optim.SGD(plain.parameters(), lr=0.1)
report(losses=losses, expected=[train(plain, reference) for step in range(2)])
"""


def is_static():
    """Returns whether the tools of the tree contain LLVM."""
    return "PARASHARD_STATIC_LLVM:BOOL=ON" in (TREE / "CMakeCache.txt").read_text()


def build(folder):
    """Builds the wheel from the tree, with fast compression, which the backend cannot choose. Returns its path."""
    (folder / "site").mkdir()
    (folder / "site/sitecustomize.py").write_text("import zlib\n\nzlib.Z_DEFAULT_COMPRESSION = 1\n")
    line = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "-w", folder,
            f"-Ccmake.define.PARASHARD_PREBUILT={TREE}", ROOT / "python-bindings"]  # fmt: skip
    done = subprocess.run(line, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(folder / "site")})
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel, folder):
    """Installs a wheel in a new virtual environment, which takes PyTorch from the environment of the tests. Returns its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin/python"
    line = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "install", "-q", "--no-deps", "--no-compile", wheel]
    subprocess.run(line, check=True, capture_output=True)
    packages = sysconfig.get_path("purelib", vars={"base": folder})
    pathlib.Path(packages, "torch.pth").write_text(sysconfig.get_path("purelib"))
    return python


def run(script, folder):
    """Runs a shell command without environment and PATH. If the tools contain LLVM, hides the tree and LLVM."""
    script = f"cd {folder} && exec /usr/bin/env -i HOME={folder} PATH=/nowhere OMP_NUM_THREADS=1 {script}"
    done = run_hidden(script, folder, [TREE, "/usr/lib/llvm-22"] if is_static() else [])
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_wheel_compiles_and_trains_without_a_compiler(tmp_path):
    wheel = build(tmp_path)
    checked = subprocess.run([ROOT / "scripts/check-wheel", wheel], capture_output=True, text=True)
    missing = checked.stderr.splitlines()
    assert missing == [] if is_static() else all(line.startswith("parashard/bin/") or "ld.lld needs" in line for line in missing)
    with zipfile.ZipFile(wheel) as parts:
        assert {"parashard/py.typed", "parashard/_runtime.pyi"} < set(parts.namelist())
    python = install(wheel, tmp_path / "venv")
    found = []
    for code in (BEFORE, AFTER):
        (tmp_path / "script.py").write_text(START + code)
        found.append(json.loads(run(f"{python} script.py", tmp_path).splitlines()[-1]))
        assert found[-1]["file"].startswith(str(tmp_path))
        own = [path for path in found[-1]["loaded"] if "libpsrt" in path or "libdnnl" in path]
        assert len(own) == 2 and all(path.startswith(str(tmp_path)) for path in own), own
        assert not any("libLLVM" in path or "libMLIR" in path for path in found[-1]["loaded"])
    before, after = found
    assert before["seconds"] < 0.1 and after["losses"] == pytest.approx(after["expected"], rel=1e-6)
    version = (ROOT / "VERSION").read_text().strip()
    for tool in ("ps-compile", "ps-plan"):  # one executable
        assert run(f"{tmp_path}/venv/bin/{tool} --version", tmp_path).startswith(f"Parashard {version}")
    assert "ps-plan gpt.pt2 --cluster" in run(f"{tmp_path}/venv/bin/ps-plan --help", tmp_path)


def test_a_wheel_for_another_python_is_refused(tmp_path):
    script = ROOT / "cmake/InstallWheel.cmake"
    line = ["cmake", f"-DCMAKE_INSTALL_PREFIX={tmp_path}", f"-DTREE={package_folder().parent}", "-DMODULE=_runtime.cpython-39.so", "-P", script]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode and "built for another Python" in " ".join(done.stderr.split()), done.stderr


@pytest.mark.parametrize("file, missing", [("bin/psrt-probe", "libdnnl.so.2"), ("lib/libpsrt_fake_cuda.so", None), ("lib/libpsrt_comm_mpi.so", None)])
def test_libraries_outside_of_a_wheel(tmp_path, file, missing):
    source = tools_folder().parent / file
    if not source.exists():
        pytest.skip(f"the tree has no {file}")
    with zipfile.ZipFile(tmp_path / "some.whl", "w") as wheel:
        wheel.write(source, source.name)
    done = subprocess.run([ROOT / "scripts/check-wheel", tmp_path / "some.whl"], capture_output=True, text=True)
    assert done.returncode == (1 if missing else 0)
    assert done.stderr == (f"{source.name} needs {missing}, which is not in the wheel\n" if missing else "")
