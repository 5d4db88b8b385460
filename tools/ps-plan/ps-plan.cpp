// ps-plan: finds the fastest plan for a model on a cluster, or prices a given plan.
#include "dialects/ps/Refusal.h"
#include "lib/Costs/Cluster.h"
#include "lib/Costs/Quantity.h"
#include "lib/Sharding/Explain.h"
#include "lib/Support/Bytes.h"
#include "lib/Support/Files.h"
#include "mlir/IR/MLIRContext.h"
#include "parashard/Driver.h"
#include "shared/PrintableText.h"
#include "tools/CommandLine.h"
#include "tools/CompileFlags.h"
#include "tools/DiagnosticPrinter.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::driver;

namespace cl = llvm::cl;

namespace {

constexpr const char *kOverview =
    R"help(finds the fastest plan for a model on a cluster, or prices a given plan

EXAMPLE
  ps-plan gpt.pt2 --cluster h100-sxm:64 --global-batch 512 -o plan.json
  ps-compile gpt.pt2 --plan plan.json -o gpt
  ps-plan gpt.pt2 --plan plan.json --cluster h100-sxm --predict

Without --predict, the flags of Plan are constraints: a value, a list 1|2|4, a range <=8, >=2 or 2..8, or * (any value).
The flags mesh, sharding-policy, zero, batch, micro-batches, num-chunks, schedule and recompute are searched unless they
are given; the other ones take one value.

Exit status: 0 success, 1 error in the model or no plan fits, 2 error in the command line.)help";

struct PlanLine {
  CompileOptions options;
  CompileFlags compile{options};
  FlagTable table;
  std::string output, planFile, memory;
  bool predicts = false;
  int64_t timeLimit = 30;
};

int printError(llvm::Error error, int status = BadCommandLine) {
  llvm::errs() << "ps-plan: error: " << escapeControls(llvm::toString(std::move(error)), "\n  ")
               << "\n";
  return status;
}

llvm::Error writeOutput(const std::string &path, llvm::json::Object object) {
  std::string text = llvm::formatv("{0:2}\n", llvm::json::Value(std::move(object)));
  if (path.empty()) {
    llvm::outs() << text;
    return llvm::Error::success();
  }
  return support::writeAtomically(path, [&](llvm::raw_ostream &os) { os << text; });
}

void addFlags(PlanLine &line, bool predicts) {
  FlagTable &t = line.table;
  t.addGroup("Model");
  t.addPositional("MODEL(.pt2|.onnx)", line.options.model);
  addModelFlags(t, line.compile);
  t.addGroup("Plan");
  addPlanFlags(t, line.compile);
  t.addGroup("Update");
  addUpdateFlags(t, line.options);
  t.addGroup("Planner");
  t.add({"predict", "", "price the plan of --plan and of the flags, as JSON; do not search"},
        line.predicts);
  t.add({"plan", "PLAN.json", "with --predict: read Plan flags from a file"}, line.planFile);
  t.add({"memory", "BYTES", "most memory of a rank: 72GB (default: that of the cluster)"},
        line.memory);
  t.add({"time-limit", "SECONDS", "end the search after this time, with the best plan so far"},
        line.timeLimit, {1});
  t.add({"o", "PLAN.json", "write the plan (with --predict: the price) to this file"}, line.output);
  if (!predicts)
    t.takeConstraints();
}

/// Returns the plan flags of a searched plan, as `ps-compile --plan` reads them.
llvm::Expected<llvm::json::Object> describePlan(FlagTable &table, const CompileOptions &options) {
  for (const auto &[flag, text] : std::initializer_list<std::pair<llvm::StringRef, std::string>>{
           {"mesh", options.mesh},
           {"sharding-policy", options.shardingPolicy},
           {"zero", std::to_string(options.zero)},
           {"batch", std::to_string(*options.batch)},
           {"micro-batches", std::to_string(options.microBatches)},
           {"num-chunks", std::to_string(options.numChunks)},
           {"schedule", options.schedule},
           {"recompute", options.recompute},
           {"cluster", options.cluster}})
    if (llvm::Error error = table.set(flag, text))
      return std::move(error);
  llvm::json::Object plan = table.describePlan();
  plan.erase("ranks");
  plan.erase("global-batch");
  return plan;
}

