// What policies ask of a graph: its forward ops, what made a value, which operand is a weight.
#ifndef PARASHARD_LIB_SHARDING_GRAPHSTRUCTURE_H
#define PARASHARD_LIB_SHARDING_GRAPHSTRUCTURE_H

#include "lib/Sharding/ShardingGraph.h"

namespace parashard::ps {

/// Reads the structure of `graph`, which must outlive it. Edges and nodes are named by number.
class GraphStructure {
public:
  explicit GraphStructure(const ShardingGraph &graph);

  /// The ops of the forward that depend on an input, in program order; those of `@evaluate` when
  /// there are no others.
  llvm::ArrayRef<unsigned> getForward() const { return forward; }
  bool isForward(unsigned edge) const { return inForward[edge]; }
  /// Ops of the forward and of `@evaluate` alike.
  bool isOfModel(unsigned edge) const { return ofModel[edge]; }

  /// The edge that yields a value; -1 for an argument or a variable.
  int getProducer(unsigned node) const { return producer[node]; }
  bool dependsOnInput(unsigned node) const { return fromInput[node]; }

  /// The operand of a contraction that depends on variables alone, when the other does not; else
  /// -1.
  int getWeightOperand(unsigned edge) const;
  bool isContraction(unsigned edge) const { return getWeightOperand(edge) >= 0; }

  /// Ops that do not mix elements along what is split.
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
/// Every factor of a rule whole.
llvm::SmallVector<Split> makeWholeFactors(const ShardingRule &rule);

} // namespace parashard::ps

#endif
