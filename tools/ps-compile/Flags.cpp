// Defines the flags of ps-compile (llvm::cl) and checks their values.
#include "Flags.h"
#include "OutputFiles.h"
#include "dialects/ps/Refusal.h"
#include "lib/Costs/Cluster.h"
#include "lib/Schedules/PipelineSchedule.h"
#include "lib/Sharding/MeshText.h"
#include "lib/Support/Bytes.h"
#include "mlir/IR/MLIRContext.h"
#include "tools/CommandLine.h"
#include "tools/DiagnosticPrinter.h"
#include "tools/Messages.h"
#include "tools/PlanRequests.h"

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
  python -m parashard.export my_model.py:make -o gpt.pt2     # or torch.export.save in your program
  ps-compile gpt.pt2 -o gpt --mesh dp=2,tp=2 --optimizer "adamw(lr=3e-4,weight_decay=0.1)" --explain
  ./gpt --ranks 4 --data tokens.bin --steps 1000 --export-weights trained.safetensors

Exit status: 0 success, 1 error in the model or failure of the compiler, 2 error in the command line.)help";

/// Values of the flags that are not in `CompileOptions`. `getTarget` derives
/// `CompileOptions::target` from `targetName`.
struct Flags {
  std::string output, targetName = "cpu:native", planFile, writePlan;
  std::string report, planData, measured, timeline, stopAfter, dumpDir, memoryLimit,
      messages = "text";
  bool automatic = false, check = false, explain = false, noCodegen = false, portable = false,
       verbose = false;
};

void addOtherFlags(FlagTable &t, Flags &f, CompileOptions &c) {
  t.add({"auto", "",
         "search for the fastest plan: its mesh, sharding-policy, zero, batch, micro-batches, "
         "num-chunks, schedule and recompute. These flags then take constraints: a value, a list "
         "1,2, a range <=8 or *. Without --global-batch, a step has as many samples as the "
         "exported batch; without --cluster, a CPU target uses this machine (measured once), and a "
         "GPU target the preset of its generation"},
        f.automatic);
  t.add({"plan", "PLAN.json",
         "read Plan flags from a JSON file, such as {\"mesh\": \"dp=2\"}; the command line takes "
         "precedence"},
        f.planFile);
  t.add({"write-plan", "PLAN.json",
         "write the Plan flags and their values to a file that --plan reads"},
        f.writePlan);

  t.addGroup("Update");
  addUpdateFlags(t, c);

  t.addGroup("Target");
  addTargetFlag(t, f.targetName);
  t.add(
      {"memory-limit", "BYTES",
       "fail if the arena of a rank is larger than this, such as 80GB or 500MiB (does not include "
       "the memory of the CUDA driver and libraries)"},
      f.memoryLimit);
  t.add(
      {"portable", "",
       "write a program for other machines: its libraries go into the folder OUT.libs, its weights "
       "into OUT. Only for CPU targets; the default target is cpu:x86-64-v3, or cpu:generic if "
       "this "
       "machine is not x86"},
      f.portable);
  t.add({"inference", "", "compile a program that only evaluates; the model needs no loss",
         ps::Level::Training},
        c.inference);
  t.add({"entry", "NAME=FILE.pt2",
         "add an inference entry: another graph over the variables of the model, which may write "
         "buffers; the host calls the entry by NAME; repeatable",
         ps::Level::Imported},
        c.entries);
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
  t.add({"plan-data", "FILE.json", "write the data of the report as JSON (docs/report.md)"},
        f.planData);
  t.add({"measured", "TRACE.json",
         "with --report: also show the pipeline step that ./OUT --trace recorded"},
        f.measured);
  t.add({"write-timeline", "FILE.svg",
         "draw the pipeline schedule of a step: actions, idle time, saved activations"},
        f.timeline);
  t.add({"no-codegen", "", "only plan; do not write a program"}, f.noCodegen);
  t.add({"stop-after", "LEVEL",
         "stop after a level (imported, training, planned, partitioned, scheduled or placed) and "
         "write its "
         "module to the file of -o; native, the last level, writes the program"},
        f.stopAfter);
  t.add({"dump-dir", "DIR",
         "write each level to a file in DIR, such as 2-planned.mlir or 6-native.ptx"},
        f.dumpDir);
  addMessagesFlag(t, f.messages);
  t.add({"verbose", "", "print the seconds that each level takes"}, f.verbose);
}

