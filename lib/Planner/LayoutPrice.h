// Prices a layout from a class table: the time of its step, and the memory of its fullest rank.
#ifndef PARASHARD_LIB_PLANNER_LAYOUTPRICE_H
#define PARASHARD_LIB_PLANNER_LAYOUTPRICE_H

#include "lib/Planner/ClassTable.h"
#include "lib/Schedules/Placement.h"
#include <array>
#include <functional>
#include <map>

namespace parashard::planner {

/// How the segments of a class table run on many ranks.
struct Layout {
  int64_t coordinates = 1; ///< pipeline coordinates
  int64_t stageStride = 1; ///< distance between the rank numbers of neighboring coordinates
  int64_t shards = 1;      ///< data-parallel ranks
  int64_t chunks = 1;
  std::string schedule; ///< name of a pipeline schedule; empty: the default for `chunks`
  int64_t microBatches = 1;
  int64_t zero = 0; ///< ZeRO stage
  /// Data-parallel ranks of the program from which the table was read. With ZeRO, the kernels of
  /// that program's update compute 1 / `tableShards` of the optimizer step.
  int64_t tableShards = 1;
};

struct LayoutPrice {
  double seconds = 0;               ///< of a step
  Breakdown parts;                  ///< mean over the pipeline coordinates; sums to `seconds`
  double memory = 0;                ///< bytes of the rank that uses the most memory
  std::array<double, 4> memories{}; ///< `memory` of this layout with ZeRO stage 0 to 3
};

/// Finds the cuts between stages, and caches them. The cache pays off because the search for cuts
/// takes longer than pricing a layout, and tables of one model often have segments with the same
/// relative times.
class CutCache {
public:
  /// Returns the first segment of each stage except stage 0. The result does not depend on the
  /// times of the segments.
  using FindCuts =
      std::function<llvm::Expected<llvm::SmallVector<int64_t>>(const schedules::Placement &)>;
  /// Without `findCuts`, `get` balances the load of the coordinates.
  explicit CutCache(FindCuts findCuts = nullptr) : findCuts(std::move(findCuts)) {}

  /// Returns the first segment of each stage except stage 0. Without `findCuts`, the cuts balance
  /// the seconds of the coordinates, or of the stages if the exact search takes too long. Seconds
  /// are rounded to 1/1024 of the longest segment, or to 1/16 of it with more than 64 segments.
  /// Fails if there are fewer segments than stages.
  llvm::Expected<llvm::ArrayRef<int64_t>> get(llvm::ArrayRef<SegmentCost> segments,
                                              const schedules::Placement &placement);

private:
  /// Kind, ranks and chunks of the placement. Without `findCuts`, also the rounded seconds of each
  /// segment, and for each segment except the last, the bytes that a cut after it sends in both
  /// directions (0 with more than 64 segments).
  using Key = std::vector<int64_t>;
  llvm::Expected<llvm::ArrayRef<int64_t>> getFixed(const schedules::Placement &placement,
                                                   int64_t segments);

  std::map<Key, llvm::SmallVector<int64_t>> known;
  FindCuts findCuts;
};

/// Prices the layouts of one class table. The cluster and the cache must outlive the pricer.
class LayoutPricer {
public:
  LayoutPricer(ClassTable table, const costs::Cluster &cluster, CutCache &cache)
      : table(std::move(table)), cluster(cluster), cache(cache) {}

  size_t getSegments() const { return table.segments.size(); }
  /// Prices a layout. A round has as many micro-batches as the model has stages: `coordinates` *
  /// `chunks`. The times of a schedule with many rounds are extrapolated from simulations with
  /// fewer rounds, because each additional round takes the same time. Fails if the schedule does
  /// not fit the layout, or if there are fewer segments than stages.
  llvm::Expected<LayoutPrice> price(const Layout &layout);
  struct Bounds {
    /// Seconds of the busiest coordinate: the time until the first micro-batch arrives (the
    /// forwards of the stages before its first stage), and its own work on all micro-batches.
    /// Includes the messages of the earlier stages, and all messages of the coordinate except the
    /// last. Excludes its later idle time, and communication over data axes.
    double seconds = 0;
    /// Bytes of the rank that uses the most memory, by ZeRO stage: its variables, and the values
    /// that its largest stage saves for the backward of one micro-batch.
    std::array<double, 4> memories{};
  };
  /// Returns lower bounds of a price, without a simulation. Fails like `price`.
  llvm::Expected<Bounds> getBounds(const Layout &layout);

private:
  /// Returns the placement of a layout, and its cuts.
  llvm::Expected<std::pair<schedules::Placement, llvm::ArrayRef<int64_t>>>
  cut(const Layout &layout);

  ClassTable table;
  const costs::Cluster &cluster;
  CutCache &cache;
};

} // namespace parashard::planner

#endif
