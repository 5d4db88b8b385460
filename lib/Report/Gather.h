// Declares the functions that gather the data of the report from a module.
#ifndef PARASHARD_LIB_REPORT_GATHER_H
#define PARASHARD_LIB_REPORT_GATHER_H

#include "dialects/rank/Rank.h"
#include "lib/Driver/PlannedStep.h"
#include "lib/Schedules/Trace.h"
#include "parashard/Driver.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/JSON.h"

namespace parashard::report {

/// Replaces bytes that are not UTF-8, so that JSON accepts the text.
std::string toText(llvm::StringRef text);

//===--- the plan (Plan.cpp) ----------------------------------------------===//

/// Lists the axes of the mesh, except axes of kind `multiple`, which --align-dims adds to pad dims.
llvm::json::Array listMesh(mlir::ModuleOp module);

/// Totals over all parameters. `localBytes` are the bytes of one rank's shards.
struct ParameterSum {
  int64_t count = 0, elements = 0, bytes = 0, localBytes = 0;
};
/// Lists the parameters with their shardings. Adds them to `sum`.
llvm::json::Array listParameters(mlir::ModuleOp module, ParameterSum &sum);

struct CollectiveSum {
  int64_t count = 0, bytes = 0; ///< per step and rank
};
/// Lists the collectives of a step and of an evaluation, and adds those of a step to `sum`. Returns
/// null if the module has no record of its collectives.
llvm::json::Value listCollectives(mlir::ModuleOp module, int64_t microBatches, CollectiveSum &sum);

//===--- the pipeline (Pipeline.cpp) -------------------------------------===//

/// Describes stages, coordinates and the step; `measured` may be null.
llvm::json::Object describePipeline(mlir::ModuleOp module, const driver::PlannedStep &step,
                                    const schedules::MeasuredPipeline *measured);

/// Reads the trace that a program of this plan has written. Fails if the file cannot be read, is
/// not a trace of a pipeline, or was written by a program of another plan.
llvm::Expected<schedules::MeasuredPipeline> readMeasured(llvm::StringRef path,
                                                         const driver::PlannedStep &step);

//===--- the memory (Memory.cpp) -----------------------------------------===//

/// Lists, for each pipeline coordinate, the memory of one rank and the largest buffers at its peak.
/// Returns an empty list before level `placed`.
llvm::json::Array listMemory(mlir::ModuleOp module);

//===--- the work (Work.cpp) ----------------------------------------------===//

/// Flops and memory traffic.
struct Cost {
  int64_t contraction = 0; ///< flops of contractions, convolutions and attention
  int64_t other = 0;       ///< flops of all other ops
  int64_t bytes = 0;       ///< bytes read and written
  void add(const Cost &cost, int64_t times = 1);
  llvm::json::Object toJson() const;
};

/// Lists the plans of a search, fastest first. Also lists the parts of the first plan's step with
/// their times, and the first plan's neighbors: plans that differ from it in one choice.
llvm::json::Object listPlans(const driver::PlanAnswer &answer);

/// The number of times that a class function runs on a segment: per step, or per batch for phase
/// `evaluate`. With a pipeline, the counts of one rank per pipeline coordinate are added.
struct RunCount {
  mlir::func::FuncOp callee;
  std::optional<int64_t> segment;
  mlir::Location loc; ///< location of the first run
  int64_t times = 0;
};

class Work {
public:
  /// Collects the class functions of a module and their runs. Before level 4, a step has
  /// `microBatches` micro-batches. From level 4 on, the programs determine the number of
  /// micro-batches.
  Work(mlir::ModuleOp module, int64_t microBatches);

  /// Returns the number of micro-batches per step.
  int64_t getMicroBatches() const { return microBatches; }
  /// Returns the cost of a step. With a pipeline, adds the costs of one rank per pipeline
  /// coordinate.
  const Cost &getStep() const { return step; }
  /// Returns how many fused groups run in a step, counted on the same ranks as in `getStep`.
  int64_t getKernelCalls() const { return kernelCalls; }
  /// Returns how many library calls run in a step, counted on the same ranks as in `getStep`.
  int64_t getLibraryCalls() const { return libraryCalls; }

  /// Lists the class functions with their runs, costs and contents.
  llvm::json::Array listClasses();
  /// Lists the costs of each segment by phase, and the costs of the update.
  llvm::json::Object listFlops();
  /// Lists the segments with the class functions that they run.
  llvm::json::Array listSegments();

private:
  void addRun(rank::RunOp run, int64_t times);
  std::string getSegmentName(RunCount run);

  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  int64_t microBatches;
  llvm::MapVector<std::pair<mlir::Operation *, int64_t>, RunCount> runs;
  llvm::MapVector<mlir::Operation *, Cost> costs; ///< cost of one run, by class function
  Cost step;
  int64_t kernelCalls = 0, libraryCalls = 0;
};

} // namespace parashard::report

#endif
