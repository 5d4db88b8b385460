// Compiles small programs for class tables, and whole programs for exact prices.
#include "lib/Driver/PlanCompiler.h"
#include "dialects/ps/Ps.h"
#include "dialects/ps/Refusal.h"
#include "lib/Driver/FirstError.h"
#include "lib/Driver/Load.h"
#include "lib/Driver/Walk.h"
#include "lib/IR/OpTimes.h"
#include "lib/Pipeline/StagePartition.h"
#include "lib/Schedules/PipelineSchedule.h"
#include "lib/Sharding/Policy.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Threading.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "parashard/Planner.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace parashard::planner;

namespace parashard::driver {

/// Returns the size of the batch dim of the first input that has a batch dim.
static std::optional<int64_t> findBatch(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      auto type = cast<RankedTensorType>(function.getArgument(i).getType());
      auto marked = function.getArgAttrOfType<IntegerAttr>(i, kBatchDimMark);
      int64_t dim = marked ? marked.getInt() : 0;
      if (dim >= 0 && dim < type.getRank())
        return type.getDimSize(dim);
    }
  return std::nullopt;
}

std::optional<int64_t> countNamedStages(llvm::StringRef method) {
  if (method.empty() || pipeline::isBalanced(method))
    return std::nullopt;
  return int64_t(method.count(',')) + 2;
}

/// Lowers a module to a level without verification, since ps-compile verifies the plan that is
/// chosen.
static LogicalResult lower(ModuleOp module, const CompileOptions &options, ps::Level level) {
  WalkOptions walk;
  walk.stopAfter = level;
  walk.onlyTransforms = true;
  return runWalk(module, options, walk);
}

static std::string writeBytecode(ModuleOp module) {
  std::string bytes;
  llvm::raw_string_ostream os(bytes);
  (void)writeBytecodeToFile(module, os); // fails only for old versions of the format
  return bytes;
}

LogicalResult PlanCompiler::start(bool isQuiet) {
  std::vector<std::string> notes;
  auto print = [&] {
    if (!isQuiet)
      emitNotes(context, notes);
  };
  import::ImportOptions exported = getImportOptions(request.options);
  OwningOpRef<ModuleOp> module = importModel(context, request.options.model, exported, notes);
  CompileOptions options = request.options;
  options.microBatches = 1;
  if (!module)
    return print(), failure();
  parameters = countParameters(*module);
  // The key also contains the size and time of the file. Two files with equal bytecode at the
  // exported batch may differ at another batch.
  llvm::sys::fs::file_status file;
  [[maybe_unused]] std::error_code unknown =
      llvm::sys::fs::status(request.options.model, file); // then, size and time are 0
  modelKey = llvm::formatv("{0}|{1}|{2}", support::hashText(writeBytecode(*module)), file.getSize(),
                           file.getLastModificationTime().time_since_epoch().count());
  if (llvm::Expected<costs::SizedCluster> cluster = costs::findCluster(request.options.cluster))
    maxRanks = cluster->cluster.getMostRanks();
  else
    llvm::consumeError(cluster.takeError()); // the search reports the error
  if (failed(lower(*module, options, ps::Level::Training)))
    return print(), failure();
  exportedBatch = findBatch(*module);
  minBatch = maxBatch = exportedBatch.value_or(1);
  // If possible, replaces the notes by those of an import with another batch. A note that the batch
  // keeps its exported size would be wrong, because each plan chooses the batch.
  isFixed = !findOtherBatch(notes);
  auto refused =
      llvm::find_if(triedBatches, [](const auto &tried) { return !tried.second.empty(); });
  if (isFixed && exportedBatch && refused != triedBatches.end()) {
    llvm::StringRef reason = refused->second;
    if (reason.starts_with(ps::spellFlag("batch")))
      reason = reason.split(": ").second;
    notes.push_back(("other sizes of micro-batches are not searched: " + reason).str());
  }
  print();
  return checkSplit(*module);
}

