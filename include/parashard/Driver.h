// Declares the compiler's driver, a library for ps-opt, ps-compile and other front ends. The driver
// lowers a model from level `imported` to level `placed`.
#ifndef PARASHARD_DRIVER_H
#define PARASHARD_DRIVER_H

#include "dialects/ps/PsAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace parashard::driver {

/// The options of a compile. Each field is named after its flag (see `ps-compile --help`).
struct CompileOptions {
  // The model.
  std::string model;                  ///< .pt2, .onnx or .mlir
  std::vector<std::string> dims;      ///< sizes of dims: INPUT.D=N or SYMBOL=N
  std::optional<int64_t> batch;       ///< size of the batch symbol
  std::vector<std::string> batchDims; ///< batch dims of inputs: INPUT=D, INPUT=none or none
  std::string lossOutput; ///< number or name of the loss output; empty: found automatically
  std::string loss;       ///< kind of loss to add; empty: the model returns a loss; "none":
                          ///< the caller passes cotangents
  std::vector<std::string> differentiate; ///< outputs with cotangents when loss is "none"
  std::vector<std::string> keepOutputs;   ///< outputs that a step with a loss returns; {"all"}
  std::vector<std::string> freeze;        ///< globs of frozen parameters
  std::vector<std::string> init;          ///< initial values, such as "[GLOB=]normal(0.02)"
  bool evalMode = false;                  ///< train the model in its model.eval() form
  std::string weights = "reference";      ///< source of the weights: reference, copy or none

  // The plan.
  std::string mesh = "dp=1";
  std::optional<int64_t> ranks; ///< must equal the product of the axis sizes; needed only to
                                ///< compute the size of an axis `*` (`dp=*,tp=2`)
  /// Name of a policy, FILE.json, or the text of such a file.
  std::string shardingPolicy = "megatron";
  /// How to split layers into stages: uniform, parameters, flops, time, or the modules
  /// NAME,NAME,... that begin a stage. Empty: time if `cluster` is given, else uniform.
  std::string splitMethod;
  int64_t numChunks = 1; ///< stages per pipeline coordinate
  std::string schedule;  ///< name or FILE.json; empty: chosen by `numChunks`
  /// Placement of the stages: loop or v. Has no flag; `schedule` determines it.
  std::string placement = "loop";
  int64_t microBatches = 1;
  int64_t zero = 0; ///< ZeRO stage, 0 to 3
  /// Padding of the dims of matmul weights: auto, off, or N (to multiples of N).
  std::string alignDims = "auto";
  /// Recomputation: none, selective, full[+communication], modules=GLOB,... or budget=BYTES.
  std::string recompute = "none";
  /// Tensors kept in host memory: none, or a list of `optimizer` and `activations[=all]`.
  std::string offload = "none";
  /// fp32, bf16, fp16, half or fp8, then options (`parsePrecision`).
  std::string precision = "fp32";
  std::string gradientReduction = "fp32"; ///< fp32 or bf16: type in which gradients are reduced
  std::string lossAverage; ///< step or micro-batch; empty: step if the loss is a sum or a mean over
                           ///< samples, else micro-batch

  std::string matmulEpilogues = "off"; ///< on or off: fuse GELUs into matmul epilogues
  /// Overlap of collectives with matmuls: auto, off, or a number of chunks.
  std::string overlap = "auto";

  // The update.
  std::vector<std::string> optimizers; ///< "[GLOB=|ndim<2=]adamw(lr=1e-3,...)"; first match wins
  std::string clipNorm;                ///< a number; empty: no clipping
  std::string ema;                     ///< a decay below 1; empty: no averages

  // The target.
  std::string target = "cpu:native"; ///< see CodegenOptions
  /// Cluster to plan for: a preset, FILE.json, or `cpu` (this machine; see `measureLocalCluster`).
  /// Empty: chosen by `target`.
  std::string cluster;
  bool inference = false;           ///< evaluate only, without the training entries
  std::vector<std::string> entries; ///< further entries: NAME=FILE.pt2
};

/// Options of `runWalk`: the last level, and the files to write.
struct WalkOptions {
  ps::Level stopAfter = ps::Level::Native;
  std::string dumpDir; ///< folder for a dump of each level, such as DIR/2-planned.mlir; empty: none
  std::string failurePath; ///< file for the input of a failing level
  /// Recreates the module as it was before `runWalk`, so that a failing level can be repeated. If
  /// empty, `failurePath` is not written.
  std::function<mlir::OwningOpRef<mlir::ModuleOp>()> reload;
  /// Called after each level with its seconds; may be empty.
  std::function<void(ps::Level, double)> onLevel;
  /// Skip MLIR's verifier, and passes that only verify or explain. Used for plans that are only
  /// priced.
  bool onlyTransforms = false;
  /// Called before each pass with the name of the pass; may be empty.
  std::function<void(llvm::StringRef)> onPass;
};

/// Checks the options that can be checked without the model: mesh, optimizers, policy and others.
llvm::Error checkOptions(const CompileOptions &options);

