"""Writes a PyTorch model, with its loss in the graph, as the .pt2 archive that `ps-compile` trains.

    python -m parashard.export hf:PATH --batch 8 --seq 1024 -o llama.pt2
    python -m parashard.export my_model.py:make -o model.pt2

PATH is a folder or a name of the Hugging Face hub; with --meta only its configuration is read, and the parameters
have no data (a program compiled from it starts with `--init` or `--weights`). `make()` returns (module, inputs),
inputs a dict by the names of forward's parameters. From Python:

    from parashard.export import export
    export(module, {"x": x, "labels": labels}, "model.pt2", loss=lambda outputs, labels: F.cross_entropy(outputs, labels))
"""

import argparse
import contextlib
import dataclasses
import importlib.util
import inspect
import os
import pathlib
import shutil
import subprocess
import sys
import traceback
import types
import warnings
from unittest import mock

import torch
from torch._decomp import decomposition_table

from parashard.custom_gradients import Dropped, check_hooks, custom_gradients_are_refused
from parashard.stopped_gradients import (
    data_is_detached,
    detach_no_grad_regions,
    has_untracked_writes,
    refuse_untracked_writes,
    stops_in_autocast_are_refused,
    trained_tensors_stay_trained,
)

__all__ = ["ExportFailed", "Exported", "export", "without_data"]


class ExportFailed(Exception):
    """The model cannot be exported; the message says why and what to do."""


@dataclasses.dataclass
class Exported:
    """What was written."""

    path: pathlib.Path
    inputs: dict  # name -> shape; a dim that may be bound later is the name of its symbol
    loss: str  # name of the output that is the loss, "" when there is none
    parameters: int  # elements
    trained: int  # elements of those that require gradients
    notes: list  # what the user should know
    unsupported: str = ""  # what ps-compile cannot import, and where it stands in the model


