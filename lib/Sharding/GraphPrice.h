// Predicts the time of a step from the shardings of a graph, without building the program.
#ifndef PARASHARD_LIB_SHARDING_GRAPHPRICE_H
#define PARASHARD_LIB_SHARDING_GRAPHPRICE_H

#include "lib/IR/OpTimes.h"
#include "lib/Sharding/EdgeShardings.h"
#include <map>

namespace parashard::sharding {

struct GraphPrice {
  /// Seconds of one micro-batch on one rank, and of a share of the update (`kStepShare`). If the
  /// module only evaluates: of one evaluation.
  double seconds = 0;
  /// Bytes of the variables and of the values that forward keeps for backward, on one rank.
  double bytes = 0;
};

/// Prices the shardings of one graph, which may change between calls. An op is priced on the local
/// types that `computeOpSharding` gives it, a reshard by its collectives. A value counts as written
/// to memory if something else than a fused op of the same phase uses it. The graph, which must
/// have edges, and the cluster must outlive the pricer.
class GraphPricer {
public:
  /// `known` must outlive the pricer.
  GraphPricer(const ShardingGraph &graph, const costs::Cluster &cluster, EdgeShardings &known);

  /// Returns the price of the present splits and partial values (`choosePartials`).
  GraphPrice get();
  /// Returns the ops of the forward (or of an evaluation alone) whose results the last `get`
  /// reduced over an axis.
  llvm::ArrayRef<unsigned> getReduced() const { return reduced; }

private:
  /// Passes over the memory of a node's local bytes, per micro-batch.
  struct Traffic {
    double passes = 0;
    bool isSaved = false; ///< kept from forward to backward
  };
  double getWeight(std::optional<ps::Phase> phase) const;
  double getWeight(const ShardingEdge &edge) const;
  bool isOfForward(const ShardingEdge &edge) const;
  void findTraffic();
  double getCallSeconds(const ShardingEdge &edge, const OpSharding &sharding);
  double getReshardSeconds(unsigned node, ps::ShardingAttr from, ps::ShardingAttr to);
  double priceEdge(unsigned edge);

  const ShardingGraph &graph;
  ps::MeshOp mesh;
  ir::OpTimes times;
  std::vector<Traffic> traffic;            ///< by node
  std::vector<ps::ShardingAttr> shardings; ///< by node, of the present `get`
  EdgeShardings &known;
  llvm::DenseMap<const OpSharding *, double> callSeconds; ///< of `known`
  std::vector<char> isCall;                               ///< by edge: a library call
  bool isInference = false; ///< the module has no forward, only `@evaluate`
  using Reshard = std::tuple<unsigned, const void *, const void *>;
  std::map<Reshard, double> reshards;
  std::map<Reshard, double> paid; ///< weights of the reshards of the present `get`
  std::vector<unsigned> reduced;
};

} // namespace parashard::sharding

#endif
