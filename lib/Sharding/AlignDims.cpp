// The pass that pads dims of weights which matmuls read better so.
#include "lib/Sharding/Passes.h"
#include "lib/Sharding/Reasons.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace parashard {

#define GEN_PASS_DEF_ALIGNDIMSPASS
#include "lib/Sharding/Passes.h.inc"

namespace {
/// A variable as an op sees it, and which dim of it each dim of the value is.
struct Weight {
  ps::VariableOp variable;
  SmallVector<int64_t> dims;
};

/// The parameter that a value has, converted or with its dims in another order.
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
      getOperation().emitError() << "there is no ps.mesh; run ps-set-mesh first";
      return signalPassFailure();
    }
    if (multiple < 2 || !mesh.getAxesOfKind(ps::AxisKind::Multiple).empty())
      return;
    ps::MeshShape shape(mesh);
    llvm::MapVector<ps::VariableOp, unsigned> chosen = chooseDims(shape);
    if (chosen.empty())
      return;
    StringAttr axis = addAxis(mesh);
    shape = ps::MeshShape(mesh);
    for (auto [variable, dim] : chosen)
      align(variable, dim, axis, shape);
  }

private:
  /// The places of a dim on a rank as it is split so far.
  int64_t getShardSize(ps::VariableOp variable, unsigned dim, const ps::MeshShape &mesh) const {
    ArrayRef<int64_t> sizes = variable.getTensorType().getShape();
    return ps::getLocalSize(ps::getSplits(variable.getSharding(), sizes, mesh)[dim], mesh);
  }

  /// Whether a dim is to be padded, and is one that can be: of one factor.
  bool isCandidate(ps::VariableOp variable, unsigned dim, const ps::MeshShape &mesh) const {
    ArrayRef<int64_t> sizes = variable.getTensorType().getShape();
    if (ps::getSplits(variable.getSharding(), sizes, mesh)[dim].size() != 1)
      return false;
    int64_t places = getShardSize(variable, dim, mesh);
    int64_t added = llvm::alignTo(places, uint64_t(multiple)) - places;
    return added > 0 && added * 100 <= places * mostWaste;
  }

  /// Per parameter that a matmul reads, its largest dim that is to be padded: an axis splits one
  /// dim of a tensor.
  llvm::MapVector<ps::VariableOp, unsigned> chooseDims(const ps::MeshShape &mesh) {
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

  /// The mesh has the axis from now on.
  StringAttr addAxis(ps::MeshOp mesh) {
    // No axis that a user names has a dot.
    auto name = StringAttr::get(&getContext(), "pad." + std::to_string(multiple));
    SmallVector<Attribute> axes(mesh.getAxes().begin(), mesh.getAxes().end());
    axes.push_back(ps::AxisAttr::get(&getContext(), name, multiple, ps::AxisKind::Multiple));
    mesh.setAxesAttr(ArrayAttr::get(&getContext(), axes));
    return name;
  }

  void align(ps::VariableOp variable, unsigned dim, StringAttr axis, const ps::MeshShape &mesh) {
    ArrayRef<int64_t> sizes = variable.getTensorType().getShape();
    ps::TensorSplits splits = ps::getSplits(variable.getSharding(), sizes, mesh);
    splits[dim].front().axes.push_back(axis);
    variable.setSharding(ps::getShardingAttr(splits, {}, mesh));
    std::string reason = ps::getReason(variable).str();
    ps::setReason(variable, (reason.empty() ? "" : reason + "; ") + "dim " + Twine(dim) +
                                " padded to " + Twine(getShardSize(variable, dim, mesh)) +
                                " places, a multiple of " + Twine(multiple) + " (--align-dims)");
  }
};
} // namespace

} // namespace parashard
