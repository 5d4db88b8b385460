// Checks that no output of a compile overwrites an input or another output.
#include "OutputFiles.h"
#include "dialects/ps/Ps.h"
#include "dialects/ps/Refusal.h"
#include "lib/Costs/Cluster.h"
#include "lib/Import/WeightFiles.h"
#include "lib/Support/Files.h"
#include "shared/FileClaims.h"
#include "llvm/Support/FormatVariadic.h"

using namespace parashard::driver;
using namespace parashard::support;

namespace parashard {
namespace {

/// A file, and the name of its flag without dashes.
struct NamedFile {
  std::string path, flag;
  bool isForFailures = false; ///< written only if a pass fails
};

/// Returns true if the value of `--sharding-policy` or `--schedule` is a file. Examples: "s.json"
/// is a file, "megatron" and "1f1b" are names.
bool isFile(llvm::StringRef value) { return value.ends_with(".json"); }

std::vector<NamedFile> listReads(const CommandLine &line) {
  std::vector<NamedFile> reads{{line.output.givenPlanFile, "plan"},
                               {line.output.measured, "measured"}};
  if (isFile(line.compile.shardingPolicy))
    reads.push_back({line.compile.shardingPolicy, "sharding-policy"});
  for (llvm::StringRef optimizer : line.compile.optimizers)
    if (optimizer.consume_front("@"))
      reads.push_back({optimizer.str(), "optimizer"});
  if (isFile(line.compile.schedule))
    reads.push_back({line.compile.schedule, "schedule"});
  if (std::optional<std::string> cluster = costs::findClusterFile(line.compile.cluster))
    reads.push_back({*cluster, "cluster"});
  return reads;
}

/// Returns every file that --dump-dir may write.
std::vector<std::string> listDumps(const WalkOptions &walk) {
  std::vector<std::string> names{"6-native.ptx", "6-native.so", "6-native-check.ptx",
                                 "6-native-check.so"};
  for (unsigned level = 0; level <= unsigned(ps::Level::Placed); ++level)
    names.push_back(
        llvm::formatv("{0}-{1}.mlir", level, ps::stringifyLevel(ps::Level(level))).str());
  for (std::string &name : names)
    name = walk.dumpDir + "/" + name;
  return names;
}

std::vector<NamedFile> listWrites(const CommandLine &line) {
  std::vector<NamedFile> writes{{line.output.output, "o"},
                                {line.output.report, "report"},
                                {line.output.planData, "plan-data"},
                                {line.output.timeline, "write-timeline"},
                                {line.output.writtenPlanFile, "write-plan"},
                                {line.walk.failurePath, "o", /*isForFailures=*/true}};
  if (!line.walk.dumpDir.empty())
    for (std::string &path : listDumps(line.walk))
      writes.push_back({std::move(path), "dump-dir"});
  return writes;
}

} // namespace

std::vector<std::string> listWeightFiles(mlir::ModuleOp module) {
  import::WeightFiles files;
  std::vector<std::string> paths;
  module->walk([&](mlir::Operation *op) {
    op->getAttrDictionary().walk([&](ps::FileAttr file) {
      llvm::StringRef location = file.getLocation();
      paths.push_back(import::splitLocation(location).first.str());
      if (auto range = files.resolve(location))
        paths.push_back(range->path);
      else
        llvm::consumeError(range.takeError()); // the reader of the values reports the error
    });
  });
  return paths;
}

llvm::Error checkOutputFiles(const CommandLine &line, llvm::ArrayRef<std::string> weights) {
  FileClaims claims;
  claims.add(line.compile.model, "is the model itself");
  for (const std::string &path : weights)
    claims.add(path, "holds weights of the model");
  for (const NamedFile &file : listReads(line))
    if (!file.path.empty())
      claims.add(file.path, "is read by " + ps::spellFlag(file.flag));
  for (const NamedFile &file : listWrites(line)) {
    if (file.path.empty())
      continue;
    std::string flag = ps::spellFlag(file.flag);
    if (const std::string *use = claims.find(file.path))
      return ps::createFlagError(file.flag,
                                 ": output '" + file.path + "' " +
                                     (file.isForFailures ? "(written if a pass fails) " : "") +
                                     *use + "; give another " +
                                     (file.flag == "dump-dir" ? "folder" : "name") + " to " + flag);
    claims.add(file.path,
               "is written by " + flag + (file.isForFailures ? " if a pass fails" : " too"));
  }
  return llvm::Error::success();
}

llvm::Error writePlanFile(llvm::StringRef path, const llvm::json::Object &plan) {
  return writeAtomically(path, [&](llvm::raw_ostream &os) {
    os << llvm::formatv("{0:2}\n", llvm::json::Value(llvm::json::Object(plan)));
  });
}

} // namespace parashard
