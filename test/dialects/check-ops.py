"""Checks the generated reference of a dialect, read from standard input.

Each op has a summary, a lifespan (who creates it and who uses it) and an example. ps-opt parses every example and
prints no double spaces.

Operands that an example does not define become arguments of a function around the example. Their types come from
the parser's messages ("expects different type than prior uses"), one type per run.
"""
import re
import subprocess
import sys

PREAMBLE = """
ps.mesh @mesh <"dp" = 2 : data, "tp" = 2 : tensor>
"""
VARIABLES = {
    "wte": "ps.variable parameter @wte : tensor<8x4xf32>",
    "wte.grad": "ps.variable gradient @wte.grad of @wte : tensor<8x4xf32>",
    "fc.amax": "ps.variable accumulator @fc.amax : tensor<f32>",
}
MODULE_LEVEL = re.compile(r"^\s*(ps\.mesh|ps\.variable|func\.func|rank\.program|module)\b", re.M)
WRONG_TYPE = re.compile(r"use of value '(%[\w.]+)' expects different type than prior uses: '(.*)' vs '")


def documented_ops(reference):
    """Returns the section of each op by its name."""
    found = re.finditer(r"^### `([\w.]+)`.*\n((?:(?!#{2,3} ).*\n)*)", reference, re.M)
    return {match[1]: match[2] for match in found}


def missing_parts(section):
    """Returns what the documentation of an op lacks."""
    parts = {"summary": r"^_.+_$", "lifespan": r"^(    )?Lifespan: ", "example": r"^```mlir$"}
    return [part for part, pattern in parts.items() if not re.search(pattern, section, re.M)]


def undefined_values(text):
    """Returns the names that are used before they are defined, in order of use."""
    defined, used = set(), []
    for line in text.splitlines():
        if line.strip().startswith("^"):
            defined.update(re.findall(r"(%[\w.]+)\s*:", line))
        left, equals, right = line.partition(" = ")
        results = re.findall(r"%[\w.]+", left) if equals and left.strip().startswith("%") else []
        for name in re.findall(r"%[\w.]+", right if results else line):
            if name not in defined and name not in used:
                used.append(name)
        defined.update(results)
    return used


def module_for(text, types):
    """Returns the example as a module. `types` maps the undefined values to their types."""
    if MODULE_LEVEL.search(text):
        return text if "ps.mesh" in text else PREAMBLE + text
    used = re.findall(r"@([\w.]+)", text)
    variables = "\n".join(line for name, line in VARIABLES.items() if name in used or name + ".grad" in used)
    arguments = ", ".join(f"{name}: {kind}" for name, kind in types.items())
    return f"{PREAMBLE}{variables}\nfunc.func @example({arguments}) {{\n{text}\n  return\n}}\n"


def error_of(text):
    """Returns the error of an example, or None if ps-opt parses and prints it correctly."""
    names = [] if MODULE_LEVEL.search(text) else undefined_values(text)
    types = dict.fromkeys(names, "none")
    for _ in range(len(names) + 1):
        module = module_for(text, types)
        run = subprocess.run(["ps-opt", "-"], input=module, capture_output=True, text=True)
        if run.returncode == 0:
            doubled = re.search(r"^.*\S  +\S.*$", run.stdout, re.M)
            return f"prints two spaces in a row:\n{doubled[0]}" if doubled else None
        wrong = WRONG_TYPE.search(run.stderr)
        if not wrong or types.get(wrong.group(1)) == wrong.group(2):
            break
        types[wrong.group(1)] = wrong.group(2)
    return run.stderr


def main():
    ops = documented_ops(sys.stdin.read())
    faults = [f"{name}: the documentation has no {part}" for name, text in ops.items() for part in missing_parts(text)]
    for name, text in ops.items():
        for example in re.findall(r"```mlir\n(.*?)```", text, re.S):
            if error := error_of(example):
                faults.append(f"{name}: example fails\n{example}\n{error}")
    print(*faults, f"{len(ops)} ops, {len(faults)} faults", sep="\n")
    return 0 if ops and not faults else 1


if __name__ == "__main__":
    sys.exit(main())