# ---- models --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def without_data():
    """Modules made here have parameters on the `meta` device, without data; buffers keep their values.

    Parameters are made by `torch.empty` and never written: their memory is not touched.
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


def from_hugging_face(path, meta=False, attention="sdpa", task="causal-lm"):
    """A model of `transformers` by a folder or a name; with `meta` its configuration alone is read."""
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
        raise ExportFailed(f"{path}: {error}") from error
    model.tie_weights()
    return model


def example_inputs(model, task, batch, length, padding=False):
    """Inputs of a Hugging Face model: token numbers, or images, and labels; with `padding`, which tokens are real."""
    config = model.config

    def tokens(*shape):
        return torch.zeros(shape, dtype=torch.int64)

    if task == "image-classification":
        size, channels = getattr(config, "image_size", 224), getattr(config, "num_channels", 3)
        return {"pixel_values": torch.zeros(batch, channels, size, size), "labels": tokens(batch)}
    longest = getattr(config, "max_position_embeddings", None)
    if longest and length > longest:
        raise ExportFailed(f"--seq {length}: this model has {longest} positions")
    inputs = {"input_ids": tokens(batch, length), "labels": tokens(batch, length)}
    if padding or task == "masked-lm":
        inputs["attention_mask"] = torch.ones(batch, length, dtype=torch.int64)
    return inputs


def from_function(source):
    """(module, inputs) that FILE.py:NAME or PACKAGE:NAME returns."""
    where, _, name = source.rpartition(":")
    if not where:
        raise ExportFailed(f"{source}: give hf:PATH, FILE.py:FUNCTION or MODULE:FUNCTION")
    if where.endswith(".py"):
        if not pathlib.Path(where).is_file():
            raise ExportFailed(f"{where}: no such file")
        spec = importlib.util.spec_from_file_location(pathlib.Path(where).stem, where)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, os.getcwd())
        try:
            module = importlib.import_module(where)
        except ModuleNotFoundError as error:
            raise ExportFailed(f"{source}: {error}") from error
    function = getattr(module, name, None)
    if function is None:
        raise ExportFailed(f"{where} has no {name}")
    made = function()
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], torch.nn.Module) and isinstance(made[1], dict)):
        raise ExportFailed(f"{source} returned {type(made).__name__}; it must return (module, inputs), inputs a dict by name")
    return made


# ---- exporting -----------------------------------------------------------------------------------------------------


def add_loss(module, loss):
    """Makes forward take `labels` too, and return (loss, outputs...): names of parameters stay as they are."""
    forward = module.forward
    signature = inspect.signature(forward)
    if "labels" in signature.parameters:
        raise ExportFailed("the model takes labels already, so its loss is its own; leave `loss` out")
    labels = inspect.Parameter("labels", inspect.Parameter.KEYWORD_ONLY)
    parameters = list(signature.parameters.values())
    variadic = [p for p in parameters if p.kind is inspect.Parameter.VAR_KEYWORD]
    fixed = [p for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD]

    def forward_with_loss(self, *arguments, labels, **options):
        outputs = forward(*arguments, **options)
        value = loss(outputs, labels)
        rest = outputs if isinstance(outputs, (tuple, list)) else [outputs]
        return (value, *rest)

    forward_with_loss.__signature__ = inspect.Signature(
        [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD), *fixed, labels, *variadic]
    )
    return mock.patch.object(module, "forward", types.MethodType(forward_with_loss, module), create=True)


def check_inputs(module, inputs):
    """Every input is a parameter of forward, and no required one is missing."""
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
            raise ExportFailed(f"input {name} is {type(value).__name__}; inputs are tensors (bind others with functools.partial)")


@contextlib.contextmanager
def autocast_on_meta():
    """torch 2.9 has no autocast for the meta device; Hugging Face turns it off there around rotary tables."""
    autocast = torch.autocast

    def choose(device_type, *arguments, **options):
        return contextlib.nullcontext() if device_type == "meta" else autocast(device_type, *arguments, **options)

    with mock.patch("torch.autocast", choose):
        yield


def broadcast_mask(mask_function, bh_indices=True):
    """What `vmap` over batch, heads, queries and keys makes of a mask of one place each, by broadcasting."""

    def of_all(batch, heads, queries, keys):
        rows = queries[:, None]
        if not bh_indices:
            return mask_function(batch, heads, rows, keys).expand(queries.shape[0], keys.shape[0])
        mask = mask_function(batch[:, None, None, None], heads[:, None, None], rows, keys)
        return mask.expand(batch.shape[0], heads.shape[0], queries.shape[0], keys.shape[0])

    return of_all


def broadcast_padding(padding_mask):
    """The mask of padding alone; without a cache the keys are all of the tokens, in order."""
    return lambda batch, heads, queries, keys: padding_mask[:, None, None, : keys.shape[0]]


def broadcast_packing(sequence):
    """The mask of samples that are packed: which of them a token is of must be the same."""
    return lambda batch, heads, queries, keys: sequence[:, None, :, None] == sequence[:, None, None, :]


@contextlib.contextmanager
def masks_without_vmap():
    """Hugging Face makes its attention masks by vmap, which torch.export cannot follow with a free batch."""
    with contextlib.ExitStack() as stack:
        if "transformers" in sys.modules:
            from transformers import masking_utils

            if hasattr(masking_utils, "_vmap_for_bhqkv"):  # else another version: its masks are traced as they are
                stack.enter_context(mock.patch.object(masking_utils, "_vmap_for_bhqkv", broadcast_mask))
                stack.enter_context(mock.patch.object(masking_utils, "padding_mask_function", broadcast_padding))
                stack.enter_context(mock.patch.object(masking_utils, "packed_sequence_mask_function", broadcast_packing))
        yield


class NoneBelow(float):
    """The number 0 where `torch.rand` is compared with it: nothing that is drawn from [0, 1) is below, whatever it is."""

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        if getattr(function, "__name__", "") in ("lt", "__lt__"):
            return False
        plain = [float(a) if isinstance(a, cls) else a for a in arguments]
        return function(*plain, **(options or {}))


@contextlib.contextmanager
def layers_kept(module):
    """Hugging Face's encoders and decoders draw in training which layers to leave out: `if torch.rand([]) < self.layerdrop`.

    torch.export cannot follow a branch on a number that is drawn. With a `layerdrop` of 0 the answer is known.
    """
    with contextlib.ExitStack() as stack:
        for name, part in module.named_modules():
            share = getattr(part, "layerdrop", None)
            if not part.training or not isinstance(share, (int, float)):
                continue
            if share > 0:
                raise ExportFailed(f"{name or 'the model'} leaves out layers at random (layerdrop = {share}), "
                                   "which no graph can; set it to 0")  # fmt: skip
            stack.enter_context(mock.patch.object(part, "layerdrop", NoneBelow()))
        yield


@contextlib.contextmanager
def without_cache(module):
    """Hugging Face's decoders return what they would need to generate further tokens, in objects that no archive can hold."""
    configs = {id(part.config): part.config for part in module.modules() if getattr(getattr(part, "config", None), "use_cache", False) is True}
    try:
        for config in configs.values():
            config.use_cache = False
        yield
    finally:
        for config in configs.values():
            config.use_cache = True


def batch_dims(inputs):
    """Dim 0 of every input with the batch's size, left to PyTorch to find fixed or free."""
    sizes = {value.shape[0] for value in inputs.values() if value.dim()}
    if len(sizes) != 1 or 1 in sizes:
        return None
    return {name: {0: torch.export.Dim.AUTO} if value.dim() else None for name, value in inputs.items()}


