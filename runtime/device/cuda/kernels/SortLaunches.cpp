// Builds the launches of sorts and of their gradients.
#include "runtime/device/cuda/kernels/LaunchHelpers.h"
#include "runtime/device/cuda/kernels/SortArguments.h"

namespace psrt::cuda {

/// Returns the number of merge passes after which each row is a single run.
static int countMerges(const SortOp &op) {
  int count = 0;
  for (int64_t width = kSortTile; width < op.size; width *= 2)
    ++count;
  return count;
}

/// Returns the bytes of a second index buffer, because a merge pass cannot work in place. Returns 0
/// for gradients, and for rows that fit into one tile, because these need no merge.
int64_t workspaceBytes(const SortOp &op) {
  return !op.grad && countMerges(op) > 0 ? op.elements() * int64_t(sizeof(int64_t)) : 0;
}

static Launches launchSortGrad(const SortOp &op, void *const *buffers) {
  int64_t bytes = dtypeSize(op.dtype);
  void *out = buffers[SortOp::Out];
  SortGradArguments a{buffers[SortOp::X],
                      static_cast<const int64_t *>(buffers[SortOp::Indices]),
                      out,
                      op.elements(),
                      op.size,
                      op.inner};
  Launches result = launchZero(out, op.elements() * bytes);
  result.push_back(
      makeLaunch("psrt_sort_grad_" + std::to_string(bytes), blocksFor(op.elements(), 128), 128, a));
  return result;
}

/// Builds the passes of a sort. The passes write alternately to the workspace and to the index
/// buffer, and the last pass writes to the index buffer.
Launches launchSort(const SortOp &op, void *const *buffers, void *workspace) {
  if (op.elements() == 0)
    return {};
  if (op.grad)
    return launchSortGrad(op, buffers);
  int merges = countMerges(op);
  SortArguments a{};
  a.x = buffers[SortOp::X], a.elements = op.elements(), a.size = op.size, a.inner = op.inner;
  a.width = kSortTile, a.descending = op.descending;
  Launches result;
  for (int pass = 0; pass <= merges; ++pass) {
    bool isInIndices = (merges - pass) % 2 == 0;
    a.runs = pass == 0 ? nullptr : a.indices;
    a.indices = static_cast<int64_t *>(isInIndices ? buffers[SortOp::Indices] : workspace);
    a.out = pass == merges ? buffers[SortOp::Out] : nullptr;
    std::string kernel = pass == 0 ? "psrt_sort_tiles_" : "psrt_sort_merge_";
    result.push_back(makeLaunch(kernel + dtypeName(op.dtype), blocksFor(a.elements, 128), 128, a));
    if (pass > 0)
      a.width *= 2;
  }
  return result;
}

} // namespace psrt::cuda
