// ps-plan: finds the fastest plan for a model on a cluster, prices a given plan, or compares plans.
#include "ps-plan.h"
#include "MeasuredPlans.h"
#include "PlanFiles.h"
#include "dialects/ps/Refusal.h"
#include "mlir/IR/MLIRContext.h"
#include "parashard/Driver.h"
#include "tools/CommandLine.h"
#include "tools/DiagnosticPrinter.h"
#include "tools/Messages.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::driver;

namespace cl = llvm::cl;

namespace {

constexpr const char *kOverview =
    R"help(finds the fastest plan for a model on a cluster, or prices a given plan (predicts its step time and memory)

EXAMPLE
  ps-plan gpt.pt2 --cluster h100-sxm:64 --global-batch 512 -o plan.json
  ps-compile gpt.pt2 --plan plan.json -o gpt
  ps-plan gpt.pt2 --plan plan.json --cluster h100-sxm --predict
  ps-plan --diff plan.json other.json
  # Compare the plans by the traces plans/plan-1.trace.json and plans/plan-2.trace.json:
  ps-plan plans/plan-1.json plans/plan-2.json --measured

ps-plan chooses mesh, sharding-policy, zero, batch, micro-batches, num-chunks, schedule and recompute. Without
--predict, these flags take constraints on the search: a value, a list 1,2,4, a range <=8, >=2 or 2..8,
or * (any value). All other flags of the section Plan take one value.

Exit status: 0 success, 1 error in the model or no plan fits, 2 error in the command line.)help";

int printError(llvm::Error error, int status = BadCommandLine) {
  printToolError("ps-plan", llvm::toString(std::move(error)));
  return status;
}

/// Imports the model, compiles it to level `placed`, and writes the price of the plan.
int predict(MLIRContext &context, PlanLine &line) {
  if (llvm::Error error = measureLocalCluster(line.options, printReport))
    return printError(std::move(error));
  FaultRecorder faults(context);
  llvm::StringMap<double> measured;
  if (!line.measured.empty()) {
    llvm::Expected<llvm::StringMap<double>> read = readMeasuredRuns(line);
    if (!read)
      return printError(read.takeError());
    measured = std::move(*read);
  }
  OwningOpRef<ModuleOp> module = loadModel(context, line.options);
  if (!module)
    return faults.getStatus();
  if (const std::optional<PlanPrediction> &made = line.table.getPrediction())
    if (llvm::Error error =
            made->checkModel(line.planFile, line.options.model, countParameters(*module)))
      return printError(std::move(error));
  WalkOptions walk;
  walk.stopAfter = ps::Level::Placed;
  if (failed(runWalk(*module, line.options, walk)))
    return faults.getStatus();
  llvm::Expected<PlanPrice> price = pricePlan(*module, line.measured.empty() ? nullptr : &measured);
  if (!price) {
    llvm::Error error = price.takeError();
    int status = error.isA<ps::FlagError>() ? int(BadCommandLine) : int(Failed);
    return printError(std::move(error), status);
  }
  if (llvm::Error error = writeJson(line.output, price->toJson()))
    return printError(std::move(error), Failed);
  return Done;
}

int plan(MLIRContext &context, PlanLine &line) {
  FaultRecorder faults(context);
  llvm::Expected<PlanRequest> request = readRequest(line);
  if (!request)
    return printError(request.takeError());
  CaughtInterrupt interrupt;
  request->isInterrupted = CaughtInterrupt::isInterrupted;
  llvm::Expected<PlanAnswer> answer = searchPlan(context, *request);
  if (!answer) {
    llvm::Error error = answer.takeError();
    int status = error.isA<ps::FlagError>() ? int(BadCommandLine) : int(faults.getStatus());
    return printError(std::move(error), status);
  }
  printPlans(*answer, SIZE_MAX, line.output == "-" ? llvm::errs() : llvm::outs());
  if (answer->isInterrupted)
    printMessage(Severity::Note, "interrupted; a search to the end may find a faster plan");
  else if (!answer->isComplete)
    printMessage(Severity::Note, ps::spellFlag("time-limit") + " " + llvm::Twine(line.timeLimit) +
                                     " ended the search; a longer one may find a faster plan");
  if (line.output.empty())
    return Done;
  if (llvm::Error error = writePlans(line, *answer, *request))
    return printError(std::move(error), Failed);
  return Done;
}

/// Compares the plan files of `--diff A.json B.json`; the second is an argument without a flag.
llvm::Error compareFiles(PlanLine &line) {
  if (line.files.size() != 1)
    return ps::createFlagError("diff", " compares two plans: --diff A.json B.json");
  if (llvm::Error error = refuseOthers(
          line.table, {"diff"}, " has no effect on plans that are compared by --diff; remove it"))
    return error;
  return printDifference(line.table, line.diff, line.files.front(), llvm::outs());
}

} // namespace

int parashard::runPlanner(int argc, char **argv) {
  reportFailedWrites();
  chooseMessageFormat(argc, argv);
  cl::ResetCommandLineParser(); // removes the options that libLLVM registers
  bool predicts = hasFlag(argc, argv, "predict");
  PlanLine line;
  addFlags(line, predicts);
  cl::HideUnrelatedOptions(line.table.getGroups());
  if (!parseTool(argc, argv, kOverview))
    return BadCommandLine;
  if (llvm::Error error = line.table.assign())
    return printError(std::move(error));
  if (line.compares) {
    if (llvm::Error error = compareMeasured(line))
      return printError(std::move(error));
    return Done;
  }
  if (!line.diff.empty()) {
    if (llvm::Error error = compareFiles(line))
      return printError(std::move(error));
    return Done;
  }
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
