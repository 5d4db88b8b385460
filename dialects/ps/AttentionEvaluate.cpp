// Evaluates attention and its gradient with naive loops, one row of probabilities at a time.
#include "dialects/ps/RandomSupport.h"
#include <array>
#include <cmath>

using namespace mlir;
using namespace parashard::ps;

/// Lowest score of a visible key: lower finite scores are raised to this value. A query whose
/// visible keys all have such scores gives them equal weights, as in f32 arithmetic.
static constexpr double kLowestScore = -1e38;

namespace {
/// The sizes of one attention op, and the masking and dropout of its scores.
class AttentionRows {
public:
  template <typename Op>
  AttentionRows(Op op, llvm::ArrayRef<Tensor> operands, DropoutDraws draws)
      : draws(std::move(draws)) {
    auto find = [&](Value value) -> const Tensor * {
      auto all = op->getOperands();
      return value ? &operands[llvm::find(all, value) - all.begin()] : nullptr;
    };
    q = find(op.getQuery()), k = find(op.getKey()), v = find(op.getValue());
    mask = find(op.getMask()), padding = find(op.getPadding());
    auto qs = q->getShape();
    B = qs[0], H = qs[1], T = qs[2], D = qs[3];
    G = k->getShape()[1], S = k->getShape()[2], E = v->getShape()[3];
    scale = op.getScale().convertToDouble();
    causal = op.getCausal();
    window = op.getWindow() ? int64_t(*op.getWindow()) : 0;
  }

  /// Returns the scaled and masked score of query i and key j; -inf if the key is masked.
  double score(int64_t b, int64_t h, int64_t i, int64_t j) const {
    int64_t last = i + S - T;
    if ((causal && j > last) || (window && j <= last - window) ||
        (padding && !padding->getInt(b * S + j)))
      return -INFINITY;
    double added = 0;
    if (mask) {
      auto shape = mask->getShape();
      int64_t position = 0;
      for (auto [size, index] : llvm::zip(shape, std::array{b, h, i, j}))
        position = position * size + (size == 1 ? 0 : index);
      if (!mask->isFloat() && !mask->getInt(position))
        return -INFINITY;
      added = mask->isFloat() ? mask->get(position) : 0;
      if (added == -INFINITY)
        return added;
    }
    double sum = 0;
    for (int64_t d = 0; d < D; ++d)
      sum += q->get(query(b, h, i) + d) * k->get(key(b, h, j) + d);
    return std::max(sum * scale + added, kLowestScore);
  }

  /// Return the index of the first element of a row of q (and dq), k, v and the result. `row`
  /// returns the number of a row of the result.
  int64_t query(int64_t b, int64_t h, int64_t i) const { return ((b * H + h) * T + i) * D; }
  int64_t key(int64_t b, int64_t h, int64_t j) const { return ((b * G + group(h)) * S + j) * D; }
  int64_t value(int64_t b, int64_t h, int64_t j) const { return ((b * G + group(h)) * S + j) * E; }
  int64_t result(int64_t b, int64_t h, int64_t i) const { return row(b, h, i) * E; }
  int64_t row(int64_t b, int64_t h, int64_t i) const { return (b * H + h) * T + i; }
  int64_t group(int64_t h) const { return h / (H / G); }
  /// Returns the factor by which dropout multiplies the probability of (row, j).
  double kept(int64_t row, int64_t j) const { return draws.scale(row * S + j); }

  template <typename Fn> void forEachRow(Fn fn) const {
    for (int64_t b = 0; b < B; ++b)
      for (int64_t h = 0; h < H; ++h)
        for (int64_t i = 0; i < T; ++i)
          fn(b, h, i);
  }

  const Tensor *q, *k, *v, *mask, *padding;
  int64_t B, H, G, T, S, D, E;

private:
  DropoutDraws draws;
  double scale;
  bool causal;
  int64_t window;
};
} // namespace

/// Returns the dropout draws over [B, H, T, S].
template <typename Op>
static FailureOr<DropoutDraws> getDraws(Op op, llvm::ArrayRef<Tensor> operands,
                                        const EvaluateContext &context) {
  auto q = cast<RankedTensorType>(op.getQuery().getType()),
       k = cast<RankedTensorType>(op.getKey().getType());
  int64_t size = q.getDimSize(0) * q.getDimSize(1) * q.getDimSize(2) * k.getDimSize(2);
  return DropoutDraws::get(op, operands, context, size, op.getDropout().convertToDouble());
}

