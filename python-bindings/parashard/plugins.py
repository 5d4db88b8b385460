"""Plugins of ColossalAI as plans. `PLUGINS` says for each argument of a plugin how it becomes a part of the plan, or why it is refused."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from parashard.errors import InputError, Unsupported
from parashard.plan import Plan

__all__ = ["PLUGINS", "GeminiPlugin", "HybridParallelPlugin", "LowLevelZeroPlugin", "Plugin", "TorchDDPPlugin"]


@dataclasses.dataclass(frozen=True)
class Axis:
    """The argument is the size of a mesh axis."""

    name: str


@dataclasses.dataclass(frozen=True)
class Flag:
    """The argument is a flag of the plan. values: the flag's value by the argument's; empty: the argument itself. None: no flag."""

    name: str
    values: dict[Any, Any] = dataclasses.field(default_factory=dict)
    otherwise: str = ""  # why other values are refused


@dataclasses.dataclass(frozen=True)
class DataFirst:
    """The argument says whether the data axis is the first axis of the mesh, or follows the pipeline axis."""


@dataclasses.dataclass(frozen=True)
class Only:
    """The argument must have a value, which describes what programs do."""

    value: object
    reason: str


@dataclasses.dataclass(frozen=True)
class Refused:
    """The argument is not supported."""

    reason: str


PRECISION = Flag("precision", {"fp32": "fp32", "bf16": "bf16", "fp16": "fp16"}, "give fp32, bf16 or fp16")
NO_OFFLOAD = Only(0.0, "parameters stay on the device")
OVERLAP = Only(True, "the compiler overlaps collectives where it can")
BUCKETS = Refused("the compiler chooses which gradients are reduced together")
KERNELS = Only(False, "the compiler fuses ops and chooses kernels itself")
FP8 = {
    "use_fp8": Refused("give Engine(precision=\"fp8\")"),
    "fp8_communication": Refused("gradients are reduced in fp32 or bf16: communication_dtype"),
}
SCALES = dict.fromkeys(
    ["initial_scale", "min_scale", "growth_factor", "backoff_factor", "growth_interval", "hysteresis", "max_scale"],
    Refused("the program chooses the loss scale of fp16 (docs/precision.md)"),
)
CHUNKS = dict.fromkeys(
    ["chunk_config_dict", "chunk_init_device", "search_range_m", "hidden_dim", "min_chunk_size_m", "memstats",
     "warmup_non_model_data_ratio", "steady_cuda_cap_ratio", "gpu_margin_mem_ratio", "max_prefetch"],
    Refused("the compiler places tensors itself, without chunks"),
)  # fmt: skip
DDP = {
    "broadcast_buffers": Only(True, "buffers are equal on all ranks"),
    "find_unused_parameters": Only(True, "the compiler finds unused parameters"),
    "check_reduction": Only(False, "programs are not checked at run time"),
    "gradient_as_bucket_view": Refused("gradients have no buckets"),
    "static_graph": Only(True, "the graph of a program is static"),
}
ZERO = {
    "communication_dtype": Flag("gradient-reduction", {"torch.float32": "fp32", "torch.bfloat16": "bf16"}, "give torch.float32 or torch.bfloat16"),
    "overlap_communication": OVERLAP,
    "cpu_offload": Flag("offload", {False: None, True: "optimizer"}, "give True or False"),
}
COMMON = {"max_norm": Flag("clip-norm"), "norm_type": Only(2.0, "gradients are clipped by their 2-norm")}
SHARDFORMER = {
    **dict.fromkeys(["enable_all_optimization", "enable_fused_normalization", "enable_flash_attention", "enable_jit_fused"], KERNELS),
    "enable_sequence_parallelism": Flag("sharding-policy", {False: None, True: "megatron+sp"}, "give True or False"),
    "enable_sequence_overlap": Refused("set the flag `overlap` of the plan"),
}

# By plugin and argument. Each plugin also has the argument `ranks`.
PLUGINS = {
    "TorchDDPPlugin": {**DDP, "bucket_cap_mb": BUCKETS, "fp8_communication": Refused("gradients are reduced in fp32")},
    "LowLevelZeroPlugin": {
        "stage": Flag("zero", {1: 1, 2: 2}, "give 1 or 2; GeminiPlugin has stage 3"),
        "precision": PRECISION,
        **COMMON,
        **ZERO,
        "master_weights": Only(True, "weights are f32; precision=\"half\" of a plan has no f32 weights"),
        "reduce_bucket_size_in_m": BUCKETS,
        "overlap_allgather": OVERLAP,
        **FP8,
        **SCALES,
        "verbose": Refused("print the plan instead"),
    },
    "GeminiPlugin": {
        "stage": Flag("zero", {1: 1, 2: 2, 3: 3}, "give 1, 2 or 3"),
        "shard_param_frac": Flag("zero", {1.0: 3, 0.0: 2}, "all parameters are sharded (1.0) or none (0.0)"),
        "offload_optim_frac": Flag("offload", {0.0: None, 1.0: "optimizer"}, "all of the optimizer state is offloaded (1.0) or none (0.0)"),
        "offload_param_frac": NO_OFFLOAD,
        "placement_policy": Only("static", "the plan places tensors before the run"),
        "precision": PRECISION,
        **COMMON,
        "enable_gradient_accumulation": Only(True, "gradients are summed until zero_grad()"),
        "enable_tensor_parallelism": Only(True, "give tp_size"),
        "tp_size": Axis("tp"),
        **SHARDFORMER,
        "master_weights": Only(True, "weights are f32; precision=\"half\" of a plan has no f32 weights"),
        "force_outputs_fp32": Only(True, "outputs have the types of the model"),
        "pin_memory": Refused("the runtime chooses the memory of the host"),
        "extra_dp_size": Refused("ZeRO shards over the whole data axis"),
        "enable_async_reduce": OVERLAP,
        "strict_ddp_mode": Refused("use TorchDDPPlugin"),
        **CHUNKS,
        **FP8,
        **SCALES,
        "verbose": Refused("print the plan instead"),
    },
    "HybridParallelPlugin": {
        "tp_size": Axis("tp"),
        "pp_size": Axis("pp"),
        "sp_size": Only(1, "the sequence is split over the tensor axis: give enable_sequence_parallelism"),
        "precision": PRECISION,
        "zero_stage": Flag("zero", {0: None, 1: 1, 2: 2}, "give 0, 1 or 2"),
        "num_microbatches": Flag("micro-batches"),
        "microbatch_size": Flag("batch"),
        "pp_style": Flag("schedule", {"1f1b": "1f1b", "interleaved": "interleaved", "zbv": "zb-v"}, "give 1f1b, interleaved or zbv"),
        "num_model_chunks": Flag("num-chunks"),
        "dp_outside": DataFirst(),
        **COMMON,
        **ZERO,
        **DDP,
        **SHARDFORMER,
        "sequence_parallelism_mode": Only("split_gather", "context parallelism is not supported"),
        "inner_ring_size": Refused("context parallelism is not supported"),
        "parallel_output": Only(False, "outputs are whole tensors"),
        "custom_policy": Refused("set the flag `sharding_policy` of the plan"),
        "num_layers_per_stage": Refused("set the flag `split_method` of the plan"),
        "gradient_checkpoint_config": Refused("set the flag `recompute` of the plan"),
        "make_vocab_size_divisible_by": Refused("set the flag `align_dims` of the plan"),
        "overlap_p2p": Only(True, "sends and receives overlap with computation"),
        "overlap_allgather": OVERLAP,
        "enable_metadata_cache": Only(True, "shapes are compiled"),
        "ddp_bucket_cap_mb": BUCKETS,
        "zero_bucket_size_in_m": BUCKETS,
        **FP8,
        **SCALES,
    },
}
DEFAULTS = {"LowLevelZeroPlugin": {"stage": 1}, "GeminiPlugin": {"stage": 3}}
REQUIRED = {"HybridParallelPlugin": ("tp_size", "pp_size")}


class Plugin:
    """A plugin of ColossalAI. `plan` is its plan, and `clip_norm` the norm to which gradients are clipped, or 0."""

    def __init__(self, *, ranks: int | None = None, **arguments: Any) -> None:
        """ranks: the number of ranks, which is the world size in ColossalAI. arguments: those of the plugin (docs/python.md)."""
        name = type(self).__name__
        sizes: dict[str, int] = {}
        flags: dict[str, Any] = {}
        for missing in (argument for argument in REQUIRED.get(name, ()) if argument not in arguments):
            raise InputError(f"{name}: {missing} is missing; give a size, such as {missing}=2")
        for argument, value in arguments.items():
            if argument not in PLUGINS[name]:
                raise InputError(f"{name} has no argument {argument}; it has ranks, {', '.join(PLUGINS[name])}")
            add_argument(f"{name}: {argument}={value!r}", PLUGINS[name][argument], value, sizes, flags)
        if name in DEFAULTS and "zero" not in flags:
            flags["zero"] = DEFAULTS[name]["stage"]
        self.clip_norm = float(flags.pop("clip-norm", 0.0))
        self.plan: Plan = make_plan(name, ranks, sizes, flags, arguments.get("dp_outside", True))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.plan})"


class TorchDDPPlugin(Plugin):
    """Data parallelism."""


class LowLevelZeroPlugin(Plugin):
    """Data parallelism with ZeRO stage 1 or 2."""


class GeminiPlugin(Plugin):
    """Data parallelism with ZeRO, of stage 3 by default, and tensor parallelism."""


class HybridParallelPlugin(Plugin):
    """Data, pipeline and tensor parallelism."""


def add_argument(given, rule, value, sizes, flags):
    """Adds an argument to the sizes of axes or to the flags of a plan. Raises Unsupported if it is refused.

    given: the argument in messages.
    """
    if isinstance(rule, Refused) or (isinstance(rule, Only) and value != rule.value):
        raise Unsupported(f"{given} is not supported: {rule.reason}")
    if isinstance(rule, Axis):
        sizes[rule.name] = check_size(given, value)
    if not isinstance(rule, Flag) or value is None:
        return
    if rule.values:
        found = [result for key, result in rule.values.items() if str(key) == str(value)]
        if not found:
            raise Unsupported(f"{given} is not supported: {rule.otherwise}")
        value = found[0]
    if flags.get(rule.name, value) != value:
        raise InputError(f"{given} contradicts another argument, which sets --{rule.name} {flags[rule.name]}; remove one of them")
    if value is not None:
        flags[rule.name] = value


def check_size(given, value):
    """Returns a number of ranks. Raises InputError if it is not a positive integer."""
    if not isinstance(value, int) or value < 1:
        raise InputError(f"{given}: expected a number of ranks, at least 1")
    return value


def make_plan(name, ranks, sizes, flags, dp_outside):
    """Returns the plan of a plugin: the data axis has the ranks that the other axes do not use."""
    others = math.prod(sizes.values())
    if ranks is None:
        raise InputError(f"{name}: the number of ranks is missing; give ranks=N, the world size in ColossalAI")
    if check_size(f"{name}: ranks={ranks!r}", ranks) % others:
        axes = " x ".join(f"{axis}={size}" for axis, size in sizes.items())
        raise InputError(f"{name}: {ranks} ranks are not divisible by {axes}; give sizes whose product divides the ranks")
    pipeline = sizes.get("pp", 1) > 1
    for flag in ("micro-batches", "batch", "schedule", "num-chunks"):
        if flag in flags and not pipeline:
            raise InputError(f"{name}: --{flag} needs a pipeline; give a pp_size above 1, or remove the argument")
    if pipeline and "micro-batches" not in flags and "batch" not in flags:
        raise InputError(f"{name}: a pipeline needs num_microbatches or microbatch_size")
    if "batch" in flags:
        flags["batch"] *= ranks // others  # that of a plan is over all data-parallel ranks
    order = ["dp", "pp", "tp"] if dp_outside else ["pp", "dp", "tp"]
    sizes = {"dp": ranks // others, **sizes}
    mesh = {axis: sizes[axis] for axis in order if sizes.get(axis, 1) > 1}
    return Plan(mesh or "dp=1", **flags)
