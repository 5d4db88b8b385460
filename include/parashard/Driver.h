// The walk from an imported model to a placed program, as a library: what ps-opt, ps-compile and
// other front ends share.
#ifndef PARASHARD_DRIVER_H
#define PARASHARD_DRIVER_H

#include "dialects/ps/PsAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Error.h"
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace parashard {

/// What a user chooses; the names are the flags of ps-compile (docs: `ps-compile --help`).
struct CompileOptions {
  // The model.
  std::string model;                  ///< .pt2 or .mlir
  std::vector<std::string> dims;      ///< INPUT.D=N or SYMBOL=N
  std::optional<int64_t> batch;       ///< binds the batch symbol
  std::vector<std::string> batchDims; ///< INPUT=D, INPUT=none or none
  std::string lossOutput;             ///< number or name of the loss output; empty: found
  std::string
      loss; ///< "none": cotangents come from outside; empty: in the graph; else a kind to add
  std::vector<std::string> differentiate; ///< outputs with cotangents when loss is "none"
  std::vector<std::string> freeze;        ///< globs of parameters that are not trained
  std::vector<std::string> init;          ///< "[GLOB=]normal(0.02)"
  bool evalMode = false;                  ///< train the model as model.eval() has it
  std::string weights = "reference";      ///< reference, copy or none: of the model's file

  // The plan.
  std::string mesh = "dp=1";
  std::optional<int64_t> ranks; ///< fills `*` in the mesh; must equal its matmul
  std::string shardingPolicy = "megatron";
  std::string splitMethod = "uniform"; ///< parameters, flops, or NAME,NAME,...
  int64_t numChunks = 1;               ///< stages of a pipeline coordinate
  std::string schedule;                ///< a name, or FILE.json; empty: by the chunks
  std::string placement = "loop";      ///< of stages: the schedule's (loop or v)
  int64_t microBatches = 1;
  int64_t zero = 0; ///< ZeRO stage, 0 to 3
  std::string alignDims =
      "auto"; ///< auto, off, or what dims of matmuls' weights are padded to a multiple of
  std::string recompute =
      "none";          ///< none, selective, full[+communication], modules=GLOB,... or budget=BYTES
  std::string offload; ///< to the host's memory: optimizer, activations[=all], with commas; or none
  std::string precision = "fp32"; ///< fp32, bf16, fp16 or half[,keep-fp32=GLOB][,compute=GLOB]
  std::string gradientReduction = "fp32"; ///< or bf16: the type in which gradients are added up
  std::string lossAverage; ///< step or micro-batch; empty: step where the form is recognised

  std::string matmulEpilogues = "off"; ///< on: matmuls compute GELUs by themselves
  std::string overlap = "auto"; ///< of collectives with matmuls: auto, off, or a number of chunks

  // The update.
  std::vector<std::string> optimizers; ///< "[GLOB=|ndim<2=]adamw(lr=1e-3,...)"; first match wins
  std::string clipNorm;                ///< a number, or empty
  std::string ema;                     ///< a number below 1, or empty

  // The target.
  std::string target = "cpu:native"; ///< as in CodegenOptions
  bool inference = false;            ///< no training entries
};

/// Where a walk begins, ends and writes.
struct WalkOptions {
  ps::Level stopAfter = ps::Level::Native;
  std::string dumpDir;     ///< one file a level: DIR/2-planned.mlir; empty: none
  std::string failurePath; ///< where the input of a failing pass is written
  /// Makes the module again as it was before the walk: its levels are then repeated up to the one
  /// that failed. Nothing is written where it is empty.
  std::function<mlir::OwningOpRef<mlir::ModuleOp>()> reload;
  bool timing = false; ///< prints seconds a level to stderr
  /// Called before each pass with the name of the pass; may be empty.
  std::function<void(llvm::StringRef)> onPass;
};

/// What is wrong with the texts of mesh, optimizers and policy, as far as that needs no model.
llvm::Error checkOptions(const CompileOptions &options);

/// Makes every dialect and pass of the compiler known.
void registerEverything(mlir::DialectRegistry &registry);
/// Registers every pass and pipeline by name (for ps-opt and textual pipelines).
void registerAllPasses();

/// The passes that bring a module from the level before to `level`, in the order in which they run,
/// each as `name{option=value ...}`; beside each in the source stands why it is there.
std::vector<std::string> getPasses(ps::Level level, const CompileOptions &options);

/// Adds the passes of `getPasses` to `pm`. Fails on an option that a pass does not take.
mlir::LogicalResult addLevelPipeline(mlir::OpPassManager &pm, ps::Level level,
                                     const CompileOptions &options);

/// Imports `options.model` (.pt2) or parses it (.mlir): null after a diagnostic.
mlir::OwningOpRef<mlir::ModuleOp> loadModel(mlir::MLIRContext &context,
                                            const CompileOptions &options);

/// Runs the levels after the module's own up to `walk.stopAfter` (at most `placed`). When a pass
/// fails, writes the module that it was given and prints the ps-opt command that repeats the
/// failure. Writes nothing where the error is a refusal (`ps::isRefusal`): the user changes the
/// model or a flag.
mlir::LogicalResult runWalk(mlir::ModuleOp module, const CompileOptions &options,
                            const WalkOptions &walk);

/// The plan in words: shardings and why, collectives of a step and their bytes, forms of attention.
/// For a module at level `planned` or later.
std::string explainPlan(mlir::ModuleOp module);

/// The step of a pipeline (level `planned` or later): its schedule, bubble, and what coordinates
/// hold; empty without a pipeline.
std::string explainSchedule(mlir::ModuleOp module, const CompileOptions &options);
/// The same as a picture, an SVG file that appears whole or not at all.
mlir::LogicalResult writeTimeline(mlir::ModuleOp module, const CompileOptions &options,
                                  llvm::StringRef path);

/// The level that a module carries; `imported` when it carries none.
ps::Level getLevel(mlir::ModuleOp module);
void setLevel(mlir::ModuleOp module, ps::Level level);

} // namespace parashard

#endif