/// Imports, compiles up to the addresses, and prints the price.
int predict(MLIRContext &context, PlanLine &line) {
  FaultRecorder faults(context);
  OwningOpRef<ModuleOp> module = loadModel(context, line.options);
  if (!module || failed(runWalk(*module, line.options, {.stopAfter = ps::Level::Placed})))
    return faults.getStatus();
  llvm::Expected<PlanPrice> price = pricePlan(*module);
  if (!price)
    return printError(price.takeError(), Failed);
  if (llvm::Error error = writeOutput(line.output, price->toJson()))
    return printError(std::move(error), Failed);
  return Done;
}

void printPlans(const PlanAnswer &answer) {
  llvm::outs() << llvm::formatv("{0} plans priced in {1:f1} s{2}\n\n", answer.priced,
                                answer.seconds,
                                answer.isComplete ? "" : "; the time limit ended the search");
  std::vector<std::vector<std::string>> rows = {{"step", "memory", "estimates", "mesh", "policy",
                                                 "zero", "batch", "micro-batches", "schedule",
                                                 "recompute"}};
  for (const Plan &plan : answer.plans) {
    const CompileOptions &o = plan.options;
    std::string schedule = o.schedule.empty() ? "-" : o.schedule;
    if (o.numChunks > 1)
      schedule += " x" + std::to_string(o.numChunks);
    rows.push_back({plan.price ? costs::printSeconds(plan.price->seconds) : "-",
                    plan.price ? sharding::formatBytes(plan.price->memoryBytes) : "-",
                    costs::printSeconds(plan.estimatedSeconds) + ", " +
                        sharding::formatBytes(int64_t(plan.estimatedMemory)),
                    o.mesh, o.shardingPolicy, std::to_string(o.zero), std::to_string(*o.batch),
                    std::to_string(o.microBatches), schedule, o.recompute});
  }
  sharding::printTable(rows, llvm::outs());
  llvm::outs() << "\nstep, memory: of the programs, compiled up to their addresses; estimates: of "
                  "the search\n\n";
  const PlanPrice &best = *answer.plans.front().price;
  llvm::outs() << llvm::formatv("the first plan: {0} per step, {1:f1} % of the peak rate (MFU); "
                                "most of it: {2}\n",
                                costs::printSeconds(best.seconds), 100 * best.mfu, best.limits);
  for (size_t i = 0; i < best.breakdown.size(); ++i)
    if (best.breakdown[i] > 1e-6 * best.seconds)
      llvm::outs() << llvm::formatv("  {0,-30} {1,9} {2,6:f1} %\n", getPartName(i),
                                    costs::printSeconds(best.breakdown[i]),
                                    100 * best.breakdown[i] / best.seconds);
}

/// Finds the number of ranks from `--cluster` and `--ranks`.
llvm::Expected<int64_t> findRanks(const CompileOptions &options,
                                  const costs::SizedCluster &cluster) {
  if (!cluster.ranks && !options.ranks)
    return llvm::createStringError(
        "the number of ranks is missing; give --cluster NAME:RANKS or --ranks N");
  if (cluster.ranks && options.ranks && *cluster.ranks != *options.ranks)
    return ps::createFlagError("ranks " + llvm::Twine(*options.ranks),
                               " contradicts --cluster " + options.cluster + " with " +
                                   llvm::Twine(*cluster.ranks) + " ranks");
  int64_t ranks = cluster.ranks ? *cluster.ranks : *options.ranks;
  if (std::optional<int64_t> most = cluster.cluster.getMostRanks(); most && ranks > *most)
    return ps::createFlagError("cluster " + llvm::Twine(options.cluster),
                               " has at most " + llvm::Twine(*most) + " ranks, not " +
                                   llvm::Twine(ranks));
  return ranks;
}

llvm::Expected<PlanRequest> readRequest(const PlanLine &line) {
  PlanRequest request;
  request.options = line.options;
  llvm::Expected<costs::SizedCluster> cluster = costs::findCluster(line.options.cluster);
  if (!cluster)
    return ps::createFlagError("cluster", ": " + llvm::toString(cluster.takeError()));
  llvm::Expected<int64_t> ranks = findRanks(line.options, *cluster);
  if (!ranks)
    return ranks.takeError();
  request.ranks = *ranks;
  request.options.ranks.reset();
  // The tables are read from programs of fewer ranks.
  if (cluster->ranks)
    request.options.cluster = llvm::StringRef(line.options.cluster).rsplit(':').first.str();
  request.options.target = cluster->cluster.device.target;
  if (!line.compile.globalBatch)
    return llvm::createStringError("the samples per step are missing; give --global-batch N");
  request.globalBatch = *line.compile.globalBatch;
  request.timeLimit = double(line.timeLimit);
  if (!line.memory.empty()) {
    llvm::Expected<int64_t> bytes = support::parseBytes(line.memory);
    if (!bytes)
      return ps::createFlagError("memory", ": " + llvm::toString(bytes.takeError()));
    request.memory = double(*bytes);
  }
  request.constraints = line.table.getConstraints();
  llvm::erase_if(request.constraints, [](const auto &constraint) {
    return !llvm::is_contained(getSearchedFlags(), constraint.first);
  });
  if (llvm::Error error = checkConstraints(request))
    return std::move(error);
  return request;
}

