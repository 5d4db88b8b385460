// Verifies the types and discardable attributes of a module.
#include "dialects/ps/VerifyModule.h"
#include "dialects/ps/Entries.h"
#include "dialects/ps/Ps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "shared/Counts.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace parashard::ps;

namespace {

constexpr int64_t kMostElements = int64_t(1) << 40;
constexpr int64_t kMostDevices = int64_t(1) << 20;
/// Limit of integer attributes. It is far above any real number of segments or stages, but small
/// enough that later arithmetic does not overflow.
constexpr int64_t kMostNumber = int64_t(1) << 40;

LogicalResult checkMarks(Operation *op, DictionaryAttr marks) {
  for (NamedAttribute mark : marks ? marks.getValue() : ArrayRef<NamedAttribute>()) {
    const MarkInfo *info = findMark(mark.getName());
    if (!info || info->check != MarkCheck::Number)
      continue;
    auto number = dyn_cast<IntegerAttr>(mark.getValue());
    if (!number || !number.getType().isInteger(64) || number.getInt() < 0 ||
        number.getInt() > kMostNumber)
      return op->emitOpError("(module_c2) has the attribute ")
             << mark.getName() << " = " << mark.getValue() << ", expected an i64 in [0, 2^40]";
  }
  return success();
}

/// Returns false for unranked or dynamic tensors, and for tensors that are too large. Returns true
/// for types other than tensors.
bool isSupported(Type type) {
  if (auto ref = dyn_cast<RefType>(type))
    type = ref.getTensorType();
  if (isa<UnrankedTensorType>(type))
    return false;
  auto tensor = dyn_cast<RankedTensorType>(type);
  int64_t count = 1;
  return !tensor || llvm::all_of(tensor.getShape(), [&](int64_t size) {
    return size >= 0 && !llvm::MulOverflow(count, std::max<int64_t>(size, 1), count) &&
           count <= kMostElements;
  });
}

LogicalResult checkTypes(Operation *op, TypeRange types) {
  for (Type type : types)
    if (!isSupported(type))
      return op->emitOpError("(module_c1) has a tensor of type ")
             << type << "; expected a static shape of at most 2^40 elements";
  return success();
}

LogicalResult checkFunction(FunctionOpInterface function) {
  if (failed(checkTypes(function, function.getArgumentTypes())) ||
      failed(checkTypes(function, function.getResultTypes())))
    return failure();
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (failed(checkMarks(function, function.getArgAttrDict(i))))
      return failure();
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (failed(checkMarks(function, function.getResultAttrDict(i))))
      return failure();
  return success();
}

LogicalResult checkMesh(MeshOp mesh) {
  int64_t devices = 1;
  for (AxisAttr axis : mesh.getAxes().getAsRange<AxisAttr>())
    if (llvm::MulOverflow(devices, axis.getSize(), devices) || devices > kMostDevices)
      return mesh.emitOpError("(module_c3) has more than 2^20 devices");
  return success();
}

bool isPhaseOf(FunctionOpInterface function, Phase phase) {
  StringRef name = function.getName();
  if (name == "micro_batch")
    return phase <= Phase::BackwardWeight;
  return phase == (name == "count"                                    ? Phase::Forward
                   : name == "evaluate" || isInferenceEntry(function) ? Phase::Evaluate
                                                                      : Phase::Update);
}

LogicalResult checkPhases(FunctionOpInterface function) {
  StringRef name = function.getName();
  bool isChecked = isInferenceEntry(function) ||
                   llvm::is_contained({"count", "micro_batch", "evaluate", "update"}, name);
  if (function.isExternal() || !isChecked)
    return success();
  for (Operation &op : function.getFunctionBody().front()) {
    auto phase = op.getAttrOfType<PhaseAttr>(kPhaseMark);
    if (!phase)
      continue;
    if (!isPhaseOf(function, phase.getValue()))
      return op.emitOpError("(module_c4) has phase ")
             << stringifyPhase(phase.getValue()) << " in @" << name;
    for (Value operand : op.getOperands())
      if (Operation *producer = operand.getDefiningOp())
        if (auto before = producer->getAttrOfType<PhaseAttr>(kPhaseMark);
            before && before.getValue() > phase.getValue())
          return op.emitOpError("(module_c4) of phase ")
                 << stringifyPhase(phase.getValue()) << " reads a value of phase "
                 << stringifyPhase(before.getValue());
  }
  return success();
}

/// Checks shardings. Checks each distinct attribute only once, since many ops share the same
/// attribute.
class ShardingChecker {
public:
  explicit ShardingChecker(MeshOp mesh) : mesh(mesh) {}

  LogicalResult check(Operation *op) {
    for (NamedAttribute attribute : op->getAttrs())
      if (known.insert(attribute.getValue()).second)
        attribute.getValue().walk([&](ShardingAttr sharding) { checkAxes(op, sharding); });
    return failure(hasFailed);
  }

private:
  void checkAxes(Operation *op, ShardingAttr sharding) {
    SmallVector<StringAttr> axes;
    for (DimAttr dim : sharding.getDims())
      for (FactorAttr factor : dim.getFactors())
        llvm::append_range(axes, factor.getAxes());
    for (PartialAttr partial : sharding.getPartial())
      axes.push_back(partial.getAxis());
    for (StringAttr axis : axes)
      if (!hasFailed && (!mesh || mesh.getAxisSize(axis) == 0)) {
        op->emitOpError("(module_c5) has a sharding over axis ")
            << axis << ", which the mesh lacks";
        hasFailed = true;
      }
  }

  MeshOp mesh;
  llvm::DenseSet<Attribute> known;
  bool hasFailed = false;
};

LogicalResult check(Operation *op, ShardingChecker &shardings) {
  if (failed(checkMarks(op, op->getDiscardableAttrDictionary())) ||
      failed(checkTypes(op, op->getResultTypes())) || failed(shardings.check(op)))
    return failure();
  for (Region &region : op->getRegions())
    for (Block &block : region)
      if (failed(checkTypes(op, block.getArgumentTypes())))
        return failure();
  if (auto variable = dyn_cast<VariableOp>(op)) {
    ShardingAttr sharding = variable.getSharding();
    if (sharding && int64_t(sharding.getDims().size()) != variable.getTensorType().getRank())
      return op->emitOpError("(module_c5) has ")
             << parashard::describeCount(variable.getTensorType().getRank(), "dim")
             << ", but its sharding has " << sharding.getDims().size();
    return checkTypes(op, variable.getTensorType());
  }
  if (auto mesh = dyn_cast<MeshOp>(op))
    return checkMesh(mesh);
  auto function = dyn_cast<FunctionOpInterface>(op);
  return failure(function && (failed(checkFunction(function)) || failed(checkPhases(function))));
}

} // namespace

LogicalResult parashard::ps::verifyModule(ModuleOp module) {
  ShardingChecker shardings(getMesh(module));
  WalkResult result = module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    return failed(check(op, shardings)) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}
