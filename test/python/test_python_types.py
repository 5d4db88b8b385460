"""The public functions and classes of the Python package have types. mypy accepts the examples, and reports wrong calls."""

import ast
import collections.abc
import dataclasses
import inspect
import os
import re
import subprocess
import sys
import typing

import pytest
import typing_extensions
from conftest import ROOT, package_folder

sys.path.insert(0, str(package_folder()))
import parashard
import parashard.annotations
import parashard.atorch
import parashard.caching
import parashard.export
import parashard.lazy
import parashard.loading
from parashard import _runtime

PACKAGE = ROOT / "python-bindings/parashard"
# Names that modules of the package import for type checkers only.
NAMES = {name: value for module in (typing, typing_extensions, collections.abc, parashard.annotations) for name, value in vars(module).items()}
NAMES.update({name: getattr(parashard, name) for name in parashard.__all__}, BatchLoader=parashard.loading.BatchLoader, Program=_runtime.Program)
# What users import from other modules, or get from a public function.
OTHERS = [
    parashard.atorch.Result, parashard.caching.Generation, parashard.export.Exported, parashard.export.export, parashard.export.without_data,
    parashard.lazy.LazyModel, parashard.lazy.LazyOptimizer, parashard.loading.BatchLoader,
    *(getattr(parashard.plugins, name) for name in parashard.plugins.__all__ if name != "PLUGINS"),
]  # fmt: skip


def list_methods(kind):
    """Returns the public methods and properties of a class, and those of its bases in the package."""
    members = [member for base in kind.__mro__ if base.__module__.startswith("parashard") for name, member in vars(base).items()
               if not re.match("_[^_]", name)]  # fmt: skip
    members = [getattr(member, "fget", None) or getattr(member, "__func__", member) for member in members]
    return [member for member in members if inspect.isfunction(member) and is_written(member)]


def is_written(function):
    """Returns whether the package has the source of a function. The methods that dataclasses and named tuples make have none."""
    return inspect.unwrap(function).__code__.co_filename.startswith(str(package_folder()))


def find_missing(function):
    """Returns what a function lacks: the annotation of an argument or of the result, or a name that an annotation uses."""
    signature = inspect.signature(function)
    missing = [name for name, parameter in signature.parameters.items() if parameter.annotation is parameter.empty and name not in ("self", "cls")]
    missing += ["the result"] if signature.return_annotation is signature.empty else []
    return missing + find_unknown(function, inspect.unwrap(function).__globals__)


def find_unknown(value, names):
    """Returns the error if an annotation of a function or a class cannot be evaluated."""
    try:
        typing.get_type_hints(value, {**NAMES, **names})
    except (NameError, TypeError) as error:
        return [str(error)]
    return []


def test_public_functions_have_types():
    public = [getattr(parashard, name) for name in parashard.__all__] + OTHERS
    functions = [value for value in public if inspect.isfunction(value)]
    kinds = [value if isinstance(value, type) else type(value) for value in public if not inspect.isfunction(value)]
    functions += [method for kind in kinds for method in list_methods(kind)]
    assert {"Engine.initialize", "CompiledModel.forward", "Plan.load", "_Environment.rank", "parallelize"} < {f.__qualname__ for f in functions}
    found = {f"{function.__module__}.{function.__qualname__}": find_missing(function) for function in functions}
    found.update({kind.__name__: find_unknown(kind, vars(sys.modules[kind.__module__])) for kind in kinds if dataclasses.is_dataclass(kind)})
    assert {name: missing for name, missing in found.items() if missing} == {}


def test_missing_types_are_named():
    def some(first, second: "Unknown" = 1):  # noqa: F821
        pass

    assert find_missing(some) == ["first", "the result", "name 'Unknown' is not defined"]


def test_type_checkers_see_the_public_names():
    """`__init__.py` imports for type checkers what it loads at first use."""
    (block,) = (node for node in ast.parse((PACKAGE / "__init__.py").read_text()).body if isinstance(node, ast.If))
    found = {name.name: f"{node.module}" for node in block.body for name in node.names if name.name == name.asname}
    assert found == {"plugins": "parashard", **{name: f"parashard.{module}" for name, module in parashard._PUBLIC.items()}}


def test_types_take_no_time_to_import():
    code = f"import sys; sys.path.insert(0, {str(package_folder())!r}); import parashard; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert [name for name in loaded if name.split(".")[0] in ("typing", "typing_extensions", "torch")] == []
    assert [name for name in loaded if name.startswith("parashard")] == ["parashard"]


def test_plans_have_types_for_all_flags():
    """The flags of the group Plan, and the two others that a plan may set, without those that are arguments of `Plan` or name files."""
    page = (ROOT / "docs/ps-compile-flags.md").read_text()
    flags = set(re.findall(r"^\| `--([\w-]+)", page.split("\n## Plan\n")[1].split("\n## ")[0], re.M))
    flags = flags - {"auto", "mesh", "plan", "ranks", "write-plan"} | {"batch", "target"}
    assert set(parashard.annotations.Flags.__annotations__) == {flag.replace("-", "_") for flag in flags}