int plan(MLIRContext &context, PlanLine &line) {
  llvm::Expected<PlanRequest> request = readRequest(line);
  if (!request)
    return printError(request.takeError());
  llvm::Expected<PlanAnswer> answer = searchPlan(context, *request);
  if (!answer)
    return printError(answer.takeError(), Failed);
  printPlans(*answer);
  if (line.output.empty())
    return Done;
  llvm::Expected<llvm::json::Object> described =
      describePlan(line.table, answer->plans.front().options);
  if (!described)
    return printError(described.takeError(), Failed);
  if (llvm::Error error = writeOutput(line.output, std::move(*described)))
    return printError(std::move(error), Failed);
  llvm::errs() << "wrote " << line.output << "\n";
  return Done;
}

/// Assigns the plan flags that are not searched; they take one value.
llvm::Error setFixedFlags(FlagTable &table) {
  for (const auto &[flag, text] : table.getConstraints())
    if (!llvm::is_contained(getSearchedFlags(), flag))
      if (llvm::Error error = table.set(flag, text))
        return error;
  return llvm::Error::success();
}

llvm::Error readLine(PlanLine &line, bool predicts) {
  if (llvm::Error error = line.table.assign())
    return error;
  if (line.options.model.empty())
    return llvm::createStringError("no model given: ps-plan MODEL --cluster NAME:RANKS "
                                   "--global-batch N -o PLAN.json (see --help)");
  if (llvm::Error error = checkModelFile(line.options.model, {".pt2", ".onnx"}))
    return error;
  if (!line.output.empty())
    if (llvm::Error error = checkOutputFile(line.options.model, line.output))
      return error;
  if (!predicts) {
    if (!line.planFile.empty())
      return ps::createFlagError("plan", " gives the plan to price and needs --predict");
    if (llvm::Error error = setFixedFlags(line.table))
      return error;
  } else if (!line.planFile.empty()) {
    if (llvm::Error error = line.table.readPlan(line.planFile))
      return error;
    if (llvm::Error error = line.table.assign())
      return error;
  }
  if (line.options.cluster.empty())
    return llvm::createStringError("no cluster given; add --cluster NAME:RANKS or FILE.json");
  // A searched plan counts its micro-batches by the global batch.
  std::optional<int64_t> globalBatch = line.compile.globalBatch;
  if (!predicts)
    line.compile.globalBatch.reset();
  if (llvm::Error error = finishCompileFlags(line.table, line.compile))
    return error;
  line.compile.globalBatch = globalBatch;
  line.options.weights = "none"; // a plan does not depend on values
  return predicts ? checkOptions(line.options) : llvm::Error::success();
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  reportFailedWrites();
  cl::ResetCommandLineParser(); // libLLVM's own options
  bool predicts = llvm::any_of(llvm::ArrayRef(argv, size_t(argc)), [](llvm::StringRef argument) {
    return argument.starts_with("-") && argument.ltrim("-") == "predict";
  });
  PlanLine line;
  addFlags(line, predicts);
  cl::HideUnrelatedOptions(line.table.getGroups());
  if (!parseTool(argc, argv, kOverview))
    return BadCommandLine;
  if (llvm::Error error = readLine(line, predicts))
    return printError(std::move(error));
  registerAllPasses();
  DialectRegistry registry;
  registerEverything(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  DiagnosticPrinter printer(context);
  if (!predicts)
    return plan(context, line);
  llvm::Expected<costs::SizedCluster> cluster = costs::findCluster(line.options.cluster);
  if (!cluster)
    return printError(ps::createFlagError("cluster", ": " + llvm::toString(cluster.takeError())));
  line.options.target = cluster->cluster.device.target;
  return predict(context, line);
}
