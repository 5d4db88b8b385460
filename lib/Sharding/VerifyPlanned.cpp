// ps-verify-planned: checks the constraints of level 2.
#include "dialects/ps/VerifyModule.h"
#include "lib/Sharding/OpSharding.h"
#include "lib/Sharding/Passes.h"
#include "shared/Counts.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::sharding {

#define GEN_PASS_DEF_VERIFYPLANNEDPASS
#include "lib/Sharding/Passes.h.inc"

namespace {

/// Checks these constraints, by label:
///
/// - (planned_c1) the module has a mesh, and all shardings refer to it.
/// - (planned_c2) every tensor value and variable has a sharding with one entry per dim.
/// - (planned_c3) axes are axes of the mesh; each is used at most once per tensor, partial axes
///   included.
/// - (planned_c4) the sizes of a dim's factors multiply to the size of the dim.
/// - (planned_c5) a result is partial only over axes over which its op computes partial results.
/// - (planned_c6) values that a function returns or writes are not partial.
/// - (planned_c7) a value is partial over the same axes as the variable into which it is
///   accumulated.
/// - (planned_c8) if one op of a function has a segment, all ops with a sharding rule have one.
/// - (planned_c9) no tensor is split or partial over the pipeline axis.
class Verifier {
public:
  explicit Verifier(MeshOp mesh) : mesh(mesh) {}

