// Compares plans by the traces of their programs.
#include "MeasuredPlans.h"
#include "PlanFiles.h"
#include "PlanTrace.h"
#include "dialects/ps/Refusal.h"
#include "lib/Costs/Quantity.h"
#include "lib/Sharding/Explain.h"
#include "tools/CommandLine.h"
#include "tools/Messages.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <map>

namespace parashard {
namespace {

llvm::Error fail(const llvm::Twine &message) {
  return ps::createFlagError("measured", ": " + message);
}

/// Returns an error that begins with the name of the file.
llvm::Error failFile(llvm::StringRef path, const llvm::Twine &message) {
  return fail("\"" + path + "\": " + message);
}

//===----------------------------------------------------------------------===//
// Plans and their traces
//===----------------------------------------------------------------------===//

struct MeasuredPlan {
  std::string path, tracePath;
  PlanFile file;
  PlanShape shape;
  int64_t globalBatch = 0; ///< samples per step
  schedules::MeasuredSteps steps;

  double getSeconds() const { return steps.getQuantile(0.5); }
  double getSpread() const { return steps.getQuantile(0.75) - steps.getQuantile(0.25); }
};

/// Returns the value of a number flag of a plan file; nullopt if the file does not have it.
llvm::Expected<std::optional<int64_t>> getNumber(const PlanFile &file, llvm::StringRef flag) {
  constexpr int64_t kMax = int64_t(1) << 40; // as in ps-compile
  std::string text = file.get(flag);
  int64_t number = 0;
  if (text.empty())
    return std::nullopt;
  if (llvm::StringRef(text).getAsInteger(10, number) || number < 1 || number > kMax)
    return llvm::createStringError("\"" + flag + "\" is " + text +
                                   "; expected a number from 1 to " + llvm::Twine(kMax));
  return number;
}

/// Sets the shape and the global batch of a plan from its flags. Errors do not name the file.
llvm::Error setShape(MeasuredPlan &plan) {
  std::map<llvm::StringRef, std::optional<int64_t>> numbers;
  for (llvm::StringRef flag : {"ranks", "num-chunks", "batch", "micro-batches", "global-batch"}) {
    llvm::Expected<std::optional<int64_t>> number = getNumber(plan.file, flag);
    if (!number)
      return number.takeError();
    numbers[flag] = *number;
  }
  std::optional<int64_t> batch = numbers["batch"], samples = numbers["global-batch"];
  int64_t microBatches = numbers["micro-batches"].value_or(1);
  if (samples && batch)
    microBatches = std::max<int64_t>(1, *samples / *batch);
  llvm::Expected<PlanShape> shape =
      makeShape(plan.file.get("mesh"), numbers["ranks"].value_or(0),
                numbers["num-chunks"].value_or(1), plan.file.get("schedule"), microBatches);
  if (!shape)
    return shape.takeError();
  plan.shape = std::move(*shape);
  if (!samples && batch)
    samples = *batch * microBatches;
  if (!samples && plan.file.predicted && plan.file.predicted->globalBatch > 0)
    samples = plan.file.predicted->globalBatch;
  if (!samples)
    return llvm::createStringError(
        "the plan does not specify the samples per step; add \"batch\": N, "
        "the samples of a micro-batch");
  plan.globalBatch = *samples;
  return llvm::Error::success();
}

llvm::Expected<MeasuredPlan> readPlan(const FlagTable &table, const std::string &path) {
  if (llvm::StringRef(path).ends_with(".pt2") || llvm::StringRef(path).ends_with(".onnx"))
    return failFile(path, "is a model, but plan files are compared; give the plans that ps-plan "
                          "wrote, or add --predict to price one plan");
  MeasuredPlan plan;
  plan.path = path;
  llvm::Expected<PlanFile> file = table.parsePlan(path);
  if (!file)
    return failFile(path, llvm::toString(file.takeError()));
  plan.file = std::move(*file);
  if (llvm::Error error = setShape(plan))
    return failFile(path, llvm::toString(std::move(error)));
  return plan;
}

std::string removeEnding(llvm::StringRef path) {
  path.consume_back(".json");
  return path.str();
}

/// Returns the shell command that starts a program. Example: "gpt" gives "./gpt".
std::string spellProgram(const std::string &path) {
  return llvm::StringRef(path).contains('/') ? path : "./" + path;
}

llvm::Error failMissing(const MeasuredPlan &plan) {
  std::string program = removeEnding(plan.path);
  return fail("\"" + plan.tracePath + "\", the trace of \"" + plan.path +
              "\", does not exist; make it with\n  ps-compile MODEL --plan " + plan.path + " -o " +
              program + "\n  " + spellProgram(program) + " --data FILE --steps 10 --trace " +
              plan.tracePath);
}

bool isSameFile(const std::string &a, const std::string &b) {
  return a == b || llvm::sys::fs::equivalent(a, b);
}

/// Fails if two plans cannot be compared.
llvm::Error checkPair(const MeasuredPlan &a, const MeasuredPlan &b) {
  if (isSameFile(a.path, b.path))
    return fail("\"" + b.path + "\" is given twice; give each plan once");
  if (std::is_permutation(a.file.flags.begin(), a.file.flags.end(), b.file.flags.begin(),
                          b.file.flags.end()))
    return fail("\"" + a.path + "\" and \"" + b.path +
                "\" are the same plan; give one of these files");
  if (isSameFile(a.tracePath, b.tracePath))
    return fail("\"" + a.tracePath + "\" is the trace of both \"" + a.path + "\" and \"" + b.path +
                "\"; give a trace for each plan");
  if (a.globalBatch != b.globalBatch)
    return fail(llvm::formatv("\"{0}\" has {1} samples per step, but \"{2}\" has {3}; compare "
                              "plans with the same --global-batch",
                              a.path, a.globalBatch, b.path, b.globalBatch)
                    .str());
  auto getParameters = [](const MeasuredPlan &plan) {
    return plan.file.predicted ? plan.file.predicted->parameters : std::nullopt;
  };
  std::optional<int64_t> first = getParameters(a), second = getParameters(b);
  if (first && second && *first != *second)
    return fail(llvm::formatv("\"{0}\" is for a model with {1} parameters, but \"{2}\" for one "
                              "with {3}; compare plans of one model",
                              a.path, *first, b.path, *second)
                    .str());
  return llvm::Error::success();
}

std::string getTracePath(llvm::StringRef plan) { return removeEnding(plan) + ".trace.json"; }

/// Returns the plan files of the command line. If no traces are given after the flag, omits files
/// that are traces of other files: `plans/*.json` also matches PLAN.trace.json.
std::vector<std::string> listPlans(const PlanLine &line) {
  std::vector<std::string> plans = line.files;
  llvm::erase_if(plans, [&](const std::string &path) {
    return llvm::any_of(line.files,
                        [&](const std::string &plan) { return getTracePath(plan) == path; });
  });
  return line.traces.empty() ? plans : line.files;
}

/// Reads the plans of the command line, and finds their traces.
llvm::Expected<std::vector<MeasuredPlan>> readPlans(const PlanLine &line) {
  std::vector<std::string> files = listPlans(line);
  if (files.empty())
    return fail(
        "no plan given: ps-plan PLAN.json... --measured [TRACE.json...]; give the plans before "
        "the flag, and their traces after it");
  if (!line.traces.empty() && line.traces.size() != files.size())
    return fail(llvm::formatv("the number of traces ({0}) differs from the number of plans ({1}); "
                              "give one trace for each plan, in the same order, or no trace to "
                              "read PLAN.trace.json of each PLAN.json",
                              line.traces.size(), files.size())
                    .str());
  std::vector<MeasuredPlan> plans;
  for (auto [i, path] : llvm::enumerate(files)) {
    llvm::Expected<MeasuredPlan> plan = readPlan(line.table, path);
    if (!plan)
      return plan.takeError();
    plan->tracePath = line.traces.empty() ? getTracePath(path) : line.traces[i];
    for (const MeasuredPlan &other : plans)
      if (llvm::Error error = checkPair(other, *plan))
        return std::move(error);
    plans.push_back(std::move(*plan));
  }
  return plans;
}

llvm::Error readTraces(std::vector<MeasuredPlan> &plans) {
  for (const MeasuredPlan &plan : plans)
    if (!llvm::sys::fs::exists(plan.tracePath))
      return failMissing(plan);
  for (MeasuredPlan &plan : plans) {
    llvm::Expected<MeasuredTrace> read = readTraceOf(plan.shape, plan.tracePath);
    if (!read)
      return failFile(plan.tracePath,
                      llvm::toString(read.takeError()) +
                          (plans.size() > 1 ? " (plan \"" + plan.path + "\")" : ""));
    plan.steps = std::move(read->steps);
    if (plan.steps.isWarmUp)
      printMessage(Severity::Note,
                   "\"" + plan.tracePath +
                       "\" has one complete step, which includes warm-up; trace more steps, such "
                       "as --steps 10");
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//

/// Returns the plan flags in which plans differ, in the order of the table of flags.
std::vector<std::string> listDifferences(const FlagTable &table,
                                         llvm::ArrayRef<MeasuredPlan> plans) {
  std::vector<std::string> flags = table.listPlanFlags();
  llvm::erase_if(flags, [&](const std::string &flag) {
    return llvm::all_of(plans, [&](const MeasuredPlan &plan) {
      return plan.file.get(flag) == plans.front().file.get(flag);
    });
  });
  return flags;
}

void printTable(const FlagTable &table, llvm::ArrayRef<MeasuredPlan> plans, llvm::raw_ostream &os) {
  std::vector<std::string> flags = listDifferences(table, plans);
  std::vector<std::vector<std::string>> rows = {{"plan"}};
  llvm::append_range(rows.front(), flags);
  for (const char *title : {"predicted", "measured", "spread", "steps", "error"})
    rows.front().emplace_back(title);
  for (const MeasuredPlan &plan : plans) {
    std::vector<std::string> &row = rows.emplace_back();
    row.push_back(plan.path);
    for (const std::string &flag : flags)
      row.push_back(plan.file.get(flag).empty() ? "-" : plan.file.get(flag));
    double predicted = plan.file.predicted ? plan.file.predicted->seconds : 0;
    row.push_back(predicted > 0 ? costs::printSeconds(predicted) : "-");
    row.push_back(costs::printSeconds(plan.getSeconds()));
    row.push_back(plan.steps.isWarmUp ? "-" : costs::printSeconds(plan.getSpread()));
    row.push_back(std::to_string(plan.steps.seconds.size()));
    double error = 100 * (predicted / plan.getSeconds() - 1);
    row.push_back(predicted > 0 ? llvm::formatv("{0}{1:f1} %", error > 0 ? "+" : "", error).str()
                                : "-");
  }
  sharding::printTable(rows, os);
  os << "\nmeasured: median step of the slowest rank, without the first step; spread: range of the "
        "middle half of the steps; error: predicted relative to measured time\n";
}

/// Prints which plan to use, and how certain this choice is. `plans` are sorted, the fastest first.
void printChoice(llvm::ArrayRef<MeasuredPlan> plans, llvm::raw_ostream &os) {
  const MeasuredPlan &best = plans.front();
  os << "use " << best.path << ": " << costs::printSeconds(best.getSeconds()) << " per step\n";
  if (plans.size() == 1)
    return;
  const MeasuredPlan &next = plans[1];
  double distance = next.getSeconds() - best.getSeconds();
  bool isWithinSpread = distance <= std::max(best.getSpread(), next.getSpread());
  os << llvm::formatv("{0} is {1:f1} % slower{2}\n", next.path, 100 * distance / best.getSeconds(),
                      isWithinSpread ? ", which is within the spread of the steps: both plans may "
                                       "be equally fast; trace more steps to tell them apart"
                                     : "");
}

/// Returns the content of a plan file, with the measured times added.
llvm::Expected<llvm::json::Object> describeBest(const FlagTable &table, const MeasuredPlan &plan) {
  auto buffer = llvm::MemoryBuffer::getFile(plan.path);
  if (!buffer)
    return failFile(plan.path, "cannot be read: " + buffer.getError().message());
  llvm::Expected<llvm::json::Value> value = llvm::json::parse((*buffer)->getBuffer());
  if (!value)
    return failFile(plan.path, llvm::toString(value.takeError()));
  llvm::json::Object described = std::move(*value->getAsObject());
  std::vector<std::string> flags = table.listPlanFlags();
  for (auto &[key, member] : described)
    if (member.getAsObject() && llvm::is_contained(flags, key.str()))
      member = describeText(plan.file.get(key.str()));
  described["measured"] =
      PlanMeasurement{plan.getSeconds(), plan.getSpread(), int64_t(plan.steps.seconds.size())}
          .toJson();
  return described;
}

/// Checks the output file `path` (`-o`), and replaces a link by its target.
llvm::Error findOutput(llvm::ArrayRef<MeasuredPlan> plans, std::string &path) {
  if (path.empty() || path == "-")
    return llvm::Error::success();
  std::vector<InputFile> reads;
  for (const MeasuredPlan &plan : plans) {
    reads.push_back({plan.path, "is one of the plans"});
    reads.push_back({plan.tracePath, "is one of the traces"});
  }
  llvm::Expected<std::string> output = findOutputFile(path);
  if (!output)
    return output.takeError();
  return checkOutputFile(reads, path = *output);
}

llvm::Error writeBest(const FlagTable &table, const MeasuredPlan &plan, const std::string &path) {
  llvm::Expected<llvm::json::Object> described = describeBest(table, plan);
  return described ? writePlanFile(path, std::move(*described)) : described.takeError();
}

} // namespace

llvm::Error compareMeasured(PlanLine &line) {
  if (llvm::Error error = refuseOthers(line.table, {"measured", "o"},
                                       " has no effect on plans that are compared by --measured; "
                                       "remove the flag, or add --predict"))
    return error;
  llvm::Expected<std::vector<MeasuredPlan>> plans = readPlans(line);
  if (!plans)
    return plans.takeError();
  if (llvm::Error error = findOutput(*plans, line.output))
    return error;
  if (llvm::Error error = readTraces(*plans))
    return error;
  llvm::sort(*plans, [](const MeasuredPlan &a, const MeasuredPlan &b) {
    return std::pair(a.getSeconds(), a.path) < std::pair(b.getSeconds(), b.path);
  });
  llvm::raw_ostream &os = line.output == "-" ? llvm::errs() : llvm::outs();
  printTable(line.table, *plans, os);
  printChoice(*plans, os);
  return line.output.empty() ? llvm::Error::success()
                             : writeBest(line.table, plans->front(), line.output);
}

llvm::Expected<llvm::StringMap<double>> readMeasuredRuns(const PlanLine &line) {
  const driver::CompileOptions &options = line.options;
  llvm::Expected<PlanShape> shape =
      makeShape(options.mesh, options.ranks.value_or(0), options.numChunks, options.schedule,
                options.microBatches);
  if (!shape)
    return shape.takeError();
  llvm::Expected<MeasuredTrace> read = readTraceOf(*shape, line.measured);
  if (!read)
    return failFile(line.measured, llvm::toString(read.takeError()));
  return schedules::measureRuns(read->trace, read->steps);
}

} // namespace parashard
