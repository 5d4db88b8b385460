// What the report's sections are gathered from: each function reads one thing off a module.
#ifndef PARASHARD_LIB_REPORT_GATHER_H
#define PARASHARD_LIB_REPORT_GATHER_H

#include "dialects/rank/Rank.h"
#include "lib/Driver/PlannedStep.h"
#include "lib/Schedules/Trace.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/JSON.h"

namespace parashard::report {

/// A string of the model or the command line as JSON takes it (bytes that are no UTF-8 replaced).
std::string toText(llvm::StringRef text);

//===--- the plan (Plan.cpp) ----------------------------------------------===//

llvm::json::Array listMesh(mlir::ModuleOp module);

struct ParameterSum {
  int64_t count = 0, elements = 0, bytes = 0, localBytes = 0;
};
llvm::json::Array listParameters(mlir::ModuleOp module, ParameterSum &sum);

struct CollectiveSum {
  int64_t count = 0, bytes = 0; ///< of a step, of one rank
};
/// Null where the module has no record of them.
llvm::json::Value listCollectives(mlir::ModuleOp module, int64_t microBatches, CollectiveSum &sum);

//===--- the pipeline (Pipeline.cpp) -------------------------------------===//

/// Stages, coordinates and the step; `measured` may be null.
llvm::json::Object describePipeline(mlir::ModuleOp module, const PlannedStep &step,
                                    const schedules::MeasuredPipeline *measured);

/// What a program of this plan traced. Errors: a file that cannot be read, is no such trace, or of
/// another program's.
llvm::Expected<schedules::MeasuredPipeline> readMeasured(llvm::StringRef path, const PlannedStep &step);

//===--- the memory (Memory.cpp) -----------------------------------------===//

/// What fills a rank of each coordinate, and when; empty before level `placed`.
llvm::json::Array listMemory(mlir::ModuleOp module);

//===--- the work (Work.cpp) ----------------------------------------------===//

/// What ops compute and move.
struct Cost {
  int64_t contraction = 0; ///< flops of contractions, convolutions, attention
  int64_t other = 0;       ///< flops of all else
  int64_t bytes = 0;       ///< read and written
  void add(const Cost &cost, int64_t times = 1);
  llvm::json::Object toJson() const;
};

/// How often a step (of one rank) runs a class function on a segment. Functions of phase
/// `evaluate` are not part of a step: there it is an evaluation of one batch.
struct RunCount {
  mlir::func::FuncOp callee;
  std::optional<int64_t> segment;
  mlir::Location loc; ///< of the first run
  int64_t times = 0;
};

/// The class functions and their runs.
class Work {
public:
  /// `microBatches` of a step counts where the module has no schedule yet.
  Work(mlir::ModuleOp module, int64_t microBatches);

  int64_t getMicroBatches() const { return microBatches; }
  /// Of a step on one rank.
  const Cost &getStep() const { return step; }
  /// Calls of generated kernels and of libraries in a step.
  int64_t getKernelCalls() const { return kernelCalls; }
  int64_t getLibraryCalls() const { return libraryCalls; }

  /// Each class function: its runs, its cost, and what it consists of.
  llvm::json::Array listClasses();
  /// The flops of each segment by phase, and those of the update.
  llvm::json::Object listFlops();
  /// Each segment with the class functions that it runs.
  llvm::json::Array listSegments();

private:
  void addRun(rank::RunOp run, int64_t times);
  std::string getSegmentName(RunCount run);

  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  int64_t microBatches;
  llvm::MapVector<std::pair<mlir::Operation *, int64_t>, RunCount> runs;
  llvm::MapVector<mlir::Operation *, Cost> costs; ///< of one run of a class function
  Cost step;
  int64_t kernelCalls = 0, libraryCalls = 0;
};

} // namespace parashard::report

#endif