bool bad(const llvm::Twine &message) {
  printToolError("ps-compile", message);
  return false;
}

bool check(llvm::Error error) { return !error || bad(llvm::toString(std::move(error))); }

/// Prints the error "--FLAG" + `message`, and returns false.
bool badFlag(const llvm::Twine &flag, const llvm::Twine &message) {
  return check(ps::createFlagError(flag, message));
}

/// Fails for flags that exclude each other.
bool checkCombinations(const Flags &f, const CompileOptions &c) {
  for (const auto &[flag, value] :
       {std::pair("precision", c.precision), {"gradient-reduction", c.gradientReduction}})
    if (f.check && value != "fp32")
      return badFlag("check", " compares the program with a one-rank program at f32 accuracy; for "
                              "the check, compile with --" +
                                  llvm::Twine(flag) + " fp32 (the shardings stay the same)");
  if (c.inference && f.check)
    return badFlag("check", " needs a training step and cannot be combined with --inference");
  if (c.inference && (c.loss == "none" || !c.differentiate.empty()))
    return badFlag("inference",
                   " and --" + llvm::Twine(c.loss == "none" ? "loss none" : "differentiate") +
                       " exclude each other: an --inference program does not differentiate");
  if (c.loss == "none" && !c.lossOutput.empty())
    return badFlag("loss", " none and --loss-output exclude each other");
  return check(checkTarget(f.targetName));
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

/// Returns the target. On x86, portable programs default to the instructions that servers have had
/// since 2013 (AVX2, FMA). On other machines, portable programs default to cpu:generic.
std::string getTarget(const FlagTable &table, const Flags &f) {
  if (table.isGiven("target") || !f.portable)
    return f.targetName == "cpu" ? "cpu:native" : f.targetName;
  bool isX86 = llvm::Triple(llvm::sys::getDefaultTargetTriple()).isX86();
  return isX86 ? "cpu:x86-64-v3" : "cpu:generic";
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
               "'; both names must end with .so (to write a library), or neither");
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
    printMessage(Severity::Warning, ps::spellFlag(flag->name) + " has no effect: " + reason);
}

/// Reads `--memory-limit`. Fails if the compile stops before buffers have addresses.
bool readMemoryLimit(const Flags &f, CommandLine &line) {
  if (f.memoryLimit.empty())
    return true;
  llvm::Expected<int64_t> bytes = support::parseBytes(f.memoryLimit);
  if (!bytes)
    return badFlag("memory-limit", ": " + llvm::toString(bytes.takeError()));
  if (line.walk.stopAfter < ps::Level::Placed)
    return badFlag("memory-limit",
                   " needs the addresses of buffers, which do not exist after --stop-after " +
                       f.stopAfter + "; stop after placed or later");
  line.output.memoryLimit = *bytes;
  return true;
}

/// Returns the number of pipeline coordinates of the mesh.
llvm::Expected<int64_t> countCoordinates(const CompileOptions &compile) {
  auto axes = parseMesh(compile.mesh, compile.ranks.value_or(0));
  if (!axes)
    return axes.takeError();
  int64_t coordinates = 1;
  for (const MeshAxis &axis : *axes)
    coordinates *= axis.kind == ps::AxisKind::Pipeline ? axis.size : 1;
  return coordinates;
}

/// Warns of pipeline flags on a mesh without a pipeline axis, then reads `--write-timeline`.
bool checkPipeline(const FlagTable &table, const Flags &f, CommandLine &line) {
  const CompileOptions &compile = line.compile;
  llvm::Expected<int64_t> counted = countCoordinates(compile);
  if (!counted)
    return check(counted.takeError());
  int64_t coordinates = *counted;
  if (coordinates == 1 && !llvm::StringRef(compile.model).ends_with(".mlir"))
    warnNoEffect(table.listGiven([](const FlagInfo &flag) { return flag.needsStages; }),
                 "the mesh has no pipeline axis, such as pp=2");
  return readTimeline(f, line, coordinates);
}