/// Imports the model with a batch other than the exported one. Tries several sizes, since the
/// export may have a minimum or a maximum. Replaces `notes` by the notes of this import. Returns
/// false if the export or a flag fixes the batch.
bool PlanCompiler::findOtherBatch(std::vector<std::string> &notes) {
  int64_t batch = minBatch;
  bool isFound = false;
  // Tries the global batch first, because most exports allow it. Smaller batches are then known to
  // be allowed, without further imports.
  for (int64_t other : {request.globalBatch, 2 * batch, batch + 1, batch - 1})
    if (!isFound && other > 0 && other != batch)
      isFound = tryBatch(other, &notes);
  return isFound;
}

bool PlanCompiler::allowsBatch(int64_t batch) {
  bool isAllowed = tryBatch(batch);
  if (!isAllowed && batchFailure.empty())
    batchFailure = triedBatches.at(batch);
  return isAllowed;
}

/// Like `allowsBatch`, but does not record a failure. If this call imports the model successfully,
/// stores the notes of the import in `notes` (unless null).
bool PlanCompiler::tryBatch(int64_t batch, std::vector<std::string> *notes) {
  if (minBatch <= batch && batch <= maxBatch)
    return true;
  auto [found, isNew] = triedBatches.try_emplace(batch);
  std::string &reason = found->second;
  if (isNew) {
    FirstError silence(context, reason);
    std::vector<std::string> ofBatch;
    if (import(batch, ofBatch).whole && notes)
      *notes = std::move(ofBatch);
  }
  if (!imported[batch].whole)
    return false;
  minBatch = std::min(minBatch, batch);
  maxBatch = std::max(maxBatch, batch);
  return true;
}

/// Checks that each module named in `--split-method` can begin a stage.
LogicalResult PlanCompiler::checkSplit(ModuleOp module) {
  std::optional<int64_t> stages = countNamedStages(request.options.splitMethod);
  if (!stages)
    return success();
  CompileOptions options = request.options;
  options.microBatches = 1;
  options.mesh = "pp=" + std::to_string(*stages);
  options.gradientReduction = "fp32"; // bf16 would print a warning about this mesh
  OwningOpRef<ModuleOp> copy = module.clone();
  return lower(*copy, options, ps::Level::Planned);
}

/// Returns the candidates whose programs give the table of a candidate. ZeRO 1 only changes the
/// update, for which samples and recomputation do not matter. Its table follows from three
/// programs: (a) the candidate without ZeRO, (b) one without recomputation and ZeRO, (c) one
/// without recomputation and with ZeRO 1. All samples and recomputation modes share (b) and (c).
/// ZeRO 2 and 3 communicate in forward and backward, and the compute of the candidate hides a part
/// of this time. They therefore need the program of the candidate itself.
SmallVector<Candidate, 3> PlanCompiler::getPrograms(const Candidate &candidate) {
  if (candidate.zero != 1)
    return {candidate};
  Candidate own = candidate, whole = candidate;
  own.zero = whole.zero = 0;
  whole.samples = getSamplesOfZero(candidate);
  whole.recompute = "none";
  Candidate divided = whole;
  divided.zero = candidate.zero;
  return {own, whole, divided};
}

/// Returns the number of samples per data-parallel rank in the two programs that show the cost of
/// ZeRO 1. Returns 1 if the export allows one sample per rank. Programs with one sample per rank
/// compile fastest, and the one without ZeRO is often compiled anyway.
int64_t PlanCompiler::getSamplesOfZero(const Candidate &candidate) {
  int64_t shards = getTableShards(candidate);
  auto [found, isNew] =
      samplesOfZero.try_emplace({candidate.tp, shards, candidate.policy}, candidate.samples);
  if (isNew && !isFixed && tryBatch(shards))
    found->second = 1;
  return found->second;
}

void PlanCompiler::prepareTables(llvm::ArrayRef<Candidate> candidates) {
  std::vector<Candidate> programs;
  for (const Candidate &candidate : candidates)
    llvm::append_range(programs, getPrograms(candidate));
  compilePrograms(programs);
}

/// Compiles in parallel the programs that were not compiled before.
void PlanCompiler::compilePrograms(llvm::ArrayRef<Candidate> candidates) {
  std::vector<std::pair<Candidate, OwningOpRef<ModuleOp> *>> missing;
  std::vector<Candidate> unsearched;
  for (const Candidate &candidate : candidates) {
    auto [program, isNew] = programs.try_emplace(getKey(candidate));
    if (!isNew)
      continue;
    missing.emplace_back(getTableCandidate(candidate), &program->second.module);
    if (policies.try_emplace(getPolicyKey(candidate)).second)
      unsearched.push_back(missing.back().first);
  }
  parallelForEach(&context, unsearched, [&](const Candidate &table) { searchPolicy(table); });
  parallelForEach(&context, missing,
                  [&](auto &each) { *each.second = compileForTable(each.first); });
}

