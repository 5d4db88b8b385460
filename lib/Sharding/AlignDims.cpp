// ps-align-dims: pads dims of weights to sizes that make matmuls faster.
#include "lib/Sharding/Passes.h"
#include "lib/Sharding/Reasons.h"
#include "shared/Counts.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace parashard::sharding {

#define GEN_PASS_DEF_ALIGNDIMSPASS
#include "lib/Sharding/Passes.h.inc"

namespace {
/// A parameter that a matmul reads, possibly transposed: dim i of the matmul's operand is dim
/// `dims[i]` of `variable`.
struct Weight {
  ps::VariableOp variable;
  SmallVector<int64_t> dims;
};

/// Returns the parameter from which a value is read. The value may be converted or transposed after
/// the read. If the value is read from a copy, returns the parameter of the copy. Returns nullopt
/// for other values.
std::optional<Weight> findWeight(Value value, const SymbolTable &symbols) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return std::nullopt;
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  while (Operation *op = value.getDefiningOp()) {
    if (auto read = dyn_cast<ps::ReadOp>(op)) {
      auto variable = symbols.lookup<ps::VariableOp>(read.getVariableAttr().getValue());
      if (variable && variable.getKind() == ps::VariableKind::Copy)
        variable = symbols.lookup<ps::VariableOp>(variable.getOfAttr().getValue());
      bool isWeight = variable && variable.getKind() == ps::VariableKind::Parameter &&
                      variable.getTensorType().getRank() == type.getRank();
      return isWeight ? std::optional(Weight{variable, dims}) : std::nullopt;
    }
    if (auto transpose = dyn_cast<ps::TransposeOp>(op)) {
      for (int64_t &dim : dims)
        dim = transpose.getPermutation()[dim];
      value = transpose.getOperand();
    } else if (auto convert = dyn_cast<ps::ConvertOp>(op)) {
      value = convert.getOperand();
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

struct AlignDimsPass : impl::AlignDimsPassBase<AlignDimsPass> {
  using AlignDimsPassBase::AlignDimsPassBase;

  void runOnOperation() override {
    ps::MeshOp mesh = ps::getMesh(getOperation());
    if (!mesh) {
      getOperation().emitError() << "the module has no ps.mesh; run ps-set-mesh first";
      return signalPassFailure();
    }
    if (multiple < 2 || !mesh.getAxesOfKind(ps::AxisKind::Multiple).empty())
      return;
    sharding::MeshShape shape(mesh);
    llvm::MapVector<ps::VariableOp, unsigned> chosen = chooseDims(shape);
    if (chosen.empty())
      return;
    StringAttr axis = addAxis(mesh);
    shape = sharding::MeshShape(mesh);
    for (auto [variable, dim] : chosen)
      align(variable, dim, axis, shape);
  }

private:
  /// Returns the size of a dim on one rank under the variable's current sharding.
  int64_t getShardSize(ps::VariableOp variable, unsigned dim,
                       const sharding::MeshShape &mesh) const {
    ArrayRef<int64_t> sizes = variable.getTensorType().getShape();
    return sharding::getLocalSize(sharding::getSplits(variable.getSharding(), sizes, mesh)[dim],
                                  mesh);
  }

  /// Returns true if the split of a dim has a single factor, and if padding the dim to `multiple`
  /// adds more than 0 and at most `maxWaste` percent.
  bool isCandidate(ps::VariableOp variable, unsigned dim, const sharding::MeshShape &mesh) const {
    ArrayRef<int64_t> sizes = variable.getTensorType().getShape();
    if (sharding::getSplits(variable.getSharding(), sizes, mesh)[dim].size() != 1)
      return false;
    int64_t size = getShardSize(variable, dim, mesh);
    int64_t added = llvm::alignTo(size, uint64_t(multiple)) - size;
    return added > 0 && added * 100 <= size * maxWaste;
  }

  /// Chooses the largest candidate dim of each parameter that a matmul reads. Chooses only one dim,
  /// because a tensor can use the padding axis only once. Example with multiple 16 and max-waste
  /// 2: dim 0 of a 50257x770 parameter, padded to 50272.
  llvm::MapVector<ps::VariableOp, unsigned> chooseDims(const sharding::MeshShape &mesh) {
    SymbolTable symbols(getOperation());
    llvm::MapVector<ps::VariableOp, unsigned> chosen;
    getOperation().walk([&](ps::ContractOp contract) {
      for (Value operand : {contract.getLhs(), contract.getRhs()})
        if (std::optional<Weight> weight = findWeight(operand, symbols))
          for (int64_t dim : weight->dims)
            if (isCandidate(weight->variable, dim, mesh))
              consider(chosen, weight->variable, dim);
    });
    return chosen;
  }

  static void consider(llvm::MapVector<ps::VariableOp, unsigned> &chosen, ps::VariableOp variable,
                       unsigned dim) {
    auto [entry, isNew] = chosen.insert({variable, dim});
    ArrayRef<int64_t> sizes = variable.getTensorType().getShape();
    if (!isNew && sizes[dim] > sizes[entry->second])
      entry->second = dim;
  }

  /// Adds an axis of kind `multiple` to the mesh, without adding devices. A dim that is sharded
  /// over this axis is not split, but padded to a multiple of the axis size. Example: axis `pad.16`
  /// pads 50257 elements to 50272.
  StringAttr addAxis(ps::MeshOp mesh) {
    // Axis names in `--mesh` have no dots, so this name is unique.
    auto name = StringAttr::get(&getContext(), "pad." + std::to_string(multiple));
    SmallVector<Attribute> axes(mesh.getAxes().begin(), mesh.getAxes().end());
    axes.push_back(ps::AxisAttr::get(&getContext(), name, multiple, ps::AxisKind::Multiple));
    mesh.setAxesAttr(ArrayAttr::get(&getContext(), axes));
    return name;
  }

  void align(ps::VariableOp variable, unsigned dim, StringAttr axis,
             const sharding::MeshShape &mesh) {
    ArrayRef<int64_t> sizes = variable.getTensorType().getShape();
    sharding::TensorSplits splits = sharding::getSplits(variable.getSharding(), sizes, mesh);
    splits[dim].front().axes.push_back(axis);
    variable.setSharding(sharding::getShardingAttr(splits, {}, mesh));
    std::string reason = sharding::getReason(variable).str();
    sharding::setReason(
        variable, (reason.empty() ? "" : reason + "; ") + "dim " + Twine(dim) + " padded to " +
                      describeCount(getShardSize(variable, dim, mesh), "element") +
                      " per rank, a multiple of " + Twine(multiple) + " (--align-dims)");
  }
};
} // namespace

} // namespace parashard::sharding
