// Decides which attention problems cuDNN runs, and in which form.
#include "runtime/device/cuda/cudnn/AttentionGraph.h"
#include "runtime/core/Element.h"
#include "runtime/core/Status.h"
#include "runtime/device/cuda/cudnn/AttentionSteps.h"
#include <algorithm>

namespace psrt::cuda {
namespace {

/// The first version of cuDNN whose SDPA operations accept a graph that modifies the scores.
constexpr size_t kUnifiedVersion = 92100;
/// Versions of cuDNN before this one compute wrong results for some composite graphs.
constexpr size_t kCompositeVersion = 91002;
/// Versions of cuDNN before this one compute wrong composite gradients if the last block of keys is
/// partial.
constexpr size_t kAnyLengthVersion = 91600;
constexpr int64_t kBlockOfKeys = 128;

void checkVersion(size_t version, const AttentionProblem &problem) {
  auto require = [&](size_t least, const char *feature) {
    if (version < least)
      throw CudnnFailure(format("cuDNN %s is too old; %s needs %s",
                                cudnnVersionText(version).c_str(), feature,
                                cudnnVersionText(least).c_str()));
  };
  require(problem.isComposite() ? kCompositeVersion : kUnifiedVersion, "attention");
  if (problem.isComposite() && problem.op.grad && problem.op.s % kBlockOfKeys != 0)
    require(kAnyLengthVersion,
            "the attention gradient with a key count that is not a multiple of 128");
}

std::string joinStrides(const std::array<int64_t, 3> &strides) {
  return format("%lld/%lld/%lld", (long long)strides[0], (long long)strides[1],
                (long long)strides[2]);
}

} // namespace

std::array<int64_t, 4> AttentionProblem::getBiasSizes() const {
  auto get = [&](size_t dim, int64_t size) { return hasMask && op.mask[dim] != 0 ? size : 1; };
  return {hasPadding ? op.b : get(0, op.b), get(1, op.h), get(2, op.t), op.s};
}

int64_t getMostWorkspace(const AttentionProblem &problem) {
  const AttentionOp &op = problem.op;
  int64_t rows = op.b * op.h * std::max(op.t, op.s);
  int64_t result = std::max(int64_t(256) << 20, 16 * rows * op.d);
  bool keepsScores = op.grad && problem.isComposite() && !problem.addsUpQueries;
  return result + (keepsScores ? kMaxScoreBytes : 0);
}

AttentionForm chooseForm(size_t version, const AttentionOp &op) {
  bool isUnified = version >= kUnifiedVersion && op.dropout == 0;
  return isUnified ? AttentionForm::Unified : AttentionForm::Composite;
}

bool hasAttentionGraph(const AttentionProblem &problem) {
  const AttentionOp &op = problem.op;
  if (!isNarrowFloat(op.dtype) || op.dropout >= 1)
    return false;
  if (op.dropout > 0 && problem.countScores() > kMaxScoreBytes / dtypeSize(op.dtype))
    return false;
  if ((op.causal || op.window > 0) && op.t != op.s)
    return false;
  for (int64_t size : {op.b, op.h, op.g, op.t, op.s, op.d})
    if (size <= 0)
      return false;
  for (int buffer : getHeads(op))
    for (int64_t stride : getStrides(op, buffer))
      if (stride * dtypeSize(op.dtype) % kCudnnAlignment != 0)
        return false;
  return true;
}

CudnnGraph makeAttentionGraph(const CudnnTarget &target, const AttentionProblem &problem) {
  checkVersion(target.library.version, problem);
  return problem.isComposite() ? makeCompositeAttention(target, problem)
                               : makeUnifiedAttention(target, problem);
}

std::string describeAttention(const AttentionProblem &problem) {
  const AttentionOp &op = problem.op;
  std::string text = format("attention %s, %s, %lldx%lldx%lldx%lld", op.grad ? "gradient" : "value",
                            dtypeName(op.dtype), (long long)op.b, (long long)op.h, (long long)op.t,
                            (long long)op.d);
  if (op.g != op.h || op.s != op.t)
    text += format(" over %lld heads of %lld keys", (long long)op.g, (long long)op.s);
  text += op.causal ? ", causal" : "";
  text += op.window > 0 ? format(", window %lld", (long long)op.window) : "";
  text += problem.hasPadding ? ", padding" : "";
  if (std::array<int64_t, 4> sizes = problem.getBiasSizes(); problem.hasMask)
    text += format(", %s mask %lldx%lldx%lldx%lld", dtypeName(op.maskDtype), (long long)sizes[0],
                   (long long)sizes[1], (long long)sizes[2], (long long)sizes[3]);
  text += op.dropout > 0 ? format(", dropout %.9g", double(op.dropout)) : "";
  text += ", strides";
  for (int buffer : getHeads(op))
    text += " " + joinStrides(getStrides(op, buffer));
  return text + format(", scale %.9g", double(op.scale));
}

} // namespace psrt::cuda
