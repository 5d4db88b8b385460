// Finds three things for policies: the op that computes each value, the ops of the forward, and the
// weight operands of contractions.
#ifndef PARASHARD_LIB_SHARDING_GRAPHSTRUCTURE_H
#define PARASHARD_LIB_SHARDING_GRAPHSTRUCTURE_H

#include "lib/Sharding/ShardingGraph.h"

namespace parashard::sharding {

/// The structure of `graph`, which must outlive this object. Edges and nodes are passed by index.
class GraphStructure {
public:
  explicit GraphStructure(const ShardingGraph &graph);

  /// Returns the edges of the forward ops that depend on an input, in program order. If there are
  /// none, returns the edges of the ops of `@evaluate` that depend on an input.
  llvm::ArrayRef<unsigned> getForward() const { return forward; }
  bool isForward(unsigned edge) const { return inForward[edge]; }
  /// Returns true for ops of the forward and of `@evaluate` that depend on an input.
  bool isOfModel(unsigned edge) const { return ofModel[edge]; }

  /// Returns the edge of the op or read that computes a value, or -1 for an argument or a variable.
  int getProducer(unsigned node) const { return producer[node]; }
  bool dependsOnInput(unsigned node) const { return fromInput[node]; }

  /// Returns the operand index of a contraction's weight: the only operand that does not depend on
  /// an input. Returns -1 if there is none, or if the edge is not a contraction of two float
  /// tensors.
  int getWeightOperand(unsigned edge) const;
  /// Returns true for a contraction that has a weight.
  bool isContraction(unsigned edge) const { return getWeightOperand(edge) >= 0; }

  /// Returns true for elementwise and movement ops. Their results have the splits of their
  /// operands.
  static bool isPassed(const ShardingEdge &edge);

private:
  void findProducers();
  bool takesInput(const ShardingEdge &edge) const;

  const ShardingGraph &graph;
  std::vector<int> producer;
  std::vector<bool> fromInput, inForward, ofModel;
  std::vector<unsigned> forward;
};

bool areWhole(const TensorSplits &splits);
/// Returns, for each factor of a rule, a split without axes.
llvm::SmallVector<Split> makeWholeFactors(const ps::ShardingRule &rule);

} // namespace parashard::sharding

#endif
