// Defines the flags of ps-compile (llvm::cl) and checks their values.
#include "Flags.h"
#include "OutputFiles.h"
#include "PlanFile.h"
#include "lib/Schedules/PipelineSchedule.h"
#include "lib/Sharding/MeshText.h"
#include "shared/PrintableText.h"
#include "tools/CommandLine.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"
#include <functional>

namespace cl = llvm::cl;

namespace parashard {
namespace {

constexpr const char *kOverview =
    R"help(compiles a single-device PyTorch model into a program that trains it on many ranks

EXAMPLE
  python -c "import torch; ...; torch.export.save(torch.export.export(model, (ids, labels)), 'gpt.pt2')"
  ps-compile gpt.pt2 -o gpt --mesh dp=2,tp=2 --optimizer "adamw(lr=3e-4,weight_decay=0.1)" --explain
  ./gpt --ranks 4 --data tokens.bin --steps 1000 --export-weights trained.safetensors

Exit status: 0 success, 1 error in the model, 2 error in the command line.)help";

/// Holds every flag of ps-compile, so that no library registers one.
struct Flags {
  cl::OptionCategory model{"Model"}, plan{"Plan"}, update{"Update"}, target{"Target"}, look{"Look"};

  cl::opt<std::string> input{cl::Positional, cl::desc("MODEL(.pt2|.onnx|.mlir)"), cl::cat(model)};
  cl::opt<std::string> output{
      "o",
      cl::desc("output file: an executable, a library (*.so), or a module (*.mlir, with "
               "--stop-after)"),
      cl::value_desc("OUT"), cl::cat(model)};
  cl::list<std::string> dims{"dim", cl::desc("bind a dynamic dim: INPUT.D=N or SYMBOL=N"),
                             cl::cat(model)};
  cl::opt<int64_t> batch{
      "batch",
      cl::desc("bind the batch dims of all inputs: samples per micro-batch, summed over all data "
               "ranks"),
      cl::value_desc("N"), cl::init(0), cl::cat(model)};
  cl::list<std::string> batchDims{
      "batch-dim",
      cl::desc(
          "batch dim of an input: INPUT=D, or INPUT=none for an input without one (default 0); "
          "none alone: no input has a batch dim"),
      cl::cat(model)};
  cl::opt<std::string> mode{
      "mode",
      cl::desc("train, or eval: trains the model in its model.eval() form, without dropout"),
      cl::init("train"), cl::cat(model)};
  cl::opt<std::string> lossOutput{
      "loss-output",
      cl::desc("number or name of the output that is the loss; with --loss KIND: of the output "
               "from which the loss is computed"),
      cl::cat(model)};
  cl::opt<std::string> loss{
      "loss",
      cl::desc("loss of a model that returns none: cross_entropy (classes in the last dim), "
               "causal_lm (labels shifted by one) or mse, against a new input `labels`; or none: "
               "the C API passes cotangents"),
      cl::cat(model)};
  cl::list<std::string> differentiate{"differentiate", cl::CommaSeparated,
                                      cl::desc("with --loss none: outputs that take cotangents "
                                               "(gradients of the outputs)"),
                                      cl::cat(model)};
  cl::list<std::string> freeze{
      "freeze", cl::desc("GLOB of parameters to freeze (exclude from training)"), cl::cat(model)};
  cl::list<std::string> init{"init",
                             cl::desc("initial values of parameters exported without data: "
                                      "\"[GLOB=]normal(0.02)\", uniform(a,b), zeros, ones"),
                             cl::cat(model)};
  cl::opt<std::string> weights{
      "weights",
      cl::desc("where ./OUT reads weights from: reference (the model's file), copy (a copy inside "
               "OUT) or none (the file given to ./OUT --weights)"),
      cl::init("reference"), cl::cat(model)};

