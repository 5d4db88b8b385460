// ps-plan: finds the fastest plan for a model on a cluster, or prices a given plan.
#include "Flags.h"
#include "dialects/ps/Refusal.h"
#include "lib/Costs/Quantity.h"
#include "lib/Sharding/Explain.h"
#include "lib/Support/Files.h"
#include "mlir/IR/MLIRContext.h"
#include "parashard/Driver.h"
#include "shared/PrintableText.h"
#include "tools/CommandLine.h"
#include "tools/DiagnosticPrinter.h"
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

int printError(llvm::Error error, int status = BadCommandLine) {
  llvm::errs() << "ps-plan: error: " << escapeControls(llvm::toString(std::move(error)), "\n  ")
               << "\n";
  return status;
}

llvm::Error writeOutput(const std::string &path, llvm::json::Object object) {
  std::string text = llvm::formatv("{0:2}\n", llvm::json::Value(std::move(object)));
  if (path.empty() || path == "-") {
    llvm::outs() << text;
    return llvm::Error::success();
  }
  return support::writeAtomically(path, [&](llvm::raw_ostream &os) { os << text; });
}

/// Returns what a plan file records about the prediction of the first plan.
llvm::json::Object describePrediction(const PlanAnswer &answer, const PlanRequest &request) {
  const PlanPrice &price = *answer.plans.front().price;
  return PlanPrediction{price.seconds,           price.memoryBytes, price.mfu,
                        request.options.cluster, request.ranks,     request.globalBatch,
                        answer.parameters}
      .toJson();
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
           {"target", options.target},
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
  if (!module)
    return faults.getStatus();
  if (const std::optional<PlanPrediction> &made = line.table.getPrediction())
    if (llvm::Error error =
            made->checkModel(line.planFile, line.options.model, countParameters(*module)))
      return printError(std::move(error));
  if (failed(runWalk(*module, line.options, {.stopAfter = ps::Level::Placed})))
    return faults.getStatus();
  llvm::Expected<PlanPrice> price = pricePlan(*module);
  if (!price)
    return printError(price.takeError(), Failed);
  if (llvm::Error error = writeOutput(line.output, price->toJson()))
    return printError(std::move(error), Failed);
  return Done;
}

/// Prints the best plans, and the breakdown of the first.
void printPlans(const PlanAnswer &answer, llvm::raw_ostream &os) {
  os << llvm::formatv("{0} plans priced in {1:f1} s{2}\n\n", answer.priced, answer.seconds,
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
  sharding::printTable(rows, os);
  os << "\nstep, memory: of the programs, compiled up to their addresses; estimates: of "
        "the search\n\n";
  const PlanPrice &best = *answer.plans.front().price;
  os << llvm::formatv("the first plan: {0} per step, {1:f1} % of the peak rate (MFU); "
                      "most of it: {2}\n",
                      costs::printSeconds(best.seconds), 100 * best.mfu, best.limits);
  for (size_t i = 0; i < best.breakdown.size(); ++i)
    if (best.breakdown[i] > 1e-6 * best.seconds)
      os << llvm::formatv("  {0,-30} {1,9} {2,6:f1} %\n", getPartName(i),
                          costs::printSeconds(best.breakdown[i]),
                          100 * best.breakdown[i] / best.seconds);
}

int plan(MLIRContext &context, PlanLine &line) {
  FaultRecorder faults(context);
  llvm::Expected<PlanRequest> request = readRequest(line);
  if (!request)
    return printError(request.takeError());
  llvm::Expected<PlanAnswer> answer = searchPlan(context, *request);
  if (!answer) {
    llvm::Error error = answer.takeError();
    int status = error.isA<ps::FlagError>() ? int(BadCommandLine) : int(faults.getStatus());
    return printError(std::move(error), status);
  }
  printPlans(*answer, line.output == "-" ? llvm::errs() : llvm::outs());
  if (!answer->isComplete)
    llvm::errs() << "note: --time-limit " << line.timeLimit
                 << " ended the search; a longer one may find a faster plan\n";
  if (line.output.empty())
    return Done;
  llvm::Expected<llvm::json::Object> described =
      describePlan(line.table, answer->plans.front().options);
  if (!described)
    return printError(described.takeError(), Failed);
  (*described)["predicted"] = describePrediction(*answer, *request);
  if (llvm::Error error = writeOutput(line.output, std::move(*described)))
    return printError(std::move(error), Failed);
  if (line.output != "-")
    llvm::errs() << "wrote " << line.output << "\n";
  return Done;
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
  return predict(context, line);
}