/// The cluster `cpu` or `cpu:RANKS`: this machine.
struct LocalCluster {
  std::optional<int64_t> ranks;
};
/// Parses `cpu` or `cpu:RANKS`. Returns nullopt for any other cluster. Fails if RANKS is not a
/// number.
llvm::Expected<std::optional<LocalCluster>> parseLocalCluster(llvm::StringRef cluster);
/// Receives a note or a warning for the user.
using ReportText = llvm::function_ref<void(bool isWarning, const std::string &text)>;
/// Returns the cluster file of this machine for a number of ranks. On first use, reports a note and
/// runs psrt-probe. Later calls return the same file, which is in the user's cache folder.
llvm::Expected<std::string> measureMachine(int64_t ranks, ReportText report);
/// If `options.cluster` is this machine, replaces the option by the path of a cluster file for the
/// number of ranks of the mesh. The options must have passed `checkOptions`.
llvm::Error measureLocalCluster(CompileOptions &options, ReportText report);

/// Registers the dialects of the compiler, and their extensions.
void registerEverything(mlir::DialectRegistry &registry);
/// Registers every pass and pipeline by name (for ps-opt and textual pipelines).
void registerAllPasses();

/// Returns the passes that lower a module from the previous level to `level`, in order. Each pass
/// is given as `name{option=value ...}`. The source explains why each pass is needed.
std::vector<std::string> getPasses(ps::Level level, const CompileOptions &options);

/// Returns false for passes that only verify or explain a module. `pass` may have options.
bool isTransform(llvm::StringRef pass);

/// Adds the passes of `getPasses` to `pm`. Fails if a pass does not have an option that is given to
/// it.
mlir::LogicalResult addLevelPipeline(mlir::OpPassManager &pm, ps::Level level,
                                     const CompileOptions &options);

/// Imports `options.model` (.pt2 or .onnx) or parses it (.mlir). Returns null after a diagnostic.
mlir::OwningOpRef<mlir::ModuleOp> loadModel(mlir::MLIRContext &context,
                                            const CompileOptions &options);

/// Returns the total number of elements of all parameters of a module at level `imported`.
int64_t countParameters(mlir::ModuleOp module);

/// Runs the levels from the module's own level up to `walk.stopAfter` (at most `placed`). When a
/// pass fails, writes the input of the pass's level to `walk.failurePath`, and prints the ps-opt
/// command that reproduces the failure. Writes nothing if the error is a refusal (`ps::isRefusal`),
/// since the user must change the model or a flag.
mlir::LogicalResult runWalk(mlir::ModuleOp module, const CompileOptions &options,
                            const WalkOptions &walk);

/// Runs the search of the policy "searched" or "searched+memory" on a module of level `imported` or
/// `training`. Returns the sharding file that the search finds, as JSON text. If possible, the
/// search runs on a smaller copy, which keeps only two of many equal blocks (such as the layers of
/// a decoder). The globs of the file match all blocks of the module.
///
/// Returns nullopt without a diagnostic for other policies, and for a mesh without a tensor axis.
/// Also returns nullopt if the module cannot be compiled up to the search; a compile of the module
/// then reports the error.
std::optional<std::string> searchShardings(mlir::ModuleOp module, const CompileOptions &options);

/// Warns if the loss of a micro-batch is an average over its samples, but the loss of the same
/// model on one batch with all samples of a step is not. `module` has level `training` or later.
/// Example: `h[:4]` selects all samples of a micro-batch of 4, but only half of the samples of a
/// step with two micro-batches. Imports `options.model` a second time with the whole batch. Prints
/// no warning if this import fails.
void warnOfWholeBatch(mlir::ModuleOp module, const CompileOptions &options);

/// Describes the plan of a module at level `planned` or later: shardings with reasons, collectives
/// per step with their bytes, and the mask form of each attention.
std::string explainPlan(mlir::ModuleOp module);

/// Describes the pipeline schedule of a step (level `planned` or later): schedule, bubble, and the
/// activations held per pipeline coordinate. Returns "" without a pipeline.
std::string explainSchedule(mlir::ModuleOp module, const CompileOptions &options);
/// Predicts the time of a step (level `scheduled` or later) on the module's cluster, with a
/// breakdown. Returns "" if the module has no training step.
std::string explainStep(mlir::ModuleOp module);
/// Draws the pipeline schedule of `explainSchedule` as an SVG file, written atomically.
mlir::LogicalResult writeTimeline(mlir::ModuleOp module, const CompileOptions &options,
                                  llvm::StringRef path);

/// The price of a plan.
struct PlanPrice {
  double seconds = 0;            ///< predicted time of a step
  std::vector<double> breakdown; ///< seconds by planner::Part; sums to `seconds`
  double mfu = 0;                ///< share of the peak rate, from 0 to 1
  int64_t memoryBytes = 0;       ///< of the rank that needs the most memory
  std::string largestPart;       ///< the part that takes most of the step; "limits" in JSON