/// Returns `values`, in the order [B, H, T, D], as a tensor. If `transposed`, the tensor's order is
/// [B, T, H, D].
static Tensor makeHeads(RankedTensorType type, llvm::ArrayRef<double> values, bool transposed) {
  Tensor tensor(type);
  int64_t heads = type.getDimSize(transposed ? 2 : 1), rows = type.getDimSize(transposed ? 1 : 2),
          features = type.getDimSize(3);
  for (auto [i, value] : llvm::enumerate(values)) {
    int64_t feature = i % features, row = i / features % rows, head = i / features / rows % heads,
            batch = i / features / rows / heads;
    tensor.set(transposed ? ((batch * rows + row) * heads + head) * features + feature : i, value);
  }
  return tensor;
}

FailureOr<llvm::SmallVector<Tensor>> AttentionOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                           const EvaluateContext &context) {
  auto draws = getDraws(*this, operands, context);
  if (failed(draws))
    return failure();
  AttentionRows rows(*this, operands, *draws);
  auto outType = cast<RankedTensorType>(getResult().getType());
  std::vector<double> out(outType.getNumElements()), p(rows.S);
  Tensor lse(cast<RankedTensorType>(getLse().getType()));
  rows.forEachRow([&](int64_t b, int64_t h, int64_t i) {
    int64_t row = rows.row(b, h, i);
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < rows.S; ++j)
      max = std::fmax(max, p[j] = rows.score(b, h, i, j));
    for (int64_t j = 0; j < rows.S; ++j)
      sum += p[j] = max == -INFINITY ? 0 : std::exp(p[j] - max);
    lse.set(row, max == -INFINITY ? max : max + std::log(sum));
    for (int64_t e = 0; e < rows.E; ++e) {
      double value = 0;
      for (int64_t j = 0; j < rows.S; ++j)
        if (p[j] != 0)
          value += p[j] / sum * rows.kept(row, j) * rows.v->get(rows.value(b, h, j) + e);
      out[rows.result(b, h, i) + e] = value;
    }
  });
  return llvm::SmallVector<Tensor>{makeHeads(outType, out, getTransposed()), std::move(lse)};
}

/// Limit of |log-sum-exp|. Above this limit, the spacing of f32 numbers is too coarse to normalize
/// probabilities to 1e-4. The probabilities are then divided by their sum. Example: a row whose
/// keys are all masked by very low finite values.
static constexpr double kLargeLse = 1024;

/// Computes, with P = exp(score - lse): dv = P^T g and dP = g v^T (both with the dropout of the
/// forward); dS = P (dP - sum(g o)); dq = scale dS k; dk = scale dS^T q (Dao et al. 2022, algorithm
/// 4).
FailureOr<llvm::SmallVector<Tensor>> AttentionGradOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                               const EvaluateContext &context) {
  auto draws = getDraws(*this, operands, context);
  if (failed(draws))
    return failure();
  AttentionRows rows(*this, operands, *draws);
  const Tensor &g = operands[0], &o = operands[4], &lse = operands[5];
  double scale = getScale().convertToDouble();
  std::vector<double> dq(rows.q->size()), dk(rows.k->size()), dv(rows.v->size());
  std::vector<double> probabilities(rows.S);
  rows.forEachRow([&](int64_t b, int64_t h, int64_t i) {
    int64_t row = rows.row(b, h, i), query = rows.query(b, h, i), result = rows.result(b, h, i);
    if (lse.get(row) == -INFINITY)
      return;
    double dot = 0;
    for (int64_t e = 0; e < rows.E; ++e)
      dot += g.get(result + e) * o.get(result + e);
    double sum = 0;
    for (int64_t j = 0; j < rows.S; ++j)
      sum += probabilities[j] = std::exp(rows.score(b, h, i, j) - lse.get(row));
    bool normalizes = std::fabs(lse.get(row)) > kLargeLse && sum > 0;
    for (int64_t j = 0; j < rows.S; ++j) {
      double p = probabilities[j] / (normalizes ? sum : 1), kept = rows.kept(row, j), dp = 0;
      if (p == 0)
        continue;
      for (int64_t e = 0, value = rows.value(b, h, j); e < rows.E; ++e) {
        dv[value + e] += p * kept * g.get(result + e);
        dp += kept * g.get(result + e) * rows.v->get(value + e);
      }
      double ds = p * (dp - dot) * scale;
      for (int64_t d = 0, key = rows.key(b, h, j); d < rows.D; ++d) {
        dq[query + d] += ds * rows.k->get(key + d);
        dk[key + d] += ds * rows.q->get(query + d);
      }
    }
  });
  llvm::SmallVector<Tensor> results;
  const std::vector<double> *sums[] = {&dq, &dk, &dv};
  for (auto [result, sum] : llvm::zip_equal(getOperation()->getResults(), sums))
    results.push_back(makeHeads(cast<RankedTensorType>(result.getType()), *sum, getTransposed()));
  return results;
}
