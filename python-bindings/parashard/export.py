"""Exports a PyTorch model, with its loss in the graph, to a .pt2 archive that `ps-compile` compiles.

    python -m parashard.export hf:PATH --batch 8 --seq 1024 -o llama.pt2
    python -m parashard.export my_model.py:make -o model.pt2

PATH is a folder or the name of a model on the Hugging Face hub. With --meta, only its configuration is read, and the
parameters have no data: give initial values to ps-compile (`--init`) or to the program (`--weights`). `make()` returns
(module, inputs); inputs is a dict from the names of forward's parameters to tensors. From Python:

    from parashard.export import export
    export(module, {"x": x, "labels": labels}, "model.pt2", loss=lambda outputs, labels: F.cross_entropy(outputs, labels))
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import inspect
import os
import pathlib
import subprocess
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from torch._decomp import decomposition_table
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from parashard.custom_gradients import Dropped, check_hooks, custom_gradients_are_refused
from parashard.errors import ExportFailed
from parashard.stopped_gradients import (
    data_is_detached,
    detach_no_grad_regions,
    has_untracked_writes,
    refuse_untracked_writes,
    stops_in_autocast_are_refused,
    trained_tensors_stay_trained,
)
from parashard.tools import find_tool

if TYPE_CHECKING:
    from parashard.annotations import Path

__all__ = ["ExportFailed", "Exported", "export", "without_data"]


@dataclasses.dataclass
class Exported:
    """Describes an archive that `export` wrote."""

    path: pathlib.Path
    inputs: dict[str, list[int | str]]  # name -> shape; a dynamic dim is the name of its symbol, such as "s72"
    loss: str  # name of the first scalar output, the loss; "" if no output is a scalar
    parameters: int  # number of elements of all parameters
    trained: int  # number of elements of parameters that require gradients
    notes: list[str]  # messages for the user
    program: torch.export.ExportedProgram = dataclasses.field(repr=False)
    unsupported: str = ""  # the ops that ps-compile cannot import, with their source lines


# ---- models --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def without_data() -> Iterator[None]:
    """Makes modules that are created in this context have parameters without data, on the `meta` device.

    Buffers keep their values. Each parameter is first created by `torch.empty` and never written, so that the system
    allocates no memory for it.
    """
    register = torch.nn.Module.register_parameter

    def register_without_data(module, name, parameter):
        if parameter is not None:
            parameter = torch.nn.Parameter(parameter.to("meta"), requires_grad=parameter.requires_grad)
        register(module, name, parameter)

    def keep(tensor, *arguments, **options):
        return tensor

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(torch.nn.Module, "register_parameter", register_without_data))
        for name in dir(torch.nn.init):
            if name.endswith("_") and not name.startswith("_"):
                stack.enter_context(mock.patch.object(torch.nn.init, name, keep))
        yield


class BadSource(ExportFailed):
    """The argument that names the model is wrong. The exit status is 2."""


def from_hugging_face(path, meta=False, attention="sdpa", task="causal-lm"):
    """Loads a model of `transformers` from a folder or by name. With `meta`, reads only its configuration."""
    try:
        import transformers
    except ImportError:
        raise ExportFailed("hf:PATH needs the package transformers: pip install transformers") from None
    kinds = {
        "causal-lm": transformers.AutoModelForCausalLM,
        "masked-lm": transformers.AutoModelForMaskedLM,
        "seq2seq-lm": transformers.AutoModelForSeq2SeqLM,
        "image-classification": transformers.AutoModelForImageClassification,
    }
    kind = kinds[task]
    try:
        if not meta:
            return kind.from_pretrained(path, attn_implementation=attention)
        config = transformers.AutoConfig.from_pretrained(path)
        with without_data():
            model = kind.from_config(config, attn_implementation=attention)
    except (OSError, ValueError) as error:
        raise BadSource(f"{path}: {error}") from error
    model.tie_weights()
    return model


def example_inputs(model, task, batch, length, padding=False):
    """Returns example inputs of a Hugging Face model: token ids or images, and labels.

    With `padding`, also returns `attention_mask`, which marks the tokens that are not padding.
    """
    config = model.config

    def tokens(*shape):
        return torch.zeros(shape, dtype=torch.int64)

    if task == "image-classification":
        size, channels = getattr(config, "image_size", 224), getattr(config, "num_channels", 3)
        return {"pixel_values": torch.zeros(batch, channels, size, size), "labels": tokens(batch)}
    longest = getattr(config, "max_position_embeddings", None)
    if longest and length > longest:
        raise ExportFailed(f"--seq {length}: this model has {longest} positions; give a smaller --seq")
    inputs = {"input_ids": tokens(batch, length), "labels": tokens(batch, length)}
    if padding or task == "masked-lm":
        inputs["attention_mask"] = torch.ones(batch, length, dtype=torch.int64)
    return inputs


def from_function(source):
    """Calls the function FILE.py:FUNCTION or MODULE:FUNCTION, which returns (module, inputs). Returns this pair."""
    where, _, name = source.rpartition(":")
    if not where:
        raise BadSource(f"{source}: give hf:PATH, FILE.py:FUNCTION or MODULE:FUNCTION")
    if where.endswith(".py"):
        if not pathlib.Path(where).is_file():
            raise BadSource(f"{where}: no such file")
        spec = importlib.util.spec_from_file_location(pathlib.Path(where).stem, where)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, os.getcwd())
        try:
            module = importlib.import_module(where)
        except ModuleNotFoundError as error:
            raise BadSource(f"{source}: {error}") from error
    function = getattr(module, name, None)
    if function is None:
        raise BadSource(f"{where} has no function {name}")
    made = function()
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], torch.nn.Module) and isinstance(made[1], dict)):
        raise ExportFailed(f"{source} returned {type(made).__name__}; it must return (module, inputs), where inputs is a dict by name")
    return made


# ---- exporting -----------------------------------------------------------------------------------------------------


def add_loss(module, loss):
    """Returns a context in which forward also takes `labels`, and returns (loss, outputs...). The model's parameters keep their names."""
    forward = module.forward
    if "labels" in inspect.signature(forward).parameters:
        raise ExportFailed("forward already takes `labels`, so the model computes its own loss; omit `loss`")

    def forward_with_loss(self, *arguments, labels, **options):
        outputs = forward(*arguments, **options)
        value = loss(outputs, labels)
        rest = outputs if isinstance(outputs, (tuple, list)) else [outputs]
        return (value, *rest)

    return replace_forward(module, forward_with_loss, ["labels"])