  cl::opt<std::string> mesh{
      "mesh",
      cl::desc("device mesh: NAME[:KIND]=N,... with the last axis varying fastest; dp=* takes the "
               "size that --ranks leaves"),
      cl::init("dp=1"), cl::cat(plan)};
  cl::opt<int64_t> ranks{"ranks", cl::desc("number of ranks; determines the * in --mesh"),
                         cl::value_desc("N"), cl::init(0), cl::cat(plan)};
  cl::opt<std::string> policy{"sharding-policy",
                              cl::desc("shardings of the weights: megatron, megatron+sp (sequence "
                                       "parallel), replicated or FILE.json"),
                              cl::init("megatron"), cl::cat(plan)};
  cl::opt<std::string> microBatches{"micro-batches", cl::desc("micro-batches per step"),
                                    cl::cat(plan)};
  cl::opt<int64_t> globalBatch{"global-batch",
                               cl::desc("samples per step, instead of --micro-batches"),
                               cl::value_desc("N"), cl::init(0), cl::cat(plan)};
  cl::opt<std::string> lossAverage{
      "loss-average",
      cl::desc("average the loss over the whole step or per micro-batch: step or micro-batch"),
      cl::cat(plan)};
  cl::opt<std::string> splitMethod{
      "split-method",
      cl::desc(
          "how to split layers into pipeline stages: uniform, parameters, flops, or the modules "
          "NAME,NAME,... that begin a stage"),
      cl::init("uniform"), cl::cat(plan)};
  cl::opt<std::string> numChunks{"num-chunks", cl::desc("stages per pipeline rank"), cl::init("1"),
                                 cl::cat(plan)};
  cl::opt<std::string> schedule{
      "schedule",
      cl::desc(
          "pipeline schedule: gpipe, 1f1b, interleaved, zb-h1, zb-v or FILE.json (default 1f1b, or "
          "interleaved with --num-chunks above 1)"),
      cl::cat(plan)};
  cl::opt<std::string> zero{
      "zero",
      cl::desc("ZeRO stage, sharding over the data axes: 0 nothing, 1 optimizer state, "
               "2 also gradients, 3 also parameters"),
      cl::init("0"), cl::cat(plan)};
  cl::opt<std::string> alignDims{
      "align-dims",
      cl::desc("pad dims of weights and of matmul results: auto (on GPUs, to multiples of 16 if "
               "that adds at most 2%), off, or N (to multiples of N)"),
      cl::init("auto"), cl::cat(plan)};
  cl::opt<std::string> recompute{
      "recompute",
      cl::desc("activation checkpointing: none, selective, full[+communication], "
               "modules=GLOB,... or budget=BYTES (least time within this memory per rank: 12GB, "
               "500MiB)"),
      cl::value_desc("MODE"), cl::init("none"), cl::cat(plan)};
  cl::opt<std::string> overlap{
      "overlap",
      cl::desc("overlap tensor-parallel collectives with matmuls: auto (on GPUs, where overlap "
               "saves time), off, or N (start all collectives early, each in N chunks)"),
      cl::init("auto"), cl::cat(plan)};
  cl::opt<std::string> matmulEpilogues{
      "matmul-epilogues",
      cl::desc("off, or on: fuse tanh-GELU and its gradient into matmul epilogues (GPU only; saves "
               "memory traffic, changes the last bits)"),
      cl::init("off"), cl::cat(plan)};
  cl::opt<std::string> precision{
      "precision",
      cl::desc("compute type of contractions: fp32, bf16, fp16, half (weights too), or fp8 (bf16 "
               "with linear layers in 8 bits); for ops or modules: keep-fp32=GLOB, compute=GLOB; "
               "for fp8: scaling=delayed|current, history=STEPS, margin=BITS, include=GLOB, "
               "exclude=GLOB, misfit=bf16|error"),
      cl::value_desc("TYPE[,keep-fp32=GLOB]"), cl::init("fp32"), cl::cat(plan)};
  cl::opt<std::string> planFile{
      "plan",
      cl::desc("read Plan flags from a JSON file, {\"mesh\": \"dp=2\"}; the command line takes "
               "precedence"),
      cl::value_desc("PLAN.json"), cl::cat(plan)};
  cl::opt<std::string> writePlan{
      "write-plan", cl::desc("write the Plan flags and their values to a file that --plan reads"),
      cl::value_desc("PLAN.json"), cl::cat(plan)};
  cl::opt<std::string> gradientReduction{
      "gradient-reduction", cl::desc("type in which gradients are reduced over ranks"),
      cl::value_desc("fp32|bf16"), cl::init("fp32"), cl::cat(plan)};
  cl::opt<std::string> offload{
      "offload",
      cl::desc(
          "keep tensors in host memory while unused. optimizer: tensors that only the update uses "
          "(optimizer state, EMA, master weights); activations: those whose copies are fully "
          "hidden by computation; activations=all: every activation that lowers the peak"),
      cl::value_desc("none|optimizer|activations[=all],..."), cl::init("none"), cl::cat(plan)};

