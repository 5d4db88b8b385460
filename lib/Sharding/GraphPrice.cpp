// Prices the ops, the memory traffic and the reshards of a graph.
#include "lib/Sharding/GraphPrice.h"
#include "lib/Sharding/GraphStructure.h"
#include "lib/Sharding/Propagation.h"
#include "lib/Sharding/Reshard.h"
#include <set>

using namespace mlir;
using namespace parashard::ps;

namespace parashard::sharding {

static std::optional<Phase> getPhase(const ShardingEdge &edge) {
  auto phase = edge.op->getAttrOfType<PhaseAttr>(kPhaseMark);
  return phase ? std::optional(phase.getValue()) : std::nullopt;
}

static bool isLibraryCall(const ShardingEdge &edge) {
  auto priced = dyn_cast<CostOpInterface>(edge.op);
  return edge.kind == ShardingEdge::Kind::Op && priced &&
         priced.getCost(edge.op->getOperandTypes(), edge.op->getResultTypes()).contractionFlops > 0;
}

GraphPricer::GraphPricer(const ShardingGraph &graph, const costs::Cluster &cluster,
                         EdgeShardings &known)
    : graph(graph), mesh(getMesh(graph.edges.front().op)), times(cluster, mesh),
      traffic(graph.nodes.size()), known(known), isCall(graph.edges.size()) {
  isInference = llvm::none_of(graph.edges, [](const ShardingEdge &edge) {
    return edge.kind == ShardingEdge::Kind::Op &&
           getPhase(edge).value_or(Phase::Forward) == Phase::Forward;
  });
  findTraffic();
}

double GraphPricer::getWeight(std::optional<Phase> phase) const {
  if (phase == Phase::Evaluate)
    return isInference ? 1 : 0;
  return phase == Phase::Update ? kStepShare : 1;
}

bool GraphPricer::isOfForward(const ShardingEdge &edge) const {
  Phase phase = getPhase(edge).value_or(Phase::Forward);
  return phase == Phase::Forward || (isInference && phase == Phase::Evaluate);
}

double GraphPricer::getWeight(const ShardingEdge &edge) const {
  return edge.kind == ShardingEdge::Kind::Belongs ? 0 : getWeight(getPhase(edge));
}

/// Counts how often kernels read and write each node. Fused ops of the same phase read a value only
/// once.
void GraphPricer::findTraffic() {
  std::vector<std::optional<unsigned>> producers(graph.nodes.size());
  for (auto [i, edge] : llvm::enumerate(graph.edges)) {
    isCall[i] = isLibraryCall(edge);
    if (edge.kind == ShardingEdge::Kind::Op)
      for (int result : edge.results)
        if (result >= 0)
          producers[result] = i;
  }
  for (auto [number, node] : llvm::enumerate(graph.nodes)) {
    if (!node.value)
      continue;
    std::optional<unsigned> producer = producers[number];
    std::optional<Phase> made = producer ? getPhase(graph.edges[*producer]) : std::nullopt;
    std::set<std::optional<Phase>> fusedReaders;
    bool isStored = !producer || isCall[*producer];
    double passes = 0;
    for (unsigned use : node.edges) {
      const ShardingEdge &edge = graph.edges[use];
      if (!llvm::is_contained(edge.operands, int(number)))
        continue;
      std::optional<Phase> phase = getPhase(edge);
      if (edge.kind == ShardingEdge::Kind::Accumulate)
        passes += 2; // reads and writes the accumulated sum
      else if (edge.kind == ShardingEdge::Kind::Write)
        passes += getWeight(edge);
      bool isFused = edge.kind == ShardingEdge::Kind::Op && GraphStructure::isPassed(edge);
      isStored |= edge.kind == ShardingEdge::Kind::Op && (!isFused || phase != made);
      traffic[number].isSaved |= made == Phase::Forward && phase && phase != made;
      if (edge.kind == ShardingEdge::Kind::Op && !isCall[use])
        fusedReaders.insert(phase);
    }
    if (isStored) {
      for (std::optional<Phase> phase : fusedReaders)
        passes += getWeight(phase);
      if (producer && !isCall[*producer] && !node.constant)
        passes += getWeight(graph.edges[*producer]);
    }
    traffic[number].passes = passes;
  }
}

static Type getLocal(Type type, ShardingAttr sharding, MeshOp mesh) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && sharding ? getLocalType(tensor, sharding, mesh) : type;
}

