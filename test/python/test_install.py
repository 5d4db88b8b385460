"""What `cmake --install` copies compiles programs where the build folder is gone; programs look for libraries where the system looks."""
import re
import subprocess

import models
import pytest
from conftest import ROOT, tools_folder
from refusals import data_for, program  # noqa: F401


def run_paths(file):
    said = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(?:RUNPATH|RPATH).*\[(.*)\]", said)


def test_programs_look_for_libraries_where_the_system_looks(program):
    assert run_paths(program) == []


def test_libraries_that_programs_need_are_documented(program):
    """But for those of every system with C."""
    said = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    needed = {name for name in re.findall(r"NEEDED.*\[(.*)\]", said) if not re.match(r"lib(c|m|gcc_s)\.so|ld-linux", name)}
    readme = (ROOT / "docs/install.md").read_text()
    assert "libdnnl.so.2" in needed and not [name for name in needed if f"`{name}`" not in readme]
    for command in ("--install build/release", "PARASHARD_LINKER", "clang++-22", "g++"):
        assert command in readme


def test_what_pip_install_leaves_is_ignored():
    """The names that setuptools gives its folders."""
    if not (ROOT / ".git").exists():
        pytest.skip("no repository")
    left = ["python-bindings/build/lib/x.py", "python-bindings/parashard.egg-info/PKG-INFO"]
    done = subprocess.run(["git", "check-ignore", *left], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == left, done.stderr


def test_no_tool_looks_into_the_current_folder():
    """As an empty entry of a list of folders says."""
    build = tools_folder().parent
    files = [path for path in [*(build / "bin").glob("ps-*"), *(build / "lib").glob("*.so")] if path.is_file()]
    assert len(files) >= 6
    for path in files:
        assert all(folder.startswith(("/", "$ORIGIN")) for paths in run_paths(path) for folder in paths.split(":")), path


def test_installed_tools_need_no_build_folder(tmp_path, exports):
    build = tools_folder().parent
    prefix = tmp_path / "prefix"
    models.gpt().export(tmp_path / "model.pt2")
    subprocess.run(["cmake", "--install", build, "--prefix", prefix], capture_output=True, check=True)
    installed = [path for path in prefix.rglob("*") if path.suffix == ".so" or path.parent.name == "bin"]
    assert len(installed) >= 6 and list(prefix.rglob("psrt/*.h")) and list(prefix.rglob("docs/processes.md"))
    for path in installed:
        assert not any(str(ROOT) in folder or "$ORIGIN" in folder for folder in run_paths(path)), path
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("no folder can be hidden here")
    script = 'mount -t tmpfs none "$0" && "$1/bin/ps-compile" model.pt2 -o program --mesh dp=2 --optimizer "sgd(lr=0.1)" && ' \
             './program --data data.safetensors --steps 1 --quiet'  # fmt: skip
    data_for(tmp_path)
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script, build, prefix], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