const ClassTable *PlanCompiler::getTable(const Candidate &candidate,
                                         const costs::Cluster &cluster) {
  prepareTables(candidate);
  std::vector<ClassTable> tables;
  for (const Candidate &each : getPrograms(candidate))
    if (std::optional<ClassTable> table = readTable(each, cluster))
      tables.push_back(std::move(*table));
    else
      return nullptr;
  if (tables.size() == 1)
    return &(last = std::move(tables.front()));
  llvm::Expected<ClassTable> table = applyZero(std::move(tables[0]), tables[1], tables[2]);
  if (table)
    return &(last = std::move(*table));
  llvm::consumeError(table.takeError()); // the table needs a program of its own
  compilePrograms(candidate);
  std::optional<ClassTable> own = readTable(candidate, cluster);
  return own ? &(last = std::move(*own)) : nullptr;
}

/// Reads the table of the program of a candidate, which must have been compiled; nullopt if it
/// could not be compiled, or if its table cannot be read.
std::optional<ClassTable> PlanCompiler::readTable(const Candidate &candidate,
                                                  const costs::Cluster &cluster) {
  Program &program = programs.at(getKey(candidate));
  if (!program.module)
    return std::nullopt;
  SmallVector<ir::AxisSize> axes;
  for (char axis : candidate.order)
    axes.push_back(
        {StringAttr::get(&context, std::string(1, axis) + "p"), candidate.getSize(axis)});
  llvm::Expected<ClassTable> table = readClassTable(*program.module, cluster, axes, program.facts);
  if (!table)
    return keepFailure(getOptions(candidate), llvm::toString(table.takeError())), std::nullopt;
  return std::move(*table);
}

llvm::Expected<SmallVector<int64_t>> PlanCompiler::findCuts(const schedules::Placement &placement) {
  if (layers.empty()) {
    CompileOptions options = getOptions({});
    options.batch = exportedBatch.value_or(1);
    std::string reason;
    FirstError silence(context, reason);
    OwningOpRef<ModuleOp> module = copy(*options.batch, /*isShrunk=*/false);
    if (!module || failed(lower(*module, options, ps::Level::Planned)))
      return llvm::createStringError(reason);
    FailureOr<costs::Cluster> cluster = ir::findCluster(*module);
    if (failed(cluster))
      return llvm::createStringError(reason);
    layers = pipeline::findLayers(pipeline::getCutFunction(*module), cluster->device);
  }
  return pipeline::findCuts(layers, request.options.splitMethod, placement);
}

CompileOptions PlanCompiler::getOptions(const Candidate &candidate) const {
  CompileOptions options = request.options;
  options.mesh = candidate.getMesh();
  options.batch = candidate.samples * candidate.dp;
  options.microBatches = candidate.microBatches;
  options.numChunks = candidate.chunks;
  options.schedule = candidate.pp > 1 ? candidate.schedule : "";
  llvm::Expected<schedules::PlacementKind> placement = schedules::findPlacement(options.schedule);
  options.placement = placement && *placement == schedules::PlacementKind::V ? "v" : "loop";
  llvm::consumeError(placement.takeError());
  options.zero = candidate.zero;
  options.recompute = candidate.recompute;
  auto policy = policies.find(getPolicyKey(candidate));
  bool isSearched = policy != policies.end() && policy->second;
  options.shardingPolicy = isSearched ? *policy->second : candidate.policy;
  if (options.shardingPolicy == "{}") // the search found no split that saves time
    options.shardingPolicy = kReplicatedPolicy;
  return options;
}

void PlanCompiler::keepFailure(const CompileOptions &options, llvm::StringRef reason) {
  std::lock_guard lock(mutex);
  if (failureReason.empty() && !reason.empty())
    failureReason =
        llvm::formatv("with --mesh {0} --batch {1}: {2}", options.mesh, *options.batch, reason);
}