/// Reads a flag that writes a file about the plan. Sets `path` to the file's name, or leaves it
/// empty.
bool readPlanOutput(const char *flag, const std::string &given, const Flags &f,
                    const CommandLine &line, std::string &path) {
  if (given.empty())
    return true;
  if (line.walk.stopAfter < ps::Level::Planned)
    return badFlag(flag, " shows the plan, which does not exist after --stop-after " + f.stopAfter +
                             "; stop after planned or later");
  auto refuse = [&](llvm::Error error) {
    return badFlag(flag, ": " + llvm::toString(std::move(error)));
  };
  llvm::Expected<std::string> found = findOutputFile(given);
  if (!found)
    return refuse(found.takeError());
  path = *found;
  llvm::Error error = checkOutputFile(line.compile.model, path, flag);
  return !error || refuse(std::move(error));
}

bool readReport(const Flags &f, CommandLine &line) {
  if (!f.measured.empty() && f.report.empty() && f.planData.empty())
    return badFlag("measured", " adds a trace to a report; add --report PLAN.html");
  line.output.measured = f.measured;
  return readPlanOutput("report", f.report, f, line, line.output.report) &&
         readPlanOutput("plan-data", f.planData, f, line, line.output.planData);
}

bool readFiles(const Flags &f, CommandLine &line) {
  if (!checkInput(line.compile.model))
    return false;
  bool writes = line.output.codegen || line.walk.stopAfter < ps::Level::Placed;
  if (f.output.empty() && writes)
    return bad("no output given: add -o OUT");
  return (f.output.empty() || readOutput(f, line)) && readReport(f, line);
}

/// Returns `--mesh` with the size of its * axis. The options must have passed `checkOptions`.
/// Example: "dp=*,tp=2" with `--ranks 8` gives "dp=4,tp=2".
std::string getMeshText(const CompileOptions &compile) {
  std::string text = compile.mesh;
  size_t star = text.find('*');
  auto axes = llvm::cantFail(parseMesh(text, compile.ranks.value_or(0)));
  size_t axis = std::count(text.begin(), text.begin() + std::min(star, text.size()), ',');
  return star == std::string::npos ? text : text.replace(star, 1, std::to_string(axes[axis].size));
}

/// Returns the Plan flags with the values that the compile uses. Fills in the size of a `*` axis,
/// the number of micro-batches, and the default schedule of a pipeline. Omits `--ranks`,
/// `--global-batch` and a default target. The options must have passed `checkPipeline`. Example:
/// `--mesh dp=* --ranks 8 --global-batch 64 --batch 16` gives dp=8 and 4 micro-batches.
llvm::json::Object describePlan(const FlagTable &table, const CompileOptions &compile) {
  llvm::json::Object plan = table.describePlan();
  plan["mesh"] = getMeshText(compile);
  plan["micro-batches"] = compile.microBatches;
  plan.erase("ranks");
  plan.erase("global-batch");
  if (!table.isGiven("target")) // the default depends on the machine and on --portable
    plan.erase("target");
  if (compile.schedule.empty() && llvm::cantFail(countCoordinates(compile)) > 1)
    plan["schedule"] = schedules::chooseSchedule({{}, 1, compile.numChunks}).str();
  return plan;
}

/// Warns if the cluster has GPUs, but the program is for CPUs because no target was given. The
/// options must have passed `checkOptions`.
void warnOfTarget(const FlagTable &table, const CommandLine &line) {
  if (table.isGiven("target") || line.compile.cluster.empty() ||
      line.walk.stopAfter < ps::Level::Native)
    return;
  auto cluster = costs::findCluster(line.compile.cluster);
  if (!cluster)
    return llvm::consumeError(cluster.takeError()); // `cpu` is this machine, without a GPU target
  llvm::StringRef target = cluster->cluster.device.target;
  if (target.starts_with("cuda"))
    printMessage(Severity::Warning, "the program is for " + line.compile.target +
                                        ", but the cluster " + line.compile.cluster + " has " +
                                        target + "; give --target " + target +
                                        " to compile for it");
}