def replace_forward(module, function, names):
    """Returns a context in which forward is `function(module, ...)`, which takes the arguments of forward and the keywords `names`."""
    parameters = list(inspect.signature(module.forward).parameters.values())
    variadic = [p for p in parameters if p.kind is inspect.Parameter.VAR_KEYWORD]
    fixed = [p for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD]
    added = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
    function.__signature__ = inspect.Signature(
        [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD), *fixed, *added, *variadic]
    )
    return mock.patch.object(module, "forward", types.MethodType(function, module), create=True)


def check_inputs(module, inputs):
    """Fails if an input is not a parameter of forward or not a tensor, or if a required input is missing."""
    parameters = inspect.signature(module.forward).parameters
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    unknown = [name for name in inputs if name not in parameters and not takes_any]
    missing = [
        name
        for name, p in parameters.items()
        if name not in inputs and p.default is inspect.Parameter.empty
        and p.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    ]  # fmt: skip
    if unknown:
        raise ExportFailed(f"forward has no parameter {', '.join(unknown)}; it has {', '.join(parameters)}")
    if missing:
        raise ExportFailed(f"forward also needs {', '.join(missing)}")
    for name, value in inputs.items():
        if not isinstance(value, torch.Tensor):
            raise ExportFailed(f"input {name} is {type(value).__name__}; inputs must be tensors (bind other values with functools.partial)")


@contextlib.contextmanager
def meta_as_cpu(module):
    """Replaces parameters on the device `meta` by fake tensors of the CPU, so that ops can combine them with real tensors."""
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    fakes, originals = {}, []
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is None or parameter.device.type != "meta":
                continue
            if parameter not in fakes:  # tied parameters stay tied
                with mode:
                    fakes[parameter] = torch.nn.Parameter(torch.empty(parameter.shape, dtype=parameter.dtype), parameter.requires_grad)
            originals.append((part, name, parameter))
    try:
        for part, name, parameter in originals:
            part._parameters[name] = fakes[parameter]
        yield
    finally:
        for part, name, parameter in originals:
            part._parameters[name] = parameter


