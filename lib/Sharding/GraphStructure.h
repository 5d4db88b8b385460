// Gives policies the structure of a graph: forward ops, producers of values, and weight operands.
#ifndef PARASHARD_LIB_SHARDING_GRAPHSTRUCTURE_H
#define PARASHARD_LIB_SHARDING_GRAPHSTRUCTURE_H

#include "lib/Sharding/ShardingGraph.h"

namespace parashard::sharding {

/// The structure of `graph`, which must outlive this object. Edges and nodes are given by index.
class GraphStructure {
public:
  explicit GraphStructure(const ShardingGraph &graph);

  /// Returns the ops of the forward that depend on an input, in program order. Returns those of
  /// `@evaluate` if there is no forward.
  llvm::ArrayRef<unsigned> getForward() const { return forward; }
  bool isForward(unsigned edge) const { return inForward[edge]; }
  /// Returns true for ops of the forward and of `@evaluate`.
  bool isOfModel(unsigned edge) const { return ofModel[edge]; }

  /// Returns the edge that computes a value; -1 for an argument or a variable.
  int getProducer(unsigned node) const { return producer[node]; }
  bool dependsOnInput(unsigned node) const { return fromInput[node]; }

  /// Returns the index of a contraction's weight: the operand that depends only on variables, while
  /// the other depends on an input. Returns -1 if there is no such operand.
  int getWeightOperand(unsigned edge) const;
  bool isContraction(unsigned edge) const { return getWeightOperand(edge) >= 0; }

  /// Returns true for ops that do not mix elements along a split dim.
  static bool isPassed(const ShardingEdge &edge);

private:
  void findProducers();
  bool takesInput(const ShardingEdge &edge) const;

  const ShardingGraph &graph;
  std::vector<int> producer;
  std::vector<bool> fromInput, inForward, ofModel;
  std::vector<unsigned> forward;
};

/// Returns whether no dim is split.
bool areWhole(const TensorSplits &splits);
/// Returns factors for a rule without any splits.
llvm::SmallVector<Split> makeWholeFactors(const ps::ShardingRule &rule);

} // namespace parashard::sharding

#endif
