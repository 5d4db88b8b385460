"""The version comes from the file VERSION alone. Tools and programs print it, with the commit that they were built from."""
import re
import subprocess
import sys

import oracle
import pytest
from conftest import ROOT, tools_folder

VERSION = (ROOT / "VERSION").read_text().strip()
SHORT = 12


@pytest.mark.parametrize("tool", ["ps-opt", "ps-compile", "ps-plan", "ps-run", "ps-translate", "ps-timeline", "psrt-probe", "program"])
def test_version_and_commit_are_printed(tmp_path, exports, tool):
    command = tools_folder() / tool
    if tool == "program":
        command = oracle.compile_model(tmp_path, oracle.export("mlp", exports), "dp=1")
    said = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    line = rf"Parashard {re.escape(VERSION)} \(commit (unknown|[0-9a-f]{{12}}(-dirty)?)\), LLVM 22\.\d+\.\d+\n"
    assert re.fullmatch(line, said)


def test_python_package_has_the_same_version(tmp_path):
    """The package has this version both when pip installs the package and when Python imports it."""
    installed = "from scikit_build_core.build import prepare_metadata_for_build_wheel as prepare; import sys; print(prepare(sys.argv[1]))"
    imported = "import parashard; print(parashard.__version__)"
    for code, expected in ((installed, f"parashard-{VERSION}.dist-info"), (imported, VERSION)):
        done = subprocess.run([sys.executable, "-c", code, tmp_path], cwd=ROOT / "python-bindings", capture_output=True, text=True)
        assert done.stdout.split()[-1:] == [expected], done.stdout + done.stderr


def write_version(source, out, git="git"):
    subprocess.run(["cmake", "-D", f"GIT={git}", "-D", f"SOURCE={source}", "-D", "VERSION=1.2.3", "-D", f"OUT={out}", "-P",
                    ROOT / "cmake/WriteVersion.cmake"], check=True)  # fmt: skip
    return re.search(r'getCommit\(\) { return "(.*)"', out.read_text())[1]


@pytest.fixture
def repository(tmp_path):
    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-q", "-m", "first")
    return tmp_path, git("rev-parse", "HEAD").strip()[:SHORT]


def test_changed_files_make_the_commit_dirty(repository, tmp_path_factory):
    folder, commit = repository
    out = tmp_path_factory.mktemp("out") / "Version.cpp"
    assert write_version(folder, out) == commit
    (folder / "untracked").write_text("")
    before = out.stat().st_mtime_ns
    assert write_version(folder, out) == commit and out.stat().st_mtime_ns == before, "the file was written again, so a build would compile it again"
    (folder / "file").write_text("two")
    assert write_version(folder, out) == f"{commit}-dirty"


def test_sources_outside_of_a_repository_have_no_commit(repository, tmp_path_factory):
    """Three cases: a release as an archive, a copy in the repository of another project, and a machine without git."""
    folder, _ = repository
    out = tmp_path_factory.mktemp("out")
    (folder / "vendored").mkdir()
    assert write_version(out, out / "a.cpp") == "unknown"
    assert write_version(folder / "vendored", out / "b.cpp") == "unknown"
    assert write_version(folder, out / "c.cpp", git="GIT-NOTFOUND") == "unknown"
