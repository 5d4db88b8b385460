// Computes strided views and the matmul form of contractions.
#include "Views.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::fusion;

static SmallVector<int64_t, 4> denseStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t, 4> strides(shape.size(), 1);
  for (int64_t i = int64_t(shape.size()) - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

bool StridedView::isDense() const {
  SmallVector<int64_t, 4> dense = denseStrides(shape);
  for (auto [size, stride, own] : llvm::zip_equal(shape, dense, strides))
    if (size != 1 && stride != own)
      return false;
  return true;
}

/// Returns the strides of the same elements in another shape; nullopt if no strides express this
/// shape. Example: shape [4, 6] with strides [12, 1] is a view with gaps. Shape [2, 2, 6] has
/// strides [24, 12, 1], and shape [24] has none.
static std::optional<SmallVector<int64_t, 4>> reshapeStrides(const StridedView &view,
                                                             ArrayRef<int64_t> shape) {
  // Runs of evenly spaced operand dims, each as (size, stride), without dims of size 1.
  SmallVector<std::pair<int64_t, int64_t>> runs;
  for (auto [size, stride] : llvm::zip_equal(view.shape, view.strides)) {
    if (size == 1)
      continue;
    if (!runs.empty() && runs.back().second == stride * size)
      runs.back() = {runs.back().first * size, stride};
    else
      runs.push_back({size, stride});
  }
  SmallVector<int64_t, 4> strides(shape.size(), 0);
  for (int64_t i = int64_t(shape.size()) - 1; i >= 0; --i) {
    if (shape[i] == 1)
      continue;
    while (!runs.empty() && runs.back().first == 1)
      runs.pop_back();
    if (runs.empty() || runs.back().first % shape[i] != 0)
      return std::nullopt;
    strides[i] = runs.back().second;
    runs.back().first /= shape[i];
    runs.back().second *= shape[i];
  }
  return strides;
}

std::optional<StridedView> fusion::getView(Value value, IsMaterialized stop) {
  auto shape = cast<RankedTensorType>(value.getType()).getShape();
  Operation *op = value.getDefiningOp();
  if (!op || (stop && stop(op)) ||
      !isa<ps::ReshapeOp, ps::TransposeOp, ps::SliceOp, ps::BroadcastOp, ps::WaitOp>(op)) {
    StridedView view;
    view.base = value;
    view.shape.assign(shape.begin(), shape.end());
    view.strides = denseStrides(shape);
    return view;
  }
  std::optional<StridedView> inner = getView(op->getOperand(0), stop);
  if (!inner)
    return std::nullopt;
  StridedView view = *inner;
  view.shape.assign(shape.begin(), shape.end());
  if (isa<ps::ReshapeOp>(op)) {
    auto strides = reshapeStrides(*inner, shape);
    if (!strides)
      return std::nullopt;
    view.strides = *strides;
  } else if (auto transpose = dyn_cast<ps::TransposeOp>(op)) {
    for (auto [i, from] : llvm::enumerate(transpose.getPermutation()))
      view.strides[i] = inner->strides[from];
  } else if (auto broadcast = dyn_cast<ps::BroadcastOp>(op)) {
    view.strides.assign(shape.size(), 0);
    for (auto [i, dim] : llvm::enumerate(broadcast.getDims()))
      view.strides[dim] = inner->strides[i];
  } else if (auto slice = dyn_cast<ps::SliceOp>(op)) {
    for (auto [i, start] : llvm::enumerate(slice.getStarts())) {
      view.offset += start * inner->strides[i];
      view.strides[i] = inner->strides[i] * slice.getStrides()[i];
    }
  }
  return view;
}

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

namespace {
/// The labels with one role (batch, row, column or contracted), and their sizes and strides in each
/// tensor.
struct Role {
  struct Label {
    int64_t size, left, right, out;
  };
  SmallVector<Label> labels;

  /// Merges adjacent labels that are evenly spaced in all tensors, and drops labels of size 1.
  void merge() {
    SmallVector<Label> merged;
    for (const Label &label : labels) {
      if (label.size == 1)
        continue;
      if (!merged.empty()) {
        Label &last = merged.back();
        if (last.left == label.left * label.size && last.right == label.right * label.size &&
            last.out == label.out * label.size) {
          last = {last.size * label.size, label.left, label.right, label.out};
          continue;
        }
      }
      merged.push_back(label);
    }
    labels = merged;
  }
};
} // namespace

/// Returns true if one of the two strides is 1, or the matrix has one element.
static bool hasUnitStride(int64_t rows, int64_t rowStride, int64_t columns, int64_t columnStride) {
  return rowStride == 1 || columnStride == 1 || (rows == 1 && columns == 1);
}

std::optional<MatmulForm> fusion::getMatmul(ps::ContractOp op, const StridedView &lhs,
                                            const StridedView &rhs) {
  auto strideOf = [](ArrayRef<int64_t> labels, ArrayRef<int64_t> strides,
                     int64_t label) -> int64_t {
    const auto *at = llvm::find(labels, label);
    return at == labels.end() ? 0 : strides[at - labels.begin()];
  };
  auto outShape = cast<RankedTensorType>(op.getType()).getShape();
  SmallVector<int64_t, 4> outStrides = denseStrides(outShape);
  Role batch, left, right, inner;
  auto add = [&](int64_t label, int64_t size) {
    bool inLeft = llvm::is_contained(op.getLhsLabels(), label);
    bool inRight = llvm::is_contained(op.getRhsLabels(), label);
    bool inOut = llvm::is_contained(op.getResultLabels(), label);
    Role &role = !inOut ? inner : inLeft && inRight ? batch : inLeft ? left : right;
    role.labels.push_back({size, strideOf(op.getLhsLabels(), lhs.strides, label),
                           strideOf(op.getRhsLabels(), rhs.strides, label),
                           strideOf(op.getResultLabels(), outStrides, label)});
  };
  for (auto [label, size] : llvm::zip_equal(op.getResultLabels(), outShape))
    add(label, size);
  for (auto [label, size] : llvm::zip_equal(op.getLhsLabels(), lhs.shape))
    if (!llvm::is_contained(op.getResultLabels(), label))
      add(label, size);
  for (Role *role : {&batch, &left, &right, &inner})
    role->merge();
  if (left.labels.size() > 1 || right.labels.size() > 1 || inner.labels.size() > 1 ||
      batch.labels.size() > 2)
    return std::nullopt;
  auto get = [](const Role &role, unsigned i) {
    return i < role.labels.size() ? role.labels[i] : Role::Label{1, 0, 0, 0};
  };
  Role::Label m = get(left, 0), n = get(right, 0), k = get(inner, 0);
  MatmulForm form;
  // The result's columns must be dense. If the label of the right operand is not innermost in the
  // result, the operands are swapped.
  form.swapped = n.out != 1 && m.out == 1 && m.size > 1;
  if (form.swapped)
    std::swap(m, n);
  if (n.size > 1 && n.out != 1)
    return std::nullopt;
  auto a = [&](const Role::Label &label) { return form.swapped ? label.right : label.left; };
  auto c = [&](const Role::Label &label) { return form.swapped ? label.left : label.right; };
  for (unsigned i = 0; i < 2; ++i) {
    // A single batch label is stored at index 1.
    unsigned from = batch.labels.size() == 2 ? i : i == 1 ? 0 : 2;
    Role::Label label = get(batch, from);
    form.batch[i] = label.size;
    form.lhs[i] = a(label);
    form.rhs[i] = c(label);
    form.out[i] = label.out;
  }
  form.m = m.size;
  form.n = n.size;
  form.k = k.size;
  // A dim of size 1 may have any stride. The chosen stride makes the matrix row-major or
  // column-major.
  auto plain = [](int64_t rows, int64_t rowStride, int64_t columns, int64_t columnStride) {
    if (columns == 1 && rowStride != 1)
      columnStride = 1;
    if (rows == 1)
      rowStride = columnStride == 1 ? columns : 1;
    if (columns == 1 && rowStride == 1)
      columnStride = rows;
    return std::pair(rowStride, columnStride);
  };
  std::tie(form.lhs[2], form.lhs[3]) = plain(m.size, a(m), k.size, a(k));
  std::tie(form.rhs[2], form.rhs[3]) = plain(k.size, c(k), n.size, c(n));
  form.out[2] = m.size == 1 ? n.size : m.out;
  form.out[3] = 1;
  if (n.size == 1 && form.out[2] == 0)
    form.out[2] = 1;
  if (!hasUnitStride(m.size, form.lhs[2], k.size, form.lhs[3]) ||
      !hasUnitStride(k.size, form.rhs[2], n.size, form.rhs[3]))
    return std::nullopt;
  // A stride of 0 (a broadcast) along a dim of size above 1 does not form a matrix.
  if ((m.size > 1 && form.lhs[2] == 0) || (k.size > 1 && (form.lhs[3] == 0 || form.rhs[2] == 0)) ||
      (n.size > 1 && form.rhs[3] == 0))
    return std::nullopt;
  return form;
}
