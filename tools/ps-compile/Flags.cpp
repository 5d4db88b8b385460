// Defines the flags of ps-compile (llvm::cl) and checks their values.
#include "Flags.h"
#include "FlagTable.h"
#include "OutputFiles.h"
#include "dialects/ps/Refusal.h"
#include "lib/Schedules/PipelineSchedule.h"
#include "lib/Sharding/MeshText.h"
#include "lib/Sharding/Policy.h"
#include "lib/Support/Bytes.h"
#include "shared/PrintableText.h"
#include "tools/CommandLine.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"

using namespace parashard::driver;
using namespace parashard::sharding;

namespace cl = llvm::cl;

namespace parashard {
namespace {

constexpr const char *kOverview =
    R"help(compiles a PyTorch model exported for one device into a program that trains it on many ranks

EXAMPLE
  python -c "import torch; ...; torch.export.save(torch.export.export(model, (ids, labels)), 'gpt.pt2')"
  ps-compile gpt.pt2 -o gpt --mesh dp=2,tp=2 --optimizer "adamw(lr=3e-4,weight_decay=0.1)" --explain
  ./gpt --ranks 4 --data tokens.bin --steps 1000 --export-weights trained.safetensors

Exit status: 0 success, 1 error in the model or failure of the compiler, 2 error in the command line.)help";

/// Values of the flags that are not compile options: files, reports and where to stop.
struct Flags {
  std::string output, mode = "train", targetName = "cpu:native", planFile, writePlan;
  std::string report, measured, timeline, stopAfter, dumpDir, memoryLimit;
  std::optional<int64_t> globalBatch;
  bool check = false, explain = false, noCodegen = false, portable = false, verbose = false;
};

void addModelFlags(FlagTable &t, Flags &f, CompileOptions &c) {
  using enum ps::Level;
  constexpr int64_t kMostElements = int64_t(1) << 40; // limit of a tensor's size
  t.addGroup("Model");
  t.addPositional("MODEL(.pt2|.onnx|.mlir)", c.model);
  t.add({"o", "OUT",
         "output file: an executable, a library (*.so), or a module (*.mlir, with --stop-after)"},
        f.output);
  t.add({"dim", "DIM=N",
         "size of a dynamic dim: input_ids.1=512, or s72=512 by its symbol; repeatable", Imported},
        c.dims);
  t.add({"batch", "N",
         "samples per micro-batch over all data-parallel ranks (Megatron: micro-batch-size x dp); "
         "sets a dynamic batch dim; a static batch dim must have this size",
         Imported},
        c.batch, {1, kMostElements});
  t.add({"batch-dim", "INPUT=D",
         "batch dim of an input: INPUT=D (default 0); INPUT=none: this input has no batch dim; "
         "none: no input has a batch dim",
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
         "--loss none: train without a loss, the C API passes cotangents",
         Training},
        c.loss, {"cross_entropy", "causal_lm", "mse", "none"});
  t.add({.name = "differentiate",
         .value = "OUTPUT,...",
         .help = "with --loss none: outputs that take cotangents (gradients of the outputs)",
         .level = Training,
         .takesCommas = true},
        c.differentiate);
  t.add({.name = "freeze",
         .value = "GLOB",
         .help = "parameters to freeze (exclude from training); repeatable",
         .level = Training,
         .trains = true},
        c.freeze);
  t.add({"init", "[GLOB=]VALUES",
         "initial values of parameters exported without data: \"[GLOB=]normal(0.02)\", "
         "uniform(a,b), zeros, ones",
         Training},
        c.init);
  t.add({"weights", "FROM",
         "where ./OUT reads weights from: reference (the model's file), copy (a copy inside OUT) "
         "or none (the file given to ./OUT --weights)"},
        c.weights, {"reference", "copy", "none"});
}

void addLayoutFlags(FlagTable &t, CompileOptions &c) {
  using enum ps::Level;
  static const std::string policyHelp =
      "shardings of the weights: " + sharding::listPolicies() +
      " (+sp: sequence parallel; tables: split only the rows of embedding tables)";
  t.addGroup("Plan");
  t.add({.name = "mesh",
         .value = "AXIS=N,...",
         .help = "device mesh: NAME[:KIND]=N,... with the last axis varying fastest; dp=*: "
                 "--ranks divided by the sizes of the other axes",
         .level = Planned,
         .inPlan = true},
        c.mesh);
  t.add({.name = "ranks",
         .value = "N",
         .help = "number of ranks; needed only for an axis of size *, as in --mesh dp=*,tp=2",
         .level = Planned,
         .inPlan = true},
        c.ranks, {1});
  t.add({.name = "sharding-policy",
         .value = "POLICY",
         .help = policyHelp,
         .level = Planned,
         .inPlan = true},
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

void addStepFlags(FlagTable &t, Flags &f, CompileOptions &c) {
  static const std::string scheduleHelp =
      "pipeline schedule: " + schedules::listSchedules() +
      " or FILE.json (default 1f1b, or interleaved with --num-chunks above 1)";
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
         .help = "model chunks (virtual stages) per pipeline rank",
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
             "activation checkpointing: none, selective, full[+communication], "
             "modules=GLOB,... or budget=BYTES (the fastest choice found that needs at most this "
             "memory per rank: 12GB, 500MiB)",
         .level = Planned,
         .inPlan = true,
         .trains = true},
        c.recompute);
  t.add({.name = "offload",
         .value = "none|optimizer|activations[=all],...",
         .help = "keep tensors in host memory while unused. optimizer: tensors that only the "
                 "update uses (optimizer state, EMA, master weights); activations: saved "
                 "activations whose copies are fully hidden by computation; activations=all: all "
                 "saved activations that lower the peak",
         .level = Scheduled,
         .inPlan = true,
         .trains = true},
        c.offload);
}

void addSpeedFlags(FlagTable &t, CompileOptions &c) {
  using enum ps::Level;
  t.add({.name = "overlap",
         .value = "N",
         .help = "overlap tensor-parallel collectives with matmuls: auto (on GPUs, if overlap "
                 "saves time), off, or N (start all collectives early, each in N chunks)",
         .level = Partitioned,
         .inPlan = true},
        c.overlap);
  t.add({.name = "cluster",
         .value = "NAME|FILE",
         .help = "cluster to plan for, such as h100-sxm, a100-80g:64 (with its number of ranks) or "
                 "FILE.json; its rates decide on stages, recomputation, overlap and "
                 "offloading, and --explain predicts the time of a step (docs/planning.md)",
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

void addOtherFlags(FlagTable &t, Flags &f, CompileOptions &c) {
  t.add({"plan", "PLAN.json",
         "read Plan flags from a JSON file, {\"mesh\": \"dp=2\"}; the command line takes "
         "precedence"},
        f.planFile);
  t.add({"write-plan", "PLAN.json",
         "write the Plan flags and their values to a file that --plan reads"},
        f.writePlan);

  t.addGroup("Update");
  t.add({.name = "optimizer",
         .value = "[FILTER=]SPEC",
         .help = "\"[GLOB=|ndim<2=]adamw(lr=1e-3,betas=(0.9,0.95),eps=1e-8,weight_decay=0.1)\"; "
                 "sgd, adam, adamw; repeatable, first match wins (default adamw(lr=1e-3))",
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

  t.addGroup("Target");
  t.add({"target", "TARGET", "cpu[:native|:x86-64-v4|...] or cuda:sm_90"}, f.targetName);
  t.add({"memory-limit", "BYTES",
         "fail if the arena of a rank is larger: 80GB, 500MiB (does not include the memory of the "
         "CUDA driver and libraries)"},
        f.memoryLimit);
  t.add(
      {"portable", "",
       "write a program for other machines: its libraries go into the folder OUT.libs, its weights "
       "into OUT (CPUs; default target cpu:x86-64-v3)"},
      f.portable);
  t.add({"inference", "", "compile a program that only evaluates; the model needs no loss",
         ps::Level::Training},
        c.inference);
  t.add({"check", "",
         "enable ./OUT --check, which compares a training step with a one-rank program (stored in "
         "OUT)"},
        f.check);

  t.addGroup("Reports");
  t.add({"explain", "", "print the plan: shardings with reasons, collectives with bytes"},
        f.explain);
  t.add({"report", "PLAN.html",
         "write the plan as one HTML page: shardings, collectives, kernels, flops"},
        f.report);
  t.add({"measured", "TRACE.json",
         "with --report: also show the pipeline step that ./OUT --trace recorded"},
        f.measured);
  t.add({"write-timeline", "FILE.svg",
         "draw the pipeline schedule of a step: actions, idle time, activations held"},
        f.timeline);
  t.add({"no-codegen", "", "only plan; do not write a program"}, f.noCodegen);
  t.add({"stop-after", "LEVEL",
         "stop after a level and write its module to the file of -o: imported, training, planned, "
         "partitioned, "
         "scheduled or placed (native, the last level, is the program)"},
        f.stopAfter);
  t.add({"dump-dir", "DIR", "write each level to DIR: 2-planned.mlir, 6-native.ptx"}, f.dumpDir);
  t.add({"verbose", "", "print the seconds that each level takes"}, f.verbose);
}

bool bad(const llvm::Twine &message) {
  llvm::errs() << "ps-compile: error: " << escapeControls(message.str(), "\n  ") << "\n";
  return false;
}

bool check(llvm::Error error) { return !error || bad(llvm::toString(std::move(error))); }

/// Prints the error "--FLAG" + `message`.
bool badFlag(const llvm::Twine &flag, const llvm::Twine &message) {
  return check(ps::createFlagError(flag, message));
}

/// Checks flags against each other.
bool checkCombinations(const Flags &f, const CompileOptions &c) {
  for (auto [flag, value] :
       {std::pair("precision", c.precision), {"gradient-reduction", c.gradientReduction}})
    if (f.check && value != "fp32")
      return badFlag(
          "check",
          " compares the program with a one-rank program at f32 accuracy; compile with --" +
              llvm::Twine(flag) + " fp32 (the shardings stay the same)");
  if (c.inference && f.check)
    return badFlag("check", " needs a training step and cannot be combined with --inference");
  if (c.inference && (c.loss == "none" || !c.differentiate.empty()))
    return badFlag("inference",
                   " and --" + llvm::Twine(c.loss == "none" ? "loss none" : "differentiate") +
                       " exclude each other: an --inference program does not differentiate");
  if (c.loss == "none" && !c.lossOutput.empty())
    return badFlag("loss", " none and --loss-output exclude each other");
  llvm::StringRef target = f.targetName;
  if (target != "cpu" && !target.starts_with("cpu:") && !target.starts_with("cuda:"))
    return badFlag("target", " takes cpu[:NAME] or cuda:sm_NN, not '" + f.targetName + "'");
  return true;
}

/// Checks that `--portable` is possible: an executable for CPUs that does not need the model's
/// file.
bool checkPortable(const FlagTable &table, const Flags &f, const CommandLine &line) {
  if (!f.portable)
    return true;
  if (llvm::StringRef(f.targetName).starts_with("cuda"))
    return badFlag("portable",
                   " is for --target cpu: programs for GPUs load NVIDIA's driver, cuBLASLt, "
                   "cuDNN and NCCL of the machine that they run on; remove --portable");
  if (llvm::StringRef(f.output).ends_with(".so"))
    return badFlag(
        "portable",
        " writes an executable, and '" + f.output +
            "' names a library (*.so), which cannot be portable; remove --portable or name an "
            "executable");
  if (line.walk.stopAfter < ps::Level::Native)
    return badFlag(
        "portable",
        " is about the program, but --stop-after and --no-codegen do not write a program; "
        "remove one of these flags");
  if (table.isGiven("weights") && line.compile.weights == "reference")
    return badFlag("portable",
                   " excludes --weights reference: the model's file stays on this machine; "
                   "give --weights copy or none");
  return true;
}

/// Returns the target. Portable programs default to the instructions that servers have had since
/// 2013 (AVX2, FMA).
std::string getTarget(const FlagTable &table, const Flags &f) {
  if (table.isGiven("target") || !f.portable)
    return f.targetName == "cpu" ? "cpu:native" : f.targetName;
  bool isX86 = llvm::Triple(llvm::sys::getDefaultTargetTriple()).isX86();
  return isX86 ? "cpu:x86-64-v3" : "cpu:generic";
}

/// Computes the number of micro-batches from `--global-batch`, and limits the number.
bool readMicroBatches(const FlagTable &table, const Flags &f, CompileOptions &compile) {
  if (table.isGiven("micro-batches") && f.globalBatch)
    return bad("give --micro-batches or --global-batch, not both");
  if (f.globalBatch && (!compile.batch || *f.globalBatch % *compile.batch != 0))
    return badFlag("global-batch " + llvm::Twine(*f.globalBatch),
                   " needs --batch B, where B divides " + llvm::Twine(*f.globalBatch) +
                       ": a step has " + llvm::Twine(*f.globalBatch) + " / B micro-batches");
  if (f.globalBatch)
    compile.microBatches = *f.globalBatch / *compile.batch;
  if (compile.microBatches > schedules::kMostMicroBatches)
    return badFlag((f.globalBatch ? "global-batch " + std::to_string(*f.globalBatch) + " gives "
                                  : "micro-batches ") +
                       llvm::Twine(compile.microBatches) + (f.globalBatch ? " micro-batches" : ""),
                   ": a step has at most " + llvm::Twine(schedules::kMostMicroBatches) +
                       " micro-batches; raise --batch");
  return true;
}

/// Finds the placement of stages that the schedule needs.
bool readPlacement(CompileOptions &compile) {
  llvm::Expected<schedules::PlacementKind> placement = schedules::findPlacement(compile.schedule);
  if (!placement)
    return badFlag("schedule", ": " + llvm::toString(placement.takeError()));
  compile.placement = *placement == schedules::PlacementKind::V ? "v" : "loop";
  return true;
}

bool readStop(const Flags &f, CommandLine &line) {
  line.output.codegen = !f.noCodegen;
  if (f.stopAfter.empty()) {
    if (f.noCodegen)
      line.walk.stopAfter = ps::Level::Placed;
    return true;
  }
  std::optional<ps::Level> level = ps::symbolizeLevel(f.stopAfter);
  if (!level)
    return badFlag("stop-after",
                   " takes imported, training, planned, partitioned, scheduled, placed or "
                   "native, not '" +
                       f.stopAfter + "'");
  line.walk.stopAfter = *level;
  return true;
}

bool checkInput(llvm::StringRef input) {
  if (input.empty())
    return bad("no model given: ps-compile MODEL -o OUT (see --help)");
  return check(checkModelFile(input, {".pt2", ".onnx", ".mlir"}));
}

bool readOutput(const Flags &f, CommandLine &line) {
  llvm::Expected<std::string> output = findOutputFile(f.output);
  if (!output)
    return check(output.takeError());
  if (llvm::StringRef(f.output).ends_with(".so") != llvm::StringRef(*output).ends_with(".so"))
    return bad("output '" + f.output + "' is a link to '" + *output +
               "': name both *.so to write a library, or neither");
  if (line.walk.stopAfter == ps::Level::Native && llvm::StringRef(f.output).ends_with(".mlir"))
    return bad("output '" + f.output +
               "' would be an executable: add --stop-after LEVEL to write a module, or remove the "
               ".mlir ending");
  line.output.output = *output;
  return check(checkOutputFile(line.compile.model, *output));
}

/// Reads `--write-timeline`. Fails without a pipeline axis, since only a pipeline has a timeline.
bool readTimeline(const Flags &f, CommandLine &line, int64_t coordinates) {
  if (f.timeline.empty())
    return true;
  auto refuse = [](llvm::Error error) {
    return badFlag("write-timeline", ": " + llvm::toString(std::move(error)));
  };
  if (coordinates == 1 && !llvm::StringRef(line.compile.model).ends_with(".mlir"))
    return badFlag("write-timeline", " draws the stages of a pipeline; the mesh " +
                                         line.compile.mesh + " has no pipeline axis, such as pp=2");
  if (line.walk.stopAfter < ps::Level::Planned)
    return badFlag("write-timeline", " shows the plan, which does not exist after --stop-after " +
                                         f.stopAfter + "; stop after planned or later");
  llvm::Expected<std::string> path = findOutputFile(f.timeline);
  if (!path)
    return refuse(path.takeError());
  line.output.timeline = *path;
  llvm::Error error = checkOutputFile(line.compile.model, *path, "write-timeline");
  return !error || refuse(std::move(error));
}

void warnNoEffect(llvm::ArrayRef<const FlagInfo *> flags, llvm::StringRef reason) {
  for (const FlagInfo *flag : flags)
    llvm::errs() << "warning: " << ps::spellFlag(flag->name) << " has no effect: " << reason
                 << "\n";
}

/// Reads `--memory-limit`. Fails if the compile stops before buffers have addresses.
bool readMemoryLimit(const Flags &f, CommandLine &line) {
  if (f.memoryLimit.empty())
    return true;
  llvm::Expected<int64_t> bytes = support::parseBytes(f.memoryLimit);
  if (!bytes)
    return badFlag("memory-limit", ": " + llvm::toString(bytes.takeError()));
  if (line.walk.stopAfter < ps::Level::Placed)
    return badFlag("memory-limit", " needs the addresses, which do not exist after --stop-after " +
                                       f.stopAfter + "; stop after placed or later");
  line.output.memoryLimit = *bytes;
  return true;
}

/// Warns of pipeline flags on a mesh without a pipeline axis, then reads `--write-timeline`.
bool checkPipeline(const FlagTable &table, const Flags &f, CommandLine &line) {
  const CompileOptions &compile = line.compile;
  auto axes = parseMesh(compile.mesh, compile.ranks.value_or(0));
  if (!axes)
    return check(axes.takeError());
  int64_t coordinates = 1;
  for (const MeshAxis &axis : *axes)
    coordinates *= axis.kind == ps::AxisKind::Pipeline ? axis.size : 1;
  if (coordinates == 1 && !llvm::StringRef(compile.model).ends_with(".mlir"))
    warnNoEffect(table.listGiven([](const FlagInfo &flag) { return flag.needsStages; }),
                 "the mesh has no pipeline axis, such as pp=2");
  return readTimeline(f, line, coordinates);
}

bool readReport(const Flags &f, CommandLine &line) {
  if (!f.measured.empty() && f.report.empty())
    return badFlag("measured", " adds to a report: add --report PLAN.html");
  line.output.measured = f.measured;
  if (f.report.empty())
    return true;
  if (line.walk.stopAfter < ps::Level::Planned)
    return badFlag("report", " shows the plan, which does not exist after --stop-after " +
                                 f.stopAfter + "; stop after planned or later");
  auto refuse = [](llvm::Error error) {
    return badFlag("report", ": " + llvm::toString(std::move(error)));
  };
  llvm::Expected<std::string> path = findOutputFile(f.report);
  if (!path)
    return refuse(path.takeError());
  line.output.report = *path;
  llvm::Error error = checkOutputFile(line.compile.model, *path, "report");
  return !error || refuse(std::move(error));
}

bool readFiles(const Flags &f, CommandLine &line) {
  if (!checkInput(line.compile.model))
    return false;
  bool writes = line.output.codegen || line.walk.stopAfter < ps::Level::Placed;
  if (f.output.empty() && writes)
    return bad("no output given: add -o OUT");
  return (f.output.empty() || readOutput(f, line)) && readReport(f, line);
}

/// Returns `--mesh` with the size of its * axis. Example: "dp=*,tp=2" with `--ranks 8` gives
/// "dp=4,tp=2".
std::string getMeshText(const CompileOptions &compile) {
  std::string text = compile.mesh;
  size_t star = text.find('*');
  auto axes = parseMesh(text, compile.ranks.value_or(0));
  if (!axes)
    return llvm::consumeError(axes.takeError()), text; // checkOptions reports the error
  size_t axis = std::count(text.begin(), text.begin() + std::min(star, text.size()), ',');
  return star == std::string::npos ? text
                                   : text.replace(star, 1, std::to_string((*axes)[axis].size));
}

/// Returns the Plan flags with the values that the compile uses: sizes and the schedule are filled
/// in. Example: `--mesh dp=* --ranks 8 --global-batch 64 --batch 16` gives dp=8 and 4
/// micro-batches.
llvm::json::Object describePlan(const FlagTable &table, const CompileOptions &compile) {
  llvm::json::Object plan = table.describePlan();
  plan["mesh"] = getMeshText(compile);
  plan["micro-batches"] = compile.microBatches;
  plan.erase("ranks");
  plan.erase("global-batch");
  if (compile.schedule.empty())
    plan["schedule"] = schedules::chooseSchedule({{}, 1, compile.numChunks}).str();
  return plan;
}

/// Lists the given flags with the level that uses each. In a module at this level or later, the
/// passes that use the flag have already run.
std::vector<GivenFlag> listGiven(const FlagTable &table) {
  std::vector<GivenFlag> given;
  for (const FlagInfo *flag :
       table.listGiven([](const FlagInfo &f) { return f.level.has_value(); }))
    given.push_back({ps::spellFlag(flag->name), *flag->level});
  return given;
}

/// Keeps only the file name of an absolute path. Examples: /tmp/m.pt2 gives m.pt2,
/// --plan=/tmp/p.json gives --plan=p.json.
std::string hideFolder(llvm::StringRef argument) {
  size_t begin = argument.starts_with("-") ? argument.find('=') + 1 : 0; // npos + 1 is 0
  llvm::StringRef value = argument.substr(begin);
  return llvm::sys::path::is_absolute(value)
             ? (argument.take_front(begin) + llvm::sys::path::filename(value)).str()
             : argument.str();
}

std::string joinArguments(int argc, char **argv, bool hidesFolders) {
  std::string line = "ps-compile";
  for (int i = 1; i < argc; ++i) {
    std::string kept = hidesFolders ? hideFolder(argv[i]) : argv[i];
    llvm::StringRef argument = kept;
    bool plain = argument.find_first_of(" ()<*=\"") == llvm::StringRef::npos;
    line += plain ? (" " + argument).str() : (" '" + argument + "'").str();
  }
  return line;
}

/// Assigns the values of all flags, those of the plan file included. The plan file is read after
/// the first pass over the flags, which finds its name.
bool readValues(FlagTable &table, Flags &f, CommandLine &line) {
  if (!check(table.assign()) || !readStop(f, line) || !readFiles(f, line))
    return false;
  if (!f.planFile.empty() && (!check(table.readPlan(f.planFile)) || !check(table.assign())))
    return false;
  return checkCombinations(f, line.compile) && checkPortable(table, f, line) &&
         readMemoryLimit(f, line) && readMicroBatches(table, f, line.compile) &&
         readPlacement(line.compile);
}

} // namespace

std::optional<CommandLine> parseCommandLine(int argc, char **argv) {
  // libLLVM registers its own options, --stop-after among them. Remove them first.
  cl::ResetCommandLineParser();
  Flags f;
  CommandLine line;
  CompileOptions &c = line.compile;
  FlagTable table;
  addModelFlags(table, f, c);
  addLayoutFlags(table, c);
  addStepFlags(table, f, c);
  addSpeedFlags(table, c);
  addOtherFlags(table, f, c);
  cl::HideUnrelatedOptions(table.getGroups());
  if (!parseTool(argc, argv, kOverview) || !readValues(table, f, line))
    return std::nullopt;
  if (c.inference)
    warnNoEffect(table.listGiven([](const FlagInfo &flag) { return flag.trains; }),
                 "an --inference program does not train");
  if (c.optimizers.empty())
    c.optimizers.push_back("adamw(lr=1e-3)");
  c.evalMode = f.mode == "eval";
  c.target = getTarget(table, f);
  if (f.portable && !table.isGiven("weights"))
    c.weights = "copy";
  if (!check(checkOptions(c)) || !checkPipeline(table, f, line))
    return std::nullopt;
  line.given = listGiven(table);
  line.walk.dumpDir = f.dumpDir;
  line.walk.timing = f.verbose;
  line.walk.failurePath = f.output.empty() ? "" : f.output + ".failed.mlir";
  line.output.explain = f.explain;
  line.output.check = f.check;
  line.output.verbose = f.verbose;
  line.output.line = joinArguments(argc, argv, f.portable);
  line.output.isPortable = f.portable;
  if (!f.writePlan.empty()) {
    if (!check(checkOutputFile(c.model, f.writePlan)))
      return std::nullopt;
    line.output.planFile = f.writePlan;
    line.output.plan = describePlan(table, c);
  }
  line.output.planRead = f.planFile;
  if (!check(checkOutputFiles(line)))
    return std::nullopt;
  if (f.noCodegen && f.stopAfter.empty() && !f.output.empty()) {
    llvm::errs()
        << "note: " << f.output
        << " is not written: --no-codegen only plans; use --stop-after LEVEL to write a level\n";
    line.output.output.clear();
  }
  return line;
}

} // namespace parashard
