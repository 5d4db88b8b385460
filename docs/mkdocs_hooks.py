"""Adds to the documentation site what is outside of docs/: the generated reference, and files of the repository that pages link to.

PARASHARD_REFERENCE names the folder of the reference (build/release/docs/reference).
"""
import os
import pathlib
import re

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[1]
REFERENCE = pathlib.Path(os.environ.get("PARASHARD_REFERENCE", ROOT / "build/release/docs/reference"))
# Pages of the repository that are pages of the site.
PAGES = ["CONTRIBUTING.md", "CHANGELOG.md"]
# A link out of docs/ (from a page in it), or from one of PAGES into the repository.
LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)]*)?\)")


def on_files(files, config):
    if not REFERENCE.is_dir():
        raise PluginError(f"{REFERENCE} does not exist; build it with cmake --build --preset release --target docs")
    pages = sorted(REFERENCE.glob("*.md"))
    for page in pages:
        files.append(File.generated(config, f"reference/{page.name}", content=title(page)))
    files.append(File.generated(config, "reference/index.md", content=index(pages)))
    for name in PAGES:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for source in sorted(linked_sources(files)):
        files.append(File.generated(config, f"sources/{source}", abs_src_path=str(ROOT / source)))
    return files


def title(page):
    """The text of a page of the reference, with a title: mlir-tblgen gives pages of passes none."""
    text = page.read_text()
    if page.name.startswith("passes-"):
        return f"# Passes: {page.stem.removeprefix('passes-')}\n\n{text}"
    return text


def index(pages):
    rows = [f"| [{page.stem}]({page.name}) | {text} |" for page in pages
            for text in ["passes of the phase" if page.name.startswith("passes-") else "ops, attributes and types of the dialect"]]  # fmt: skip
    return "\n".join(["# Reference", "", "Every op, attribute and pass, from the `.td` files.", "", "| page | what it has |", "|---|---|", *rows, ""])


def outside(page, link):
    """The file of the repository that a link of a page leads to, if it is none of the site's pages."""
    base = ROOT if page in PAGES else ROOT / "docs"
    target = (base / link).resolve()
    if not target.is_relative_to(ROOT) or target.is_relative_to(ROOT / "docs") or not target.is_file():
        return None
    source = str(target.relative_to(ROOT))
    return None if source in PAGES else source


def linked_sources(files):
    for file in files.documentation_pages():
        if "/" not in file.src_uri:
            for link, _ in LINK.findall(file.content_string):
                if source := outside(file.src_uri, link):
                    yield source


def on_page_markdown(markdown, page, **_):
    name = page.file.src_uri
    if "/" in name:
        return markdown

    def adapt(match):
        link, anchor = match[1], match[2] or ""
        if source := outside(name, link):
            return f"](sources/{source}{anchor})"
        return f"]({link.removeprefix('docs/' if name in PAGES else '../')}{anchor})"

    return separate(LINK.sub(adapt, markdown))


def separate(markdown):
    """Rewrites what GitHub takes and Python-Markdown does not: it wants an empty line before tables and lists,
    four columns before what belongs to an item of a list, and no backslash before a | of code in a table.
    """
    lines, fenced, in_list = [], False, False
    for line in markdown.splitlines():
        fenced ^= line.lstrip().startswith("```")
        before = lines[-1] if lines else ""
        if not fenced and line.strip():
            is_item = re.match(r"([-*]|\d+\.) ", line)
            in_list = bool(is_item or (in_list and line.startswith(" ")))
            for block in (r"\|", r"([-*]|\d+\.) "):
                if re.match(block, line) and before.strip() and not re.match(block + r"|\s", before):
                    lines.append("")
            if line.startswith("|"):
                line = re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), line)
            if in_list and not is_item:
                line = re.sub(r"^ {2,3}(?=\S)", "    ", line)
        lines.append(line)
    return "\n".join(lines)
