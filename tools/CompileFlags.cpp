// Defines the flags of CompileOptions: their help, and their checks against each other.
#include "tools/CompileFlags.h"
#include "dialects/ps/Refusal.h"
#include "lib/Schedules/PipelineSchedule.h"
#include "lib/Sharding/Policy.h"
#include "lib/Support/TargetName.h"

using namespace llvm;
using namespace parashard::driver;

namespace parashard {

void addModelFlags(FlagTable &t, CompileFlags &f) {
  CompileOptions &c = f.options;
  using enum ps::Level;
  constexpr int64_t kMaxElements = int64_t(1) << 40; // limit for the elements of a tensor
  t.add({"dim", "DIM=N",
         "size of a dynamic dim: input_ids.1=512, or s72=512 by its symbol; repeatable", Imported},
        c.dims);
  t.add({.name = "batch",
         .value = "N",
         .help = "samples per micro-batch over all data-parallel ranks (Megatron: micro-batch-size "
                 "x dp); sets a dynamic batch dim; a static batch dim must have this size",
         .level = Imported,
         .inPlan = true},
        c.batch, {1, kMaxElements});
  t.add({"batch-dim", "INPUT=D",
         "batch dim of an input: INPUT=D (default: 0); INPUT=none: this input has no batch dim; "
         "none: no input has a batch dim; repeatable",
         Training},
        c.batchDims);
  t.add({"mode", "MODE",
         "train: train the model as exported; eval: train it as after model.eval(), without "
         "dropout",
         Training},
        f.mode, {"train", "eval"});
  t.add({"loss-output", "OUTPUT",
         "output that is the loss, by number or name; with --loss KIND: output from which the loss "
         "is computed",
         Training},
        c.lossOutput);
  t.add({"loss", "KIND",
         "add a loss to a model that returns none; the loss compares an output with a new input "
         "`labels`: cross_entropy (classes in the last dim), causal_lm (labels shifted by one) or "
         "mse; "
         "--loss none: train without a loss; the host passes cotangents through the C API",
         Training},
        c.loss, {"cross_entropy", "causal_lm", "mse", "none"});
  t.add({.name = "differentiate",
         .value = "OUTPUT,...",
         .help = "with --loss none: outputs that take cotangents (gradients of the outputs)",
         .level = Training,
         .takesCommas = true},
        c.differentiate);
  t.add({.name = "keep-outputs",
         .value = "OUTPUT,...",
         .help = "outputs of the forward that the C API can read after a training step, for the "
                 "samples of all micro-batches; all: all outputs except the loss and those with "
                 "one value per micro-batch",
         .level = Training,
         .trains = true,
         .takesCommas = true},
        c.keepOutputs);
  t.add({.name = "freeze",
         .value = "GLOB",
         .help = "parameters to freeze (exclude from training); repeatable",
         .level = Training,
         .trains = true},
        c.freeze);
  t.add(
      {"init", "[GLOB=]VALUES",
       "initial values of the parameters that were exported without data (with --weights none: of "
       "all parameters): \"[GLOB=]normal(0.02)\", uniform(a,b), zeros, ones; repeatable",
       Training},
      c.init);
  t.add({"weights", "FROM",
         "where the program reads weights from: reference (the model's file), copy (a copy inside "
         "the program) or none (the file given to the program's --weights); only ps-compile uses "
         "this flag, because a plan does not depend on weights"},
        c.weights, {"reference", "copy", "none"});
}

static void addLayoutFlags(FlagTable &t, CompileOptions &c) {
  using enum ps::Level;
  static const std::string policyHelp = "shardings of the weights: " + sharding::listPolicies() +
                                        " (+sp: sequence parallel; searched: the fastest predicted "
                                        "splits; tables: split only the rows "
                                        "of embedding tables)";
  t.add(
      {.name = "mesh",
       .value = "AXIS=N,...",
       .help =
           "device mesh: NAME=N,... with the names dp, tp and pp, or NAME:KIND=N,... with a kind "
           "(data, tensor, pipeline, context, expert). The last axis varies fastest; dp=*: --ranks "
           "divided by the other sizes. In a search, constraints on pp, dp and tp instead, "
           "such as pp=2,tp=<=8; omitted axes and * may have any size",
       .level = Planned,
       .inPlan = true},
      c.mesh);
  t.add({.name = "ranks",
         .value = "N",
         .help = "number of ranks; needed for an axis of size *, as in --mesh dp=*,tp=2, and for a "
                 "search unless --cluster NAME:RANKS specifies this number",
         .level = Planned,
         .inPlan = true},
        c.ranks, {1});
  t.add({.name = "sharding-policy",
         .value = "POLICY",
         .help = policyHelp,
         .level = Planned,
         .inPlan = true,
         .takesObject = true},
        c.shardingPolicy);
  t.add({.name = "zero",
         .value = "STAGE",
         .help = "ZeRO stage, sharding over the data axes: 0 nothing, 1 optimizer state, 2 also "
                 "gradients, 3 also parameters",
         .level = Planned,
         .inPlan = true,
         .trains = true},
        c.zero, {0, 3});
  t.add({.name = "align-dims",
         .value = "N",
         .help = "pad dims of weights and of matmul results: auto (on GPUs: to multiples of 16, if "
                 "a dim grows by at most 2%), off, or N (to multiples of N)",
         .level = Planned,
         .inPlan = true},
        c.alignDims);
}

static void addStepFlags(FlagTable &t, CompileFlags &f) {
  CompileOptions &c = f.options;
  static const std::string scheduleHelp =
      "pipeline schedule: " + schedules::listSchedules() +
      " or FILE.json (default: 1f1b, or interleaved with --num-chunks above 1)";
  using enum ps::Level;
  t.add({.name = "micro-batches",
         .value = "N",
         .help = "micro-batches per step",
         .level = Scheduled,
         .inPlan = true,
         .trains = true},
        c.microBatches, {1});
  t.add({.name = "global-batch",
         .value = "N",
         .help = "samples per step, instead of --micro-batches",
         .level = Scheduled,
         .inPlan = true,
         .trains = true},
        f.globalBatch, {1});
  t.add({.name = "loss-average",
         .value = "step|micro-batch",
         .help = "how the losses of micro-batches are averaged. step: equal to the loss of the "
                 "whole batch; micro-batch: the mean over micro-batches (default: step if the loss "
                 "is made of sums and means over samples, else micro-batch)",
         .level = Training,
         .inPlan = true,
         .trains = true},
        c.lossAverage, {"step", "micro-batch"});
  t.add({.name = "split-method",
         .value = "METHOD",
         .help = "how to split layers into pipeline stages: uniform, parameters, flops, "
                 "time (the default with --cluster), or the modules NAME,NAME,... that begin a "
                 "stage",
         .level = Planned,
         .inPlan = true,
         .needsStages = true},
        c.splitMethod);
  t.add({.name = "num-chunks",
         .value = "N",
         .help = "model chunks (virtual stages) per pipeline coordinate",
         .level = Planned,
         .inPlan = true},
        c.numChunks, {1});
  t.add({.name = "schedule",
         .value = "SCHEDULE",
         .help = scheduleHelp,
         .level = Scheduled,
         .inPlan = true,
         .needsStages = true},
        c.schedule);
  t.add({.name = "recompute",
         .value = "MODE",
         .help =
             "activation checkpointing: none, selective, full, full+communication (like full, but "
             "also repeats collectives instead of saving their results), modules=GLOB,... or "
             "budget=BYTES (the fastest choice found that needs at most this memory per rank, "
             "such as 12GB or 500MiB)",
         .level = Planned,
         .inPlan = true,
         .trains = true},
        c.recompute);
  t.add({.name = "offload",
         .value = "KIND,...",
         .help = "keep tensors in host memory while unused: none, optimizer (tensors that only the "
                 "update uses: optimizer state, EMA, master weights), activations (saved "
                 "activations whose copies are fully hidden by computation) or activations=all "
                 "(all saved activations whose offloading lowers the peak)",
         .level = Scheduled,
         .inPlan = true,
         .trains = true},
        c.offload);
}

static void addSpeedFlags(FlagTable &t, CompileOptions &c) {
  using enum ps::Level;
  t.add({.name = "overlap",
         .value = "N",
         .help = "overlap tensor-parallel collectives with matmuls: auto (if the cluster's rates "
                 "predict that overlap saves time), off, or N (where possible, start collectives "
                 "early, and split those next to a matmul into N chunks)",
         .level = Partitioned,
         .inPlan = true},
        c.overlap);
  t.add({.name = "cluster",
         .value = "NAME|FILE",
         .help =
             "cluster to plan for, such as h100-sxm, a100-80g:64 (with its number of ranks), cpu "
             "(this machine, measured on first use) or FILE.json; its rates determine stages, "
             "recomputation, overlap, offloading and the predicted time of a step "
             "(docs/planning.md)",
         .level = Planned,
         .inPlan = true},
        c.cluster);
  t.add({.name = "matmul-epilogues",
         .value = "on|off",
         .help = "off, or on: fuse tanh-GELU and its gradient into matmul epilogues (GPU only; "
                 "saves memory traffic, changes rounding)",
         .level = Partitioned,
         .inPlan = true},
        c.matmulEpilogues);
  t.add({.name = "precision",
         .value = "TYPE[,keep-fp32=GLOB]",
         .help = "compute type: fp32, bf16, fp16, half (weights, gradients and optimizer state in "
                 "bf16), or fp8 (bf16 with linear layers in fp8); options follow after commas: "
                 "keep-fp32=GLOB (ops in f32), compute=GLOB (ops in the 16-bit type); for fp8: "
                 "scaling, history, margin, include, exclude, misfit=error|bf16 (what to do with "
                 "layers whose dims are not multiples of 16); see docs/precision.md",
         .level = Planned,
         .inPlan = true},
        c.precision);
  t.add({.name = "gradient-reduction",
         .value = "fp32|bf16",
         .help = "type in which gradients are reduced over ranks",
         .level = Planned,
         .inPlan = true,
         .trains = true},
        c.gradientReduction);
}

void addPlanFlags(FlagTable &t, CompileFlags &f) {
  addLayoutFlags(t, f.options);
  addStepFlags(t, f);
  addSpeedFlags(t, f.options);
}

void addTargetFlag(FlagTable &t, std::string &target, bool isOfCluster) {
  constexpr const char *kHelp =
      "processor to compile for: cpu[:native|:x86-64-v4|...], or a GPU such as cuda:sm_90";
  constexpr const char *kHelpOfCluster = "processor to compile for: cpu[:native|:x86-64-v4|...], "
                                         "or a GPU such as cuda:sm_90 (default: "
                                         "the target of the cluster)";
  t.add({.name = "target",
         .value = "TARGET",
         .help = isOfCluster ? kHelpOfCluster : kHelp,
         .inPlan = true},
        target);
}

void addMessagesFlag(FlagTable &t, std::string &format) {
  t.add({"messages", "FORMAT",
         "format of errors, warnings and notes on stderr: text, or json (one object per line; "
         "docs/errors.md)"},
        format, {"text", "json"});
}

Error checkTarget(StringRef target) {
  if (!support::isTargetName(target))
    return ps::createFlagError("target",
                               " takes " + Twine(support::kTargetNames) + ", not '" + target + "'");
  unsigned architecture = support::getArchitecture(target);
  if (target.starts_with("cuda:sm_") && architecture < support::kMinArchitecture)
    return ps::createFlagError("target " + target, ": unsupported architecture; use cuda:sm_" +
                                                       Twine(support::kMinArchitecture) +
                                                       " or a later one");
  return Error::success();
}

void addUpdateFlags(FlagTable &t, CompileOptions &c) {
  t.add({.name = "optimizer",
         .value = "[FILTER=]SPEC",
         .help =
             "sgd, adam or adamw with its arguments, such as "
             "\"adamw(lr=1e-3,betas=(0.9,0.95),eps=1e-8,weight_decay=0.1)\". FILTER is a GLOB of "
             "parameter names, or ndim<2 for parameters with fewer than 2 dims, as in "
             "\"*bias=adamw(lr=1e-4)\". Repeatable; the first match wins. @FILE.json: groups of "
             "parameters by exact names (docs/running.md) (default: adamw(lr=1e-3))",
         .level = ps::Level::Training,
         .trains = true},
        c.optimizers);
  t.add({.name = "clip-norm",
         .value = "NORM",
         .help = "clip gradients to this global norm",
         .level = ps::Level::Training,
         .trains = true},
        c.clipNorm);
  t.add({.name = "ema",
         .value = "DECAY",
         .help = "keep an exponential moving average of the weights with this decay, such as 0.999",
         .level = ps::Level::Training,
         .trains = true},
        c.ema);
}

Error finishCompileFlags(const FlagTable &table, CompileFlags &f) {
  CompileOptions &c = f.options;
  if (table.isGiven("micro-batches") && f.globalBatch)
    return createStringError("give --micro-batches or --global-batch, not both");
  if (f.globalBatch && (!c.batch || *f.globalBatch % *c.batch != 0))
    return ps::createFlagError("global-batch " + Twine(*f.globalBatch),
                               " needs --batch B, where B divides " + Twine(*f.globalBatch) +
                                   ": a step has " + Twine(*f.globalBatch) + " / B micro-batches");
  if (f.globalBatch)
    c.microBatches = *f.globalBatch / *c.batch;
  if (c.microBatches > schedules::kMaxMicroBatches)
    return ps::createFlagError(
        (f.globalBatch ? "global-batch " + std::to_string(*f.globalBatch) + " gives "
                       : "micro-batches ") +
            Twine(c.microBatches) + (f.globalBatch ? " micro-batches" : ""),
        ": a step has at most " + Twine(schedules::kMaxMicroBatches) +
            " micro-batches; use fewer micro-batches, with a larger --batch");
  Expected<schedules::PlacementKind> placement = schedules::findPlacement(c.schedule);
  if (!placement)
    return ps::createFlagError("schedule", ": " + toString(placement.takeError()));
  c.placement = *placement == schedules::PlacementKind::V ? "v" : "loop";
  if (c.optimizers.empty())
    c.optimizers.emplace_back("adamw(lr=1e-3)");
  c.evalMode = f.mode == "eval";
  return Error::success();
}

} // namespace parashard
