// Defines the flags of ps-plan and checks their values.
#include "Flags.h"
#include "dialects/ps/Refusal.h"
#include "lib/Planner/ConstraintsFile.h"
#include "lib/Support/JsonDocument.h"
#include "shared/FileClaims.h"
#include "tools/CommandLine.h"
#include "tools/Messages.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace parashard::driver;

namespace parashard {

using ps::createFlagError;

void addFlags(PlanLine &line, bool predicts) {
  FlagTable &t = line.table;
  t.addGroup("Model");
  t.addPositionals("MODEL(.pt2|.onnx) or PLAN.json...", line.files, predicts ? "" : "measured",
                   line.traces);
  addModelFlags(t, line.compile);
  t.addGroup("Plan");
  addPlanFlags(t, line.compile);
  addTargetFlag(t, line.target, /*isOfCluster=*/true);
  t.addGroup("Update");
  addUpdateFlags(t, line.options);
  t.addGroup("Planner");
  t.add(
      {"predict", "",
       "predict step time and memory of one plan (--plan and Plan flags), as JSON; do not search"},
      line.predicts);
  t.add({"plan", "PLAN.json", "with --predict: read Plan flags from a file"}, line.planFile);
  t.add({"constraints", "FILE.json",
         "read constraints from a file, such as {\"zero\": [0, 1], \"mesh\": \"tp=<=8\"}; the "
         "command line takes precedence"},
        line.constraintsFile);
  t.add({"memory", "BYTES",
         "largest memory of a rank, such as 72GB (default: memory of the cluster's device, less "
         "its reserve)"},
        line.memory);
  addMessagesFlag(t, line.messages);
  t.add({"time-limit", "SECONDS",
         "end the search after this time, with the best plan so far (default: 30)"},
        line.timeLimit, {1});
  t.add(
      {"why-not", "CHOICE",
       "also find the best plan with this choice, such as tp=4 or zero=3, and compare it with the "
       "fastest plan; repeatable"},
      line.whyNot);
  t.add({"finalists", "K",
         "compile the best K plans, and write plan-1.json, plan-2.json, ... to the folder that -o "
         "names"},
        line.finalists, {1, 16});
  t.add({"diff", "PLAN.json", "compare two plan files: --diff A.json B.json"}, line.diff);
  if (predicts)
    t.add({"measured", "TRACE.json",
           "with --predict: take the times of kernels and matmuls from a trace of the plan's "
           "program"},
          line.measured);
  else
    t.add({"measured", "",
           "compare plan files by traces of their programs: PLAN.json... --measured "
           "[TRACE.json...]; without traces, read PLAN.trace.json of each PLAN.json. With "
           "--predict, --measured TRACE.json takes the times of kernels and matmuls from a trace"},
          line.compares);
  t.add({"o", "PLAN.json",
         "write the plan (with --predict: the price) to this file; with --finalists, write the "
         "plans to this folder; '-': standard output"},
        line.output);
  if (!predicts)
    t.takeConstraints();
}

namespace {

/// Returns the model and the files that the flags name as inputs.
std::vector<InputFile> listReads(const PlanLine &line) {
  std::vector<InputFile> reads{{line.options.model, "is the model itself"},
                               {line.planFile, "is read by --plan"},
                               {line.constraintsFile, "is read by --constraints"},
                               {line.measured, "is read by --measured"}};
  if (std::optional<std::string> cluster = costs::findClusterFile(line.options.cluster))
    reads.push_back({*cluster, "is read by --cluster"});
  for (const auto &[value, flag] : {std::pair(line.options.shardingPolicy, "sharding-policy"),
                                    std::pair(line.options.schedule, "schedule")})
    if (llvm::StringRef(value).ends_with(".json"))
      reads.push_back({value, "is read by " + ps::spellFlag(flag)});
  for (const auto &[flag, text] : line.table.getConstraints())
    for (llvm::StringRef value : llvm::split(text, '|'))
      if (value.trim().ends_with(".json"))
        reads.push_back({value.trim().str(), "is read by " + ps::spellFlag(flag)});
  return reads;
}

/// Checks the files plan-1.json, plan-2.json, ... that `--finalists` writes to the folder of `-o`.
llvm::Error checkFinalists(const PlanLine &line) {
  FileClaims claims;
  for (const InputFile &file : listReads(line))
    if (!file.path.empty())
      claims.add(file.path, file.use);
  for (int64_t i = 1; i <= *line.finalists; ++i) {
    std::string path = line.output + "/plan-" + std::to_string(i) + ".json";
    if (llvm::sys::fs::is_directory(path))
      return createFlagError("finalists", ": output '" + path +
                                              "' is a folder; remove this folder, or give another "
                                              "one to -o");
    if (const std::string *use = claims.find(path))
      return createFlagError("finalists",
                             ": output '" + path + "' " + *use + "; give another folder to -o");
    if (llvm::Error error = checkOutputFile(llvm::ArrayRef<InputFile>(), path))
      return createFlagError("finalists", ": " + llvm::toString(std::move(error)));
  }
  return llvm::Error::success();
}

llvm::Error checkOutput(PlanLine &line) {
  if (line.finalists && (line.output.empty() || line.output == "-"))
    return createFlagError("finalists",
                           " writes several plans; give a folder to -o, such as -o plans");
  if (line.output.empty() || line.output == "-")
    return llvm::Error::success();
  if (line.finalists) {
    if (llvm::sys::fs::exists(line.output) && !llvm::sys::fs::is_directory(line.output))
      return createFlagError("finalists", ": " + line.output + " is a file; give a folder to -o");
    if (std::error_code error = llvm::sys::fs::create_directories(line.output))
      return createFlagError("finalists",
                             ": cannot create " + line.output + ": " + error.message());
    return checkFinalists(line);
  }
  llvm::Expected<std::string> output = findOutputFile(line.output);
  if (!output)
    return output.takeError();
  return checkOutputFile(listReads(line), line.output = *output);
}

/// Reads `--constraints`. Flags of the command line keep their values.
llvm::Error readConstraints(PlanLine &line) {
  const std::string &path = line.constraintsFile;
  if (path.empty())
    return llvm::Error::success();
  auto fail = [&](const llvm::Twine &message) {
    return createFlagError("constraints \"" + path + "\"", ": " + message);
  };
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return fail("cannot be read: " + buffer.getError().message());
  auto file = planner::readConstraintsFile((*buffer)->getBuffer(), line.table.listPlanFlags());
  if (!file)
    return fail(llvm::toString(file.takeError()));
  for (const auto &[flag, text] : file->flags)
    line.table.giveFromFile(flag, text);
  if (file->policy && !line.table.isGiven("sharding-policy")) {
    auto policy = support::JsonDocument::parse(*file->policy);
    if (!policy)
      return fail(llvm::toString(policy.takeError()));
    line.table.giveFromFile("sharding-policy", policy->getRoot().format());
  }
  return llvm::Error::success();
}

/// Fails for flags that only a search uses.
llvm::Error checkPrediction(const FlagTable &table) {
  for (const char *flag : {"memory", "time-limit", "constraints", "why-not", "finalists"})
    if (table.isGiven(flag))
      return createFlagError(flag, " is for a search, and --predict prices one plan; remove one of "
                                   "these flags");
  return llvm::Error::success();
}

/// Finds the cluster, and sets the target. Without `--target`, uses the target of the cluster.
llvm::Error readCluster(PlanLine &line) {
  CompileOptions &options = line.options;
  if (options.cluster.empty())
    return llvm::createStringError("no cluster given; add --cluster NAME:RANKS or FILE.json");
  llvm::Expected<GivenCluster> cluster = findGivenCluster(options.cluster);
  if (!cluster)
    return cluster.takeError();
  line.cluster = std::move(*cluster);
  options.target = line.target.empty() ? line.cluster.getTarget() : line.target;
  if (!options.ranks && llvm::StringRef(options.mesh).contains('*'))
    options.ranks = line.cluster.ranks;
  return checkTarget(options.target);
}

/// Reads the flags and files that give the plan (`--plan`) or constrain it (`--constraints`).
llvm::Error readPlanFlags(PlanLine &line, bool predicts) {
  if (!predicts) {
    if (!line.planFile.empty())
      return createFlagError("plan", " gives the plan to price and needs --predict");
    if (llvm::Error error = readConstraints(line))
      return error;
    return setFixedFlags(line.table);
  }
  if (llvm::Error error = checkPrediction(line.table))
    return error;
  if (line.planFile.empty())
    return llvm::Error::success();
  bool isOtherCluster = line.table.isGiven("cluster") && !line.table.isGiven("target");
  if (llvm::Error error = line.table.readPlan(line.planFile))
    return error;
  if (llvm::Error error = line.table.assign())
    return error;
  if (isOtherCluster) // the file's target is for the cluster of the file
    line.target.clear();
  return llvm::Error::success();
}

} // namespace

/// Finds the model among the arguments without a flag.
static llvm::Error findModel(PlanLine &line) {
  if (line.files.size() > 1)
    return llvm::createStringError("\"" + line.files[0] + "\" and \"" + line.files[1] +
                                   "\" are given, but one model is expected; compare plan files "
                                   "with --diff or --measured");
  if (!line.files.empty())
    line.options.model = line.files.front();
  return llvm::Error::success();
}

llvm::Error readLine(PlanLine &line, bool predicts) {
  if (llvm::Error error = findModel(line))
    return error;
  if (line.options.model.empty())
    return llvm::createStringError("no model given: ps-plan MODEL --cluster NAME:RANKS "
                                   "--global-batch N -o PLAN.json (see --help)");
  if (llvm::Error error = checkModelFile(line.options.model, {".pt2", ".onnx"}))
    return error;
  if (line.options.loss == "none")
    return createFlagError("loss none", ": a program without a loss has no training step to plan");
  if (line.table.isGiven("weights"))
    printMessage(Severity::Warning,
                 ps::spellFlag("weights") + " has no effect: a plan does not depend on values");
  if (llvm::Error error = readPlanFlags(line, predicts))
    return error;
  if (llvm::Error error = checkOutput(line))
    return error;
  if (llvm::Error error = readCluster(line))
    return error;
  // The search chooses the number of micro-batches, so --global-batch must not fix it here.
  std::optional<int64_t> globalBatch = line.compile.globalBatch;
  if (!predicts)
    line.compile.globalBatch.reset();
  if (llvm::Error error = finishCompileFlags(line.table, line.compile))
    return error;
  line.options.weights = "none"; // a plan does not depend on values
  llvm::Error error = predicts ? checkOptions(line.options) : checkValues(line.table, line.compile);
  line.compile.globalBatch = globalBatch;
  return error;
}

/// Returns the value of a constraint that is one whole number.
static std::optional<int64_t> findNumber(const FlagTable &table, llvm::StringRef flag) {
  for (const auto &[name, text] : table.getConstraints())
    if (int64_t number = 0; name == flag && !llvm::StringRef(text).getAsInteger(10, number))
      return number;
  return std::nullopt;
}

llvm::Expected<PlanRequest> readRequest(PlanLine &line) {
  std::optional<int64_t> batch = findNumber(line.table, "batch"),
                         count = findNumber(line.table, "micro-batches");
  if (!line.compile.globalBatch && batch && count)
    line.compile.globalBatch = llvm::checkedMul(*batch, *count);
  if (!line.compile.globalBatch)
    return llvm::createStringError("the samples per step are missing; give --global-batch N");
  llvm::Expected<PlanRequest> request =
      makeRequest(line.table, line.compile, line.cluster, "memory", line.memory);
  if (!request)
    return request.takeError();
  request->timeLimit = double(line.timeLimit);
  request->whyNot = line.whyNot;
  request->finalists = size_t(line.finalists.value_or(1));
  return request;
}

} // namespace parashard
