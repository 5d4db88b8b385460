// Reads the trace of a program: its instructions, and the measured times of its training steps.
#ifndef PARASHARD_LIB_SCHEDULES_TRACE_H
#define PARASHARD_LIB_SCHEDULES_TRACE_H

#include "lib/Schedules/Simulator.h"
#include "llvm/ADT/StringMap.h"
#include <map>
#include <set>

namespace parashard::schedules {

/// An instruction that a rank executed; times are in milliseconds.
struct TracedInstruction {
  int64_t step = 0;
  int64_t stage = -1; ///< pipeline stage; -1 for an instruction without a stage
  int64_t microBatch = 0;
  std::string phase; ///< such as "forward"; empty for instructions outside of class functions
  std::string run;   ///< class function and segment, such as "block.forward 3"
  bool isCollective = false; ///< runs, starts or awaits a collective
  double begin = 0, end = 0;

  double getDuration() const { return end - begin; }
};

struct TracedRank {
  std::optional<int64_t> coordinate; ///< coordinate on the pipeline axis
  std::vector<TracedInstruction> instructions;
};

/// The content of a trace, without evaluations and without the queues of asynchronous
/// communication.
struct Trace {
  std::map<int64_t, TracedRank> ranks;
  std::set<int64_t> evaluated; ///< numbers of steps during which an evaluation ran

  /// Parses the text of a file that `--trace FILE.json` wrote. Fails if the text is not a trace.
  static llvm::Expected<Trace> read(llvm::StringRef json);

  int64_t countMicroBatches() const;
  /// Returns the number of pipeline stages; 1 without a pipeline.
  int64_t countStages() const;
};

/// The measured steps of a program with or without a pipeline.
struct MeasuredSteps {
  /// Seconds by number of the step, from the first to the last instruction of the slowest rank.
  /// Excludes incomplete steps, steps during which an evaluation ran, and the first of several
  /// complete steps (warm-up).
  std::map<int64_t, double> seconds;
  /// True if the trace has one complete step, so that `seconds` includes warm-up.
  bool isWarmUp = false;

  /// Returns the quantile of the times for the fraction `share`: 0.5 gives the median. Example: for
  /// steps of 1, 2, 3 and 4 s, 0.25 gives 1.75 s.
  double getQuantile(double share) const;
};

/// Measures the steps of a trace. A step is complete if some rank ran the update, and each rank ran
/// as many instructions as in its other steps. Fails if the trace has no complete step.
llvm::Expected<MeasuredSteps> measureSteps(const Trace &trace);

/// Returns the seconds of each run (`TracedInstruction::run`), without collectives and the waits
/// for them. The value is the median over micro-batches and over the steps of `steps`, on the rank
/// on which the median is largest.
llvm::StringMap<double> measureRuns(const Trace &trace, const MeasuredSteps &steps);

/// One measured step of a pipeline; times are in milliseconds.
struct MeasuredStep {
  int64_t number = 0;
  Replay run;        ///< tasks by pipeline coordinate; the first task starts at time 0
  double update = 0; ///< update time of the slowest coordinate
};

struct MeasuredPipeline {
  Placement placement;
  int64_t microBatches = 0;
  std::vector<MeasuredStep> steps;
  /// Median times of each stage, over micro-batches and steps. Excludes the first step (warm-up) if
  /// there are several.
  std::vector<StageTimes> stages;
  double update = 0; ///< median update time over the same steps

  /// Returns the step with the median makespan. Excludes the first step (warm-up) if there are
  /// several.
  const MeasuredStep &getTypicalStep() const;
};

/// Measures the stages of a pipeline. Fails if the program has no pipeline, or if events are
/// missing.
llvm::Expected<MeasuredPipeline> measurePipeline(const Trace &trace);

/// Parses the text of a trace file, and measures the stages of its pipeline.
llvm::Expected<MeasuredPipeline> readTrace(llvm::StringRef json);

/// Returns true if forwards and backwards have the same order in `a` and `b` on every coordinate.
/// Ignores weight gradients, because a trace does not show whether backward is split on a stage
/// without weight gradients.
bool isSameOrder(llvm::ArrayRef<std::vector<Task>> a, llvm::ArrayRef<std::vector<Task>> b);

} // namespace parashard::schedules

#endif