  LogicalResult verify(ModuleOp module) {
    for (auto variable : module.getOps<VariableOp>()) {
      if (failed(check(variable, "variable", variable.getTensorType(), variable.getSharding())))
        return failure();
      variables[variable.getSymNameAttr()] = variable;
    }
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal() && failed(verifyFunction(function)))
        return failure();
    return success();
  }

private:
  LogicalResult check(Operation *op, const Twine &subject, Type type, ShardingAttr sharding) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor)
      return success();
    if (!sharding)
      return op->emitOpError() << subject << " has no sharding (planned_c2)";
    if (sharding.getMesh() != mesh.getSymbol())
      return op->emitOpError() << subject << " is sharded on " << sharding.getMesh()
                               << ", but the module's mesh is " << mesh.getSymbol()
                               << " (planned_c1)";
    if (int64_t(sharding.getDims().size()) != tensor.getRank())
      return op->emitOpError() << subject << " has " << describeCount(tensor.getRank(), "dim")
                               << ", but its sharding has " << sharding.getDims().size()
                               << " (planned_c2)";
    if (sharding == mesh.getReplicated(tensor.getRank())) // fast path for most tensors
      return success();
    if (failed(checkAxes(op, subject, sharding)))
      return failure();
    for (auto [i, dim] : llvm::enumerate(sharding.getDims())) {
      int64_t size = 1;
      for (const SubFactor &factor : getSplit(dim, tensor.getDimSize(i)))
        size *= factor.size;
      if (size != tensor.getDimSize(i))
        return op->emitOpError() << subject << " has size " << tensor.getDimSize(i) << " in dim "
                                 << i << ", but its factors multiply to " << size
                                 << " (planned_c4)";
    }
    return success();
  }

  LogicalResult checkAxes(Operation *op, const Twine &subject, ShardingAttr sharding) {
    SmallVector<StringAttr> used;
    for (unsigned dim = 0; dim < sharding.getDims().size(); ++dim)
      llvm::append_range(used, sharding.getDimAxes(dim));
    for (PartialAttr partial : sharding.getPartial())
      used.push_back(partial.getAxis());
    for (auto [i, axis] : llvm::enumerate(used)) {
      if (!mesh.has(axis))
        return op->emitOpError() << subject << " is sharded over axis " << axis
                                 << ", which the mesh lacks (planned_c3)";
      if (!mesh.splitsTensors(axis))
        return op->emitOpError() << subject << " is sharded over axis " << axis
                                 << " of kind pipeline, whose devices run different stages; axes "
                                    "that split tensors are "
                                 << describe(mesh.listSplittingAxes()) << " (planned_c9)";
      if (llvm::is_contained(ArrayRef(used).take_front(i), axis))
        return op->emitOpError() << subject << " uses axis " << axis << " twice (planned_c3)";
    }
    return success();
  }

  static StringRef describe(StringRef list) { return list.empty() ? "none" : list; }

  LogicalResult verifyFunction(func::FuncOp function) {
    for (BlockArgument argument : function.getArguments())
      if (failed(check(function, "argument " + Twine(argument.getArgNumber()), argument.getType(),
                       getSharding(argument))))
        return failure();
    bool anySegment = false, anyWithout = false;
    for (Operation &op : function.getFunctionBody().front()) {
      if (failed(verifyOp(&op)))
        return failure();
      if (isa<ShardingOpInterface>(op))
        (op.hasAttr(kSegmentMark) ? anySegment : anyWithout) = true;
    }
    if (anySegment && anyWithout)
      return function.emitOpError() << "has ops with and without a segment (planned_c8)";
    return success();
  }

  LogicalResult verifyOp(Operation *op) {
    for (OpResult result : op->getResults())
      if (failed(check(op, "result " + Twine(result.getResultNumber()), result.getType(),
                       getSharding(result))))
        return failure();
    if (op->hasTrait<OpTrait::IsTerminator>())
      return checkNotPartial(op, op->getOperands(), "returns");
    if (auto write = dyn_cast<WriteOp>(op))
      return checkNotPartial(op, write.getValue(), "writes");
    if (auto accumulate = dyn_cast<AccumulateOp>(op))
      return verifyAccumulate(accumulate);
    if (!isa<ShardingOpInterface>(op) || isReplicated(op, mesh))
      return success();
    OpSharding sharding = computeOpSharding(op, mesh);
    for (auto [result, raw] : llvm::zip(op->getResults(), sharding.results))
      for (PartialAttr partial : getSharding(result).getPartial())
        if (mesh.getSize(partial.getAxis()) > 1 && !llvm::is_contained(raw.getPartial(), partial))
          return op->emitOpError()
                 << "result " << result.getResultNumber() << " is marked partial over "
                 << partial.getAxis() << ", but the op computes " << raw << " (planned_c5)";
    return success();
  }

  LogicalResult checkNotPartial(Operation *op, ValueRange values, StringRef verb) {
    for (Value value : values)
      if (ShardingAttr sharding = getSharding(value); sharding && !sharding.getPartial().empty())
        return op->emitOpError() << verb << " a value that is partial over "
                                 << sharding.getPartial().front().getAxis() << " (planned_c6)";
    return success();
  }

  LogicalResult verifyAccumulate(AccumulateOp op) {
    auto it =
        op.getVariableAttr() ? variables.find(op.getVariableAttr().getAttr()) : variables.end();
    ShardingAttr value = getSharding(op.getValue());
    if (it == variables.end() || !value)
      return success();
    ShardingAttr sharding = it->second.getSharding();
    if (value.getPartial() == sharding.getPartial())
      return success();
    InFlightDiagnostic error =
        op.emitOpError() << "accumulates a value sharded " << value << " into a variable sharded "
                         << sharding << ": they are partial over different axes (planned_c7)";
    error.attachNote(it->second.getLoc()) << "variable declared here";
    return error;
  }

  MeshShape mesh;
  llvm::DenseMap<StringAttr, VariableOp> variables;
};

struct VerifyPlannedPass : impl::VerifyPlannedPassBase<VerifyPlannedPass> {
  void runOnOperation() override {
    MeshOp mesh = getMesh(getOperation());
    if (!mesh) {
      getOperation().emitError() << "the module has no ps.mesh; run ps-set-mesh first (planned_c1)";
      return signalPassFailure();
    }
    if (failed(Verifier(mesh).verify(getOperation())) || failed(ps::verifyModule(getOperation())))
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace

} // namespace parashard::sharding
