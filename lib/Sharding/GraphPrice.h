// Predicts the time of a step from the shardings of a graph, without building the program.
#ifndef PARASHARD_LIB_SHARDING_GRAPHPRICE_H
#define PARASHARD_LIB_SHARDING_GRAPHPRICE_H

#include "lib/IR/OpTimes.h"
#include "lib/Sharding/EdgeShardings.h"
#include <map>

namespace parashard::sharding {

struct GraphPrice {
  /// Seconds of one micro-batch on one rank, plus `kStepShare` times the seconds of the update. For
  /// a module that only evaluates: the seconds of one evaluation.
  double seconds = 0;
  /// Bytes of the variables and of the values that forward keeps for backward, on one rank.
  double bytes = 0;
};

/// Prices the current shardings of one graph. The shardings may change between calls. The price of
/// an op depends on its local types (from `computeOpSharding`), and the price of a reshard on its
/// collectives. A value is assumed to be in memory in three cases: no op computes the value, a
/// library call computes it, or one of its users is not a fused op of the same phase. The graph
/// must have edges. The graph and the cluster must outlive the pricer.
class GraphPricer {
public:
  /// `known` must outlive the pricer.
  GraphPricer(const ShardingGraph &graph, const costs::Cluster &cluster, EdgeShardings &known);

  /// Returns the price of the current splits and partial values (`choosePartials`).
  GraphPrice get();
  /// Returns the edges of the forward ops whose results are reduced over an axis, as of the last
  /// call of `get`. If the module only evaluates, returns the edges of such ops of the evaluation.
  llvm::ArrayRef<unsigned> getReduced() const { return reduced; }

private:
  /// Number of reads and writes of a node's local bytes per micro-batch.
  struct Traffic {
    double passes = 0;
    bool isSaved = false; ///< kept from forward to backward
  };
  double getWeight(std::optional<ps::Phase> phase) const;
  double getWeight(const ShardingEdge &edge) const;
  bool isOfForward(const ShardingEdge &edge) const;
  void findTraffic();
  double getCallSeconds(unsigned edge, const OpSharding &sharding);
  double getReshardSeconds(unsigned node, ps::ShardingAttr from, ps::ShardingAttr to);
  double priceEdge(unsigned edge);

  const ShardingGraph &graph;
  ps::MeshOp mesh;
  ir::OpTimes times;
  std::vector<Traffic> traffic;            ///< by node
  std::vector<ps::ShardingAttr> shardings; ///< by node, for the current call of `get`
  EdgeShardings &known;
  /// By edge and element of `known`.
  llvm::DenseMap<std::pair<unsigned, const OpSharding *>, double> callSeconds;
  std::vector<char> isCall; ///< by edge: 1 for a library call
  bool isInference = false; ///< the module has no forward, only `@evaluate`
  using Reshard = std::tuple<unsigned, const void *, const void *>;
  std::map<Reshard, double> reshards; ///< seconds of each reshard
  std::map<Reshard, double> paid; ///< weights of the reshards already priced in the current `get`
  std::vector<unsigned> reduced;
};

} // namespace parashard::sharding

#endif