  cl::list<std::string> optimizer{
      "optimizer",
      cl::desc("\"[GLOB=|ndim<2=]adamw(lr=1e-3,betas=(0.9,0.95),eps=1e-8,weight_decay=0.1)\"; sgd, "
               "adam, adamw; repeatable, first match wins (default adamw(lr=1e-3))"),
      cl::cat(update)};
  cl::opt<std::string> clipNorm{"clip-norm", cl::desc("clip gradients to this global norm"),
                                cl::cat(update)};
  cl::opt<std::string> ema{
      "ema",
      cl::desc("keep an exponential moving average of the weights with this decay, such as 0.999"),
      cl::cat(update)};

  cl::opt<std::string> targetName{"target", cl::desc("cpu[:native|:x86-64-v4|...] or cuda:sm_90"),
                                  cl::init("cpu:native"), cl::cat(target)};
  cl::opt<bool> portable{
      "portable",
      cl::desc("write a program for other machines: its libraries go into the folder OUT.libs, its "
               "weights into OUT (CPUs; default target cpu:x86-64-v3)"),
      cl::cat(target)};
  cl::opt<bool> inference{
      "inference", cl::desc("compile a program that only evaluates; the model needs no loss"),
      cl::cat(target)};
  cl::opt<bool> check{"check", cl::desc("include the one-rank program too, for ./OUT --check"),
                      cl::cat(target)};

