// Joins the outputs that a training step keeps for each of its micro-batches.
#include "runtime/session/StepOutputs.h"
#include "runtime/core/Element.h"
#include <cstring>

namespace psrt {

/// Returns the outputs of all micro-batches with the name of `output`, in order.
static std::vector<const Output *> findParts(const EntryPoint &entry, const Output &output) {
  std::vector<const Output *> parts;
  for (const Output &other : entry.outputs)
    if (other.name == output.name)
      parts.push_back(&other);
  return parts;
}

static bool hasRows(const Output &output) {
  return output.batchDim >= 0 && !output.placement.shape.empty();
}

std::vector<int64_t> wholeShape(const EntryPoint &entry, const Output &output) {
  std::vector<int64_t> shape = output.placement.shape;
  if (hasRows(output))
    shape[output.batchDim] *= int64_t(findParts(entry, output).size());
  return shape;
}

void readStepOutput(Session &session, const EntryPoint &entry, const Output &output, char *whole) {
  std::vector<const Output *> parts = findParts(entry, output);
  if (!hasRows(output))
    return session.gatherEverywhere(*parts.back(), whole);
  const std::vector<int64_t> &shape = output.placement.shape;
  int64_t outer = 1; // number of contiguous pieces of each part
  for (int64_t d = 0; d < output.batchDim; ++d)
    outer *= shape[d];
  int64_t bytes = output.placement.count() * dtypeSize(output.dtype);
  if (outer == 1) {
    for (size_t m = 0; m < parts.size(); ++m)
      session.gatherEverywhere(*parts[m], whole + int64_t(m) * bytes);
    return;
  }
  int64_t piece = outer ? bytes / outer : 0, stride = piece * int64_t(parts.size());
  std::vector<char> part(bytes);
  for (size_t m = 0; m < parts.size(); ++m) {
    session.gatherEverywhere(*parts[m], part.data());
    for (int64_t i = 0; i < outer; ++i)
      std::memcpy(whole + i * stride + int64_t(m) * piece, part.data() + i * piece, piece);
  }
}

} // namespace psrt