double GraphPricer::getCallSeconds(unsigned number, const OpSharding &sharding) {
  const ShardingEdge &edge = graph.edges[number];
  auto [seconds, isNew] = callSeconds.try_emplace({number, &sharding}, 0);
  if (!isNew)
    return seconds->second;
  SmallVector<Type> operands, results;
  for (auto [i, type] : llvm::enumerate(edge.op->getOperandTypes()))
    operands.push_back(i < sharding.operands.size() ? getLocal(type, sharding.operands[i], mesh)
                                                    : type);
  for (auto [type, result] : llvm::zip(edge.op->getResultTypes(), sharding.results))
    results.push_back(getLocal(type, result, mesh));
  costs::Call call =
      ir::getContractions(cast<CostOpInterface>(edge.op).getCost(operands, results), operands);
  call.bytes = double(ir::sumBytes(operands) + ir::sumBytes(results));
  return seconds->second = costs::getSeconds(times.getCluster().device, call);
}

double GraphPricer::getReshardSeconds(unsigned number, ShardingAttr from, ShardingAttr to) {
  auto [known, isNew] =
      reshards.try_emplace({number, from.getAsOpaquePointer(), to.getAsOpaquePointer()});
  if (!isNew)
    return known->second;
  const ShardingNode &node = graph.nodes[number];
  auto count = [](ArrayRef<int64_t> shape) {
    double elements = 1;
    for (int64_t size : shape)
      elements *= double(size);
    return elements;
  };
  double elements = 1;
  for (const Split &split : getSplits(from, node.shape, graph.mesh))
    elements *= double(getLocalSize(split, graph.mesh));
  double bytes = double(node.bytes) / std::max(count(node.shape), 1.0);
  for (const ReshardStep &step : planReshard(node.shape, from, to, graph.mesh)) {
    double after = count(step.shape);
    std::optional<costs::Collective> collective;
    if (step.kind == ReshardStep::Kind::AllReduce)
      collective = costs::Collective::AllReduce;
    else if (step.kind == ReshardStep::Kind::ReduceScatter)
      collective = costs::Collective::ReduceScatter;
    else if (step.kind == ReshardStep::Kind::AllGather)
      collective = costs::Collective::AllGather;
    else if (step.kind == ReshardStep::Kind::AllToAll)
      collective = costs::Collective::AllToAll;
    if (collective)
      known->second +=
          times.getCollectiveSeconds(*collective, step.axes, bytes * std::max(elements, after));
    elements = after;
  }
  return known->second;
}

/// Returns the weighted seconds of an edge: of its library call, if any, and of the reshards of its
/// operands and results. If several ops need a value with the same sharding, the value is resharded
/// only once.
double GraphPricer::priceEdge(unsigned number) {
  const ShardingEdge &edge = graph.edges[number];
  double weight = getWeight(edge), seconds = 0;
  auto addReshard = [&](int node, ShardingAttr from, ShardingAttr to) {
    if (node < 0 || from == to || weight == 0)
      return;
    double &before = paid[{unsigned(node), from.getAsOpaquePointer(), to.getAsOpaquePointer()}];
    if (weight <= before)
      return;
    seconds += (weight - before) * getReshardSeconds(unsigned(node), from, to);
    before = weight;
  };
  if (edge.kind != ShardingEdge::Kind::Op) {
    if (edge.kind != ShardingEdge::Kind::Belongs)
      addReshard(edge.results[0], shardings[edge.operands[0]], shardings[edge.results[0]]);
    return seconds;
  }
  const OpSharding &run = known.get(number, shardings);
  if (isCall[number] && weight > 0)
    seconds += weight * getCallSeconds(number, run);
  for (auto [node, needed] : llvm::zip(edge.operands, run.operands))
    if (node >= 0)
      addReshard(node, shardings[node], needed);
  for (auto [node, computed] : llvm::zip(edge.results, run.results)) {
    if (node < 0)
      continue;
    addReshard(node, computed, shardings[node]);
    if (computed.getPartial().size() > shardings[node].getPartial().size() && isOfForward(edge))
      reduced.push_back(number);
  }
  return seconds;
}

GraphPrice GraphPricer::get() {
  GraphPrice price;
  paid.clear();
  reduced.clear();
  const costs::Device &device = times.getCluster().device;
  double bandwidth = device.memoryBandwidth * device.elementwiseEfficiency;
  shardings = known.getNodes();
  for (auto [i, node] : llvm::enumerate(graph.nodes)) {
    double bytes = double(node.bytes);
    for (auto [split, size] : llvm::zip(node.splits, node.shape))
      bytes *= double(getLocalSize(split, graph.mesh)) / double(std::max<int64_t>(size, 1));
    price.seconds += traffic[i].passes * bytes / bandwidth;
    if (node.variable || traffic[i].isSaved)
      price.bytes += bytes;
  }
  for (unsigned i = 0; i < graph.edges.size(); ++i)
    price.seconds += priceEdge(i);
  return price;
}

} // namespace parashard::sharding
