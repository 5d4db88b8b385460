"""Writes the manual page and the completions (bash, zsh) of a tool, from the output of its --help.

    help_pages.py TOOL VERSION FOLDER       FOLDER gets the layout of share/: man/man1, bash-completion, zsh

test/python/test_help.py writes docs/ps-compile-flags.md with write_markdown.
"""
import pathlib
import re
import subprocess
import sys

# "  --mesh=<string>   - description", "  -o <OUT>   - description"; in ps-opt, the options of a pass are indented below the pass.
OPTION = re.compile(r"^( {2,8})(--?[\w.-]+)(?:[= ]<(.*?)>|\[=<(.*?)>\])?\s+- ?(.*)$")
CHOICE = re.compile(r"^ +=([\w.+-]+)\s+- ?(.*)$")
# Programs of the runtime (CLI11): "  --ranks N      description"; the description of a long option is on the next line.
RUNTIME_OPTION = re.compile(r"^  (?:-\w,)?(--?[\w-]+)(?: ([A-Z][\w.]*)(?::\{([\w,-]+)\})?)?(?:\s{2,}(\S.*))?$")


class Option:
    def __init__(self, name, value, description, section, choices=()):
        self.name, self.value, self.description, self.section = name, value, description, section
        parts = (value or "").split("|")
        self.choices = list(choices) or (parts if len(parts) > 1 and all(re.fullmatch(r"[\w+-]+", part) for part in parts) else [])

    @property
    def spelling(self):
        return self.name if not self.value else f"{self.name}{'=' if self.name.startswith('--') else ' '}<{self.value}>"


class Help:
    """The parsed output of --help: the overview, the usage line, and the options by section."""

    def __init__(self, text):
        self.options = []
        self.read_tool(text) if text.startswith("OVERVIEW: ") else self.read_program(text)

    def read_tool(self, text):
        overview, _, rest = text.partition("\nUSAGE: ")
        self.summary, _, self.description = overview.removeprefix("OVERVIEW: ").partition("\n")
        self.usage, _, options = rest.partition("\n")
        section = ""
        for line in options.splitlines():
            if match := OPTION.match(line):
                self.options.append(Option(match[2], match[3] or match[4], match[5], section))
            elif (match := CHOICE.match(line)) and self.options:
                self.options[-1].choices.append(match[1])
                self.options[-1].description += f" ({match[1]}: {match[2].strip()})"
            elif line.startswith(" " * 12) and self.options:
                self.options[-1].description += f" {line.strip()}"
            elif re.fullmatch(r"\S.*:", line) and line != "OPTIONS:":
                section = line[:-1]

    def read_program(self, text):
        """Reads the help of a program of the runtime, which CLI11 prints."""
        overview, _, rest = text.partition("\nUsage: ")
        self.summary, _, self.description = overview.partition("\n")
        self.usage, _, options = rest.partition("\n")
        section = ""
        for line in options.splitlines():
            if match := RUNTIME_OPTION.match(line):
                self.options.append(Option(match[1], match[2], match[4] or "", section, (match[3] or "").split(",") if match[3] else ()))
            elif line.startswith("   ") and self.options:
                self.options[-1].description = f"{self.options[-1].description} {line.strip()}".strip()
            elif re.fullmatch(r"\S.*:", line) and line != "Options:":
                section = line[:-1]


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def write_manual(tool, version, page):
    lines = [f'.TH {tool.upper()} 1 "" "Parashard {version}" "User Commands"', ".ad l", ".SH NAME", f"{roff(tool)} \\- {roff(page.summary)}",
             ".SH SYNOPSIS", roff(page.usage), ".SH DESCRIPTION", ".nf", *map(roff, page.description.strip().splitlines()), ".fi", ".SH OPTIONS"]  # fmt: skip
    section = ""
    for option in page.options:
        if option.section != section:
            section = option.section
            lines.append(f".SS {roff(section)}")
        lines += [".TP", f"\\fB{roff(option.spelling)}\\fR", roff(option.description)]
    lines += [".SH SEE ALSO", roff("The documentation in share/doc of the folder that Parashard is installed in.")]
    return "\n".join(lines) + "\n"


def write_markdown(page):
    """Returns the options as Markdown, with one table per section."""
    lines, section = [], None
    for option in page.options:
        if option.section != section:
            section = option.section
            lines += ["", f"## {section}", "", "| flag | what it does |", "|---|---|"]
        spelling = " ".join(part for part in (option.name, option.value) if part).replace("|", r"\|")
        description = re.sub(r"([|*])", r"\\\1", option.description.replace("<", "&lt;"))
        lines.append(f"| `{spelling}` | {description} |")
    return "\n".join(lines[1:]) + "\n"


def write_bash(tool, page):
    function = "_" + tool.replace("-", "_")
    names = " ".join(dict.fromkeys(option.name for option in page.options))
    cases = [f'    {option.name}) COMPREPLY=($(compgen -W "{" ".join(option.choices)}" -- "$current")); return ;;'
             for option in page.options if option.choices]  # fmt: skip
    return "\n".join([
        f"# Completion of {tool} in bash, generated from its --help.",
        f"{function}() {{",
        "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}",
        "  # Bash splits --flag=value at the equals sign.",
        "  if [[ $current == = ]]; then",
        "    current=",
        "  elif [[ $previous == = ]]; then",
        "    previous=${COMP_WORDS[COMP_CWORD - 2]}",
        "  fi",
        "  COMPREPLY=()",
        *(["  case $previous in", *cases, "  esac"] if cases else []),
        "  if [[ $current == -* ]]; then",
        f'    COMPREPLY=($(compgen -W "{names}" -- "$current"))',
        "  else",
        '    COMPREPLY=($(compgen -f -- "$current"))',
        "  fi",
        "}",
        f"complete -o filenames -F {function} {tool}",
        "",
    ])  # fmt: skip


def quote_zsh(text):
    return re.sub(r"([\\\[\]:])", r"\\\1", text).replace("'", "'\\''")


def write_zsh(tool, page):
    lines = [f"#compdef {tool}", f"# Completion of {tool} in zsh, generated from its --help.", "_arguments \\"]
    for option in {option.name: option for option in page.options}.values():
        takes = f":value:({' '.join(option.choices)})" if option.choices else ":value:_files" if option.value else ""
        equals = "=" if takes and option.name.startswith("--") else ""
        lines.append(f"  '*{option.name}{equals}[{quote_zsh(option.description)}]{takes}' \\")
    return "\n".join([*lines, "  '*:file:_files'", ""])


def main(program, version, folder):
    tool, folder = pathlib.Path(program).name, pathlib.Path(folder)
    page = Help(subprocess.run([program, "--help"], check=True, capture_output=True, text=True).stdout)
    if not page.options:
        sys.exit(f"help_pages.py: found no options in the output of {program} --help")
    for path, text in [
        (f"man/man1/{tool}.1", write_manual(tool, version, page)),
        (f"bash-completion/completions/{tool}", write_bash(tool, page)),
        (f"zsh/site-functions/_{tool}", write_zsh(tool, page)),
    ]:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