  /// Returns {"step_s", "breakdown", "memory_bytes", "mfu", "limits"}.
  llvm::json::Object toJson() const;
  /// Parses the text of an object that `toJson` returned. Returns nullopt for any other text.
  static std::optional<PlanPrice> fromText(llvm::StringRef text);
};

/// Returns the name of a part of `PlanPrice::breakdown`, such as "matmuls" or "bubble".
llvm::StringRef getPartName(size_t part);

/// Prices the plan of a module at level `placed` on its cluster. Fails if the module has no
/// training step, or if the mesh has more ranks than the cluster can have. `measured` maps the name
/// that each run has in traces to the measured seconds of the run. The measured seconds replace the
/// predicted times of the run's ops. Fails if `measured` lacks a run.
llvm::Expected<PlanPrice> pricePlan(mlir::ModuleOp module,
                                    const llvm::StringMap<double> *measured = nullptr);

/// A model, the ranks to plan for, and the constraints on the plan.
struct PlanRequest {
  CompileOptions options; ///< the model, and the flags that are not searched
  int64_t ranks = 1;
  std::string ranksFlag;        ///< how the ranks were given, for errors: "cluster h100-sxm:64"
  int64_t globalBatch = 0;      ///< samples per step
  std::optional<double> memory; ///< bytes per rank; nullopt: as in the cluster
  std::string memoryFlag = "memory"; ///< flag that gives the memory, for errors
  double timeLimit = 30;             ///< seconds of the search
  /// Called repeatedly during the search. When it returns true, the search ends and returns the
  /// best plans so far. Empty: the search is not interrupted.
  std::function<bool()> isInterrupted;
  size_t finalists = 1;            ///< minimum number of plans to compile, if enough plans fit
  std::vector<std::string> whyNot; ///< choices to compare with: "tp=4", "zero=3"
  /// Constraints as pairs of flag and text: {"mesh", "pp=*,tp=<=8"}, {"zero", "0|1"}.
  std::vector<std::pair<std::string, std::string>> constraints;
};

/// Assumed relative error of the figures of a cluster, such as a bandwidth. Plans with nearly equal
/// predicted times are compared under such errors (`Plan::regret`).
constexpr double kFigureError = 0.15;

/// A plan and its price.
struct Plan {
  CompileOptions options;
  /// Name of the sharding policy, or "{...}" for the text of a sharding file. For a searched
  /// policy, `options` contain the shardings that the search found.
  std::string policy;
  std::optional<PlanPrice> price; ///< of the compiled program; nullopt: only estimated
  double estimatedSeconds = 0, estimatedMemory = 0; ///< estimates of the search
  /// Largest relative slowdown against the best plan if one figure of the cluster is wrong by
  /// `kFigureError`. Example: 0.03 means up to 3 % slower. Nullopt for plans that are not close to
  /// the fastest plan.
  std::optional<double> regret;
};

/// A plan that differs from the best one in one choice.
struct Alternative {
  std::string change;             ///< the choice, such as "--zero 3"
  double seconds = 0, memory = 0; ///< estimates of the search
  std::string reason;             ///< "7.1 % slower: bubble +12.0 ms"
};

struct PlanAnswer {
  /// First the plans that were compiled and fit the memory, then plans with estimates only. Both
  /// groups are sorted by time, with one exception. Some compiled plans may be as fast as the
  /// fastest, within the error of the prediction. Among them, the plan with the least regret comes
  /// first.
  std::vector<Plan> plans;
  /// True if the first plan has a tensor axis, but all ranks of this axis compute the same.
  bool isUndivided = false;
  std::vector<Alternative> neighbors; ///< alternatives to the first plan
  std::vector<Alternative> whyNot;    ///< one for each of `PlanRequest::whyNot`
  int64_t priced = 0;                 ///< number of plans that the search priced
  double seconds = 0;                 ///< time that the planner took
  bool isComplete = true;             ///< false: the time limit or an interrupt ended the search
  bool isInterrupted = false;         ///< `PlanRequest::isInterrupted` returned true
  double memory = 0;                  ///< memory limit per rank, in bytes
  int64_t globalBatch = 0;            ///< samples per step
  int64_t parameters = 0;             ///< elements of the model's parameters
};

/// Returns the flags of ps-plan that are searched: "mesh", "zero", ...
llvm::ArrayRef<llvm::StringRef> getSearchedFlags();

/// Checks `request.constraints`. Fails if a text is invalid, if the search never tries a value, or
/// if the constraints contradict each other, the number of ranks or the global batch.
llvm::Error checkConstraints(const PlanRequest &request);

/// Searches for the fastest plans. Fails if the constraints allow no plan, or if no plan fits the
/// memory. In the second case, the error states the least memory that a plan needs.
llvm::Expected<PlanAnswer> searchPlan(mlir::MLIRContext &context, const PlanRequest &request);

/// Returns the level of a module (`ps.level`), or `imported` if the attribute is missing.
ps::Level getLevel(mlir::ModuleOp module);
void setLevel(mlir::ModuleOp module, ps::Level level);

} // namespace parashard::driver

#endif
