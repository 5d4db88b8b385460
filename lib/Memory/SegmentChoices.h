// Finds the ways to recompute one segment's forward. Each way stores some bytes for backward, and
// takes some time to run ops again.
#ifndef PARASHARD_LIB_MEMORY_SEGMENTCHOICES_H
#define PARASHARD_LIB_MEMORY_SEGMENTCHOICES_H

#include <cstdint>
#include <vector>

namespace parashard::memory {

/// The forward ops of a segment, in execution order.
struct SegmentGraph {
  struct Op {
    int64_t cost = 0;                   ///< time of running the op again, in picoseconds
    bool canRunAgain = true;            ///< false: must not run again, such as a collective
    std::vector<int> operands, results; ///< indices of values
    bool operator==(const Op &) const = default;
    auto operator<=>(const Op &) const = default;
  };
  struct Value {
    int64_t bytes = 0;   ///< bytes needed to save the value; 0 if it is saved anyway
    int producer = -1;   ///< index of an op; -1 if outside of the graph
    bool isUsed = false; ///< used by backward
    auto operator<=>(const Value &) const = default;
  };
  std::vector<Op> ops;
  std::vector<Value> values;
  auto operator<=>(const SegmentGraph &) const = default;
};

/// The ops that run again. Every value that backward or one of these ops uses is either computed by
/// one of these ops, or saved.
struct SegmentChoice {
  int64_t bytes = 0;      ///< bytes saved for backward
  int64_t cost = 0;       ///< time of the ops that run again, in picoseconds
  std::vector<char> runs; ///< per op: 1 if the op runs again
};

/// Returns the choice in which an op runs again if three conditions hold: its results are needed,
/// its entry in `allowed` is 1, and it has `canRunAgain`. `allowed` has one entry per op.
SegmentChoice evaluateChoice(const SegmentGraph &graph, const std::vector<char> &allowed);

/// Returns the Pareto front of choices in bytes and cost, fewest bytes first. The choice without
/// recomputation is last. The front is exact with up to 12 ops that can run again. With more ops,
/// the front is approximate. For up to 24 values of p (the price of a byte), a minimum cut finds
/// the choice with the least p * bytes + cost. A local search then adds and removes ops. (General
/// problem: Jain et al., Checkmate, arXiv 1910.02653.)
std::vector<SegmentChoice> findChoices(const SegmentGraph &graph);

} // namespace parashard::memory

#endif