def test_the_stub_has_the_methods_of_the_runtime():
    stub = {node.name: node.body for node in ast.parse((PACKAGE / "_runtime.pyi").read_text()).body if isinstance(node, ast.ClassDef)}
    for kind, body in stub.items():
        named = {node.name for node in body if isinstance(node, ast.FunctionDef)} | {node.target.id for node in body if isinstance(node, ast.AnnAssign)}
        assert named - {"__init__"} == {name for name in vars(getattr(_runtime, kind)) if not name.startswith("_")}
    assert set(stub) == {name for name, value in vars(_runtime).items() if isinstance(value, type)}


def test_the_package_says_that_it_has_types():
    assert all((package_folder() / "parashard" / name).is_file() for name in ("py.typed", "_runtime.pyi"))


# `# error: CODE` and `# type: TYPE` say what mypy reports for a line.
CALLS = """\
import parashard
import torch

net, x = torch.nn.Linear(2, 3), torch.zeros(4, 2)
data = torch.utils.data.TensorDataset(x)


def adam(model: torch.nn.Linear) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters())


def halve(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.StepLR:
    return torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)


plan = parashard.Plan("dp=2", micro_batches=2).replace(zero=None)
parashard.Plan("dp=2", micro_batches="2")  # error: arg-type
parashard.Plan("dp=2", micro_batch=2)  # error: call-arg
plan.replace(micro_batches="2")  # error: arg-type
model, optimizer = parashard.parallelize(plan, net, adam, example=x)
model, optimizer = parashard.parallelize(plan, net, adam, halve, example=x)  # error: misc
model, optimizer, scheduler = parashard.parallelize(plan, net, adam, lambda optimizer: halve(optimizer), example=x)
model, optimizer, scheduler = parashard.parallelize(plan, net, adam, example=(x,))  # error: misc
reveal_type(scheduler)  # type: StepLR
model, optimizer, loader = parashard.parallelize("dp=2", net, lambda model: adam(model), dataset=data, batch_size=2)
model, optimizer, loader = parashard.parallelize("dp=2", net, adam, None, data, batch_size=2)
reveal_type(loader)  # type: BatchLoader[tuple[Tensor, ...]]
model, optimizer, scheduler, loader = parashard.parallelize("dp=2", net, adam, halve, data, batch_size=2, seed=1)
model, optimizer, scheduler, loader = parashard.parallelize("dp=2", net, adam, halve, dataset=data, batch_size=2)
parashard.parallelize("dp=2", net, adam)  # error: call-overload
parashard.parallelize("dp=2", net, adam, example=x, threads="2")  # error: call-overload
parashard.compile  # error: attr-defined
reveal_type(parashard.deferred_init(torch.nn.Linear, 2, 3))  # type: Linear
parashard.deferred_init(torch.nn.Linear, 2)  # error: call-arg
reveal_type(parashard.plugins.GeminiPlugin(ranks=2).plan)  # type: Plan
reveal_type(parashard.generate_plan({"zero": [0, 1]}, net, example=x, optimizer_fn=adam)["zero"])  # type: Any
objects = {"model": model, "optimizer": optimizer, "lr_scheduler": scheduler}
parashard.save("state.pt", {"plan": plan, **objects})
reveal_type(parashard.load("state.pt", objects))  # type: dict[str, Any]
engine = parashard.Engine(plan=plan, precision="bf16")
staged, trainer = engine.initialize(net, adam(net))
engine.save(staged, "model.pt", plan="folder")  # error: arg-type
status, result, strategy = parashard.auto_accelerate(net, torch.optim.Adam, data, load_strategy=["zero1"])
reveal_type(result.model)  # type: CompiledModel
parashard.env.rank.bit_length()
parashard.launch("gloo")  # error: arg-type
"""


@pytest.mark.full
def test_mypy_accepts_the_examples_and_reports_wrong_calls(tmp_path):
    calls = tmp_path / "calls.py"
    calls.write_text(CALLS)
    line = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", tmp_path / "cache", "--no-pretty"]
    files = [calls, ROOT / "examples/python", PACKAGE]
    done = subprocess.run([*line, *files], cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""})
    assert not done.stderr
    others = [text for text in done.stdout.splitlines()[:-1] if not text.startswith(str(calls))]
    assert others == []
    found = re.findall(r"calls\.py:(\d+): (?:error: .*\[(.+)\]|note: Revealed type is \"(.+)\")$", done.stdout, re.M)
    expected = [(str(number), *match.groups()) for number, text in enumerate(CALLS.splitlines(), 1) if (match := re.search("# (error|type): (.+)", text))]
    shortened = [(number, "error", code) if code else (number, "type", re.sub(r"\b\w+\.", "", kind)) for number, code, kind in found]
    assert shortened == expected
