// Builds the graph through which shardings are propagated.
#include "lib/Sharding/ShardingGraph.h"
#include "dialects/ps/Entries.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::sharding {

namespace {
class Builder {
public:
  Builder(ModuleOp module, MeshOp mesh) : module(module) {
    graph.mesh = MeshShape(mesh);
    needsEdges =
        llvm::any_of(graph.mesh.getAxes(), [](AxisAttr axis) { return axis.getSize() > 1; });
  }

  ShardingGraph runOnVariables() {
    for (auto variable : module.getOps<VariableOp>())
      addVariable(variable);
    return std::move(graph);
  }

  ShardingGraph run() {
    for (auto variable : module.getOps<VariableOp>())
      addVariable(variable);
    letEntryStateTakeDataAxes();
    if (needsEdges)
      for (auto variable : module.getOps<VariableOp>())
        tieToOwner(variable);
    for (bool accumulates : {true, false})
      for (auto function : module.getOps<func::FuncOp>())
        if (!function.isExternal() &&
            !function.getFunctionBody().getOps<AccumulateOp>().empty() == accumulates)
          addFunction(function);
    return std::move(graph);
  }

private:
  unsigned addNode(RankedTensorType type, ShardingAttr seed) {
    ShardingNode node;
    node.shape.assign(type.getShape().begin(), type.getShape().end());
    node.bytes = getByteSize(type);
    node.splits = getSplits(seed, node.shape, graph.mesh);
    if (seed) {
      node.fixed = true;
      node.partial.assign(seed.getPartial().begin(), seed.getPartial().end());
    }
    graph.nodes.push_back(std::move(node));
    return graph.nodes.size() - 1;
  }

  void addVariable(VariableOp variable) {
    unsigned node = addNode(variable.getTensorType(), variable.getSharding());
    graph.nodes[node].variable = variable;
    graph.nodes[node].takesDataAxes = false;
    graph.variables[variable.getSymNameAttr()] = node;
  }

  /// Lets the buffers that inference entries write be split over data axes. Example: a KV cache is
  /// split along the batch, like the keys that are written to it.
  void letEntryStateTakeDataAxes() {
    for (auto function : module.getOps<func::FuncOp>())
      if (isInferenceEntry(function))
        for (auto write : function.getOps<WriteOp>())
          if (int variable = findVariable(write.getVariableAttr()); variable >= 0)
            graph.nodes[variable].takesDataAxes = true;
  }

  /// Adds an edge between a gradient, optimizer state, copy or average and its parameter, if the
  /// shapes are equal.
  void tieToOwner(VariableOp variable) {
    if (!variable.getOfAttr())
      return;
    auto owner = graph.variables.find(variable.getOfAttr().getAttr());
    unsigned self = graph.variables[variable.getSymNameAttr()];
    if (owner == graph.variables.end() ||
        graph.nodes[owner->second].shape != graph.nodes[self].shape)
      return;
    addTie(ShardingEdge::Kind::Belongs, variable, owner->second, self, true);
  }

  int addValue(Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type)
      return -1;
    auto [it, isNew] = graph.values.try_emplace(value, graph.nodes.size());
    if (isNew) {
      it->second = addNode(type, ps::getSharding(value));
      graph.nodes[it->second].value = value;
      readLater(value, graph.nodes[it->second]);
    }
    return it->second;
  }

  void readLater(Value value, ShardingNode &node) const {
    auto result = dyn_cast<OpResult>(value);
    auto all = result ? result.getOwner()->getAttrOfType<ArrayAttr>(kLaterShardingsMark) : nullptr;
    if (!all || result.getResultNumber() >= all.size())
      return;
    if (auto sharding = dyn_cast<ShardingAttr>(all[result.getResultNumber()]))
      node.later = getSplits(sharding, node.shape, graph.mesh);
  }

  void addEdge(ShardingEdge edge) {
    unsigned number = graph.edges.size();
    SmallVector<int> all(edge.operands.begin(), edge.operands.end());
    llvm::append_range(all, edge.results);
    for (int node : all)
      if (node >= 0 && !llvm::is_contained(graph.nodes[node].edges, number))
        graph.nodes[node].edges.push_back(number);
    graph.edges.push_back(std::move(edge));
  }

