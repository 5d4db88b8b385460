// Finds the ways to recompute one segment's forward: the bytes that each keeps, and the cost that
// each adds.
#ifndef PARASHARD_LIB_MEMORY_SEGMENTCHOICES_H
#define PARASHARD_LIB_MEMORY_SEGMENTCHOICES_H

#include <cstdint>
#include <vector>

namespace parashard::memory {

/// The forward ops of a segment, in an order in which each op follows the producers of its
/// operands.
struct SegmentGraph {
  struct Op {
    int64_t cost = 0; ///< cost of running the op again
    bool mayRun = true;
    std::vector<int> operands, results; ///< indices of values
    bool operator==(const Op &) const = default;
    auto operator<=>(const Op &) const = default;
  };
  struct Value {
    int64_t bytes = 0;   ///< bytes to keep; 0 if the value exists anyway
    int producer = -1;   ///< index of an op; -1: from outside
    bool isUsed = false; ///< by backward
    auto operator<=>(const Value &) const = default;
  };
  std::vector<Op> ops;
  std::vector<Value> values;
  auto operator<=>(const SegmentGraph &) const = default;
};

/// The ops that run again. A value that backward or such an op uses is then either produced by one
/// of these ops, or kept.
struct SegmentChoice {
  int64_t bytes = 0;      ///< saved bytes
  int64_t cost = 0;       ///< cost of the ops that run again
  std::vector<char> runs; ///< by op
};

/// Returns the choice in which the ops of `may` run again if their results are needed.
SegmentChoice evaluateChoice(const SegmentGraph &graph, const std::vector<char> &may);

/// Returns the Pareto front of choices in bytes and cost. The choice with the fewest bytes is
/// first, and the choice without recomputation last. With up to 12 ops that may run again, the
/// result is complete. With more ops, the result is approximate. For some prices of a byte, one
/// minimum cut finds the choice with the smallest price x bytes + cost. (Jain et al., Checkmate,
/// arXiv 1910.02653, treat the general problem.) A local search of one or two steps then improves
/// these choices. A step removes an op, or adds an op with the ops that it needs.
std::vector<SegmentChoice> findChoices(const SegmentGraph &graph);

} // namespace parashard::memory

#endif
