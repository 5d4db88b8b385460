"""Checks the project's English: finds constructions that are hard to read, and badly wrapped paragraphs.

The functions take the text of documents, of C++, MLIR and Python sources, and of scripts.
"""
import ast
import re

UNIT = "rank|step|second|stage|micro-batch|coordinate|layer|dim|row|line|run|pass|element|process|parameter|variable|window"

# (expression, what to write instead). Matching ignores case; a match may span lines.
PATTERNS = [
    (r"(?<!there )\b(is|are|was|were) no (?!longer\b|more\b|less\b|fewer\b)", 'write "is not a", or name what it is'),
    (r"\bno part of\b", "not in, not part of"),
    (r"\blea?[vf]\w*( \w+){0,4} away\b", "omit, remove"),
    (r"(^|[.:;] )what (is|are|was|were)\b[^.:?|\n]*\b(is|are|was|were)\b", "name the subject: the loss, the buffer, ..."),
    (r"\b(go|goes|going|went|gone) on\b", "resumes, continues"),
    (r"\btimetables?\b", "schedule"),
    (r"\bstand-ins?\b|\bst(and[s]?|ood) in for\b", "fake"),
    (r"(?<!cross )(?<!dot )(?<!running )(?<!cumulative )\bproducts?\b", "matmul; contraction where it is general"),
    (rf"\b(once|twice|times|one|lines?|bytes|numbers?|objects?|samples?|tokens|operations|flops|segments?|values?|entry|entries|program|function|file)"
     rf" an? ({UNIT})\b", "per rank, per step"),
    (r"\bbehind\b", "after"),
    (r"\b(number of|many|two|more) places\b", "elements, positions, indices"),
    (r"\bown kernels?\b|\bkernels? of our own\b", "fallback kernels"),
    (r"\b(is|are|was|were|unless) told\b", "reported, specified"),
    (r"\bcomput(e|es|ed|ing) again\b", "recompute"),
    (r"\banew\b", "again; rewrite, remake"),
    (r"\bbut for\b", "except for"),
]  # fmt: skip
COMPILED = [(re.compile(expression, re.IGNORECASE | re.MULTILINE), advice) for expression, advice in PATTERNS]

# Advice that holds only for documents. Comments on arithmetic may say "product" (of numbers).
OF_DOCUMENTS = {"matmul; contraction where it is general"}
# Comments on functions begin with a verb: "Returns ...", "Splits ...". Comments with two slashes may have a line that begins so.
NO_VERB = re.compile(r"(?:^\s*(?://[/!]|/\*[*!])<? ?|^(?!\s*//).*\n\s*// )(What|Of) ", re.MULTILINE)
NO_VERB_IN_PYTHON = re.compile(r'"""(What|Of) ')

COLUMNS = 100
PARAGRAPH = 6  # lines