  void addTie(ShardingEdge::Kind kind, Operation *op, int from, int to, bool modelAxesOnly) {
    ShardingEdge edge;
    edge.kind = kind;
    edge.op = op;
    edge.rule.reset(new ShardingRule(ShardingRule::elementwise(graph.nodes[from].shape, 1, 1)));
    edge.operands = {from};
    edge.results = {to};
    edge.modelAxesOnly = modelAxesOnly;
    addEdge(std::move(edge));
  }

  void addFunction(func::FuncOp function) {
    for (BlockArgument argument : function.getArguments())
      addValue(argument);
    for (Operation &op : function.getFunctionBody().front())
      addOp(&op);
  }

  int findVariable(FlatSymbolRefAttr symbol) {
    if (!symbol)
      return -1;
    auto it = graph.variables.find(symbol.getAttr());
    return it == graph.variables.end() ? -1 : int(it->second);
  }

  /// Returns true if the read `op` gathers its variable over the data axes that split the variable.
  /// Parameters and copies are gathered, except by reads in the update.
  bool isGathered(Operation *op, int variable) {
    auto phase = op->getAttrOfType<PhaseAttr>(kPhaseMark);
    VariableKind kind = graph.nodes[variable].variable.getKind();
    return !(phase && phase.getValue() == Phase::Update) &&
           (kind == VariableKind::Parameter || kind == VariableKind::Copy);
  }

  void addOp(Operation *op) {
    for (Value result : op->getResults())
      addValue(result);
    if (!needsEdges)
      return;
    if (auto read = dyn_cast<ReadOp>(op)) {
      if (int variable = findVariable(read.getVariableAttr()); variable >= 0)
        addTie(ShardingEdge::Kind::Read, op, variable, addValue(read.getResult()),
               isGathered(op, variable));
    } else if (auto write = dyn_cast<WriteOp>(op)) {
      if (int variable = findVariable(write.getVariableAttr()); variable >= 0)
        addTie(ShardingEdge::Kind::Write, op, addValue(write.getValue()), variable, false);
    } else if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
      if (int variable = findVariable(accumulate.getVariableAttr()); variable >= 0)
        addTie(ShardingEdge::Kind::Accumulate, op, addValue(accumulate.getValue()), variable,
               false);
    } else if (auto ruled = dyn_cast<ShardingOpInterface>(op)) {
      addRuled(op, std::unique_ptr<const ShardingRule>(new ShardingRule(ruled.getShardingRule())));
    } else if (op->hasTrait<OpTrait::IsTerminator>()) {
      for (Value value : op->getOperands())
        if (int node = addValue(value); node >= 0)
          graph.nodes[node].returned = true;
    }
  }

  void addRuled(Operation *op, std::unique_ptr<const ShardingRule> rule) {
    ShardingEdge edge;
    edge.op = op;
    for (Value operand : op->getOperands().take_front(rule->operands.size()))
      edge.operands.push_back(addValue(operand));
    for (Value result : op->getResults())
      edge.results.push_back(addValue(result));
    bool constant = llvm::all_of(
        edge.operands, [&](int node) { return node < 0 || graph.nodes[node].shape.empty(); });
    for (int node : edge.results)
      if (node >= 0 && !graph.nodes[node].fixed)
        graph.nodes[node].constant = constant;
    bool combines = llvm::any_of(rule->factors, [](const RuleFactor &factor) {
      return factor.kind == RuleFactor::Kind::Reduction;
    });
    edge.priority = combines ? 1 : 0;
    edge.rule = std::move(rule);
    addEdge(std::move(edge));
  }

  ModuleOp module;
  ShardingGraph graph;
  /// False if all axes of the mesh have size 1: without splits to propagate, edges are not needed.
  bool needsEdges = false;
};
} // namespace

bool ShardingEdge::isInUpdate() const {
  auto phase = op->getAttrOfType<PhaseAttr>(kPhaseMark);
  return phase && phase.getValue() == Phase::Update;
}

ShardingGraph ShardingGraph::build(ModuleOp module, MeshOp mesh) {
  return Builder(module, mesh).run();
}

ShardingGraph ShardingGraph::buildVariables(ModuleOp module, MeshOp mesh) {
  return Builder(module, mesh).runOnVariables();
}

ShardingAttr ShardingGraph::getSharding(unsigned node) const {
  return getShardingAttr(nodes[node].splits, nodes[node].partial, mesh);
}

} // namespace parashard::sharding
