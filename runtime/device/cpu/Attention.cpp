// Attention, forward and backward, in blocks of query rows: oneDNN matmuls on scores that stay in
// cache, vectorized softmax between them; columns that no row of a block can see are skipped.
#include "runtime/core/Philox.h"
#include "runtime/core/Status.h"
#include "runtime/device/cpu/CpuDevice.h"
#include <cmath>
#include <cstring>

namespace psrt {
namespace {

constexpr float infinity = __builtin_huge_valf();

/// Query rows [row, row + rows) and the columns [column, column + columns) that any of them may
/// see.
struct Block {
  int64_t row = 0, rows = 0, column = 0, columns = 0;
  const MatmulPrimitive *scores = nullptr, *result = nullptr;                       // forward
  const MatmulPrimitive *dp = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr; // backward
};

struct PreparedAttention : Prepared {
  AttentionOp op;
  std::vector<Block> blocks;
  int64_t stride = 0;          ///< floats between rows of scores
  int64_t matrix = 0;          ///< floats of one matrix of scores
  bool runsOfCounters = false; ///< the random counters of a row's columns are consecutive
};

//===--- masks and random numbers -----------------------------------------===//

/// The columns that row i sees by `causal` and `window`.
void visible(const AttentionOp &op, int64_t i, int64_t &lo, int64_t &hi) {
  int64_t diagonal = i + op.s - op.t;
  lo = op.window > 0 ? std::max<int64_t>(0, diagonal - op.window + 1) : 0;
  hi = op.causal ? std::min(op.s, std::max<int64_t>(0, diagonal + 1)) : op.s;
  lo = std::min(lo, hi);
}

template <typename T> float maskValue(const void *mask, int64_t at) {
  return float(static_cast<const T *>(mask)[at]);
}

/// What is left to multiply scores by once the masks are applied: a floating mask is added to the
/// scaled ones.
float restOfScale(const Bound &bound, const AttentionOp &op) {
  return bound.buffers[AttentionOp::Mask] && op.maskDtype == Dtype::F32 ? 1 : op.scale;
}

/// Hides what mask and padding hide, and adds a floating mask.
void applyMasks(const Bound &bound, const AttentionOp &op, int64_t b, int64_t h, int64_t i,
                int64_t lo, int64_t hi, int64_t column, float *row) {
  const void *mask = bound.buffers[AttentionOp::Mask];
  if (mask) {
    int64_t base = b * op.mask[0] + h * op.mask[1] + i * op.mask[2];
    for (int64_t j = lo; j < hi; ++j) {
      int64_t at = base + j * op.mask[3];
      float &x = row[j - column];
      if (op.maskDtype == Dtype::F32) {
        float added = maskValue<float>(mask, at);
        x = added == -infinity ? hiddenScore : std::max(x * op.scale + added, lowestScore);
      } else if (!maskValue<uint8_t>(mask, at)) {
        x = hiddenScore;
      }
    }
  }
  if (auto *padding = static_cast<const uint8_t *>(bound.buffers[AttentionOp::Padding]))
    for (int64_t j = lo; j < hi; ++j)
      if (!padding[b * op.s + j])
        row[j - column] = hiddenScore;
}

/// The global element index of local (b, h, i, j), less the offset.
uint64_t elementIndex(const AttentionOp &op, int64_t b, int64_t h, int64_t i, int64_t j) {
  int64_t linear = ((b * op.h + h) * op.t + i) * op.s + j, result = 0;
  if (op.factorSizes.empty())
    return linear;
  for (size_t f = op.factorSizes.size(); f-- > 0;) {
    result += linear % op.factorSizes[f] * op.factorStrides[f];
    linear /= op.factorSizes[f];
  }
  return result;
}

/// Writes what probabilities of columns [column, column + columns) of a row are multiplied by.
void drawDropout(const Bound &bound, const PreparedAttention &p, int64_t b, int64_t h, int64_t i,
                 const Block &block, float *keep) {
  const AttentionOp &op = p.op;
  uint64_t key = philoxKey(bound.scalars[0], bound.key, bound.scalars[1]);
  auto *offset = static_cast<const int64_t *>(bound.buffers[AttentionOp::Offset]);
  uint64_t start = uint64_t(bound.scalars[2]) * op.globalSize + (offset ? *offset : 0);
  int64_t padded = (block.columns + 15) / 16 * 16;
  if (p.runsOfCounters) {
    rowMath().dropout(keep, block.columns, padded, op.dropout, key,
                      start + elementIndex(op, b, h, i, block.column));
    return;
  }
  for (int64_t j = 0; j < padded; ++j)
    rowMath().dropout(keep + j, j < block.columns, 1, op.dropout, key,
                      start + elementIndex(op, b, h, i, std::min(block.column + j, op.s - 1)));
}

//===--- forward ----------------------------------------------------------===//

template <typename T> T *buffer(const Bound &bound, int index) {
  return static_cast<T *>(bound.buffers[index]);
}

int64_t at(const std::array<int64_t, 3> &strides, int64_t b, int64_t h, int64_t row) {
  return b * strides[0] + h * strides[1] + row * strides[2];
}

void forwardRow(const Bound &bound, const PreparedAttention &p, const Block &block, int64_t b,
                int64_t h, int64_t i, float *row, float *keep) {
  const AttentionOp &op = p.op;
  int64_t lo, hi, padded = (block.columns + 15) / 16 * 16;
  visible(op, i, lo, hi);
  applyMasks(bound, op, b, h, i, lo, hi, block.column, row);
  float max, sum;
  int64_t from = std::max<int64_t>(0, lo - block.column), to = std::max(from, hi - block.column);
  rowMath().softmax(row, from, to, padded, restOfScale(bound, op), &max, &sum);
  if (float *lse = buffer<float>(bound, AttentionOp::Lse))
    lse[(b * op.h + h) * op.t + i] = sum > 0 ? max + std::log(sum) : -infinity;
  if (op.dropout > 0) {
    drawDropout(bound, p, b, h, i, block, keep);
    rowMath().multiply(row, keep, padded);
  }
}

void forwardPiece(void *context, int thread, int64_t lo, int64_t hi) {
  const Bound &bound = *static_cast<const Bound *>(context);
  const auto &p = *static_cast<const PreparedAttention *>(bound.prepared);
  const AttentionOp &op = p.op;
  CpuRank &rank = CpuRank::of(bound);
  MatmulRunner &runner = *rank.runners[thread];
  float *scores = rank.scratch(thread), *keep = scores + p.matrix;
  int64_t blocks = p.blocks.size();
  for (int64_t piece = lo; piece < hi; ++piece) {
    const Block &block = p.blocks[blocks - 1 - piece % blocks]; // the long blocks first
    int64_t h = piece / blocks % op.h, b = piece / blocks / op.h, g = h / (op.h / op.g);
    float *out = buffer<float>(bound, AttentionOp::Out) + at(op.out, b, h, block.row);
    if (block.columns > 0)
      runner.run(block.scores, buffer<float>(bound, AttentionOp::Q) + at(op.q, b, h, block.row),
                 buffer<float>(bound, AttentionOp::K) + at(op.k, b, g, block.column), scores,
                 nullptr);
    for (int64_t r = 0; r < block.rows; ++r)
      forwardRow(bound, p, block, b, h, block.row + r, scores + r * p.stride, keep);
    if (block.columns > 0)
      runner.run(block.result, scores,
                 buffer<float>(bound, AttentionOp::V) + at(op.v, b, g, block.column), out, nullptr);
    else
      for (int64_t r = 0; r < block.rows; ++r)
        std::memset(out + r * op.out[2], 0, op.d * sizeof(float));
  }
}

void runForward(const Bound &bound) {
  const auto &p = *static_cast<const PreparedAttention *>(bound.prepared);
  CpuRank &rank = CpuRank::of(bound);
  int64_t heads = p.op.b * p.op.h, blocks = p.blocks.size();
  rank.pool.run(forwardPiece, const_cast<Bound *>(&bound), heads * blocks,
                heads >= 4 * rank.threads() ? blocks : 1);
}

//===--- backward ---------------------------------------------------------===//

/// Scores become probabilities (as dropped out), dP becomes dS.
void backwardRow(const Bound &bound, const PreparedAttention &p, const Block &block, int64_t b,
                 int64_t h, int64_t i, float *row, float *dp, float *keep) {
  const AttentionOp &op = p.op;
  int64_t lo, hi, padded = (block.columns + 15) / 16 * 16;
  visible(op, i, lo, hi);
  applyMasks(bound, op, b, h, i, lo, hi, block.column, row);
  int64_t from = std::max<int64_t>(0, lo - block.column), to = std::max(from, hi - block.column);
  rowMath().probabilities(row, from, to, padded, restOfScale(bound, op),
                          buffer<float>(bound, AttentionOp::Lse)[(b * op.h + h) * op.t + i]);
  float delta = rowMath().dot(buffer<float>(bound, AttentionOp::Dout) + at(op.dout, b, h, i),
                              buffer<float>(bound, AttentionOp::Out) + at(op.out, b, h, i), op.d);
  for (int64_t j = block.columns; j < padded; ++j)
    dp[j] = 0;
  if (op.dropout > 0) {
    drawDropout(bound, p, b, h, i, block, keep);
    rowMath().multiply(dp, keep, padded);
  }
  rowMath().gradient(row, dp, padded, delta, op.scale);
  if (op.dropout > 0)
    rowMath().multiply(row, keep, padded);
}

void backwardBlock(const Bound &bound, const PreparedAttention &p, const Block &block, int64_t b,
                   int64_t h, int thread) {
  const AttentionOp &op = p.op;
  CpuRank &rank = CpuRank::of(bound);
  MatmulRunner &runner = *rank.runners[thread];
  float *scores = rank.scratch(thread), *dp = scores + p.matrix, *keep = dp + p.matrix;
  int64_t g = h / (op.h / op.g);
  float *dq = buffer<float>(bound, AttentionOp::Dq) + at(op.dq, b, h, block.row);
  if (block.columns == 0) {
    for (int64_t r = 0; r < block.rows; ++r)
      std::memset(dq + r * op.dq[2], 0, op.d * sizeof(float));
    return;
  }
  const float *q = buffer<float>(bound, AttentionOp::Q) + at(op.q, b, h, block.row);
  const float *k = buffer<float>(bound, AttentionOp::K) + at(op.k, b, g, block.column);
  const float *v = buffer<float>(bound, AttentionOp::V) + at(op.v, b, g, block.column);
  const float *dout = buffer<float>(bound, AttentionOp::Dout) + at(op.dout, b, h, block.row);
  runner.run(block.scores, q, k, scores, nullptr);
  runner.run(block.dp, dout, v, dp, nullptr);
  for (int64_t r = 0; r < block.rows; ++r)
    backwardRow(bound, p, block, b, h, block.row + r, scores + r * p.stride, dp + r * p.stride,
                keep);
  runner.run(block.dq, dp, k, dq, nullptr);
  runner.run(block.dk, dp, q, buffer<float>(bound, AttentionOp::Dk) + at(op.dk, b, g, block.column),
             nullptr);
  runner.run(block.dv, scores, dout,
             buffer<float>(bound, AttentionOp::Dv) + at(op.dv, b, g, block.column), nullptr);
}

/// A piece is a (batch, key/value head): the query heads of the group add to dk, dv in ascending
/// order.
void backwardPiece(void *context, int thread, int64_t lo, int64_t hi) {
  const Bound &bound = *static_cast<const Bound *>(context);
  const auto &p = *static_cast<const PreparedAttention *>(bound.prepared);
  const AttentionOp &op = p.op;
  for (int64_t piece = lo; piece < hi; ++piece) {
    int64_t b = piece / op.g, g = piece % op.g, group = op.h / op.g;
    for (int64_t j = 0; j < op.s; ++j) {
      std::memset(buffer<float>(bound, AttentionOp::Dk) + at(op.dk, b, g, j), 0,
                  op.d * sizeof(float));
      std::memset(buffer<float>(bound, AttentionOp::Dv) + at(op.dv, b, g, j), 0,
                  op.d * sizeof(float));
    }
    for (int64_t h = g * group; h < (g + 1) * group; ++h)
      for (const Block &block : p.blocks)
        backwardBlock(bound, p, block, b, h, thread);
  }
}

void runBackward(const Bound &bound) {
  const auto &p = *static_cast<const PreparedAttention *>(bound.prepared);
  CpuRank::of(bound).pool.run(backwardPiece, const_cast<Bound *>(&bound), p.op.b * p.op.g, 1);
}

//===--- preparation ------------------------------------------------------===//

void prepareBlock(CpuRank &rank, const PreparedAttention &p, Block &block) {
  const AttentionOp &op = p.op;
  int64_t n = block.columns, r = block.rows, d = op.d;
  if (n == 0)
    return;
  std::array<int64_t, 2> rows{p.stride, 1}, transposed{1, p.stride};
  block.scores = rank.prepareMatmul({r, n, d, {op.q[2], 1}, {1, op.k[2]}, rows, false, false});
  if (!op.grad) {
    block.result = rank.prepareMatmul({r, d, n, rows, {op.v[2], 1}, {op.out[2], 1}, false, false});
    return;
  }
  block.dp = rank.prepareMatmul({r, n, d, {op.dout[2], 1}, {1, op.v[2]}, rows, false, false});
  block.dq = rank.prepareMatmul({r, d, n, rows, {op.k[2], 1}, {op.dq[2], 1}, false, false});
  block.dk = rank.prepareMatmul({n, d, r, transposed, {op.q[2], 1}, {op.dk[2], 1}, true, false});
  block.dv = rank.prepareMatmul({n, d, r, transposed, {op.dout[2], 1}, {op.dv[2], 1}, true, false});
}

void makeBlocks(CpuRank &rank, PreparedAttention &p) {
  const AttentionOp &op = p.op;
  int64_t rows = op.t >= 1024 ? 128 : 64;
  for (int64_t row = 0; row < op.t; row += rows) {
    Block block;
    block.row = row;
    block.rows = std::min(rows, op.t - row);
    int64_t lo, hi, ignored;
    visible(op, row, lo, ignored);
    visible(op, row + block.rows - 1, ignored, hi);
    block.column = std::min(lo, hi) / 64 * 64;
    block.columns = hi - block.column;
    prepareBlock(rank, p, block);
    p.blocks.push_back(block);
  }
  size_t matrices = op.grad ? 2 : 1;
  rank.needScratch((matrices * p.matrix + p.stride) * sizeof(float));
}

/// Whether a row's columns lie within one factor of stride 1, as they do unless keys are sharded.
bool hasRunsOfCounters(const AttentionOp &op) {
  return op.factorSizes.empty() ||
         (op.factorStrides.back() == 1 && op.factorSizes.back() % op.s == 0);
}

} // namespace

void bindAttention(CpuRank &rank, const AttentionOp &op, Bound &bound) {
  if (op.dtype != Dtype::F32)
    PSRT_FAIL(BadInput,
              "attention of %s is not built for the cpu yet; compile with --precision fp32",
              dtypeName(op.dtype));
  if (bound.buffers[AttentionOp::Mask] && op.maskDtype != Dtype::F32 && op.maskDtype != Dtype::Bool)
    PSRT_FAIL(BadInput, "an attention mask of %s is not built; use bool or f32",
              dtypeName(op.maskDtype));
  if (op.g < 1 || op.h % op.g != 0)
    PSRT_FAIL(BadInput, "attention of %lld heads over %lld key/value heads", (long long)op.h,
              (long long)op.g);
  auto prepared = std::make_unique<PreparedAttention>();
  prepared->op = op;
  prepared->stride = (op.s + 15) / 16 * 16;
  prepared->matrix = (op.t >= 1024 ? 128 : 64) * prepared->stride;
  prepared->runsOfCounters = hasRunsOfCounters(op);
  makeBlocks(rank, *prepared);
  bound.run = op.grad ? runBackward : runForward;
  bound.prepared = rank.keep(std::move(prepared));
}

} // namespace psrt
