"""Errors carry their kind as data (docs/errors.md): no message of the compiler spells a flag at its beginning."""
import re
import subprocess

import pytest
from conftest import ROOT

pytestmark = pytest.mark.quick

# A literal that begins with a flag, after the name of a tool or not.
FLAG = re.compile(r'"(?:[\w-]+: )?(?:error: )?--')
TOKEN = re.compile(r"""(//[^\n]*)|(R"(?P<end>\w*)\(.*?\)(?P=end)")|("(?:\\.|[^"\\\n])*")|'(?:\\.|.)'|\w+|\S""", re.S)
# Spells flags; passes flags to the linker.
SPELL_FLAGS = {"dialects/ps/Refusal.cpp", "lib/Codegen/Link.cpp", "lib/Codegen/LinkDriver.cpp"}


def find_flags(source):
    """The literals of a C++ source that begin with a flag. A literal after another one continues its text."""
    found, continues = [], False
    for comment, raw, _, literal in TOKEN.findall(source):
        if literal and not continues and FLAG.match(literal):
            found.append(literal)
        continues = bool(raw or literal or (continues and comment))
    return found


def test_messages_about_flags_are_made_by_refuse_flag():
    """Others would end with the exit status of a failing pass. See `refuseFlag`, `createFlagError` and `spellFlag`."""
    files = subprocess.run(["git", "ls-files", "lib", "dialects", "tools"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    sources = [file for file in files if file.endswith((".cpp", ".h"))]
    found = [f"{file}: {literal}" for file in sources if file not in SPELL_FLAGS for literal in find_flags((ROOT / file).read_text())]
    assert not found, "\n".join(found)
    assert len(sources) > 100 and all(find_flags((ROOT / file).read_text()) for file in SPELL_FLAGS)


def test_flags_are_found():
    assert find_flags('return op.emitError() << "--mesh: " << text;\nfail("--" + name + " takes"); // "--comment"') == ['"--mesh: "', '"--"']
    assert find_flags('errs() << "ps-compile: error: --plan";') == ['"ps-compile: error: --plan"']
    assert not find_flags('// "--mesh"\nreport << "needs --mesh; remove "\n    "--zero" << R"(--help)" << "\\"--";')
