"""The documentation site has every page. (`mkdocs build --strict`, which CI runs, also checks the links.)"""
import re

from conftest import ROOT

PAGES = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    listed = re.findall(r"- (\S+\.md)$", navigation, re.M)
    assert len(listed) == len(set(listed))
    missing = PAGES - set(listed)
    assert not missing, "mkdocs.yml does not list these pages"


def test_every_page_is_in_the_table_of_contents():
    listed = re.findall(r"^\| \[(\S+\.md)\]\(\1\) \|", (ROOT / "docs/README.md").read_text(), re.M)
    assert len(listed) == len(set(listed)) and set(listed) == PAGES - {"README.md"}


def test_every_phase_is_in_the_reference():
    """docs/CMakeLists.txt generates one page for each dialect and each Passes.td."""
    sources = [path.name for path in (ROOT / "dialects").iterdir() if path.is_dir()]
    sources += [f"passes-{path.parent.name.lower()}" for path in (ROOT / "lib").glob("*/Passes.td")]
    listed = re.findall(r"- reference/(\S+)\.md$", (ROOT / "mkdocs.yml").read_text(), re.M)
    assert len(sources) > 5 and set(sources) | {"index"} == set(listed)
