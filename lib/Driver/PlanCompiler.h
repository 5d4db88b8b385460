// Compiles the programs of a plan search.
#ifndef PARASHARD_LIB_DRIVER_PLANCOMPILER_H
#define PARASHARD_LIB_DRIVER_PLANCOMPILER_H

#include "lib/Pipeline/Layers.h"
#include "lib/Planner/Search.h"
#include "lib/Support/FileCache.h"
#include "parashard/Driver.h"
#include <map>
#include <mutex>

namespace parashard::driver {

/// Returns the number of stages of `--split-method NAME,...`; nullopt for any other method. Each
/// named module begins a new stage. Example: "layers.4,layers.8" gives 3 stages.
std::optional<int64_t> countNamedStages(llvm::StringRef method);

/// Compiles plans up to level `placed`, and keeps the small programs from which class tables are
/// read. A class table (`planner::ClassTable`) has the costs of the model's segments under one
/// sharding. The context and the request must outlive the compiler.
class PlanCompiler {
public:
  PlanCompiler(mlir::MLIRContext &context, const PlanRequest &request)
      : context(context), request(request) {}

  /// Imports the model as exported. Finds the exported batch, and whether the export fixes the
  /// batch. Returns failure after a diagnostic. With `isQuiet`, does not print the notes of the
  /// import.
  llvm::LogicalResult start(bool isQuiet = false);

  /// Returns the samples of the exported batch; nullopt if no input has a batch dim.
  std::optional<int64_t> getExportedBatch() const { return exportedBatch; }
  /// Returns the exported batch if the export fixes it.
  std::optional<int64_t> getFixedBatch() const { return isFixed ? exportedBatch : std::nullopt; }
  /// Returns true if the model can be imported with `batch` samples.
  bool allowsBatch(int64_t batch);
  /// Returns the number of data-parallel ranks of the program from which a class table is read. A
  /// program with two such ranks represents any number of them. The program has the candidate's
  /// number instead if the export fixes the batch or does not allow twice the samples, or if the
  /// cluster has fewer than 2 * tp ranks.
  int64_t getTableShards(const planner::Candidate &candidate) {
    bool isTooLarge = maxRanks && 2 * candidate.tp > *maxRanks;
    bool isRefused = candidate.dp == 1 && !isFixed && !tryBatch(2 * candidate.samples);
    return isFixed || isTooLarge || isRefused ? candidate.dp : 2;
  }

  /// Returns the class table of a candidate, priced on a cluster; null if the model cannot be
  /// compiled with the candidate's choices. The pointer is valid until the next call.
  const planner::ClassTable *getTable(const planner::Candidate &candidate,
                                      const costs::Cluster &cluster);

  /// Compiles in parallel the programs from which several class tables are read.
  void prepareTables(llvm::ArrayRef<planner::Candidate> candidates);

  /// Returns the index of the first segment of each stage, except for the first stage. Divides the
  /// segments by `--split-method`: `uniform`, `parameters`, `flops`, `time` or names of modules.
  llvm::Expected<llvm::SmallVector<int64_t>> findCuts(const schedules::Placement &placement);

  CompileOptions getOptions(const planner::Candidate &candidate) const;

  /// Compiles the plan of a candidate up to level `placed`, without diagnostics, and prices its
  /// program. Returns nullopt if the model cannot be compiled with this plan. The reason is kept
  /// for `getFailure` if this is the first plan that failed. Several threads may call this
  /// function, but not while another function runs.
  llvm::Expected<std::optional<PlanPrice>> compile(const planner::Candidate &candidate);
  /// Prepares `compile` for several candidates: shards the model once for candidates with the same
  /// shardings, in parallel for different ones.
  void prepare(llvm::ArrayRef<planner::Candidate> candidates);

  int64_t getParameters() const { return parameters; }
  /// Returns the reason why the first failed plan could not be compiled; empty if no plan failed.
  /// Example: "with --mesh tp=4 --batch 1: dim s72 (input_ids.0) is 1; the export allows 2 to
  /// 64".
  llvm::StringRef getFailure() const { return failureReason; }
  /// Returns why the first batch that `allowsBatch` refused cannot be imported; empty if it refused
  /// none. Example: "--batch 1: dim s72 (input_ids.0) is 1; the export allows 2 to 64".
  llvm::StringRef getBatchFailure() const { return batchFailure; }

private:
  /// Identifies the program of a class table: tensor-parallel ranks, data-parallel ranks, samples,
  /// policy, recomputation and ZeRO stage.
  using Key = std::tuple<int64_t, int64_t, int64_t, std::string, std::string, int64_t>;
  Key getKey(const planner::Candidate &candidate) {
    return {candidate.tp,     getTableShards(candidate), candidate.samples,
            candidate.policy, candidate.recompute,       candidate.zero};
  }

