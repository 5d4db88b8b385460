"""Adds files outside of docs/ to the documentation site: the generated reference, and files of the repository that pages link to.

PARASHARD_REFERENCE names the folder of the reference (build/release/docs/reference).
"""
import os
import pathlib
import re

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[1]
REFERENCE = pathlib.Path(os.environ.get("PARASHARD_REFERENCE", ROOT / "build/release/docs/reference"))
# Files outside of docs/ that become pages of the site.
PAGES = ["CONTRIBUTING.md", "CHANGELOG.md"]
# A link of Markdown: its path, and its anchor such as `#tests`. Links to web addresses do not match, because they contain a colon.
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
    """Returns the text of a page of the reference. Adds a title to pages of passes, for which mlir-tblgen does not write one."""
    text = page.read_text()
    if page.name.startswith("passes-"):
        return f"# Passes: {page.stem.removeprefix('passes-')}\n\n{text}"
    return text


def index(pages):
    rows = [f"| [{page.stem}]({page.name}) | {text} |" for page in pages
            for text in ["passes of one folder of lib/" if page.name.startswith("passes-") else "ops, attributes and types of the dialect"]]  # fmt: skip
    return "\n".join(["# Reference", "", "Every op, attribute and pass, from the `.td` files.", "", "| page | contents |", "|---|---|", *rows, ""])


def outside(page, link):
    """Returns the file of the repository that a link of a page leads to; None if the link leads to a page of the site or out of the repository."""
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
    """Converts GitHub's Markdown to that of Python-Markdown: an empty line before tables and lists, continuation lines of
    list items indented by four columns, and no backslash before a | of code in a table.
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
