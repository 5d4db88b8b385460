// Writes plan files, and compares two of them.
#include "PlanFiles.h"
#include "dialects/ps/Refusal.h"
#include "lib/Costs/Quantity.h"
#include "lib/Sharding/Explain.h"
#include "lib/Support/Files.h"
#include "shared/Counts.h"
#include "tools/Messages.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace parashard::driver;

namespace parashard {

llvm::Error writeJson(const std::string &path, llvm::json::Object object) {
  std::string text = llvm::formatv("{0:2}\n", llvm::json::Value(std::move(object)));
  if (path.empty() || path == "-") {
    llvm::outs() << text;
    return llvm::Error::success();
  }
  return support::writeAtomically(path, [&](llvm::raw_ostream &os) { os << text; });
}

llvm::Error writePlanFile(const std::string &path, llvm::json::Object plan) {
  if (llvm::Error error = writeJson(path, std::move(plan)))
    return error;
  if (path != "-")
    printMessage(Severity::Progress, "wrote " + path);
  return llvm::Error::success();
}

/// Returns the content of a plan file.
static llvm::Expected<llvm::json::Object> describePlan(PlanLine &line, const Plan &plan,
                                                       const PlanAnswer &answer,
                                                       const PlanRequest &request) {
  if (llvm::Error error = setPlanFlags(line.table, plan.options, line.cluster))
    return std::move(error);
  llvm::json::Object described = line.table.describePlan();
  described.erase("ranks");
  described.erase("global-batch");
  described["predicted"] = makePrediction(plan, answer, line.cluster, request.ranks).toJson();
  return described;
}

/// Prints a note if the folder still has plans of an earlier search, with numbers above `written`.
static void noteOldPlans(llvm::StringRef folder, int64_t written) {
  llvm::SmallString<128> next(folder);
  llvm::sys::path::append(next, "plan-" + std::to_string(written + 1) + ".json");
  if (llvm::sys::fs::exists(next))
    printMessage(Severity::Note, next.str() +
                                     " is from an earlier search; remove it and the "
                                     "traces of old plans before you use " +
                                     ps::spellFlag("measured"));
}

llvm::Error writePlans(PlanLine &line, const PlanAnswer &answer, const PlanRequest &request) {
  auto write = [&](const std::string &path, const Plan &plan) -> llvm::Error {
    llvm::Expected<llvm::json::Object> described = describePlan(line, plan, answer, request);
    return described ? writePlanFile(path, std::move(*described)) : described.takeError();
  };
  if (!line.finalists)
    return write(line.output, answer.plans.front());
  int64_t written = 0;
  for (const Plan &plan : answer.plans) {
    if (!plan.price || written == *line.finalists)
      break;
    llvm::SmallString<128> path(line.output);
    llvm::sys::path::append(path, "plan-" + std::to_string(++written) + ".json");
    if (llvm::Error error = write(path.str().str(), plan))
      return error;
  }
  noteOldPlans(line.output, written);
  if (written < *line.finalists && !answer.isInterrupted)
    printMessage(Severity::Note, "only " + describeCount(written, "plan") + " that fit were found");
  return llvm::Error::success();
}

llvm::Error refuseOthers(const FlagTable &table, llvm::ArrayRef<llvm::StringRef> used,
                         llvm::StringRef reason) {
  for (const FlagInfo *flag : table.listGiven([&](const FlagInfo &info) {
         return !info.name.empty() && !llvm::is_contained(used, info.name);
       }))
    return ps::createFlagError(flag->name, reason);
  return llvm::Error::success();
}

/// Reads a plan file. Fails for unknown keys and bad values.
static llvm::Expected<PlanFile> readPlan(const FlagTable &table, const std::string &path) {
  llvm::Expected<PlanFile> plan = table.parsePlan(path);
  if (!plan)
    return ps::createFlagError("diff \"" + path + "\"", ": " + llvm::toString(plan.takeError()));
  return plan;
}

/// Adds the predicted and measured figures of two plans to a table.
static void addFigures(const PlanFile &first, const PlanFile &second,
                       std::vector<std::vector<std::string>> &rows) {
  auto add = [&](llvm::StringRef title, auto get, auto format) {
    std::optional<double> a = get(first), b = get(second);
    if (a || b)
      rows.push_back({title.str(), a ? format(*a) : "-", b ? format(*b) : "-"});
  };
  auto getPredicted = [](auto member) {
    return [=](const PlanFile &plan) -> std::optional<double> {
      double value = plan.predicted ? double((*plan.predicted).*member) : 0;
      return value > 0 ? std::optional(value) : std::nullopt;
    };
  };
  auto getMeasured = [](const PlanFile &plan) -> std::optional<double> {
    return plan.measured ? std::optional(plan.measured->seconds) : std::nullopt;
  };
  auto printTime = [](double s) { return costs::printSeconds(s); };
  add("predicted step", getPredicted(&PlanPrediction::seconds), printTime);
  add("measured step", getMeasured, printTime);
  add("predicted memory", getPredicted(&PlanPrediction::memoryBytes),
      [](double bytes) { return sharding::formatBytes(int64_t(bytes)); });
  add("predicted MFU", getPredicted(&PlanPrediction::mfu),
      [](double mfu) { return llvm::formatv("{0:f1} %", 100 * mfu).str(); });
}

/// Adds the numbers of parameters to a table, if the plans are for models of different sizes.
static void addModels(const PlanFile &first, const PlanFile &second,
                      std::vector<std::vector<std::string>> &rows) {
  auto get = [](const PlanFile &plan) {
    return plan.predicted ? plan.predicted->parameters : std::nullopt;
  };
  std::optional<int64_t> a = get(first), b = get(second);
  if (a && b && *a != *b)
    rows.push_back({"parameters of the model", std::to_string(*a), std::to_string(*b)});
}

llvm::Error printDifference(const FlagTable &table, const std::string &first,
                            const std::string &second, llvm::raw_ostream &os) {
  llvm::Expected<PlanFile> a = readPlan(table, first);
  if (!a)
    return a.takeError();
  llvm::Expected<PlanFile> b = readPlan(table, second);
  if (!b)
    return b.takeError();
  std::vector<std::vector<std::string>> rows = {{"", first, second}};
  auto print = [](const std::string &text) { return text.empty() ? "-" : text; };
  for (const std::string &flag : table.listPlanFlags())
    if (std::string x = print(a->get(flag)), y = print(b->get(flag)); x != y)
      rows.push_back({flag, x, y});
  bool areEqual = rows.size() == 1;
  addModels(*a, *b, rows);
  addFigures(*a, *b, rows);
  if (areEqual)
    os << "the flags of both plans are equal\n";
  if (rows.size() > 1)
    sharding::printTable(rows, os);
  return llvm::Error::success();
}

} // namespace parashard
