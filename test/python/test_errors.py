"""Errors about flags store the flag as data (docs/errors.md). No message in the compiler's sources begins with the text of a flag."""
import re

import pytest
from conftest import ROOT, list_files

pytestmark = pytest.mark.quick

# Matches a literal that begins with a flag, optionally after the name of a tool.
FLAG = re.compile(r'"(?:[\w-]+: )?(?:error: )?--')
TOKEN = re.compile(r"""(//[^\n]*)|(R"(?P<end>\w*)\(.*?\)(?P=end)")|("(?:\\.|[^"\\\n])*")|'(?:\\.|.)'|\w+|\S""", re.S)
# Files whose literals may begin with a flag: one spells flags, two pass flags to the linker.
SPELL_FLAGS = {"dialects/ps/Refusal.cpp", "lib/Codegen/Link.cpp", "lib/Codegen/LinkDriver.cpp"}


def find_flags(source):
    """Returns the literals of a C++ source that begin with a flag. Skips literals that continue the previous literal."""
    found, continues = [], False
    for comment, raw, _, literal in TOKEN.findall(source):
        if literal and not continues and FLAG.match(literal):
            found.append(literal)
        continues = bool(raw or literal or (continues and comment))
    return found


def test_messages_about_flags_are_made_by_refuse_flag():
    """Without `refuseFlag` or `createFlagError`, an error about a flag would have the exit status of a failing pass."""
    files = list_files("lib", "dialects", "tools")
    sources = [file for file in files if file.endswith((".cpp", ".h"))]
    found = [f"{file}: {literal}" for file in sources if file not in SPELL_FLAGS for literal in find_flags((ROOT / file).read_text())]
    assert not found, "\n".join(found)
    assert len(sources) > 100 and all(find_flags((ROOT / file).read_text()) for file in SPELL_FLAGS)


def test_flags_are_found():
    assert find_flags('return op.emitError() << "--mesh: " << text;\nfail("--" + name + " takes"); // "--comment"') == ['"--mesh: "', '"--"']
    assert find_flags('errs() << "ps-compile: error: --plan";') == ['"ps-compile: error: --plan"']
    assert not find_flags('// "--mesh"\nreport << "needs --mesh; remove "\n    "--zero" << R"(--help)" << "\\"--";')