/// Lists the given flags, each with the level whose passes use it. In a module at this level or
/// later, these passes have already run.
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

/// Copies the flags that need no check.
void copyFlags(const Flags &f, CommandLine &line) {
  line.walk.dumpDir = f.dumpDir;
  if (f.verbose)
    line.walk.onLevel = [](ps::Level level, double seconds) {
      printMessage(Severity::Progress,
                   llvm::formatv("{0,-12} {1:f2} s", ps::stringifyLevel(level), seconds).str());
    };
  line.walk.failurePath = f.output.empty() ? "" : f.output + ".failed.mlir";
  line.output.explain = f.explain;
  line.output.check = f.check;
  line.output.verbose = f.verbose;
  line.output.isPortable = f.portable;
}

/// Checks the flags that exclude `--auto`.
bool checkAutomatic(const Flags &f, const CompileOptions &c) {
  if (!f.planFile.empty())
    return badFlag("auto", " searches for a plan, and --plan reads one; remove one of these flags");
  if (c.inference || c.loss == "none")
    return badFlag("auto", " plans training steps, and the program has none; remove --" +
                               llvm::Twine(c.inference ? "inference" : "loss none"));
  if (llvm::StringRef(c.model).ends_with(".mlir"))
    return badFlag("auto", " needs the model (.pt2 or .onnx), not a dump of one of its levels");
  return true;
}

/// Makes the request of `--auto`.
llvm::Expected<PlanRequest> makeAutomaticRequest(FlagTable &table, const Flags &f,
                                                 CompileFlags &compile, GivenCluster &cluster) {
  CompileOptions &c = compile.options;
  if (llvm::Error error = setFixedFlags(table))
    return std::move(error);
  c.target = getTarget(table, f);
  if (c.cluster.empty())
    c.cluster =
        llvm::StringRef(c.target).starts_with("cuda") ? costs::getDefaultPreset(c.target) : "cpu";
  llvm::Expected<GivenCluster> given = findGivenCluster(c.cluster);
  if (!given)
    return given.takeError();
  cluster = std::move(*given);
  if (!table.isGiven("target") && cluster.cluster)
    c.target = cluster.getTarget();
  std::optional<int64_t> globalBatch = compile.globalBatch;
  // The search chooses the number of micro-batches, so --global-batch must not fix it here.
  compile.globalBatch.reset();
  if (llvm::Error error = finishCompileFlags(table, compile))
    return std::move(error);
  if (llvm::Error error = checkValues(table, compile))
    return std::move(error);
  compile.globalBatch = globalBatch;
  auto request = makeRequest(table, compile, cluster, "memory-limit", f.memoryLimit);
  compile.globalBatch.reset();
  if (request)
    request->options.weights = "none"; // a plan does not depend on values
  return request;
}

