// Writes plan files, and compares two of them.
#include "PlanFiles.h"
#include "dialects/ps/Refusal.h"
#include "lib/Costs/Quantity.h"
#include "lib/Sharding/Explain.h"
#include "lib/Support/Files.h"
#include "lib/Support/JsonDocument.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
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
    llvm::errs() << "wrote " << path << "\n";
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
    llvm::errs() << "note: " << next << " is from an earlier search; remove it and the traces of "
                 << "old plans before you use " << ps::spellFlag("measured") << "\n";
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
    llvm::errs() << "note: only " << written << " plans that fit were found\n";
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

static llvm::Error fail(const std::string &path, const llvm::Twine &message) {
  return ps::createFlagError("diff \"" + path + "\"", ": " + message);
}

/// Reads a plan file. Fails for an unknown key.
static llvm::Expected<llvm::json::Object> readPlan(const FlagTable &table,
                                                   const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return fail(path, "cannot be read: " + buffer.getError().message());
  llvm::Expected<llvm::json::Value> value = support::parseJson((*buffer)->getBuffer());
  if (!value)
    return fail(path, llvm::toString(value.takeError()));
  llvm::json::Object *plan = value->getAsObject();
  if (!plan)
    return fail(path, "is not a plan; expected an object of flags, such as {\"mesh\": \"dp=2\"}");
  std::vector<std::string> known = table.listPlanFlags();
  known.insert(known.end(), {"predicted", "measured"});
  for (const auto &[key, member] : *plan)
    if (!llvm::is_contained(known, key))
      return fail(path, table.describeBadKey(key.str()));
  return std::move(*plan);
}

static std::string print(const llvm::json::Value *value) {
  if (!value)
    return "-";
  if (auto text = value->getAsString())
    return text->str();
  std::string printed;
  llvm::raw_string_ostream(printed) << *value;
  return printed;
}

/// Adds the predicted and measured figures of two plans to a table.
static void addFigures(const llvm::json::Object &first, const llvm::json::Object &second,
                       std::vector<std::vector<std::string>> &rows) {
  auto add = [&](llvm::StringRef kind, llvm::StringRef key, llvm::StringRef title, auto format) {
    auto get = [&](const llvm::json::Object &plan) {
      const llvm::json::Object *figures = plan.getObject(kind);
      return figures ? figures->getNumber(key) : std::nullopt;
    };
    std::optional<double> a = get(first), b = get(second);
    if (a || b)
      rows.push_back({title.str(), a ? format(*a) : "-", b ? format(*b) : "-"});
  };
  auto printTime = [](double s) { return costs::printSeconds(s); };
  add("predicted", "step_s", "predicted step", printTime);
  add("measured", "step_s", "measured step", printTime);
  add("predicted", "memory_bytes", "predicted memory",
      [](double bytes) { return sharding::formatBytes(int64_t(bytes)); });
  add("predicted", "mfu", "predicted MFU",
      [](double mfu) { return llvm::formatv("{0:f1} %", 100 * mfu).str(); });
}

llvm::Error printDifference(const FlagTable &table, const std::string &first,
                            const std::string &second, llvm::raw_ostream &os) {
  llvm::Expected<llvm::json::Object> a = readPlan(table, first);
  if (!a)
    return a.takeError();
  llvm::Expected<llvm::json::Object> b = readPlan(table, second);
  if (!b)
    return b.takeError();
  std::vector<std::vector<std::string>> rows = {{"", first, second}};
  for (const std::string &flag : table.listPlanFlags())
    if (std::string x = print(a->get(flag)), y = print(b->get(flag)); x != y)
      rows.push_back({flag, x, y});
  bool areEqual = rows.size() == 1;
  addFigures(*a, *b, rows);
  if (areEqual)
    os << "the flags of both plans are equal\n";
  if (rows.size() > 1)
    sharding::printTable(rows, os);
  return llvm::Error::success();
}

} // namespace parashard