def strip_code(text):
    """Removes code blocks, code spans, HTML comments and link addresses from Markdown. Lines keep their numbers."""

    def blank(match):
        return "\n" * match[0].count("\n") or "X"

    text = re.sub(r"^( *)```.*?^ *```", blank, text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->", blank, text, flags=re.DOTALL)
    text = re.sub(r"`[^`]*`", blank, text)
    return re.sub(r"\]\([^)]*\)", "]", text)


def find_constructions(text):
    """Returns (line, found text, advice) for each match of a pattern in prose without code."""
    text = "\n".join(" ".join(line.split()) for line in text.splitlines())
    # Joins the lines of a paragraph or list item, since a sentence may span lines.
    joined = re.sub(r"(?<=\S)\n(?=[^\s|#*\-\d])", " ", text)
    return sorted(
        (text.count("\n", 0, match.start()) + 1, match[0].strip(), advice) for expression, advice in COMPILED for match in expression.finditer(joined)
    )


# A string, a character or a comment. Strings are matched because a `//` in a string does not begin a comment.
TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*|/\*.*?\*/', re.DOTALL)


def read_sources(text):
    """Returns the comments of C++, TableGen or MLIR without their marks. Lines keep their numbers.

    Example: the lines `int a; /// It goes`, `/* on. */` give `It goes`, `on.`.
    """
    comments, end = [], 0
    for match in TOKEN.finditer(text):
        if match[0][:2] not in ("//", "/*") or re.match(r"//.*\b(RUN|CHECK[A-Z-]*):", match[0]):
            continue
        is_block = match[0].startswith("/*")
        body = re.sub(r"^[ \t]*\*+", "", match[0][2:-2], flags=re.MULTILINE) if is_block else match[0].lstrip("/!<")
        comments += ["\n" * text.count("\n", end, match.start()), " ", body]
        end = match.end()
    return "".join(comments)


def read_tablegen(text):
    """Returns the comments of TableGen, and the text of summaries and descriptions. Lines keep their numbers."""
    comments = read_sources(text).split("\n")
    described = re.compile(r'summary = "([^"]*)"|description = \[\{(.*?)\}\]', re.DOTALL)
    for match in described.finditer(text):
        body = match[1] or re.sub(r"^( *)```.*?^ *```", lambda code: "\n" * code[0].count("\n"), match[2] or "", flags=re.S | re.M)
        first = text.count("\n", 0, match.start())
        for number, line in enumerate(body.split("\n"), first):
            comments += [""] * (number + 1 - len(comments))
            comments[number] += " " + line
    return "\n".join(comments)


def strip_spans(comments):
    """Returns comments without code spans and indentation."""
    return "\n".join(line.strip() for line in re.sub(r"`[^`\n]*`", "X", comments).split("\n"))


def find_in_comments(comments):
    """Runs find_constructions on comments without code spans. Skips the patterns that are only for documents."""
    return [one for one in find_constructions(strip_spans(comments)) if one[2] not in OF_DOCUMENTS]


def find_constructions_of_sources(text):
    """Returns the same as find_constructions, for the comments of a C++, TableGen or MLIR source."""
    starts = [(text.count("\n", 0, match.start(1)) + 1, match[1], "begin with a verb") for match in NO_VERB.finditer(text)]
    return sorted(find_in_comments(read_sources(text)) + starts)


# Comments and strings of Python; a # in a string does not begin a comment. The module tokenize would double the time of the check.
PYTHON_TOKEN = re.compile(r'"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#[^\n]*', re.DOTALL)


def read_python(text):
    """Returns the docstrings, the comments, and the names of tests (with blanks instead of underscores). Lines keep their numbers."""
    lines = text.splitlines()
    docstrings, comments, names = [""] * len(lines), [""] * len(lines), [""] * len(lines)
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if ast.get_docstring(node, clean=False):
            span = slice(node.body[0].lineno - 1, node.body[0].end_lineno)
            docstrings[span] = [line.strip(' "') for line in lines[span]]
        if not isinstance(node, ast.Module) and node.name.startswith("test_"):
            names[node.lineno - 1] = node.name.removeprefix("test_").replace("_", " ")
    for match in PYTHON_TOKEN.finditer(text):
        if match[0].startswith("#"):
            comments[text.count("\n", 0, match.start())] = match[0].lstrip("#! ")
    return ["\n".join(kind) for kind in (docstrings, comments, names)]


def find_constructions_of_tablegen(text):
    """Returns the same as find_constructions, for a TableGen source."""
    return find_in_comments(read_tablegen(text))


def find_constructions_of_python(text):
    """Returns the same as find_constructions, for a Python source."""
    starts = [(text.count("\n", 0, match.start()) + 1, match[1], "begin with a verb") for match in NO_VERB_IN_PYTHON.finditer(text)]
    return sorted([one for kind in read_python(text) for one in find_in_comments(kind)] + starts)


def read_scripts(text):
    """Returns the comments of shell scripts, CMake, YAML and TOML, which begin with `#`. Lines keep their numbers."""
    matches = [re.search(r"(?:^|\s)#+!?(.*)", line) for line in text.splitlines()]
    return "\n".join(match[1] if match else "" for match in matches)


def find_constructions_of_scripts(text):
    """Returns the same as find_constructions, for a script."""
    return find_in_comments(read_scripts(text))


def find_long_lines(text):
    """Returns (line, length) for lines of Markdown prose that are longer than COLUMNS. Skips tables, code, HTML, and single words such as links."""
    found, in_code = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and len(line) > COLUMNS and not re.match(r"\s*([|<]|!\[|\S*$|[*-] \S*$)", line):
            found.append((number, len(line)))
    return found


def find_long_paragraphs(text):
    """Returns (line, number of lines) for paragraphs and list items of Markdown with more than PARAGRAPH lines."""
    found, in_code, begin, length = [], False, 0, 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        stripped = line.strip()
        in_code ^= stripped.startswith("```")
        is_prose = stripped and not in_code and not stripped.startswith(("|", "#", "<", "```", "!["))
        if not is_prose or re.match(r"([*-]|\d+\.) ", stripped):
            if length > PARAGRAPH:
                found.append((begin, length))
            length = 0
        if is_prose:
            begin = begin if length else number
            length += 1
    return found
