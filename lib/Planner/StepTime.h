// Predicts the time of a step: replays the programs of all pipeline coordinates on a cluster.
#ifndef PARASHARD_LIB_PLANNER_STEPTIME_H
#define PARASHARD_LIB_PLANNER_STEPTIME_H

#include "dialects/rank/Rank.h"
#include "lib/Costs/Cluster.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include <array>

namespace parashard::planner {

/// The categories into which the time of a step is divided.
enum class Part {
  Matmul,         ///< matmuls, convolutions and attention of forward and backward
  Kernel,         ///< generated kernels and other library calls of forward and backward
  Recomputation,  ///< recomputed forward ops
  Launch,         ///< starting kernels
  TensorParallel, ///< waiting in forward and backward for collectives over axes other than data
  DataParallel,   ///< waiting for sums of gradients, and for gathered weights
  Message,        ///< waiting for the transfer of activations between stages
  HostCopy,       ///< waiting for copies to and from host memory
  Update,         ///< the optimizer
  Imbalance,      ///< waiting because the slowest stage has more work than the average
  Bubble,         ///< idle time of the slowest stage, which waits for other stages
};
constexpr size_t kParts = size_t(Part::Bubble) + 1;
/// Returns the name of a part in texts and JSON keys: "matmuls", "bubble".
llvm::StringRef getName(Part part);

/// Seconds by part.
class Breakdown {
public:
  double &operator[](Part part) { return seconds[size_t(part)]; }
  double operator[](Part part) const { return seconds[size_t(part)]; }
  /// Adds each part of another breakdown, times `factor`.
  void add(const Breakdown &other, double factor = 1);
  double sum() const;
  /// Returns the part that takes most of the time.
  Part getLargest() const;

private:
  std::array<double, kParts> seconds{};
};

/// Averages the parts of the pipeline coordinates of a step that takes `seconds`. The bubble is the
/// idle time of the coordinate with the most work. A coordinate with less work is idle longer; the
/// mean of this additional idle time is the imbalance. The result sums to `seconds`.
Breakdown average(llvm::ArrayRef<Breakdown> coordinates, double seconds);

/// The predicted time of a step.
struct StepTime {
  double seconds = 0;
  /// Mean over the pipeline coordinates. Sums to `seconds`.
  Breakdown parts;
  /// Model flops per second of all ranks, divided by their peak rate for the model's compute type.
  double mfu = 0;

  llvm::json::Object toJson() const;
};

/// Measured seconds of the ops of each run, without collectives. The key is the label of the run
/// (`ir::getRunLabel`).
using MeasuredRuns = llvm::StringMap<double>;

/// Predicts the time of a training step of a module of level `scheduled` or later. Assumes that all
/// ranks of a pipeline coordinate take the same time. Returns nullopt if the module has no training
/// step. Fails if the mesh has more ranks than the cluster can have. `measured` replaces the
/// predicted times of ops. Fails if `measured` is not null and lacks a run.
llvm::Expected<std::optional<StepTime>> predictStep(mlir::ModuleOp module,
                                                    const costs::Cluster &cluster,
                                                    const MeasuredRuns *measured = nullptr);

/// Returns a table of the parts of a step.
std::string describe(const StepTime &step, const costs::Cluster &cluster, int64_t ranks);

} // namespace parashard::planner

#endif
