// Chooses where a model's layers are cut into the stages of a pipeline.
#ifndef PARASHARD_LIB_PIPELINE_STAGEPARTITION_H
#define PARASHARD_LIB_PIPELINE_STAGEPARTITION_H

#include "lib/Schedules/Placement.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace parashard::pipeline {

using schedules::Placement;
using schedules::PlacementKind;

/// The layers (segments) in model order, and the pipeline that runs them. A rank here is a pipeline
/// coordinate, as in Placement.h. The caller owns the lists.
struct PartitionProblem {
  llvm::ArrayRef<int64_t>
      weights; ///< per layer, at least 0; such as 1, the layer's parameters or its flops
  llvm::ArrayRef<int64_t> bytes; ///< [i]: bytes sent over a cut between layers i and i + 1
  Placement placement;
  /// A search with 3 or more chunks per rank gives up after this many states (about a minute).
  int64_t maxStates = int64_t(1) << 28;
};

/// Stages of consecutive layers, with at least one layer per stage.
struct StagePartition {
  /// The first layer of each stage except stage 0.
  llvm::SmallVector<int64_t> cuts;
  /// Largest load of a rank. The load of a rank is the sum of the weights of its layers.
  int64_t largestLoad = 0;
  int64_t bytes = 0; ///< bytes sent at all cuts between different ranks
};

/// Returns the partition that minimizes the largest load. Ties are resolved in this order:
/// - the fewest bytes;
/// - the most even cuts. The cut before stage s is even if the layers before the cut have the
///   fraction s / (number of stages) of the total weight. The distance of a cut from its even
///   position is measured in weight; the largest distance is minimized;
/// - the lexicographically first list of cuts.
///
/// Example: weights 1 1 1 1 4 on 2 ranks with 1 chunk each give the cut 4, with loads 4 and 4.
///
/// The search is exact, but may give up with more than 2 chunks per rank. For each limit of the
/// load that the search tries, it visits at most ranks * C(s + 2c - 1, 2c - 1) states. Here, c is
/// the number of chunks per rank, and s = layers - stages. Example: 96 layers on 16 ranks need at
/// most 8 * 10^5 states with 2 chunks, and 2.5 * 10^8 with 4. Models of equal blocks need few
/// states.
///
/// Fails for counts below 1, more stages than layers, negative weights or bytes, lists whose
/// lengths do not match, sums above 2^63 - 2, and a search that gives up.
llvm::Expected<StagePartition> findPartition(const PartitionProblem &problem);

/// Returns true if a split method balances the loads of the coordinates: uniform, parameters, flops
/// or time. Returns false for a list of modules.
bool isBalanced(llvm::StringRef method);

/// Returns the cuts before the modules `names`, one per stage of `placement` except stage 0.
/// `layers` are the module paths of the layers in model order, empty for a layer without a path. A
/// name is the path of a layer, or of a module with consecutive layers. In the second case, the cut
/// is before the first layer of the module.
///
/// Fails unless there is one name per cut, and the cuts are above 0 and ascending. If a name
/// matches no layer, the error lists the nearest names.
llvm::Expected<llvm::SmallVector<int64_t>> findCutsAtNames(llvm::ArrayRef<std::string> layers,
                                                           llvm::ArrayRef<std::string> names,
                                                           const Placement &placement);

} // namespace parashard::pipeline

#endif