@contextlib.contextmanager
def fakes_as_meta(program):
    """Replaces the fake tensors of a program by tensors without data, which an archive can contain."""
    fakes = {name: value for name, value in program.state_dict.items() if isinstance(value, FakeTensor)}
    replacements = {}
    with torch.utils._python_dispatch._disable_current_modes():
        for name, value in fakes.items():
            if value not in replacements:  # tied parameters stay tied
                replacements[value] = torch.nn.Parameter(torch.empty(value.shape, dtype=value.dtype, device="meta"), value.requires_grad)
            program.state_dict[name] = replacements[value]
    try:
        yield
    finally:
        program.state_dict.update(fakes)


def broadcast_mask(mask_function, bh_indices=True):
    """Returns a function that computes a mask for all batch rows, heads, queries and keys by broadcasting, as `vmap` does.

    `mask_function` returns one element of the mask: whether query `i` of head `h` in sample `b` attends to key `j`.
    """

    def of_all(batch, heads, queries, keys):
        rows = queries[:, None]
        if not bh_indices:
            return mask_function(batch, heads, rows, keys).expand(queries.shape[0], keys.shape[0])
        mask = mask_function(batch[:, None, None, None], heads[:, None, None], rows, keys)
        return mask.expand(batch.shape[0], heads.shape[0], queries.shape[0], keys.shape[0])

    return of_all


def broadcast_padding(padding_mask):
    """Returns the mask of padding. Without a cache, the keys are all tokens, in order."""
    return lambda batch, heads, queries, keys: padding_mask[:, None, None, : keys.shape[0]]


def broadcast_packing(sequence):
    """Returns the mask of packed samples: a query and a key must be in the same sample."""
    return lambda batch, heads, queries, keys: sequence[:, None, :, None] == sequence[:, None, None, :]


@contextlib.contextmanager
def masks_without_vmap():
    """Replaces the vmap with which Hugging Face builds attention masks. torch.export cannot trace it with a dynamic batch."""
    with contextlib.ExitStack() as stack:
        if "transformers" in sys.modules:
            from transformers import masking_utils

            if hasattr(masking_utils, "_vmap_for_bhqkv"):  # without this function (other versions of transformers), masks are traced unchanged
                stack.enter_context(mock.patch.object(masking_utils, "_vmap_for_bhqkv", broadcast_mask))
                stack.enter_context(mock.patch.object(masking_utils, "padding_mask_function", broadcast_padding))
                stack.enter_context(mock.patch.object(masking_utils, "packed_sequence_mask_function", broadcast_packing))
        yield


class NoneBelow(float):
    """The number 0.0, for which `torch.rand([]) < x` is the constant False: random numbers are in [0, 1)."""

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        if getattr(function, "__name__", "") in ("lt", "__lt__"):
            return False
        plain = [float(a) if isinstance(a, cls) else a for a in arguments]
        return function(*plain, **(options or {}))


@contextlib.contextmanager
def layers_kept(module):
    """Removes the random choice of skipped layers (`layerdrop`) from a model. Fails if `layerdrop` is above 0.

    In training, Hugging Face's encoders and decoders skip a layer `if torch.rand([]) < self.layerdrop`. torch.export cannot
    trace a branch on a random number. With a `layerdrop` of 0, the condition is always False.
    """
    with contextlib.ExitStack() as stack:
        for name, part in module.named_modules():
            share = getattr(part, "layerdrop", None)
            if not part.training or not isinstance(share, (int, float)):
                continue
            if share > 0:
                raise ExportFailed(f"{name or 'the model'} skips layers at random (layerdrop = {share}), "
                                   "which an exported graph cannot do; set it to 0")  # fmt: skip
            stack.enter_context(mock.patch.object(part, "layerdrop", NoneBelow()))
        yield


@contextlib.contextmanager
def without_cache(module):
    """Turns off the cache that Hugging Face's decoders return to generate further tokens. An archive cannot contain its objects."""
    configs = {id(part.config): part.config for part in module.modules() if getattr(getattr(part, "config", None), "use_cache", False) is True}
    try:
        for config in configs.values():
            config.use_cache = False
        yield
    finally:
        for config in configs.values():
            config.use_cache = True