  cl::opt<bool> explain{"explain",
                        cl::desc("print the plan: shardings with reasons, collectives with bytes"),
                        cl::cat(look)};
  cl::opt<std::string> report{
      "report", cl::desc("write the plan as one HTML page: shardings, collectives, kernels, flops"),
      cl::value_desc("PLAN.html"), cl::cat(look)};
  cl::opt<std::string> measured{
      "measured",
      cl::desc("with --report: also show the pipeline step that ./OUT --trace recorded"),
      cl::value_desc("TRACE.json"), cl::cat(look)};
  cl::opt<std::string> timeline{
      "write-timeline",
      cl::desc("draw the pipeline schedule of a step: actions, idle time, activations held"),
      cl::value_desc("FILE.svg"), cl::cat(look)};
  cl::opt<bool> noCodegen{"no-codegen", cl::desc("only plan; do not write a program"),
                          cl::cat(look)};
  cl::opt<std::string> stopAfter{
      "stop-after",
      cl::desc("stop after a level and write it to OUT.mlir: imported, training, planned, "
               "partitioned, scheduled or placed"),
      cl::cat(look)};
  cl::opt<std::string> dumpDir{
      "dump-dir", cl::desc("write each level to DIR: 2-planned.mlir, 6-native.ptx"), cl::cat(look)};
  cl::opt<bool> verbose{"verbose", cl::desc("print the seconds that each level takes"),
                        cl::cat(look)};
};

bool bad(const llvm::Twine &message) {
  llvm::errs() << "ps-compile: error: " << escapeControls(message.str(), "\n  ") << "\n";
  return false;
}

bool check(llvm::Error error) { return !error || bad(llvm::toString(std::move(error))); }

bool checkBuilt(const Flags &f) {
  if (f.mode != "train" && f.mode != "eval")
    return bad("--mode takes train or eval, not '" + f.mode + "'");
  if (f.weights != "reference" && f.weights != "copy" && f.weights != "none")
    return bad("--weights takes reference, copy or none, not '" + f.weights + "'");
  if (!f.loss.empty() &&
      !llvm::is_contained({"cross_entropy", "causal_lm", "mse", "none"}, f.loss.getValue()))
    return bad("--loss takes cross_entropy, causal_lm, mse or none, not '" + f.loss + "'");
  for (auto [flag, value] : {std::pair("--precision", f.precision.getValue()),
                             {"--gradient-reduction", f.gradientReduction.getValue()}})
    if (f.check && value != "fp32")
      return bad("--check compares layouts with f32 accuracy; compile with " + llvm::Twine(flag) +
                 " fp32 (the layout stays the same)");
  if (f.inference && f.check)
    return bad("--check needs a training step and cannot be combined with --inference");
  if (f.inference && (f.loss == "none" || !f.differentiate.empty()))
    return bad("--inference and " +
               llvm::Twine(f.loss == "none" ? "--loss none" : "--differentiate") +
               " exclude each other: an --inference program does not differentiate");
  if (f.loss == "none" && !f.lossOutput.empty())
    return bad("--loss none and --loss-output exclude each other");
  llvm::StringRef target = f.targetName;
  if (target != "cpu" && !target.starts_with("cpu:") && !target.starts_with("cuda:"))
    return bad("--target takes cpu[:NAME] or cuda:sm_NN, not '" + f.targetName + "'");
  return true;
}

/// What --portable excludes.
bool checkPortable(const Flags &f, const CommandLine &line) {
  if (!f.portable)
    return true;
  if (llvm::StringRef(f.targetName).starts_with("cuda"))
    return bad("--portable is for --target cpu: programs for GPUs load NVIDIA's driver, cuBLASLt, "
               "cuDNN and NCCL of the machine that they run on; remove --portable");
  if (llvm::StringRef(f.output).ends_with(".so"))
    return bad("--portable makes an executable, and '" + f.output +
               "' would be a library: libpsrt of the machine that it runs on opens it; remove "
               "--portable or give another name");
  if (line.walk.stopAfter < ps::Level::Native)
    return bad("--portable is about the program, which --stop-after and --no-codegen do not make; "
               "remove one of them");
  if (f.weights.getNumOccurrences() && f.weights == "reference")
    return bad("--portable excludes --weights reference: the model's file stays on this machine; "
               "give --weights copy or none");
  return true;
}

/// The CPU that code is made for if --target does not name one. Portable programs take what
/// servers have had since 2013 (AVX2, FMA).
std::string getTarget(const Flags &f) {
  if (f.targetName.getNumOccurrences() || !f.portable)
    return f.targetName == "cpu" ? "cpu:native" : f.targetName.getValue();
  bool isX86 = llvm::Triple(llvm::sys::getDefaultTargetTriple()).isX86();
  return isX86 ? "cpu:x86-64-v3" : "cpu:generic";
}

bool checkAtLeastOne(const cl::opt<int64_t> &flag) {
  if (flag.getNumOccurrences() == 0 || flag >= 1)
    return true;
  return bad("--" + flag.ArgStr + " takes a number of at least 1, not " + llvm::Twine(flag));
}

bool readMicroBatches(const Flags &f, CompileOptions &compile) {
  if (!checkAtLeastOne(f.batch) || !checkAtLeastOne(f.ranks) || !checkAtLeastOne(f.globalBatch))
    return false;
  constexpr int64_t kMostElements = int64_t(1) << 40; // limit of a tensor's size
  if (f.batch > kMostElements)
    return bad("--batch " + llvm::Twine(f.batch) +
               ": a tensor has at most 2^40 elements; give fewer samples");
  if (!f.microBatches.empty() && f.globalBatch)
    return bad("give --micro-batches or --global-batch, not both");
  if (!f.microBatches.empty() &&
      (llvm::StringRef(f.microBatches).getAsInteger(10, compile.microBatches) ||
       compile.microBatches < 1))
    return bad("--micro-batches takes a number of at least 1, not '" + f.microBatches + "'");
  if (f.globalBatch && (!f.batch || f.globalBatch % f.batch != 0))
    return bad("--global-batch " + llvm::Twine(f.globalBatch) +
               " needs --batch B with a divisor B: a step has global-batch / B micro-batches");
  if (f.globalBatch)
    compile.microBatches = f.globalBatch / f.batch;
  if (compile.microBatches > schedules::kMostMicroBatches)
    return bad((f.globalBatch ? "--global-batch " + llvm::Twine(f.globalBatch) + " gives "
                              : "--micro-batches ") +
               llvm::Twine(compile.microBatches) + (f.globalBatch ? " micro-batches" : "") +
               ": a step has at most " + llvm::Twine(schedules::kMostMicroBatches) +
               " micro-batches; raise --batch");
  if (!f.lossAverage.empty() && f.lossAverage != "step" && f.lossAverage != "micro-batch")
    return bad("--loss-average takes step or micro-batch, not '" + f.lossAverage + "'");
  return true;
}

/// Reads the flags of the pipeline: stages per rank, split method and schedule.
bool readPipeline(const Flags &f, CompileOptions &compile) {
  compile.splitMethod = f.splitMethod;
  if (llvm::StringRef(f.numChunks).getAsInteger(10, compile.numChunks) || compile.numChunks < 1)
    return bad("--num-chunks takes a number of at least 1, not '" + f.numChunks + "'");
  compile.schedule = f.schedule;
  llvm::Expected<schedules::PlacementKind> placement = schedules::findPlacement(compile.schedule);
  if (!placement)
    return bad("--schedule: " + llvm::toString(placement.takeError()));
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
    return bad("--stop-after takes imported, training, planned, partitioned, scheduled, placed or "
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
  return check(checkOutputFile(f.input, *output));
}

/// Reads `--write-timeline`. Fails without a pipeline axis, since only a pipeline has a timeline.
bool readTimeline(const Flags &f, CommandLine &line, int64_t coordinates) {
  if (f.timeline.empty())
    return true;
  auto refuse = [](llvm::Error error) {
    return bad("--write-timeline: " + llvm::toString(std::move(error)));
  };
  if (coordinates == 1 && !llvm::StringRef(f.input).ends_with(".mlir"))
    return bad("--write-timeline draws the stages of a pipeline; the mesh " + line.compile.mesh +
               " has no pipeline axis, such as pp=2");
  if (line.walk.stopAfter < ps::Level::Planned)
    return bad("--write-timeline shows the plan, which does not exist after --stop-after " +
               f.stopAfter + "; stop after planned or later");
  llvm::Expected<std::string> path = findOutputFile(f.timeline);
  if (!path)
    return refuse(path.takeError());
  line.output.timeline = *path;
  llvm::Error error = checkOutputFile(f.input, *path, "--write-timeline");
  return !error || refuse(std::move(error));
}

/// Warns of pipeline flags on a mesh without a pipeline axis, then reads `--write-timeline`.
bool checkPipeline(const Flags &f, CommandLine &line) {
  const CompileOptions &compile = line.compile;
  auto axes = parseMesh(compile.mesh, compile.ranks.value_or(0));
  if (!axes)
    return check(axes.takeError());
  int64_t coordinates = 1;
  for (const MeshAxis &axis : *axes)
    coordinates *= axis.kind == ps::AxisKind::Pipeline ? axis.size : 1;
  using Flag = std::reference_wrapper<const cl::Option>;
  for (const cl::Option &flag : std::initializer_list<Flag>{f.splitMethod, f.schedule})
    if (coordinates == 1 && flag.getNumOccurrences() > 0 &&
        !llvm::StringRef(f.input).ends_with(".mlir"))
      llvm::errs() << "warning: --" << flag.ArgStr
                   << " has no effect: the mesh has no pipeline axis, such as pp=2\n";
  return readTimeline(f, line, coordinates);
}

bool readReport(const Flags &f, CommandLine &line) {
  if (!f.measured.empty() && f.report.empty())
    return bad("--measured adds to a report: add --report PLAN.html");
  line.output.measured = f.measured;
  if (f.report.empty())
    return true;
  if (line.walk.stopAfter < ps::Level::Planned)
    return bad("--report shows the plan, which does not exist after --stop-after " + f.stopAfter +
               "; stop after planned or later");
  auto refuse = [](llvm::Error error) {
    return bad("--report: " + llvm::toString(std::move(error)));
  };
  llvm::Expected<std::string> path = findOutputFile(f.report);
  if (!path)
    return refuse(path.takeError());
  line.output.report = *path;
  llvm::Error error = checkOutputFile(f.input, *path, "--report");
  return !error || refuse(std::move(error));
}

bool readFiles(const Flags &f, CommandLine &line) {
  if (!checkInput(f.input))
    return false;
  bool writes = line.output.codegen || line.walk.stopAfter < ps::Level::Placed;
  if (f.output.empty() && writes)
    return bad("no output given: add -o OUT");
  return (f.output.empty() || readOutput(f, line)) && readReport(f, line);
}

/// Warns of flags that affect only training if `--inference` is given.
void warnOfIdleFlags(const Flags &f) {
  using Flag = std::reference_wrapper<const cl::Option>;
  std::initializer_list<Flag> trainingFlags = {
      f.optimizer,   f.clipNorm,  f.ema,  f.microBatches,      f.globalBatch, f.freeze,
      f.lossAverage, f.recompute, f.zero, f.gradientReduction, f.offload};
  for (const cl::Option &flag : trainingFlags)
    if (f.inference && flag.getNumOccurrences() > 0)
      llvm::errs() << "warning: --" << flag.ArgStr
                   << " has no effect: an --inference program does not train\n";
}

/// Reads the file of `--plan` into the flags that the command line does not set.
bool readPlan(Flags &f) {
  if (f.planFile.empty())
    return true;
  std::initializer_list<std::reference_wrapper<cl::Option>> flags = {f.mesh,
                                                                     f.ranks,
                                                                     f.policy,
                                                                     f.splitMethod,
                                                                     f.numChunks,
                                                                     f.schedule,
                                                                     f.microBatches,
                                                                     f.globalBatch,
                                                                     f.lossAverage,
                                                                     f.zero,
                                                                     f.recompute,
                                                                     f.overlap,
                                                                     f.precision,
                                                                     f.gradientReduction,
                                                                     f.offload,
                                                                     f.alignDims,
                                                                     f.matmulEpilogues};
  return check(readPlanFile(f.planFile, [&](llvm::StringRef name) -> cl::Option * {
    for (cl::Option &flag : flags)
      if (flag.ArgStr == name)
        return std::addressof(flag);
    return nullptr;
  }));
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

llvm::json::Object describePlan(const Flags &f, const CompileOptions &compile) {
  llvm::json::Object plan{{"mesh", getMeshText(compile)},
                          {"sharding-policy", f.policy.getValue()},
                          {"split-method", f.splitMethod.getValue()},
                          {"num-chunks", compile.numChunks},
                          {"schedule", compile.schedule.empty()
                                           ? schedules::chooseSchedule({{}, 1, compile.numChunks}).str()
                                           : compile.schedule},
                          {"micro-batches", compile.microBatches},
                          {"zero", compile.zero},
                          {"recompute", f.recompute.getValue()},
                          {"overlap", f.overlap.getValue()},
                          {"align-dims", f.alignDims.getValue()},
                          {"matmul-epilogues", f.matmulEpilogues.getValue()},
                          {"precision", f.precision.getValue()},
                          {"gradient-reduction", f.gradientReduction.getValue()}};
  if (!f.lossAverage.empty())
    plan["loss-average"] = f.lossAverage.getValue();
  plan["offload"] = f.offload.getValue();
  return plan;
}

/// Lists the given flags with the level that uses each. A module at this level or later has
/// already applied the flag.
std::vector<GivenFlag> listGiven(const Flags &f) {
  std::vector<GivenFlag> given;
  using Flag = std::reference_wrapper<const cl::Option>; // operator& of cl::opt gives its value
  auto add = [&](ps::Level level, std::initializer_list<Flag> flags) {
    for (const cl::Option &flag : flags)
      if (flag.getNumOccurrences() > 0)
        given.push_back({"--" + flag.ArgStr.str(), level});
  };
  add(ps::Level::Imported, {f.dims, f.batch});
  add(ps::Level::Training, {f.loss, f.lossOutput, f.differentiate, f.freeze, f.init, f.lossAverage,
                            f.optimizer, f.clipNorm, f.batchDims, f.ema, f.mode, f.inference});
  add(ps::Level::Planned, {f.mesh, f.ranks, f.policy, f.zero, f.precision, f.gradientReduction,
                           f.recompute, f.splitMethod, f.numChunks, f.alignDims});
  add(ps::Level::Partitioned, {f.overlap, f.matmulEpilogues});
  add(ps::Level::Scheduled, {f.microBatches, f.globalBatch, f.schedule, f.offload});
  return given;
}

/// Keeps the file's name of an absolute path: /tmp/m.pt2 becomes m.pt2, --plan=/tmp/p.json
/// --plan=p.json.
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

} // namespace

std::optional<CommandLine> parseCommandLine(int argc, char **argv) {
  // libLLVM registers its own options, --stop-after among them. Remove them first.
  cl::ResetCommandLineParser();
  Flags f;
  cl::HideUnrelatedOptions({&f.model, &f.plan, &f.update, &f.target, &f.look});
  if (!parseTool(argc, argv, kOverview))
    return std::nullopt;
  CommandLine line;
  CompileOptions &c = line.compile;
  if (!readStop(f, line) || !readFiles(f, line) || !readPlan(f) || !checkBuilt(f) ||
      !checkPortable(f, line) || !readMicroBatches(f, c) || !readPipeline(f, c))
    return std::nullopt;
  warnOfIdleFlags(f);
  c.model = f.input;
  c.dims.assign(f.dims.begin(), f.dims.end());
  if (f.batch)
    c.batch = f.batch;
  c.batchDims.assign(f.batchDims.begin(), f.batchDims.end());
  c.lossOutput = f.lossOutput;
  c.loss = f.loss;
  c.differentiate.assign(f.differentiate.begin(), f.differentiate.end());
  c.freeze.assign(f.freeze.begin(), f.freeze.end());
  c.init.assign(f.init.begin(), f.init.end());
  c.mesh = f.mesh;
  if (f.ranks)
    c.ranks = f.ranks;
  c.shardingPolicy = f.policy;
  if (llvm::StringRef(f.zero).getAsInteger(10, c.zero))
    return bad("--zero takes a number from 0 to 3, not '" + f.zero + "'"), std::nullopt;
  c.recompute = f.recompute;
  c.overlap = f.overlap;
  c.alignDims = f.alignDims;
  c.matmulEpilogues = f.matmulEpilogues;
  c.precision = f.precision;
  c.offload = f.offload;
  c.gradientReduction = f.gradientReduction;
  c.lossAverage = f.lossAverage;
  c.optimizers.assign(f.optimizer.begin(), f.optimizer.end());
  if (c.optimizers.empty())
    c.optimizers.push_back("adamw(lr=1e-3)");
  c.clipNorm = f.clipNorm;
  c.ema = f.ema;
  c.weights = f.portable && !f.weights.getNumOccurrences() ? "copy" : f.weights.getValue();
  c.evalMode = f.mode == "eval";
  c.inference = f.inference;
  c.target = getTarget(f);
  if (llvm::Error error = checkOptions(c))
    return bad(llvm::toString(std::move(error))), std::nullopt;
  if (!checkPipeline(f, line))
    return std::nullopt;
  line.given = listGiven(f);
  line.walk.dumpDir = f.dumpDir;
  line.walk.timing = f.verbose;
  line.walk.failurePath = f.output.empty() ? "" : f.output + ".failed.mlir";
  line.output.explain = f.explain;
  line.output.check = f.check;
  line.output.verbose = f.verbose;
  line.output.line = joinArguments(argc, argv, f.portable);
  line.output.isPortable = f.portable;
  if (!f.writePlan.empty()) {
    if (!check(checkOutputFile(f.input, f.writePlan)))
      return std::nullopt;
    line.output.planFile = f.writePlan;
    line.output.plan = describePlan(f, c);
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
