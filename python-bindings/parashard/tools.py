"""Finds the tools of the compiler, and runs those of the wheel as commands (`ps-compile`)."""

import os
import pathlib
import shutil
import sys

__all__ = ["find_tool", "main"]

# The tools of a wheel. In build/release/python, this is a link to build/release/bin.
OWN_TOOLS = pathlib.Path(__file__).parent / "bin"


def find_tool(name):
    """Finds a tool in $PARASHARD_BIN, in this package, on the PATH, or in this checkout's release build; else returns None."""
    build = pathlib.Path(__file__).resolve().parents[2] / "build/release/bin"
    folders = [os.environ.get("PARASHARD_BIN"), str(OWN_TOOLS), os.environ.get("PATH"), str(build)]
    return next((found for folder in folders if folder and (found := shutil.which(name, path=folder))), None)


def main():
    """Replaces this process by the tool of the package that is named like the running command."""
    tool = OWN_TOOLS / pathlib.Path(sys.argv[0]).name
    os.execv(tool, [str(tool), *sys.argv[1:]])
