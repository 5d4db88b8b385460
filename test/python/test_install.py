"""Installed tools compile programs without the build folder. Programs search for libraries only in the folders of the system."""
import os
import pathlib
import re
import shutil
import subprocess

import models
import oracle
import pytest
from conftest import ROOT, tools_folder
from refusals import data_for, program  # noqa: F401
from safetensors.torch import save_file


@pytest.fixture(autouse=True)
def found_linker(monkeypatch):
    """Lets ps-compile find a compiler driver itself, as for a user. The other tests link with ld.lld (conftest.py)."""
    monkeypatch.delenv("PARASHARD_LINKER", raising=False)


def run_paths(file):
    said = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(?:RUNPATH|RPATH).*\[(.*)\]", said)


def test_programs_look_for_libraries_where_the_system_looks(program):
    assert run_paths(program) == []


def test_libraries_that_programs_need_are_documented(program):
    """The list in docs/install.md omits the C libraries that every system has."""
    said = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    needed = {name for name in re.findall(r"NEEDED.*\[(.*)\]", said) if not re.match(r"lib(c|m|gcc_s)\.so|ld-linux", name)}
    readme = (ROOT / "docs/install.md").read_text()
    assert "libdnnl.so.2" in needed and not [name for name in needed if f"`{name}`" not in readme]
    for command in ("--install build/release", "PARASHARD_LINKER", "clang++-22", "g++"):
        assert command in readme


def test_files_of_pip_install_are_ignored():
    """Git ignores the folders that pip creates."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git repository")
    left = ["python-bindings/build/lib/x.py", "python-bindings/parashard.egg-info/PKG-INFO"]
    done = subprocess.run(["git", "check-ignore", *left], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == left, done.stderr


def test_no_tool_looks_into_the_current_folder():
    """An empty entry in a run path would mean the current folder."""
    build = tools_folder().parent
    files = [path for path in [*(build / "bin").glob("ps*"), *(build / "lib").glob("*.so")] if path.is_file()]
    assert len(files) >= 6
    for path in files:
        assert all(folder.startswith(("/", "$ORIGIN")) for paths in run_paths(path) for folder in paths.split(":")), path


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """Installs Parashard to a folder and moves the folder. Returns its new path."""
    folder = tmp_path_factory.mktemp("install")
    subprocess.run(["cmake", "--install", tools_folder().parent, "--prefix", folder / "first"], capture_output=True, check=True)
    return (folder / "first").rename(folder / "moved")


BUILD = tools_folder().parent
TREE = [ROOT] if BUILD.is_relative_to(ROOT) else [ROOT, BUILD]  # the sources and the build


def run_hidden(script, cwd, hidden, **variables):
    """Runs a shell script with empty folders mounted over the folders `hidden`."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("mounting over folders is not allowed")
    hide = "".join(f"mount -t tmpfs none '{folder}' && " for folder in hidden)
    environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
    return subprocess.run(["unshare", "-rm", "sh", "-c", hide + script], cwd=cwd, capture_output=True, text=True, env=environment)


def test_what_is_installed(prefix):
    installed = [path for path in prefix.rglob("*") if path.suffix == ".so" or path.parent.name == "bin"]
    assert len(installed) >= 6 and (prefix / "include/psrt/psrt.h").exists() and list(prefix.rglob("docs/processes.md"))
    for path in installed:
        paths = ":".join(run_paths(path)).split(":")
        assert not any(str(ROOT) in folder or (folder.startswith("$ORIGIN") and folder != "$ORIGIN/../lib") for folder in paths), path
    for path in prefix.rglob("*.cmake"):
        assert str(ROOT) not in path.read_text() and "first" not in path.read_text(), path


def test_links_of_installed_documents_lead_to_files(prefix):
    """A link may name a file of the installation, a heading or a website."""
    pages, dead = list(prefix.rglob("*.md")), []
    for page in pages:
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            target = link.partition("#")[0]
            if target and "://" not in link and not (page.parent / target).exists():
                dead.append(f"{page.relative_to(prefix)}: {link}")
    assert len(pages) > 30 and not dead


def test_installed_tools_need_no_sources(prefix, tmp_path):
    """Installed tools need neither the sources nor the build folder."""
    models.gpt().export(tmp_path / "model.pt2")
    data_for(tmp_path)
    script = '"$PREFIX/bin/ps-compile" model.pt2 -o program --mesh dp=2 --optimizer "sgd(lr=0.1)" && ' \
             './program --data data.safetensors --steps 1 --quiet'  # fmt: skip
    done = run_hidden(script, tmp_path, TREE, PREFIX=prefix)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("linker", ["cc", None])
def test_a_c_compiler_or_no_compiler_is_enough(tmp_path, exports, linker):
    """With only a C compiler or nothing on the PATH, ps-compile links executables and libraries."""
    if linker and not shutil.which(linker):
        pytest.skip(f"there is no {linker}")
    (tmp_path / "bin").mkdir()
    if linker:
        (tmp_path / "bin" / linker).symlink_to(shutil.which(linker))
    archive = oracle.export("mlp", exports)
    for output in ("program", "program.so"):
        command = [tools_folder() / "ps-compile", archive, "-o", output, "--optimizer", "sgd(lr=0.1)"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "PATH": str(tmp_path / "bin")})
        assert done.returncode == 0, done.stderr
    save_file(models.mlp().draw_inputs(1), tmp_path / "data.safetensors")
    subprocess.run(["./program", "--data", "data.safetensors", "--steps", "1", "--quiet"], cwd=tmp_path, check=True)