  /// The model, imported with the batch size that is the key in `imported`, at level `imported` or
  /// `training`. `shrunk` has only two of the repeated blocks (see ps-shrink-repeats). A module is
  /// null if it could not be imported, shrunk or lowered.
  struct Imported {
    mlir::OwningOpRef<mlir::ModuleOp> whole, shrunk;
  };

  bool tryBatch(int64_t batch, std::vector<std::string> *notes = nullptr);
  bool findOtherBatch(std::vector<std::string> &notes);
  llvm::LogicalResult checkSplit(mlir::ModuleOp module);
  void keepFailure(const CompileOptions &options, llvm::StringRef reason);
  mlir::OwningOpRef<mlir::ModuleOp> compile(const CompileOptions &options, bool isShrunk);
  std::string makeKey(llvm::StringRef kind, const CompileOptions &options, ps::Level level) const;
  mlir::OwningOpRef<mlir::ModuleOp> findProgram(llvm::StringRef key);
  std::optional<PlanPrice> findPrice(const CompileOptions &options);
  planner::Candidate getTableCandidate(const planner::Candidate &candidate);
  llvm::SmallVector<planner::Candidate, 3> getPrograms(const planner::Candidate &candidate);
  int64_t getSamplesOfZero(const planner::Candidate &candidate);
  void compilePrograms(llvm::ArrayRef<planner::Candidate> candidates);
  std::optional<planner::ClassTable> readTable(const planner::Candidate &candidate,
                                               const costs::Cluster &cluster);
  mlir::OwningOpRef<mlir::ModuleOp> compileForTable(const planner::Candidate &table);
  void searchPolicy(const planner::Candidate &candidate);
  Imported &import(int64_t batch, std::vector<std::string> &notes);
  mlir::OwningOpRef<mlir::ModuleOp> copy(int64_t batch, bool isShrunk);

  static constexpr uint64_t kMaxCacheBytes = 256 << 20;
  /// If `sharded` has more models than this limit, the next `prepare` frees all of them. The small
  /// models in `shrunkSharded` stay in memory.
  static constexpr size_t kMaxSharded = 4;

  mlir::MLIRContext &context;
  const PlanRequest &request;
  support::FileCache cache{"plans", kMaxCacheBytes};
  std::string modelKey; ///< identifies the model in the cache
  /// Protects `imported`, `failureReason`, and the maps `sharded` and `shrunkSharded` (but not
  /// their modules).
  std::mutex mutex;
  std::optional<int64_t> exportedBatch;
  bool isFixed = false;
  std::optional<int64_t> maxRanks; ///< of the cluster; nullopt: any number
  /// Batches from `minBatch` to `maxBatch` can be imported, except for single sizes that the
  /// export excludes.
  int64_t minBatch = 0, maxBatch = 0;
  std::map<int64_t, std::string> triedBatches; ///< import error by batch; empty: success
  int64_t parameters = 0;
  std::string failureReason, batchFailure;
  std::map<int64_t, Imported> imported; ///< by batch
  /// A model after the passes of level `planned` up to ps-find-segments; null if a pass failed.
  struct Sharded {
    std::once_flag once;
    mlir::OwningOpRef<mlir::ModuleOp> module;
  };
  /// By `getShardedKey`. Plans that differ only in cuts, recomputation and schedule share a model.
  std::map<std::string, Sharded> sharded, shrunkSharded;
  /// Returns the sharded model of a plan. Shards the model unless this was done before.
  Sharded &shard(const CompileOptions &options, bool isShrunk);
  /// The program of a class table; null if the model cannot be compiled.
  struct Program {
    mlir::OwningOpRef<mlir::ModuleOp> module;
    planner::TableFacts facts;
  };
  std::map<Key, Program> programs;
  /// The number of samples per data-parallel rank in the two programs that show the cost of ZeRO 1
  /// (see `getPrograms`). Keys: tensor-parallel ranks and data-parallel ranks of the programs, and
  /// the policy.
  std::map<std::tuple<int64_t, int64_t, std::string>, int64_t> samplesOfZero;
  /// A policy, and the number of tensor-parallel ranks.
  using PolicyKey = std::pair<std::string, int64_t>;
  static PolicyKey getPolicyKey(const planner::Candidate &candidate) {
    return {candidate.policy, candidate.tp};
  }
  /// The text of the sharding file that a search found. Nullopt if nothing was searched, as for a
  /// named policy, or if the search failed.
  std::map<PolicyKey, std::optional<std::string>> policies;
  planner::ClassTable last;
  std::vector<pipeline::Layer> layers; ///< of the whole model on one rank; set by `findCuts`
};

} // namespace parashard::driver

#endif
