// Plans which rank writes which part of each tensor to a checkpoint, so that each element is
// written once.
#ifndef PSRT_SESSION_SHARDS_H
#define PSRT_SESSION_SHARDS_H

#include "runtime/session/NamedTensors.h"

namespace psrt {

/// Indices [begin, end) of a dim.
struct IndexRange {
  int64_t begin = 0, end = 0;
};
/// For each dim, sorted ranges of indices. An element is selected if each of its indices is in a
/// range of its dim.
using IndexRanges = std::vector<std::vector<IndexRange>>;
/// Returns the number of selected indices of each dim.
std::vector<int64_t> shapeOf(const IndexRanges &ranges);

/// The part of a variable that one rank writes.
struct Shard {
  const NamedTensor *tensor = nullptr;
  int variable = 0;
  std::string key;    ///< name in the rank's file
  IndexRanges ranges; ///< relative to the whole tensor
  /// Whether the variable is a sum over ranks. Rank 0 then gathers the sum and writes it.
  bool isCollected = false;
};

/// Returns the shards that each rank writes; every process gets the same result. If several groups
/// of ranks hold the variable, the group whose first rank has the fewest bytes so far writes the
/// variable.
std::vector<std::vector<Shard>> planShards(const Program &program,
                                           const std::vector<const NamedTensor *> &tensors);

/// Copies a rank's shard of a variable, row-major and without padding.
void copyShard(const Program &program, const Rank &rank, const Variable &variable, char *to);

} // namespace psrt

#endif
