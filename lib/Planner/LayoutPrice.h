// Prices a layout from a class table: the time of its step, and the memory of its fullest rank.
#ifndef PARASHARD_LIB_PLANNER_LAYOUTPRICE_H
#define PARASHARD_LIB_PLANNER_LAYOUTPRICE_H

#include "lib/Planner/ClassTable.h"
#include "lib/Schedules/Placement.h"
#include <map>

namespace parashard::planner {

/// How the segments of a class table run on many ranks.
struct Layout {
  int64_t stages = 1;      ///< pipeline coordinates
  int64_t stageStride = 1; ///< distance between the rank numbers of neighbors
  int64_t shards = 1;      ///< data-parallel ranks
  int64_t chunks = 1;
  std::string schedule; ///< name of a pipeline schedule; empty: the default for `chunks`
  int64_t microBatches = 1;
  int64_t zero = 0; ///< ZeRO stage
  /// Data-parallel ranks of the program that the table was read from. The update's kernels of that
  /// program already work on one of so many shards if `isUpdateSplit` is set.
  int64_t tableShards = 1;
  bool isUpdateSplit = false;
};

struct LayoutPrice {
  double seconds = 0; ///< of a step
  Breakdown parts;    ///< mean over the pipeline coordinates; sums to `seconds`
  double memory = 0;  ///< bytes of the fullest rank
};

/// Prices the layouts of one class table.
class LayoutPricer {
public:
  LayoutPricer(ClassTable table, const costs::Cluster &cluster)
      : table(std::move(table)), cluster(cluster) {}

  size_t getSegments() const { return table.segments.size(); }
  /// The cuts balance the seconds of the stages. Fails if the schedule does not fit the layout, or
  /// if there are fewer segments than stages.
  llvm::Expected<LayoutPrice> price(const Layout &layout);

private:
  llvm::Expected<llvm::SmallVector<int64_t>> getCuts(const schedules::Placement &placement);

  ClassTable table;
  const costs::Cluster &cluster;
  /// By kind, ranks and chunks of the placement.
  std::map<std::tuple<schedules::PlacementKind, int64_t, int64_t>, llvm::SmallVector<int64_t>> cuts;
};

} // namespace parashard::planner

#endif