REGIONS = ("wrap_with_set_grad_enabled", "wrap_with_autocast")  # graphs in a graph that the compiler imports


def is_operator(target):
    """Whether an archive can hold a call of it: operators of PyTorch, and arithmetic on sizes."""
    if isinstance(target, torch._ops.HigherOrderOperator):
        return target.name() in REGIONS
    return isinstance(target, torch._ops.OpOverload) or type(target) is type(len) or getattr(target, "__name__", "").startswith("sym_")


def nodes_of(program):
    """All nodes, those of the graphs in its graph too."""
    parts = (part for part in program.graph_module.modules() if isinstance(part, torch.fx.GraphModule))
    return [node for part in parts for node in part.graph.nodes]


def trace(module, inputs, dynamic_shapes):
    """torch.export of a model whose masks have no vmap, as an archive can hold it."""
    with warnings.catch_warnings(), autocast_on_meta(), masks_without_vmap():
        warnings.simplefilter("ignore")
        with stops_in_autocast_are_refused(), trained_tensors_stay_trained(), data_is_detached(), custom_gradients_are_refused():
            program = torch.export.export(module, (), dict(inputs), dynamic_shapes=dynamic_shapes)
        if all(is_operator(node.target) for node in nodes_of(program) if node.op == "call_function"):
            return program
        refuse_untracked_writes(program)
        return decompose(program)


def decompose(program):
    """The program without regions (torch.vmap), and with new values where it writes in place.

    Whether autograd saw a write is lost: so only what the compiler cannot import as it is. PyTorch's rule for the shape of
    nll_loss takes `reduction` for `size_average` and gives "none" the shape of a mean (torch 2.9, with a free batch).
    Without this rule the shape is right.
    """
    with warnings.catch_warnings(), mock.patch.dict(decomposition_table):
        decomposition_table.pop(torch.ops.aten.nll_loss.default, None)
        warnings.simplefilter("ignore")
        detach_no_grad_regions(program)
        return program.run_decompositions({})


@contextlib.contextmanager
def model_is_told_of():
    """What the model does and an archive cannot hold is an ExportFailed with its own message."""
    try:
        yield
    except Dropped as error:
        raise ExportFailed(str(error)) from error


def explain(error):
    """PyTorch's message, and what usually helps."""
    text = f"{type(error).__name__}: {error}"
    functions = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    hints = {
        "_detect_is_causal_mask": "PyTorch's transformer layers look at the values of mask=: pass is_causal=True beside it where it is causal, "
        "else is_causal=False",
        "data-dependent": "a Python `if`, loop or index depends on the values of a tensor: use torch.where, or a fixed size",
        "GuardOnDataDependent": "a Python `if`, loop or index depends on the values of a tensor: use torch.where, or a fixed size",
        "item()": ".item() takes a value out of the graph: keep it a tensor",
        "is a view and is being modified inplace": "write a new tensor in place of x[...] = y on a part of chunk() or split()",
        "out=": "functions with out= cannot be differentiated: use the result",
    }
    lines = text.splitlines()
    shown = "\n".join(lines[:12] + (["..."] if len(lines) > 12 else []))
    helps = next((hint for word, hint in hints.items() if word in functions or word.lower() in text.lower()), "")
    return f"torch.export failed:\n{shown}" + (f"\nwhat helps: {helps}" if helps else "")


def find_tool(name):
    """A tool of the compiler: in the folder PARASHARD_BIN, on the PATH, or in this checkout's release build; None elsewhere."""
    build = pathlib.Path(__file__).resolve().parents[2] / "build/release/bin"
    folders = [os.environ.get("PARASHARD_BIN"), os.environ.get("PATH"), str(build)]
    return next((found for folder in folders if folder and (found := shutil.which(name, path=folder))), None)


def find_unsupported(path):
    """The compiler's own message about what it cannot import; "" when there is none, None without the compiler."""
    tool = find_tool("ps-translate")
    if not tool:
        return None
    done = subprocess.run([tool, "--import-pt2", path, "--check"], capture_output=True, text=True, errors="replace")
    lines = [line for line in done.stderr.splitlines() if not line.startswith("ps-translate: note: ")]
    return "" if done.returncode == 0 else "\n".join(lines).replace("ps-translate: error: ", "")


def write(program, path):
    """Writes the archive whole, or leaves what is there."""
    temporary = path.with_name(path.stem + ".tmp.pt2")
    try:
        torch.export.save(program, str(temporary))
        os.replace(temporary, path)
    except OSError as error:
        raise ExportFailed(f"cannot write {path}: {error.strerror or error}") from error
    except RuntimeError as error:
        raise ExportFailed(f"cannot write {path}: {error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def describe(program, path, notes):
    """The input shapes, the loss and the parameters of an exported program."""
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
        sum(p.numel() for p in parameters if p.requires_grad), notes,
    )  # fmt: skip