static bool areValid(const CompileOptions &options) {
  llvm::Error error = checkOptions(options);
  bool valid = !error;
  llvm::consumeError(std::move(error));
  return valid;
}

/// Returns the passes of level `planned` that find shardings and segments, and the other passes.
/// The first passes do not depend on cuts, recomputation and schedule.
static std::pair<std::vector<std::string>, std::vector<std::string>>
splitPlanned(const CompileOptions &options) {
  std::vector<std::string> first, rest;
  bool isFound = false;
  for (std::string &pass : getPasses(ps::Level::Planned, options)) {
    if (!isTransform(pass))
      continue;
    bool isLast = pass == "ps-find-segments";
    (isFound ? rest : first).push_back(std::move(pass));
    isFound |= isLast;
  }
  return {std::move(first), std::move(rest)};
}

static std::string getShardedKey(const CompileOptions &options) {
  return std::to_string(*options.batch) + "|" + llvm::join(splitPlanned(options).first, ",");
}

PlanCompiler::Sharded &PlanCompiler::shard(const CompileOptions &options, bool isShrunk) {
  std::string key = getShardedKey(options);
  Sharded *found;
  {
    std::lock_guard lock(mutex);
    found = &(isShrunk ? shrunkSharded : sharded)[key];
  }
  std::call_once(found->once, [&] {
    OwningOpRef<ModuleOp> module = copy(*options.batch, isShrunk);
    if (module && succeeded(runTransforms(*module, splitPlanned(options).first)))
      found->module = std::move(module);
  });
  return *found;
}

void PlanCompiler::prepare(llvm::ArrayRef<Candidate> candidates) {
  if (sharded.size() > kMaxSharded)
    sharded.clear();
  std::map<std::string, CompileOptions> different;
  for (const Candidate &candidate : candidates)
    if (CompileOptions options = getOptions(candidate); areValid(options) && !findPrice(options))
      different.try_emplace(getShardedKey(options), options);
  parallelForEach(&context, different, [&](const auto &each) {
    std::string reason;
    FirstError silence(context, reason);
    if (!shard(each.second, /*isShrunk=*/false).module)
      keepFailure(each.second, reason);
  });
}

OwningOpRef<ModuleOp> PlanCompiler::compile(const CompileOptions &options, bool isShrunk) {
  std::string reason;
  FirstError silence(context, reason);
  OwningOpRef<ModuleOp> module;
  if (llvm::Error error = checkOptions(options))
    reason = llvm::toString(std::move(error));
  else if (Sharded &found = shard(options, isShrunk); found.module)
    module = found.module->clone();
  if (module && failed(runTransforms(*module, splitPlanned(options).second)))
    module = nullptr;
  if (module)
    setLevel(*module, ps::Level::Planned);
  if (module && failed(lower(*module, options, ps::Level::Placed)))
    module = nullptr;
  if (!module)
    keepFailure(options, reason);
  return module;
}

std::optional<PlanPrice> PlanCompiler::findPrice(const CompileOptions &options) {
  std::optional<std::string> kept = cache.find(makeKey("price", options, ps::Level::Placed));
  return kept ? PlanPrice::fromText(*kept) : std::nullopt;
}

llvm::Expected<std::optional<PlanPrice>> PlanCompiler::compile(const Candidate &candidate) {
  CompileOptions options = getOptions(candidate);
  if (std::optional<PlanPrice> price = findPrice(options))
    return price;
  OwningOpRef<ModuleOp> module = compile(options, /*isShrunk=*/false);
  if (!module)
    return std::nullopt;
  llvm::Expected<PlanPrice> price = pricePlan(*module);
  if (!price)
    return price.takeError();
  cache.keep(makeKey("price", options, ps::Level::Placed),
             llvm::formatv("{0}", llvm::json::Value(price->toJson())).str());
  return std::move(*price);
}

/// Returns a key of the cache. The key identifies the model, and the passes and files that lower
/// the model to a level.
std::string PlanCompiler::makeKey(llvm::StringRef kind, const CompileOptions &options,
                                  ps::Level level) const {
  std::string key = llvm::formatv("{0}|{1}|{2}", kind, modelKey, *options.batch);
  for (unsigned i = 0; i <= unsigned(level); ++i)
    key += "|" + llvm::join(getPasses(ps::Level(i), options), ",");
  for (const std::string &file : {costs::findClusterFile(options.cluster).value_or(""),
                                  options.shardingPolicy, options.schedule})
    if (llvm::StringRef(file).ends_with(".json"))
      key += "|" + support::hashFile(file);
  return key;
}