def batch_dims(inputs):
    """Returns `dynamic_shapes` in which dim 0 of every input is AUTO: torch.export decides whether it is dynamic.

    Returns None if the inputs have different sizes of dim 0, or the size is 1.
    """
    sizes = {value.shape[0] for value in inputs.values() if value.dim()}
    if len(sizes) != 1 or 1 in sizes:
        return None
    return {name: {0: torch.export.Dim.AUTO} if value.dim() else None for name, value in inputs.items()}


REGIONS = ("wrap_with_set_grad_enabled", "wrap_with_autocast")  # ops with subgraphs that the compiler imports


def is_operator(target):
    """Returns whether an archive can contain a call of `target`: operators of PyTorch, and arithmetic on sizes."""
    if isinstance(target, torch._ops.HigherOrderOperator):
        return target.name() in REGIONS
    return isinstance(target, torch._ops.OpOverload) or type(target) is type(len) or getattr(target, "__name__", "").startswith("sym_")


def nodes_of(program):
    """Returns all nodes of a program, including those of subgraphs."""
    parts = (part for part in program.graph_module.modules() if isinstance(part, torch.fx.GraphModule))
    return [node for part in parts for node in part.graph.nodes]


def trace(module, inputs, dynamic_shapes):
    """Exports a model with torch.export. Decomposes functions that an archive cannot contain, such as torch.vmap."""
    with warnings.catch_warnings(), masks_without_vmap():
        warnings.simplefilter("ignore")
        with stops_in_autocast_are_refused(), trained_tensors_stay_trained(), data_is_detached(), custom_gradients_are_refused():
            program = torch.export.export(module, (), dict(inputs), dynamic_shapes=dynamic_shapes)
        if all(is_operator(node.target) for node in nodes_of(program) if node.op == "call_function"):
            return program
        refuse_untracked_writes(program)
        return decompose(program)


def decompose(program):
    """Decomposes a program: removes subgraphs (torch.vmap), and replaces in-place writes by new values.

    Afterwards, the program does not record which writes autograd saw. So only programs that the compiler cannot import
    otherwise are decomposed. PyTorch's shape rule of nll_loss is removed: it passes `reduction` as `size_average`, and gives
    "none" the shape of a mean (torch 2.9, with a dynamic batch). Without this rule, the shape is correct.
    """
    with warnings.catch_warnings(), mock.patch.dict(decomposition_table):
        decomposition_table.pop(torch.ops.aten.nll_loss.default, None)
        warnings.simplefilter("ignore")
        detach_no_grad_regions(program)
        return program.run_decompositions({})


@contextlib.contextmanager
def model_is_told_of():
    """Turns a `Dropped` error into an `ExportFailed` with the same message."""
    try:
        yield
    except Dropped as error:
        raise ExportFailed(str(error)) from error


def explain(error):
    """Returns PyTorch's error message, with a hint if the error is known."""
    text = f"{type(error).__name__}: {error}"
    functions = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    hints = {
        "_detect_is_causal_mask": "PyTorch's transformer layers read the values of mask=: also pass is_causal=True if the mask is causal, "
        "otherwise is_causal=False",
        "data-dependent": "a Python `if`, loop or index depends on the values of a tensor: use torch.where, or a fixed size",
        "GuardOnDataDependent": "a Python `if`, loop or index depends on the values of a tensor: use torch.where, or a fixed size",
        "item()": ".item() makes a Python number, which cannot be in the graph: use the tensor",
        "is a view and is being modified inplace": "x[...] = y writes to a result of chunk() or split(): compute a new tensor instead",
        "out=": "functions with out= cannot be differentiated: use the return value",
    }
    lines = text.splitlines()
    shown = "\n".join(lines[:12] + (["..."] if len(lines) > 12 else []))
    helps = next((hint for word, hint in hints.items() if word in functions or word.lower() in text.lower()), "")
    return f"torch.export failed:\n{shown}" + (f"\nwhat helps: {helps}" if helps else "")


