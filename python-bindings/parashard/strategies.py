"""The optimization methods of ATorch as a table: the flags of the plan that each of them sets, or the reason why it is refused."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Callable
from typing import Any

from parashard.errors import InputError, Unsupported
from parashard.plan import Plan, write_mesh

__all__ = ["METHODS", "Option", "check_tunable", "constrain", "free_tunable", "make_plan", "read_methods"]

AXES = {"data": "dp", "zero": "dp", "tensor": "tp", "pipeline": "pp"}  # of parallel_mode, and of our meshes
SEARCHED = {"zero": [0, 1, 2, 3], "recompute": ["none", "selective", "full"]}  # the values that ps-plan tries


@dataclasses.dataclass(frozen=True)
class Option:
    """An option of a method, or an argument of auto_accelerate.

    meaning: what it does, or why other values are refused. values: the accepted values, with the flags that each of them sets. Without
    flags, the value describes what the program does in any case. make: returns the flags for a value and a model; None: only `values`.
    """

    meaning: str
    values: dict[str, Any] = dataclasses.field(default_factory=dict)
    make: Callable[[Any, Any], dict[str, Any]] | None = None

    def read(self, name, value, model=None):
        """Returns the flags of a value. Raises Unsupported for a value without a meaning here."""
        if self.make:
            return self.make(value, model)
        key = str(value).removeprefix("torch.")
        if key not in self.values:
            raise Unsupported(f"{name}={value!r} is not supported: {self.meaning}")
        return self.values[key]


@dataclasses.dataclass(frozen=True)
class Method:
    """A row of the table.

    flags: those of the plan. config: the options by default. key: the option that a config which is not a dict gives. axes: the axes
    of parallel_mode that the method needs. refines: flags of other methods that this method may replace. include: constraints on the
    search if the method is included. exclude: values that the search omits if it is excluded, or the reason why it cannot be.
    """

    meaning: str
    flags: dict[str, Any] = dataclasses.field(default_factory=dict)
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    config: dict[str, Any] = dataclasses.field(default_factory=dict)
    key: str = ""
    axes: tuple[str, ...] = ()
    refines: dict[str, Any] = dataclasses.field(default_factory=dict)
    include: dict[str, Any] = dataclasses.field(default_factory=dict)
    exclude: dict[str, Any] | str = dataclasses.field(default_factory=dict)
    refused: str = ""


def copy_to(flag):
    """Returns a function that sets a flag to the value of an option."""
    return lambda value, model: {flag: value}


def add_to_precision(text):
    """Returns a function that adds each value of an option to the flag precision. Example: ["mlp"] adds ",include=*mlp*"."""
    return lambda value, model: {"precision": "".join(text.format(v) for v in (value if isinstance(value, (list, tuple)) else [value]))}


def find_modules(names, model):
    """Returns the flag for modules that are given by their types, or by the names of their types or paths."""
    found = []
    for wanted in names if isinstance(names, (list, tuple)) else [names]:
        paths = [path for path, part in model.named_modules() if path and wanted in (path, type(part), type(part).__name__)]
        if not paths:
            raise InputError(f"\"checkpoint\": the model has no module {wanted!r}; give types of modules, or their names or paths")
        found += [path for path in paths if path not in found]
    return {"recompute": f"modules={','.join(found)}"}


SKIPPED = "with fp16, steps whose gradients are not finite are always skipped; with bf16, they never are"
ONE_ZERO = "there is one implementation of ZeRO; remove the option"
GATHERED = "the compiler decides when the parameters of each op are gathered and freed; remove the option"
FSDP = {
    "sync_module_states": Option("all ranks start from the weights of the model", {"True": {}}),
    "use_orig_params": Option("the optimizer has the parameters of the model", {"True": {}}),
    **{name: Option(GATHERED) for name in (
        "forward_prefetch", "backward_prefetch", "limit_all_gathers", "atorch_wrap_cls", "atorch_size_based_min_num_params",
        "wrap_trainable_outmost", "fsdp_wrap_params_outmost", "auto_wrap_policy")},
    **{name: Option("all parameters are sharded; remove the option") for name in ("atorch_ignored_cls", "ignored_modules", "ignored_parameters")},
    "mixed_precision": Option("use the method \"amp_native\""),
    "cpu_offload": Option("parameters stay on the device; give a plan with offload=\"optimizer\" to offload the optimizer state"),
    "sharding_strategy": Option("use \"zero2\" for SHARD_GRAD_OP, \"fsdp\" for FULL_SHARD, and neither for NO_SHARD"),
}  # fmt: skip
PIPELINE = {
    "micro_batches": Option("micro-batches per step (default: the size of the pipeline axis)", make=copy_to("micro-batches")),
    "schedule": Option("pipeline schedule", make=copy_to("schedule")),
    "num_chunks": Option("model chunks per pipeline rank", make=copy_to("num-chunks")),
    "split_method": Option("how layers are split into stages", make=copy_to("split-method")),
}
TENSOR = {"sharding_policy": Option("shardings of the weights", make=copy_to("sharding-policy"))}
FP8 = {
    "include": Option("parts of the names of linear layers", make=add_to_precision(",include=*{}*")),
    "exclude": Option("parts of the names of linear layers", make=add_to_precision(",exclude=*{}*")),
    "margin": Option("the scales leave room for 2^margin times larger elements", make=add_to_precision(",margin={}")),
    "amax_history_len": Option("number of steps in the history of delayed scaling", make=add_to_precision(",history={}")),
    "interval": Option("scales are computed in each step", {"1": {}}),
    "fp8_format": Option("inputs and weights are e4m3, gradients e5m2", {"HYBRID": {}}),
    "amax_compute_algo": Option("the scale follows from the largest element in the history", {"max": {}}),
    "reduce_amax": Option("all ranks use the same scales", {"True": {}}),
    "verbose": Option("use `ps-compile --explain` to list the layers"),
}
METHODS = {
    "parallel_mode": Method("the mesh, with the axes in reverse order: in ATorch the first axis varies fastest, in Parashard the last",
                            exclude="give ranks=1 for one rank"),
    "amp_native": Method(
        "mixed precision", config={"dtype": "float16"}, key="dtype",
        options={"dtype": Option("give torch.float16 or torch.bfloat16", {
                     "float16": {"precision": "fp16"}, "fp16": {"precision": "fp16"},
                     "bfloat16": {"precision": "bf16"}, "bf16": {"precision": "bf16"}}),
                 "skip_if_nonfinite": Option(SKIPPED)}),
    "half": Method("weights, gradients and optimizer state in bf16", config={"dtype": "fp16"}, key="dtype",
                   options={"dtype": Option("half precision is bf16; give (\"half\", \"bf16\"), or use \"amp_native\" for fp16",
                                            {"bf16": {"precision": "half"}, "bfloat16": {"precision": "half"}})}),
    "fp8": Method("linear layers in 8 bits, other ops in bf16", {"precision": "fp8"}, FP8, refines={"precision": "bf16"}),
    "module_replace": Method("none: the compiler always fuses layer norms, and recognizes attention",
                             exclude="the compiler always fuses layer norms, and recognizes attention"),
    "zero1": Method("optimizer state is sharded over data-parallel ranks", {"zero": 1}, {"use_ds_zero": Option(ONE_ZERO)},
                    axes=("data",), exclude={"zero": [1]}),
    "zero2": Method("as zero1, also gradients", {"zero": 2}, {**FSDP, "use_ds_zero": Option(ONE_ZERO), "not_use_fsdp": Option(ONE_ZERO)},
                    axes=("data",), exclude={"zero": [2]}),
    "fsdp": Method("as zero2, also parameters", {"zero": 3}, FSDP, axes=("data",), exclude={"zero": [3]}),
    "checkpoint": Method(
        "activation checkpointing of modules", key="wrap_class", include={"recompute": ["selective", "full"]},
        exclude={"recompute": ["selective", "full"]},
        options={"wrap_class": Option("types of modules, or their names or paths", make=find_modules),
                 "no_reentrant": Option("there is one implementation, which needs no reentrant autograd", {"True": {}})}),
    "tensor_parallel": Method("weights are sharded as in Megatron-LM", {"sharding-policy": "megatron"}, TENSOR, axes=("tensor",),
                              include={"mesh": {"tp": ">=2"}}, exclude={"mesh": {"tp": 1}}),
    "pipeline_parallel": Method("the layers are split into stages", options=PIPELINE, axes=("pipeline",),
                                include={"mesh": {"pp": ">=2"}}, exclude={"mesh": {"pp": 1}}),
    "mixed_parallel": Method("tensor, pipeline and data parallelism together", {"sharding-policy": "megatron"}, {**TENSOR, **PIPELINE},
                             axes=("tensor", "pipeline"), include={"mesh": {"pp": ">=2", "tp": ">=2"}},
                             exclude="exclude \"tensor_parallel\" or \"pipeline_parallel\""),
    "ds_3d_parallel": Method("", refused="it needs DeepSpeed's engine; use \"mixed_parallel\""),
}  # fmt: skip


def read_methods(strategy):
    """Returns a list of (name, config, tunable). Raises InputError if an item has another form, or an unknown name."""
    if not isinstance(strategy, (list, tuple)):
        raise InputError(f"a strategy is {type(strategy).__name__}; expected a list of names, or of (name, config)")
    result = []
    for item in strategy:
        name, *rest = [item] if isinstance(item, str) else item if isinstance(item, (list, tuple)) and item else [None]
        if not isinstance(name, str) or len(rest) > 2:
            raise InputError(f"the strategy has {item!r}; expected a name, (name, config) or (name, config, tunable)")
        if name not in METHODS:
            near = difflib.get_close_matches(name, METHODS, 3, 0.4) or list(METHODS)
            raise InputError(f"the strategy has an unknown method \"{name}\"; did you mean {', '.join(near)}?")
        if METHODS[name].refused:
            raise Unsupported(f"\"{name}\" is not supported: {METHODS[name].refused}")
        if any(name == known for known, *_ in result):
            raise InputError(f"the strategy has \"{name}\" twice; give it once")
        result.append((name, *rest, *(None, False)[len(rest) :]))
    return result


def read_config(name, config, model):
    """Returns the flags that a method sets."""
    method = METHODS[name]
    if method.key and config is not None and not isinstance(config, dict):
        config = {method.key: config}
    if not isinstance(config or {}, dict):
        raise InputError(f"\"{name}\" has the config {config!r}; expected a dict of options")
    config = {**method.config, **(config or {})}
    if method.key and config.get(method.key) is None:
        raise InputError(f"\"{name}\" needs a config: {method.options[method.key].meaning}")
    flags = dict(method.flags)
    for key, value in config.items():
        if key not in method.options:
            raise InputError(f"\"{name}\" has no option {key!r}; it has {', '.join(method.options) or 'none'}")
        for flag, made in method.options[key].read(f"\"{name}\": {key}", value, model).items() if value is not None else ():
            flags[flag] = flags[flag] + made if str(made).startswith(",") else made
    return flags


def merge(methods, model):
    """Returns the flags that methods set together. Raises InputError if two of them contradict each other."""
    flags, owners = {}, {}
    for name, config, _ in methods:
        for flag, value in read_config(name, config, model).items() if name != "parallel_mode" else ():
            if flag in flags and flags[flag] != value:
                first, second = owners[flag], name
                if METHODS[first].refines.get(flag) == value:
                    continue
                if METHODS[second].refines.get(flag) != flags[flag]:
                    raise InputError(
                        f"\"{first}\" and \"{second}\" contradict each other: they set {flag} to {flags[flag]} and to {value}; remove one"
                    )
            flags[flag], owners[flag] = value, name
    return flags


def is_parallel_mode(config):
    """Returns whether a config has the form (list of (name, size), order)."""
    if not isinstance(config, (list, tuple)) or len(config) != 2 or not isinstance(config[0], (list, tuple)):
        return False
    pairs = [axis for axis in config[0] if isinstance(axis, (list, tuple)) and len(axis) == 2]
    return len(pairs) == len(config[0]) and all(isinstance(name, str) and isinstance(size, int) and size > 0 for name, size in pairs)


def read_sizes(config, ranks):
    """Returns the sizes of the axes of parallel_mode, in its order. Their product is the number of ranks."""
    if config is None and ranks is None:
        raise InputError("the number of ranks is not known; give ranks=N, or sizes such as (\"parallel_mode\", ([(\"data\", 2)], None))")
    config = ([("data", ranks)], None) if config is None else config
    if not is_parallel_mode(config):
        raise InputError(f"\"parallel_mode\" has the config {config!r}; expected (list of (name, size), order), as in ([(\"data\", 2)], None)")
    axes, order = config
    sizes = dict(axes)
    if len(sizes) != len(axes) or not set(sizes) <= set(AXES):
        raise InputError(f"\"parallel_mode\" has the axes {', '.join(str(name) for name, _ in axes)}; give each of {', '.join(AXES)} at most once")
    if order is not None and list(order) != list(range(len(order))):
        raise Unsupported(f"\"parallel_mode\" has the order of ranks {order}; ranks are numbered in sequence: give None")
    if {"data", "zero"} <= set(sizes):
        raise Unsupported("\"parallel_mode\" has the axes data and zero, but ZeRO shards over all data-parallel ranks; give one of them")
    return fit_data(sizes, ranks) if ranks is not None else sizes


def fit_data(sizes, ranks):
    """Changes the size of the data axis so that the product of all sizes is the number of ranks."""
    fixed = {name: size for name, size in sizes.items() if name != "data"}
    product = math.prod(fixed.values())
    if ranks % product or ("zero" in sizes and product != ranks):
        text = " x ".join(f"{name} {size}" for name, size in fixed.items())
        raise InputError(f"\"parallel_mode\" has {text} = {product} ranks, which do not fit ranks={ranks}; change a size or the number of ranks")
    if "data" in sizes or product != ranks:
        sizes = {**sizes, "data": ranks // product}
    return sizes


def check_axes(methods, sizes):
    """Raises InputError if a method lacks its axis, or if no method uses an axis."""
    named = [name for name, *_ in methods]
    used = {AXES[axis] for name in named for axis in METHODS[name].axes}
    for name in named:
        lacks = [axis for axis in METHODS[name].axes if AXES[axis] not in {AXES[given] for given in sizes}]
        if lacks:
            raise InputError(f"\"{name}\" needs the axis {lacks[0]}; add (\"parallel_mode\", ([(\"{lacks[0]}\", 2)], None)) with its size")
    for axis, size in sizes.items():
        if axis != "data" and size > 1 and AXES[axis] not in used:
            users = [name for name, method in METHODS.items() if AXES[axis] in [AXES[needed] for needed in method.axes]]
            raise InputError(f"\"parallel_mode\" has {axis} {size}, but no method uses this axis; add {' or '.join(users)}")


def read_mesh(methods, ranks):
    """Returns the mesh of a strategy: one rank without parallel_mode."""
    config = [config for name, config, _ in methods if name == "parallel_mode"]
    if not config and (ranks or 1) > 1:
        raise InputError(f"ranks={ranks}, but the strategy has one rank; add \"parallel_mode\"")
    sizes = read_sizes(config[0], ranks) if config else {}
    check_axes(methods, sizes)
    return {AXES[name]: size for name, size in reversed(sizes.items())} or {"dp": 1}


def make_plan(methods, model, ranks):
    """Returns the `Plan` of a list of methods (name, config, tunable)."""
    mesh, flags = read_mesh(methods, ranks), merge(methods, model)
    if mesh.get("pp", 1) > 1:
        flags.setdefault("micro-batches", mesh["pp"])
    return Plan(mesh, **flags)


def check_tunable(methods):
    """Raises InputError if a method is tunable."""
    for name, _, is_tunable in methods:
        if is_tunable:
            raise InputError(f"\"{name}\" has tunable=True, which needs load_strategy with finetune_strategy=True")


def free_tunable(methods, model, ranks):
    """Returns (constraints of ps-plan, number of ranks) for a strategy whose tunable methods may have other flags."""
    mesh = read_mesh(methods, ranks)
    kept = [method for method in methods if not method[2]]
    constraints = merge(kept, model)
    if any(name == "parallel_mode" for name, *_ in kept):
        constraints["mesh"] = write_mesh(mesh)
    return constraints, math.prod(mesh.values())


def constrain(included, excluded, model, ranks):
    """Returns constraints of ps-plan for methods that a plan must have, and for methods that it must not have."""
    check_tunable(included + excluded)
    configured = [name for name, config, _ in excluded if config is not None]
    if configured:
        raise InputError(f"excluded has a config of \"{configured[0]}\"; give only its name")
    both = [name for name, *_ in included if any(name == other for other, *_ in excluded)]
    if both:
        raise InputError(f"\"{both[0]}\" is both in included and in excluded; remove one")
    mesh, result = {}, merge([method for method in included if method[1] is not None or not METHODS[method[0]].include], model)
    for name, *_ in included:
        for flag, values in METHODS[name].include.items():
            mesh.update(values) if flag == "mesh" else result.setdefault(flag, values)
    for name, *_ in excluded:
        rule = METHODS[name].exclude
        if isinstance(rule, str):
            raise Unsupported(f"\"{name}\" cannot be excluded: {rule}")
        for flag, values in rule.items():
            if flag == "mesh":
                mesh.update(values)
            elif isinstance(left := result.get(flag, SEARCHED[flag]), list):
                result[flag] = [value for value in left if value not in values]
    if any(name == "parallel_mode" and config is not None for name, config, _ in included):
        mesh = read_mesh(included, ranks)
    return {**result, "mesh": write_mesh(mesh)} if mesh else result