/// Returns a program from the cache; null if the cache does not have the key.
OwningOpRef<ModuleOp> PlanCompiler::findProgram(llvm::StringRef key) {
  std::optional<std::string> kept = cache.find(key);
  if (!kept)
    return nullptr;
  std::string reason;
  FirstError silence(context, reason);
  return parseSourceString<ModuleOp>(*kept, ParserConfig(&context, /*verifyAfterParse=*/false));
}

/// Returns the candidate of the program from which a class table is read.
Candidate PlanCompiler::getTableCandidate(const Candidate &candidate) {
  Candidate table = candidate;
  table.pp = 1;
  table.dp = getTableShards(candidate);
  table.order = "pdt";
  table.microBatches = table.chunks = 1;
  table.schedule = "1f1b";
  return table;
}

OwningOpRef<ModuleOp> PlanCompiler::compileForTable(const Candidate &table) {
  CompileOptions options = getOptions(table);
  if (!areValid(options))
    return compile(options, /*isShrunk=*/true); // records why the options are invalid
  std::string key = makeKey("program", options, ps::Level::Placed);
  OwningOpRef<ModuleOp> program = findProgram(key);
  if (program)
    return program;
  program = compile(options, /*isShrunk=*/true);
  if (program)
    cache.keep(key, writeBytecode(*program));
  return program;
}

/// Searches shardings, if the candidate's policy is a search. Searches on the small program of a
/// class table. The result applies to all layouts with the same number of tensor-parallel ranks,
/// and to any number of samples. Several threads may call this function with different entries of
/// `policies`.
void PlanCompiler::searchPolicy(const Candidate &candidate) {
  std::optional<std::string> &found = policies.at(getPolicyKey(candidate));
  const sharding::Policy *policy = sharding::findPolicy(candidate.policy);
  CompileOptions options = getOptions(candidate);
  if (!policy || !policy->isSearch || candidate.tp == 1 || !areValid(options))
    return;
  std::string key = makeKey("shardings of " + candidate.policy, options, ps::Level::Planned);
  found = cache.find(key);
  if (found)
    return;
  std::string reason;
  FirstError silence(context, reason);
  if (OwningOpRef<ModuleOp> module = copy(*options.batch, /*isShrunk=*/true))
    found = searchShardings(*module, options);
  if (found)
    cache.keep(key, *found);
}

/// Imports the model with a batch size, unless this was done before.
PlanCompiler::Imported &PlanCompiler::import(int64_t batch, std::vector<std::string> &notes) {
  auto [found, isNew] = imported.try_emplace(batch);
  Imported &result = found->second;
  if (!isNew)
    return result;
  CompileOptions options = request.options;
  options.batch = batch;
  result.whole = importModel(context, options.model, getImportOptions(options), notes);
  if (!result.whole)
    return result;
  result.shrunk = result.whole->clone();
  PassManager pm(&context, ModuleOp::getOperationName());
  pm.addPass(planner::createShrinkRepeatsPass());
  if (failed(pm.run(*result.shrunk)))
    result.shrunk = nullptr;
  return result;
}

/// Returns a copy of the model for one batch size, at level `training`. With `isShrunk`, the copy
/// has only two of the repeated blocks. Returns null if the model cannot be imported or lowered.
OwningOpRef<ModuleOp> PlanCompiler::copy(int64_t batch, bool isShrunk) {
  std::lock_guard lock(mutex);
  std::vector<std::string> notes;
  Imported &model = import(batch, notes);
  OwningOpRef<ModuleOp> &module = isShrunk ? model.shrunk : model.whole;
  CompileOptions options = request.options;
  options.batch = batch;
  options.microBatches = 1;
  if (module && failed(lower(*module, options, ps::Level::Training)))
    module = nullptr;
  return module ? OwningOpRef<ModuleOp>(module->clone()) : nullptr;
}

} // namespace parashard::driver
