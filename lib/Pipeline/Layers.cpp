// Computes the costs of segments: parameters, flops, saved bytes, and bytes sent over cuts.
#include "lib/Pipeline/Layers.h"
#include "lib/IR/Cloneable.h"
#include "lib/IR/ModulePath.h"
#include "lib/Partition/CheapValues.h"
#include "lib/Pipeline/LocalCost.h"
#include "lib/Pipeline/StagePartition.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::partition;
using namespace parashard::ps;

namespace parashard::pipeline {

namespace {
class Weigher {
public:
  Weigher(func::FuncOp function, const costs::Device &device)
      : function(function), device(device), mesh(getMesh(function->getParentOfType<ModuleOp>())),
        cloneable(findCloneableOps(function)), cheap(function) {}

  std::vector<Layer> weigh() {
    for (Operation &op : function.getBody().front().without_terminator())
      if (std::optional<int64_t> segment = getSegment(&op); segment && !cloneable.contains(&op)) {
        if (*segment >= int64_t(layers.size()))
          layers.resize(*segment + 1);
        addOp(layers[*segment], &op);
      }
    crossings.resize(layers.size() + 1);
    for (Operation &op : function.getBody().front().without_terminator())
      if (!cloneable.contains(&op))
        for (Value result : op.getResults())
          addUses(result);
    int64_t crossing = 0;
    for (auto [i, layer] : llvm::enumerate(layers)) {
      crossing += crossings[i];
      layer.boundaryBytes = crossing;
    }
    return std::move(layers);
  }

private:
  static int64_t &getFlops(Layer &layer, Operation *op) {
    if (!isBackward(op))
      return layer.forwardFlops;
    bool isWeight = op->getAttrOfType<PhaseAttr>(kPhaseMark).getValue() == Phase::BackwardWeight;
    return isWeight ? layer.backwardWeightFlops : layer.backwardInputFlops;
  }

  void addOp(Layer &layer, Operation *op) {
    OpCost cost = getLocalCost(op, mesh);
    getFlops(layer, op) += cost.contractionFlops + cost.otherFlops;
    layer.seconds += getLocalSeconds(op, mesh, device);
    if (isBackward(op))
      return;
    bool reads = false;
    for (Value operand : op->getOperands())
      reads |= addParameters(layer, operand.getDefiningOp());
    std::optional<StringRef> path = getModulePath(op->getLoc());
    if (!path || path->empty())
      return;
    if (!llvm::is_contained(layer.modules, *path))
      layer.modules.push_back(path->str());
    name(layer, *path, reads);
  }

  /// Names a layer after one of its ops. Prefers ops that read parameters, then ops in a block,
  /// then earlier ops. For an op in a block, the name is the path of the block.
  void name(Layer &layer, StringRef path, bool reads) {
    bool &byReader = namedByReader[&layer - layers.data()];
    StringRef block = getBlockOfPath(path);
    bool isBetter = layer.name.empty() || (reads && !byReader) ||
                    (reads == byReader && !block.empty() && getBlockOfPath(layer.name).empty());
    if (!isBetter)
      return;
    layer.name = block.empty() ? path.str() : block.str();
    byReader = reads;
  }

  /// Adds the parameters from which `producer` is computed by cloneable ops. Returns true if there
  /// are any.
  bool addParameters(Layer &layer, Operation *producer) {
    if (!producer || !cloneable.contains(producer))
      return false;
    bool found = false;
    for (Value operand : producer->getOperands())
      found |= addParameters(layer, operand.getDefiningOp());
    auto read = dyn_cast<ReadOp>(producer);
    if (!read)
      return found;
    auto variable =
        SymbolTable::lookupNearestSymbolFrom<VariableOp>(read, read.getVariableAttr().getAttr());
    if (!variable || variable.getKind() != VariableKind::Parameter)
      return false;
    if (counted.insert({&layer - layers.data(), read.getVariableAttr()}).second)
      layer.parameters +=
          cast<RankedTensorType>(getLocalType(read.getResult(), mesh)).getNumElements();
    return true;
  }