/// Searches for a plan, prints the best plans, and sets the Plan flags to the first one.
bool planAutomatically(FlagTable &table, const Flags &f, CompileFlags &compile,
                       OutputOptions &output, int &status) {
  GivenCluster cluster;
  if (!checkAutomatic(f, compile.options))
    return false;
  llvm::Expected<PlanRequest> request = makeAutomaticRequest(table, f, compile, cluster);
  if (!request)
    return check(request.takeError());
  registerAllPasses();
  mlir::DialectRegistry registry;
  registerEverything(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  DiagnosticPrinter printer(context);
  FaultRecorder faults(context);
  CaughtInterrupt interrupt;
  request->isInterrupted = CaughtInterrupt::isInterrupted;
  llvm::Expected<PlanAnswer> answer = searchPlan(context, *request);
  if (!answer) {
    llvm::Error error = answer.takeError();
    status = error.isA<ps::FlagError>() ? int(BadCommandLine) : int(faults.getStatus());
    return check(std::move(error));
  }
  output.searchAnswer = *answer;
  output.searchPrediction = makePrediction(answer->plans.front(), *answer, cluster, request->ranks);
  answer->neighbors.clear();
  printPlans(*answer, 5, llvm::outs());
  llvm::outs().flush();
  return check(setPlanFlags(table, answer->plans.front().options, cluster));
}

/// Reads and checks all flags, including those of the plan file. With `--auto`, also searches for
/// the plan. The first `table.assign` finds the name of the plan file. The second one assigns the
/// values from this file.
bool readFlagsAndPlan(FlagTable &table, Flags &f, CompileFlags &compile, CommandLine &line,
                      int &status) {
  if (!check(table.assign()) || !readStop(f, line) || !readFiles(f, line))
    return false;
  if (!f.planFile.empty() && (!check(table.readPlan(f.planFile)) || !check(table.assign())))
    return false;
  return checkCombinations(f, line.compile) && checkPortable(table, f, line) &&
         readMemoryLimit(f, line) &&
         (!f.automatic || planAutomatically(table, f, compile, line.output, status)) &&
         check(finishCompileFlags(table, compile));
}

} // namespace

std::optional<CommandLine> parseCommandLine(int argc, char **argv, int &status) {
  // Remove the options that libLLVM registers: one of them is also called --stop-after.
  cl::ResetCommandLineParser();
  Flags f;
  CommandLine line;
  CompileOptions &c = line.compile;
  CompileFlags compile{c};
  FlagTable table;
  table.addGroup("Model");
  table.addPositional("MODEL(.pt2|.onnx|.mlir)", c.model);
  table.add(
      {"o", "OUT",
       "output file: an executable, a library (*.so), or a module (*.mlir, with --stop-after)"},
      f.output);
  addModelFlags(table, compile);
  table.addGroup("Plan");
  addPlanFlags(table, compile);
  addOtherFlags(table, f, c);
  cl::HideUnrelatedOptions(table.getGroups());
  if (hasFlag(argc, argv, "auto"))
    table.takeConstraints();
  if (!parseTool(argc, argv, kOverview) || !readFlagsAndPlan(table, f, compile, line, status))
    return std::nullopt;
  if (c.inference)
    warnNoEffect(table.listGiven([](const FlagInfo &flag) { return flag.trains; }),
                 "an --inference program does not train");
  c.target = getTarget(table, f);
  if (f.portable && !table.isGiven("weights"))
    c.weights = "copy";
  if (!check(checkOptions(c)) || !checkPipeline(table, f, line))
    return std::nullopt;
  warnOfTarget(table, line);
  line.given = listGiven(table);
  line.output.line = joinArguments(argc, argv, f.portable);
  copyFlags(f, line);
  if (!f.writePlan.empty()) {
    if (llvm::Error error = checkOutputFile(c.model, f.writePlan, "write-plan")) {
      badFlag("write-plan", ": " + llvm::toString(std::move(error)));
      return std::nullopt;
    }
    line.output.writtenPlanFile = f.writePlan;
    line.output.planFlags = describePlan(table, c);
    if (line.output.searchPrediction) {
      line.output.planFlags["target"] = c.target;
      line.output.planFlags["predicted"] = line.output.searchPrediction->toJson();
    }
  }
  line.output.givenPlanFile = f.planFile;
  line.output.givenPrediction = table.getPrediction();
  if (!check(checkOutputFiles(line)))
    return std::nullopt;
  if (f.noCodegen && f.stopAfter.empty() && !f.output.empty()) {
    printMessage(
        Severity::Note,
        f.output +
            " is not written: --no-codegen only plans; use --stop-after LEVEL to write a level");
    line.output.output.clear();
  }
  // The measurement takes long, and is therefore last. A search has printed its warnings already.
  auto ignore = [](bool, const std::string &) {};
  bool isSearched = line.output.searchPrediction.has_value();
  if (!check(isSearched ? measureLocalCluster(c, ignore) : measureLocalCluster(c, printReport)))
    return std::nullopt;
  return line;
}

} // namespace parashard
