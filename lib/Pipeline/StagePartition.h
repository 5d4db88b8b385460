// Where a model's layers are cut into the stages of a pipeline.
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

/// What is cut: layers (segments) in the model's order, and the pipeline that they go to. The lists
/// are the caller's.
struct PartitionProblem {
  llvm::ArrayRef<int64_t> weights; ///< of each layer, at least 0: 1, elements, flops
  llvm::ArrayRef<int64_t> bytes;   ///< i: sent to another rank by a cut between layers i and i + 1
  Placement placement;
  /// Looked at before a search with 3 chunks a rank or more is given up: about a minute.
  int64_t mostStates = int64_t(1) << 28;
};

/// Stages as runs of layers, at least one each.
struct StagePartition {
  /// The first layer of each stage but the first: one less than there are stages.
  llvm::SmallVector<int64_t> cuts;
  int64_t largestLoad = 0; ///< the largest weight of a rank, over all of its stages
  int64_t bytes = 0;       ///< over all cuts whose two stages are on different ranks
};

/// The partition whose largest load is the smallest; among those, one with the fewest bytes; among
/// those, one whose cuts are as near to those of an even split as all of them can be: the largest
/// distance, in weight, of the cut before stage s from s / stages of all weight is the smallest;
/// among those, the one whose list of cuts is the first in lexicographic order.
///
/// Exact. With c chunks a rank and s layers more than stages, a search for one load looks at up to
/// ranks * C(s + 2c - 1, 2c - 1) states: 10^6 for 96 layers on 16 ranks in 2 chunks, 10^8 in 4.
/// With up to 2 chunks it always ends; with more it may be given up. Models of equal blocks with
/// another first and last layer need little of it in any number of chunks.
///
/// Errors: counts below 1, more stages than layers, negative weights or bytes, lists whose lengths
/// do not go together, sums over 2^63 - 2, and a search that is given up.
llvm::Expected<StagePartition> findPartition(const PartitionProblem &problem);

/// The cuts before the modules `names`, for as many stages as `placement` has. `layers` are the
/// module paths of the layers in the model's order, empty where a layer has none. A name is the
/// path of a layer or of a module that holds layers, one after the other: the cut is before the
/// first of them.
///
/// Errors: another number of names than stages - 1, a name of no layer (with the nearest ones) or
/// of layers apart, of the first layer, a layer named twice, names out of order.
llvm::Expected<llvm::SmallVector<int64_t>> findCutsAtNames(llvm::ArrayRef<std::string> layers,
                                                           llvm::ArrayRef<std::string> names,
                                                           const Placement &placement);

} // namespace parashard::pipeline

#endif