  /// Adds the bytes of a value to the saved bytes of its layer if backward uses the value, and to
  /// the bytes of each cut between its producer and its users.
  void addUses(Value value) {
    std::optional<int64_t> home = getSegment(value.getDefiningOp());
    if (!home || !isa<RankedTensorType>(value.getType()))
      return;
    int64_t bytes = getByteSize(getLocalType(value, mesh));
    int64_t first = *home, last = *home;
    bool isForward = !isBackward(value.getDefiningOp()), saved = false;
    for (Operation *user : value.getUsers()) {
      std::optional<int64_t> segment = getSegment(user);
      if (!segment || cloneable.contains(user))
        continue;
      first = std::min(first, *segment);
      last = std::max(last, *segment);
      saved |= isForward && isBackward(user);
    }
    if (saved)
      layers[*home].activationBytes += bytes;
    if (first == last || (isForward && cheap.isCheap(value)))
      return;
    crossings[first] += bytes;
    crossings[last] -= bytes;
  }

  func::FuncOp function;
  const costs::Device &device;
  MeshOp mesh;
  DenseSet<Operation *> cloneable;
  CheapValues cheap;
  std::vector<Layer> layers;
  /// By layer: the bytes sent over a cut after the layer, minus the bytes sent over a cut before
  /// the layer.
  std::vector<int64_t> crossings;
  llvm::DenseSet<std::pair<int64_t, Attribute>> counted;
  llvm::DenseMap<int64_t, bool> namedByReader; ///< by layer: true if the named op reads parameters
};
} // namespace

std::vector<Layer> findLayers(func::FuncOp function, const costs::Device &device) {
  return Weigher(function, device).weigh();
}

std::vector<StageCost> addUpStages(ArrayRef<Layer> layers, const Stages &stages) {
  std::vector<StageCost> costs(stages.getCount());
  for (auto [i, layer] : llvm::enumerate(layers)) {
    StageCost &cost = costs[stages.getStage(i)];
    cost.forward += layer.forwardFlops;
    cost.backwardInput += layer.backwardInputFlops;
    cost.backwardWeight += layer.backwardWeightFlops;
    cost.savedBytes += layer.activationBytes;
    cost.cutBytes = layer.boundaryBytes; // the last layer of the stage determines the value
  }
  costs.back().cutBytes = 0;
  return costs;
}

func::FuncOp getCutFunction(ModuleOp module) {
  for (StringRef name : {"micro_batch", "evaluate"})
    if (auto function = module.lookupSymbol<func::FuncOp>(name))
      return function;
  return {};
}

/// Returns an error message if the module `name` is inside a layer, or "" otherwise. Example:
/// "module 'lm_head' is inside the layer 'transformer.ln_f', ...".
static std::string describeInside(ArrayRef<Layer> layers, StringRef name) {
  auto isWithin = [](StringRef path, StringRef module) {
    return path == module || (path.starts_with(module) && path[module.size()] == '.');
  };
  if (name.empty())
    return "";
  for (const Layer &layer : layers)
    if (isWithin(layer.name, name) || isWithin(name, layer.name))
      return "";
  for (const Layer &layer : layers)
    if (llvm::any_of(layer.modules, [&](StringRef path) { return isWithin(path, name); }))
      return ("module '" + name + "' is inside the layer '" + layer.name +
              "', which cannot be cut; give the path of a layer")
          .str();
  return "";
}

llvm::Expected<SmallVector<int64_t>> findCuts(ArrayRef<Layer> layers, StringRef method,
                                              const schedules::Placement &placement) {
  if (!isBalanced(method)) {
    std::vector<std::string> paths, names;
    for (const Layer &layer : layers)
      paths.push_back(layer.name);
    for (StringRef name : llvm::split(method, ','))
      names.push_back(name.trim().str());
    auto cuts = findCutsAtNames(paths, names, placement);
    if (cuts)
      return cuts;
    std::string message = llvm::toString(cuts.takeError());
    for (const std::string &name : names)
      if (std::string inside = describeInside(layers, name); !inside.empty())
        message = inside;
    return llvm::createStringError(
        message + " (methods are uniform, parameters, flops, time, or module paths)");
  }
  constexpr double kPerSecond = 1e9; // weights are integers: times are converted to nanoseconds
  std::vector<int64_t> weights, bytes;
  for (const Layer &layer : layers) {
    weights.push_back(method == "parameters" ? layer.parameters
                      : method == "flops"    ? layer.forwardFlops + layer.getBackwardFlops()
                      : method == "time"     ? int64_t(layer.seconds * kPerSecond)
                                             : 1);
    bytes.push_back(layer.boundaryBytes);
  }
  bytes.pop_back();
  PartitionProblem problem;
  problem.weights = weights;
  problem.bytes = bytes;
  problem.placement = placement;
  auto found = findPartition(problem);
  if (!found)
    return found.takeError();
  return found->cuts;
}

} // namespace parashard::pipeline