def find_unsupported(path):
    """Returns the compiler's message about unsupported ops; "" if all are supported, None if the compiler is not found."""
    tool = find_tool("ps-translate")
    if not tool:
        return None
    done = subprocess.run([tool, "--import-pt2", path, "--check"], capture_output=True, text=True, errors="replace")
    lines = [line for line in done.stderr.splitlines() if not line.startswith("ps-translate: note: ")]
    return "" if done.returncode == 0 else "\n".join(lines).replace("ps-translate: error: ", "")


def write(program, path):
    """Writes the archive. If the write fails, an existing file at `path` stays unchanged."""
    temporary = path.with_name(path.stem + ".tmp.pt2")
    try:
        with fakes_as_meta(program):
            torch.export.save(program, str(temporary))
        os.replace(temporary, path)
    except OSError as error:
        raise ExportFailed(f"cannot write {path}: {error.strerror or error}") from error
    except RuntimeError as error:
        raise ExportFailed(f"cannot write {path}: {error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def describe(program: torch.export.ExportedProgram, path: pathlib.Path, notes: list[str]) -> Exported:
    """Returns the input shapes, the loss and the number of parameters of an exported program."""
    nodes = {node.name: node for node in program.graph.nodes}
    inputs = {
        name: [int(s) if isinstance(s, int) else str(s) for s in nodes[name].meta["val"].shape]
        for name in program.graph_signature.user_inputs
        if isinstance(name, str)
    }
    scalars = [
        name
        for name in program.graph_signature.user_outputs
        if isinstance(name, str) and nodes[name].meta["val"].dim() == 0 and nodes[name].meta["val"].is_floating_point()
    ]
    parameters = list(program.parameters())
    return Exported(
        path, inputs, scalars[0] if scalars else "", sum(p.numel() for p in parameters),
        sum(p.numel() for p in parameters if p.requires_grad), notes, program,
    )  # fmt: skip


@contextlib.contextmanager
def in_mode(module, train, notes):
    """Puts a module into training or evaluation mode, and restores the modes of all its parts afterwards.

    If the module is already in training mode and `train` is set, parts that are in evaluation mode stay in it.
    """
    modes = {part: part.training for part in module.modules()}
    frozen = [name for name, part in module.named_modules() if not part.training]
    if not (train and module.training):
        module.train(train)
    elif frozen:
        named = ", ".join(frozen[:8]) + (f" and {len(frozen) - 8} more" if len(frozen) > 8 else "")
        notes.append(f"exported in evaluation mode: {named}")
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def export(
    module: torch.nn.Module, inputs: dict[str, Any], path: Path, *, loss: Callable[..., torch.Tensor] | None = None, train: bool = True,
    dynamic_batch: bool = True,
) -> Exported:  # fmt: skip
    """Exports `module`, called with `inputs`, to the archive `path`. Returns an `Exported`.

    inputs: a dict from the names of forward's parameters to tensors.
    loss: `loss(outputs, labels)` is added to the graph, and "labels" must be in `inputs`. Models that return their loss
        need no `loss`.
    train: exports dropout and normalization as in training. ps-compile derives the evaluation from the same graph. If
        the model is in training mode, parts in evaluation mode (a frozen batch norm) stay in evaluation mode.
    dynamic_batch: makes the batch (dim 0 of every input) dynamic if the model allows it, so that `ps-compile --batch N`
        can choose it.

    If the compiler is installed, `unsupported` of the result names the ops that it cannot import. The export restores the
    modes of the model. Hugging Face's `config.use_cache` is off in the graph. The `layerdrop` of a module in training mode
    (layers skipped at random, as in some Hugging Face models) must be 0.
    """
    path = pathlib.Path(path)
    if path.suffix != ".pt2":
        raise ExportFailed(f"{path}: the archive's name must end in .pt2")
    notes: list[str] = []
    without_values = any(p.device.type == "meta" for p in module.parameters())
    patched = add_loss(module, loss) if loss else contextlib.nullcontext()
    with in_mode(module, train, notes):
        with model_is_told_of(), patched, layers_kept(module), without_cache(module), meta_as_cpu(module):
            check_inputs(module, inputs)
            notes += check_hooks(module)
            if without_values:
                notes.append("parameters have no data: initialize them with ps-compile --init, or give the program --weights")
            shapes = batch_dims(inputs) if dynamic_batch else None
            try:
                program = trace(module, inputs, shapes)
            except Dropped:
                raise
            except Exception as error:  # noqa: BLE001 - after any error of PyTorch, try a fixed batch
                if shapes is None:
                    raise ExportFailed(explain(error)) from error
                try:
                    program = trace(module, inputs, None)
                except Exception as fixed_error:  # noqa: BLE001
                    helps = "\nwhat helps: if the error names a symbol such as s0, export with --fixed-batch (dynamic_batch=False)"
                    raise ExportFailed(explain(fixed_error) + helps) from fixed_error
                notes.append("the batch is fixed: torch.export fails with a dynamic batch")
    write(program, path)
    unsupported = find_unsupported(path)
    if unsupported and not has_untracked_writes(program):
        program = decompose(program)
        write(program, path)
        unsupported = find_unsupported(path)
    exported = describe(program, path, notes)
    if shapes and not any(isinstance(s, str) for shape in exported.inputs.values() for s in shape) and not any("the batch is fixed" in note for note in notes):
        notes.append("the batch is fixed: the model depends on the batch size")
    if unsupported is None:
        notes.append("the ops were not checked: ps-translate is not on the PATH")
    exported.unsupported = unsupported or ""
    if not exported.loss:
        notes.append("no output is a scalar: pass loss= to export(), or --loss cross_entropy to ps-compile")
    return exported


# ---- command line --------------------------------------------------------------------------------------------------


def parse(arguments):
    parser = argparse.ArgumentParser(prog="python -m parashard.export", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("source", help="hf:PATH, FILE.py:FUNCTION or MODULE:FUNCTION")
    parser.add_argument("-o", "--output", required=True, help="the archive to write, *.pt2")
    parser.add_argument("--batch", type=int, default=8, help="samples in the example batch (only for hf:PATH; default: 8)")
    parser.add_argument("--seq", type=int, default=256, help="tokens in a sample (only for hf:PATH; default: 256)")
    parser.add_argument("--task", default="causal-lm", choices=["causal-lm", "masked-lm", "seq2seq-lm", "image-classification"],
                        help="the task that the model is trained for (only for hf:PATH; default: causal-lm)")
    parser.add_argument("--padding", action="store_true",
                        help="add the input attention_mask, for padded samples (only for hf:PATH; masked-lm always has it)")  # fmt: skip
    parser.add_argument("--attention", default="sdpa", choices=["sdpa", "eager"], help="Hugging Face's implementation of attention (default: sdpa)")
    parser.add_argument("--meta", action="store_true", help="read only the configuration; parameters have no data (only for hf:PATH)")
    parser.add_argument("--eval", action="store_true", help="export in evaluation mode (dropout off)")
    parser.add_argument("--fixed-batch", action="store_true", help="do not try to make the batch dynamic")
    options = parser.parse_args(arguments)
    for name in ("batch", "seq"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1")
    if not options.output.endswith(".pt2"):
        parser.error("the archive's name must end in .pt2")
    return options


def load(options):
    if not options.source.startswith("hf:"):
        return from_function(options.source)
    model = from_hugging_face(options.source[3:], options.meta, options.attention, options.task)
    return model, example_inputs(model, options.task, options.batch, options.seq, options.padding)


def main(arguments=None):
    options = parse(arguments)
    try:
        module, inputs = load(options)
        done = export(module, inputs, options.output, train=not options.eval, dynamic_batch=not options.fixed_batch)
    except ExportFailed as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, BadSource) else 1)
    print(f"wrote {done.path}: {done.parameters:,} parameters, {done.trained:,} of them trained")
    for name, shape in done.inputs.items():
        print(f"  input {name}: {' x '.join(map(str, shape))}")
    print(f"  loss: {done.loss or 'none'}")
    for note in done.notes:
        print(f"  note: {note}")
    if done.unsupported:
        print(f"ps-compile cannot import this model: {done.unsupported}")
        return
    needed = ' --init "normal(0.02)"' if options.meta else ""
    needed += "" if done.loss else " --loss cross_entropy"
    print(f"next: ps-compile {done.path} -o {done.path.stem} --mesh dp=2 --explain{needed}")


if __name__ == "__main__":
    main()