@contextlib.contextmanager
def in_mode(module, train, notes):
    """Puts a module into training or evaluation mode. What a module in training mode has in evaluation mode stays so."""
    modes = {part: part.training for part in module.modules()}
    frozen = [name for name, part in module.named_modules() if not part.training]
    if not (train and module.training):
        module.train(train)
    elif frozen:
        named = ", ".join(frozen[:8]) + (f" and {len(frozen) - 8} more" if len(frozen) > 8 else "")
        notes.append(f"in evaluation mode, and exported so: {named}")
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def export(module, inputs, path, *, loss=None, train=True, dynamic_batch=True):
    """Exports `module` called with `inputs` (a dict by name) to the archive `path`; returns an `Exported`.

    `loss(outputs, labels)` is put into the graph, with "labels" among the inputs; models that return their loss need
    none. Where the compiler is installed, `unsupported` names what it cannot import. `train` exports dropout and
    normalization as in training (evaluation is made from the same graph); where the model is in training mode, parts of
    it that are not (a frozen batch norm) stay as they are. The batch, dim 0 of every input, stays free where the model
    allows it, so that `ps-compile --batch N` may choose it. The modes of the model are afterwards what they were.
    Hugging Face's `config.use_cache` is off in the graph. A module's `layerdrop` (layers left out at random in training,
    as some of Hugging Face's have it) must be 0.
    """
    path = pathlib.Path(path)
    if path.suffix != ".pt2":
        raise ExportFailed(f"{path}: the archive's name must end in .pt2")
    notes = []
    patched = add_loss(module, loss) if loss else contextlib.nullcontext()
    with in_mode(module, train, notes):
        with model_is_told_of(), patched, layers_kept(module), without_cache(module):
            check_inputs(module, inputs)
            notes += check_hooks(module)
            if any(p.device.type == "meta" for p in module.parameters()):
                inputs = {name: value.to("meta") for name, value in inputs.items()}
                notes.append("parameters have no data: train with --init or --weights")
            shapes = batch_dims(inputs) if dynamic_batch else None
            try:
                program = trace(module, inputs, shapes)
            except Dropped:
                raise
            except Exception as error:  # noqa: BLE001 - whatever PyTorch raises, a fixed batch is tried
                if shapes is None:
                    raise ExportFailed(explain(error)) from error
                try:
                    program = trace(module, inputs, None)
                except Exception as fixed_error:  # noqa: BLE001
                    helps = "\nwhat helps: if this names a symbol, a fixed batch from the start (--fixed-batch, dynamic_batch=False)"
                    raise ExportFailed(explain(fixed_error) + helps) from fixed_error
                notes.append("the batch is fixed: torch.export fails with a free one")
    write(program, path)
    unsupported = find_unsupported(path)
    if unsupported and not has_untracked_writes(program):
        program = decompose(program)
        write(program, path)
        unsupported = find_unsupported(path)
    exported = describe(program, path, notes)
    if shapes and not any(isinstance(s, str) for shape in exported.inputs.values() for s in shape) and not any("the batch is fixed" in note for note in notes):
        notes.append("the batch is fixed: the model depends on its size")
    if unsupported is None:
        notes.append("the ops were not checked: ps-translate is not on the PATH")
    exported.unsupported = unsupported or ""
    if not exported.loss:
        notes.append("no output is a scalar: give a loss here, or ps-compile --loss cross_entropy")
    return exported


# ---- command line --------------------------------------------------------------------------------------------------


def parse(arguments):
    parser = argparse.ArgumentParser(prog="python -m parashard.export", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("source", help="hf:PATH, FILE.py:FUNCTION or MODULE:FUNCTION")
    parser.add_argument("-o", "--output", required=True, help="the archive, *.pt2")
    parser.add_argument("--batch", type=int, default=8, help="samples in the example batch (hf:; default 8)")
    parser.add_argument("--seq", type=int, default=256, help="tokens in a sample (hf:; default 256)")
    parser.add_argument("--task", default="causal-lm", choices=["causal-lm", "masked-lm", "seq2seq-lm", "image-classification"])
    parser.add_argument("--padding", action="store_true",
                        help="samples are padded: attention_mask is an input (hf:; masked-lm always has it)")  # fmt: skip
    parser.add_argument("--attention", default="sdpa", choices=["sdpa", "eager"], help="Hugging Face's implementation")
    parser.add_argument("--meta", action="store_true", help="no weights: only the configuration is read (hf:)")
    parser.add_argument("--eval", action="store_true", help="export in evaluation mode (dropout off)")
    parser.add_argument("--fixed-batch", action="store_true", help="do not try to keep the batch free")
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
        sys.exit(f"error: {error}")
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
