"""`ps-compile --portable`: the program needs only the C and C++ libraries of a system, and contains no path of this machine."""
import pathlib
import re
import shutil
import subprocess

import models
import oracle
import pytest
from conftest import ROOT, tools_folder
from refusals import refuse
from safetensors.torch import load_file, save_file

FLAGS = ("--mesh", "dp=2", "--optimizer", "sgd(lr=0.1)")
# Matches libraries that every Linux system with C++ has.
SYSTEM = re.compile(r"(libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+)\.so\.\d+")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Returns (folder with a program, its libraries and data; output of ps-compile)."""
    folder = tmp_path_factory.mktemp("portable")
    archive = models.mlp().export(folder / "model.pt2")
    command = [tools_folder() / "ps-compile", archive, "-o", folder / "train", "--portable", *FLAGS]
    said = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stderr
    archive.unlink()
    save_file(models.mlp().draw_inputs(1), folder / "data.safetensors")
    return folder, said


def needed(file):
    said = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"NEEDED.*\[(.*)\]", said))


def test_libraries_are_bundled_or_named(compiled):
    folder, said = compiled
    bundled = {path.name: path for path in (folder / "train.libs").iterdir()}
    assert "libdnnl.so.2" in bundled
    for name in bundled:
        assert name in said
    wanted = needed(folder / "train").union(*(needed(path) for name, path in bundled.items() if name != "libpsrt_comm_mpi.so"))
    rest = {name for name in wanted if name not in bundled and not name.startswith("ld-linux")}
    assert rest and not [name for name in rest if not SYSTEM.fullmatch(name)]
    for name in rest - {"libdl.so.2", "libpthread.so.0", "librt.so.1"}:  # parts of libc.so.6 since glibc 2.34, without symbol versions
        assert re.search(rf"{re.escape(name)} \([A-Z]+_\d", said), (name, said)
    assert "instructions of x86-64-v3" in said


def test_no_path_of_this_machine(compiled):
    folder, _ = compiled
    program = (folder / "train").read_bytes()
    for path in (folder, ROOT, tools_folder().parent):
        assert str(path).encode() not in program, path


def run_in_root(root, *command):
    """Runs a command with `root` as root file system, in namespaces that ordinary users can create."""
    script = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
    return subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "sh", "-c", script, root, *command],
                          capture_output=True, text=True, timeout=60)  # fmt: skip


def make_root(root, program):
    """Creates a root file system with only the loader, the system libraries of `program`, and /proc."""
    for folder in ("proc", "work"):
        (root / folder).mkdir(parents=True)
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for path in re.findall(r"(/\S+) \(0x", said):
        if SYSTEM.fullmatch(pathlib.Path(path).name) or "ld-linux" in path:
            target = root / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)


def test_a_program_needs_only_the_c_and_cpp_libraries(compiled, tmp_path):
    folder, _ = compiled
    root = tmp_path / "root"
    make_root(root, folder / "train")
    for path in folder.iterdir():
        (shutil.copytree if path.is_dir() else shutil.copy)(path, root / "work" / path.name)
    if re.match("(unshare|mount): ", (refused := run_in_root(root, "/work/train", "--version").stderr)):
        pytest.skip(f"the test may not change the root folder here: {refused}")
    done = run_in_root(root, "/work/train", "--data", "/work/data.safetensors", "--steps", "3", "--quiet",
                       "--export-weights", "/work/out.safetensors")  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    there = load_file(root / "work/out.safetensors")
    subprocess.run(["./train", "--data", "data.safetensors", "--steps", "3", "--quiet", "--export-weights", "out.safetensors"],
                   cwd=folder, check=True)  # fmt: skip
    here = load_file(folder / "out.safetensors")
    assert there.keys() == here.keys() and all(there[name].equal(here[name]) for name in here)
    (root / "work/train.libs/libdnnl.so.2").unlink()
    assert "libdnnl.so.2" in run_in_root(root, "/work/train", "--version").stderr, "the program used another libdnnl than the bundled one"


@pytest.mark.parametrize(
    "output,flags,words",
    [
        ("out", ["--target", "cuda:sm_90"], ["--portable is for --target cpu", "cuBLASLt"]),
        ("out", ["--weights", "reference"], ["--portable excludes --weights reference", "--weights copy"]),
        ("out.so", [], ["--portable writes an executable", "out.so"]),
        ("out.mlir", ["--stop-after", "placed"], ["--portable is about the program", "--stop-after"]),
    ],
)
def test_programs_that_cannot_be_portable(tmp_path, exports, output, flags, words):
    archive = oracle.export("mlp", exports)
    refuse([tools_folder() / "ps-compile", archive, "-o", output, "--portable", *flags], tmp_path, 2, *words)
    assert not list(tmp_path.iterdir())