def test_nothing_to_link_executables_with(tmp_path, exports):
    """Without a compiler and the start files of the C library, ps-compile links libraries, but not executables."""
    start = next((path for path in pathlib.Path("/usr/lib").glob("*/Scrt1.o")), None)
    if not start:
        pytest.skip("there is no Scrt1.o")
    command = f"PATH=/nowhere '{tools_folder() / 'ps-compile'}' '{oracle.export('mlp', exports)}'"
    over = tmp_path / "over"
    over.mkdir()
    remove = f"mount -t tmpfs none {over} && mkdir {over}/up {over}/work && mount -t overlay none {start.parent} " \
             f"-o lowerdir={start.parent},upperdir={over}/up,workdir={over}/work && rm {start}"  # fmt: skip
    if subprocess.run(["unshare", "-rm", "sh", "-c", remove], cwd=tmp_path, capture_output=True).returncode:
        pytest.skip("overlays are not allowed")
    done = run_hidden(f"{remove} && {command} -o program.so && {command} -o program", tmp_path, [])
    assert done.returncode == 1, done.stderr
    for word in ("wrote program.so", "no C++ compiler", "libc6-dev", "PARASHARD_LINKER", "-o NAME.so"):
        assert word in done.stdout + done.stderr
    done = subprocess.run(["sh", "-c", f"PARASHARD_LINKER=no-such {command} -o program"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "PARASHARD_LINKER: there is no program 'no-such'" in done.stderr


# ---- embedding the runtime -----------------------------------------------------------------------------------------

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(embedding LANGUAGES C)
find_package(Parashard 0.1 REQUIRED)
add_executable(finetune finetune.c)
target_link_libraries(finetune PRIVATE Parashard::psrt)
add_custom_command(OUTPUT mlp.so COMMAND Parashard::ps-compile ${CMAKE_SOURCE_DIR}/mlp.pt2 -o mlp.so --mesh dp=2)
add_custom_target(model ALL DEPENDS mlp.so)
"""


def test_a_c_program_builds_with_the_package(prefix, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    shutil.copy(ROOT / "examples/c-api/finetune.c", tmp_path)
    models.mlp().export(tmp_path / "mlp.pt2")
    done = run_hidden('cmake -S . -B build -DCMAKE_PREFIX_PATH="$PREFIX" && cmake --build build && cd build && ./finetune mlp.so',
                      tmp_path, TREE, PREFIX=prefix)  # fmt: skip
    assert done.returncode == 0 and "step 1: loss" in done.stdout, done.stdout + done.stderr


# ---- manual pages and completions ----------------------------------------------------------------------------------

TOOLS = ["ps-compile", "ps-opt", "ps-plan", "ps-run", "ps-timeline", "ps-translate", "psrt-probe"]


@pytest.mark.parametrize("tool", TOOLS)
def test_help_pages_name_every_flag(prefix, tool):
    said = subprocess.run([prefix / "bin" / tool, "--help"], capture_output=True, text=True, check=True).stdout
    flags = set(re.findall(r"^  (?:-\w,)?(--?[a-zA-Z][\w-]*)", said, re.M))
    manual = (prefix / f"share/man/man1/{tool}.1").read_text().replace("\\-", "-")
    bash = (prefix / f"share/bash-completion/completions/{tool}").read_text()
    zsh = (prefix / f"share/zsh/site-functions/_{tool}").read_text()
    assert len(flags) > 5
    for flag in flags:
        assert re.search(rf"^\\fB{flag}\b", manual, re.M), flag
        assert re.search(rf"[ \"]{flag}[ \"]", bash), flag
        assert re.search(rf"'\*{flag}=?\[", zsh), flag


@pytest.mark.parametrize(
    "words,expected",
    [
        (["--micro"], {"--micro-batches"}),
        (["--gradient-reduction", "b"], {"bf16"}),
        (["--gradient-reduction", "=", "f"], {"fp32"}),
        (["--gradient-reduction", "="], {"fp32", "bf16"}),
        (["mod"], {"model.pt2"}),
    ],
)
def test_bash_completes(prefix, tmp_path, words, expected):
    (tmp_path / "model.pt2").touch()
    script = 'source "$0"; COMP_WORDS=(ps-compile "$@"); COMP_CWORD=$#; _ps_compile; printf "%s\\n" "${COMPREPLY[@]}"'
    completion = prefix / "share/bash-completion/completions/ps-compile"
    done = subprocess.run(["bash", "-c", script, completion, *words], cwd=tmp_path, capture_output=True, text=True)
    assert set(done.stdout.split()) == expected, done.stderr


def test_zsh_and_man_read_them(prefix):
    """zsh, bash and man accept the completions and manual pages. Skips programs that are not installed."""
    for shell, pattern in (("zsh", "zsh/site-functions/_*"), ("bash", "bash-completion/completions/*")):
        for path in (prefix / "share").glob(pattern):
            if shutil.which(shell):
                assert subprocess.run([shell, "-n", path], capture_output=True).returncode == 0, path
    for path in (prefix / "share/man/man1").iterdir():
        if shutil.which("man"):
            done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", path], capture_output=True, text=True)
            assert done.returncode == 0 and not done.stderr, done.stderr
