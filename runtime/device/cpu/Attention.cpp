// Computes attention, forward and backward, in blocks of query rows. oneDNN computes the matmuls.
// Between the matmuls, the scores of a block stay in cache for the softmax. Key columns that no row
// of a block sees are skipped.
#include "runtime/core/Status.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/cpu/NarrowFloat.h"
#include "runtime/device/cpu/TiledMatmul.h"
#include "shared/Philox.h"
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

namespace psrt {
namespace {

constexpr float infinity = __builtin_huge_valf();

/// A block of query rows [row, row + rows). The rows see no key columns outside of [column, column
/// + columns); `column` is a multiple of 64.
struct Block {
  int64_t row = 0, rows = 0, column = 0, columns = 0;
  std::optional<TiledMatmul> scores, result; // forward
  std::optional<TiledMatmul> dp, dq, dk, dv; // backward
};

/// An attention with its blocks and their matmuls.
struct PreparedAttention : Prepared {
  AttentionOp op;
  std::vector<Block> blocks;
  int64_t stride = 0;          ///< floats from one row of scores to the next
  int64_t matrix = 0;          ///< floats of the score matrix of a block
  bool runsOfCounters = false; ///< whether the random counters of a row's columns are consecutive

  /// Returns whether q, k, v and the results are 16-bit floats. Probabilities and score gradients
  /// are then rounded to 16 bits as well. Each rounded row overwrites the first half of its f32
  /// row.
  bool isNarrow() const { return isNarrowFloat(op.dtype); }
};

/// The parts of a thread's scratch memory.
struct Scratch {
  float *matmul;      ///< scratch of the matmuls
  float *scores, *dp; ///< one matrix each; dp only in the backward
  float *keep;        ///< one row, first for a widened mask row, then for dropout factors
  float *dout, *out;  ///< 16-bit backward: one widened row each
  float *dk, *dv;     ///< 16-bit backward: f32 gradients of a key/value head, [s, d]
  int64_t floats = 0; ///< total size

  /// Assigns addresses to the parts, starting at `begin`. If `begin` is null, only computes the
  /// total size.
  Scratch(const PreparedAttention &p, float *begin) {
    auto take = [&](int64_t count) {
      int64_t at = std::exchange(floats, floats + (count + 15) / 16 * 16);
      return begin ? begin + at : nullptr;
    };
    int64_t narrow = p.isNarrow() && p.op.grad;
    matmul = take(hasMatmuls(p.op.dtype) ? 0 : TiledMatmul::getScratchFloats());
    scores = take(p.matrix), dp = take(p.op.grad * p.matrix), keep = take(p.stride);
    dout = take(narrow * p.op.d), out = take(narrow * p.op.d);
    dk = take(narrow * p.op.s * p.op.d), dv = take(narrow * p.op.s * p.op.d);
  }
};

//===--- masks and random numbers -----------------------------------------===//

/// Sets [lo, hi) to the columns that row i sees, given `causal` and `window`. Example: t = s = 4,
/// causal, window 2: row 2 sees [1, 3).
void visible(const AttentionOp &op, int64_t i, int64_t &lo, int64_t &hi) {
  int64_t diagonal = i + op.s - op.t;
  lo = op.window > 0 ? std::max<int64_t>(0, diagonal - op.window + 1) : 0;
  hi = op.causal ? std::min(op.s, std::max<int64_t>(0, diagonal + 1)) : op.s;
  lo = std::min(lo, hi);
}

/// Returns the scale that the softmax applies. With a float mask, this scale is 1, because addMask
/// has already scaled the scores.
float restOfScale(const Bound &bound, const AttentionOp &op) {
  return bound.buffers[AttentionOp::Mask] && isFloat(op.maskDtype) ? 1 : op.scale;
}

/// The mask elements of one row: address, and stride in elements.
struct MaskRow {
  const void *data;
  int64_t stride;
};

/// Converts `count` elements of a 16-bit mask row to f32 in `room`.
MaskRow widenMask(Dtype dtype, MaskRow mask, int64_t count, float *room) {
  if (mask.stride == 1)
    widen(dtype, mask.data, room, count);
  else
    for (int64_t j = 0; j < count; ++j)
      widen(dtype, elementAt(mask.data, dtype, j * mask.stride), room + j, 1);
  return {room, 1};
}

/// Scales scores and adds a float mask. A mask element of -inf hides its column; all other scores
/// are raised to at least `lowestScore`.
void addMask(const float *mask, int64_t stride, float scale, float *row, int64_t count) {
  for (int64_t j = 0; j < count; ++j) {
    float added = mask[j * stride];
    row[j] = added == -infinity ? hiddenScore : std::max(row[j] * scale + added, lowestScore);
  }
}

/// Applies the mask and the padding mask to columns [lo, hi) of query row i. row[0] is the score of
/// column `column`. `room` has space for one f32 row.
void applyMasks(const Bound &bound, const AttentionOp &op, int64_t b, int64_t h, int64_t i,
                int64_t lo, int64_t hi, int64_t column, float *row, float *room) {
  if (const void *data = bound.buffers[AttentionOp::Mask]; data && lo < hi) {
    int64_t first = b * op.mask[0] + h * op.mask[1] + i * op.mask[2] + lo * op.mask[3];
    MaskRow mask{elementAt(data, op.maskDtype, first), op.mask[3]};
    if (isNarrowFloat(op.maskDtype))
      mask = widenMask(op.maskDtype, mask, hi - lo, room);
    if (isFloat(op.maskDtype))
      addMask(static_cast<const float *>(mask.data), mask.stride, op.scale, row + lo - column,
              hi - lo);
    else
      for (int64_t j = lo; j < hi; ++j)
        if (!static_cast<const uint8_t *>(mask.data)[(j - lo) * mask.stride])
          row[j - column] = hiddenScore;
  }
  if (auto *padding = static_cast<const uint8_t *>(bound.buffers[AttentionOp::Padding]))
    for (int64_t j = lo; j < hi; ++j)
      if (!padding[b * op.s + j])
        row[j - column] = hiddenScore;
}

/// Returns the index of the local score (b, h, i, j) in the unsharded tensor, minus the index of
/// this rank's first score.
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

/// Writes the dropout factors (0 or 1 / (1 - p)) of the block's columns in query row i.
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

/// Returns the address of element `at` in a buffer of dtype op.dtype.
void *element(const Bound &bound, const AttentionOp &op, int index, int64_t at) {
  return elementAt(bound.buffers[index], op.dtype, at);
}

float *logSums(const Bound &bound) { return static_cast<float *>(bound.buffers[AttentionOp::Lse]); }

int64_t at(const std::array<int64_t, 3> &strides, int64_t b, int64_t h, int64_t row) {
  return b * strides[0] + h * strides[1] + row * strides[2];
}

/// Writes zeros to `rows` rows of d elements.
void clear(const AttentionOp &op, void *data, int64_t stride, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r)
    std::memset(elementAt(data, op.dtype, r * stride), 0, op.d * dtypeSize(op.dtype));
}

/// Rounds `rows` rows of d f32 elements to op.dtype. Rows of `to` are `stride` elements apart.
void narrowRows(const AttentionOp &op, const float *from, void *to, int64_t stride, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r)
    narrow(from + r * op.d, op.dtype, elementAt(to, op.dtype, r * stride), op.d);
}

/// Turns a row of scores into probabilities, with masks and dropout.
void forwardRow(const Bound &bound, const PreparedAttention &p, const Block &block, int64_t b,
                int64_t h, int64_t i, float *row, float *keep) {
  const AttentionOp &op = p.op;
  int64_t lo, hi, padded = (block.columns + 15) / 16 * 16;
  visible(op, i, lo, hi);
  applyMasks(bound, op, b, h, i, lo, hi, block.column, row, keep);
  float max, sum;
  int64_t from = std::max<int64_t>(0, lo - block.column), to = std::max(from, hi - block.column);
  rowMath().softmax(row, from, to, padded, restOfScale(bound, op), &max, &sum);
  if (float *lse = logSums(bound))
    lse[(b * op.h + h) * op.t + i] = sum > 0 ? max + std::log(sum) : -infinity;
  if (op.dropout > 0) {
    drawDropout(bound, p, b, h, i, block, keep);
    rowMath().multiply(row, keep, padded);
  }
  if (p.isNarrow())
    narrow(row, op.dtype, row, block.columns);
}

void forwardPiece(void *context, int thread, int64_t lo, int64_t hi) {
  const Bound &bound = *static_cast<const Bound *>(context);
  const auto &p = *static_cast<const PreparedAttention *>(bound.prepared);
  const AttentionOp &op = p.op;
  CpuRank &rank = CpuRank::of(bound);
  MatmulRunner &runner = *rank.runners[thread];
  Scratch scratch(p, rank.scratch(thread));
  int64_t blocks = p.blocks.size();
  for (int64_t piece = lo; piece < hi; ++piece) {
    const Block &block = p.blocks[blocks - 1 - piece % blocks]; // most columns first
    int64_t h = piece / blocks % op.h, b = piece / blocks / op.h, g = h / (op.h / op.g);
    void *out = element(bound, op, AttentionOp::Out, at(op.out, b, h, block.row));
    if (block.columns > 0)
      block.scores->run(runner, scratch.matmul,
                        element(bound, op, AttentionOp::Q, at(op.q, b, h, block.row)),
                        element(bound, op, AttentionOp::K, at(op.k, b, g, block.column)),
                        scratch.scores, nullptr);
    for (int64_t r = 0; r < block.rows; ++r)
      forwardRow(bound, p, block, b, h, block.row + r, scratch.scores + r * p.stride, scratch.keep);
    if (block.columns > 0)
      block.result->run(runner, scratch.matmul, scratch.scores,
                        element(bound, op, AttentionOp::V, at(op.v, b, g, block.column)), out,
                        nullptr);
    else
      clear(op, out, op.out[2], block.rows);
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

/// Returns the sum of dout * out over a row.
float computeDelta(const Bound &bound, const PreparedAttention &p, const Scratch &scratch,
                   int64_t b, int64_t h, int64_t i) {
  const AttentionOp &op = p.op;
  const void *dout = element(bound, op, AttentionOp::Dout, at(op.dout, b, h, i));
  const void *out = element(bound, op, AttentionOp::Out, at(op.out, b, h, i));
  if (!p.isNarrow())
    return rowMath().dot(static_cast<const float *>(dout), static_cast<const float *>(out), op.d);
  widen(op.dtype, dout, scratch.dout, op.d);
  widen(op.dtype, out, scratch.out, op.d);
  return rowMath().dot(scratch.dout, scratch.out, op.d);
}

/// Turns row i of scores into probabilities (with dropout), and row i of dP (the gradient of the
/// probabilities) into dS (the gradient of the scores).
void backwardRow(const Bound &bound, const PreparedAttention &p, const Block &block, int64_t b,
                 int64_t h, int64_t i, const Scratch &scratch) {
  const AttentionOp &op = p.op;
  int64_t lo, hi, padded = (block.columns + 15) / 16 * 16, offset = (i - block.row) * p.stride;
  float *row = scratch.scores + offset, *dp = scratch.dp + offset, *keep = scratch.keep;
  visible(op, i, lo, hi);
  applyMasks(bound, op, b, h, i, lo, hi, block.column, row, keep);
  int64_t from = std::max<int64_t>(0, lo - block.column), to = std::max(from, hi - block.column);
  rowMath().probabilities(row, from, to, padded, restOfScale(bound, op),
                          logSums(bound)[(b * op.h + h) * op.t + i]);
  float delta = computeDelta(bound, p, scratch, b, h, i);
  for (int64_t j = block.columns; j < padded; ++j)
    dp[j] = 0;
  if (op.dropout > 0) {
    drawDropout(bound, p, b, h, i, block, keep);
    rowMath().multiply(dp, keep, padded);
  }
  rowMath().gradient(row, dp, padded, delta, op.scale);
  if (op.dropout > 0)
    rowMath().multiply(row, keep, padded);
  if (p.isNarrow())
    for (float *values : {row, dp})
      narrow(values, op.dtype, values, block.columns);
}

/// Accumulators of the gradients of one key/value head.
struct HeadSums {
  void *dk, *dv;
};

/// Returns the accumulators of dk and dv from column `column` on. For 16-bit results, the
/// accumulators are f32 in scratch memory.
HeadSums getSums(const Bound &bound, const PreparedAttention &p, const Scratch &scratch, int64_t b,
                 int64_t g, int64_t column) {
  const AttentionOp &op = p.op;
  if (p.isNarrow())
    return {scratch.dk + column * op.d, scratch.dv + column * op.d};
  return {element(bound, op, AttentionOp::Dk, at(op.dk, b, g, column)),
          element(bound, op, AttentionOp::Dv, at(op.dv, b, g, column))};
}

void backwardBlock(const Bound &bound, const PreparedAttention &p, const Block &block, int64_t b,
                   int64_t h, int thread) {
  const AttentionOp &op = p.op;
  CpuRank &rank = CpuRank::of(bound);
  MatmulRunner &runner = *rank.runners[thread];
  Scratch scratch(p, rank.scratch(thread));
  int64_t g = h / (op.h / op.g);
  void *dq = element(bound, op, AttentionOp::Dq, at(op.dq, b, h, block.row));
  if (block.columns == 0)
    return clear(op, dq, op.dq[2], block.rows);
  const void *q = element(bound, op, AttentionOp::Q, at(op.q, b, h, block.row));
  const void *k = element(bound, op, AttentionOp::K, at(op.k, b, g, block.column));
  const void *v = element(bound, op, AttentionOp::V, at(op.v, b, g, block.column));
  const void *dout = element(bound, op, AttentionOp::Dout, at(op.dout, b, h, block.row));
  block.scores->run(runner, scratch.matmul, q, k, scratch.scores, nullptr);
  block.dp->run(runner, scratch.matmul, dout, v, scratch.dp, nullptr);
  for (int64_t r = 0; r < block.rows; ++r)
    backwardRow(bound, p, block, b, h, block.row + r, scratch);
  HeadSums sums = getSums(bound, p, scratch, b, g, block.column);
  block.dq->run(runner, scratch.matmul, scratch.dp, k, dq, nullptr);
  block.dk->run(runner, scratch.matmul, scratch.dp, q, sums.dk, nullptr);
  block.dv->run(runner, scratch.matmul, scratch.scores, dout, sums.dv, nullptr);
}

void clearSums(const Bound &bound, const PreparedAttention &p, const Scratch &scratch, int64_t b,
               int64_t g) {
  const AttentionOp &op = p.op;
  HeadSums sums = getSums(bound, p, scratch, b, g, 0);
  if (p.isNarrow()) {
    std::memset(sums.dk, 0, op.s * op.d * sizeof(float));
    std::memset(sums.dv, 0, op.s * op.d * sizeof(float));
  } else {
    clear(op, sums.dk, op.dk[2], op.s);
    clear(op, sums.dv, op.dv[2], op.s);
  }
}

/// Computes the gradients of pieces [lo, hi). A piece is one key/value head of one batch index. The
/// query heads that share this key/value head add to its dk and dv in ascending order.
void backwardPiece(void *context, int thread, int64_t lo, int64_t hi) {
  const Bound &bound = *static_cast<const Bound *>(context);
  const auto &p = *static_cast<const PreparedAttention *>(bound.prepared);
  const AttentionOp &op = p.op;
  Scratch scratch(p, CpuRank::of(bound).scratch(thread));
  for (int64_t piece = lo; piece < hi; ++piece) {
    int64_t b = piece / op.g, g = piece % op.g, group = op.h / op.g;
    clearSums(bound, p, scratch, b, g);
    for (int64_t h = g * group; h < (g + 1) * group; ++h)
      for (const Block &block : p.blocks)
        backwardBlock(bound, p, block, b, h, thread);
    if (!p.isNarrow())
      continue;
    narrowRows(op, scratch.dk, element(bound, op, AttentionOp::Dk, at(op.dk, b, g, 0)), op.dk[2],
               op.s);
    narrowRows(op, scratch.dv, element(bound, op, AttentionOp::Dv, at(op.dv, b, g, 0)), op.dv[2],
               op.s);
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
  using Strides = std::array<int64_t, 2>;
  int64_t dk = p.isNarrow() ? d : op.dk[2], dv = p.isNarrow() ? d : op.dv[2];
  int64_t stride = p.isNarrow() ? 2 * p.stride : p.stride; // for probabilities
  Strides scores{p.stride, 1}, rows{stride, 1}, transposed{1, stride};
  auto prepare = [&](std::optional<TiledMatmul> &matmul, std::array<int64_t, 3> sizes, Strides lhs,
                     Strides rhs, Strides out, Dtype outDtype, bool adds = false) {
    matmul.emplace(
        rank,
        MatmulShape{sizes[0], sizes[1], sizes[2], lhs, rhs, out, adds, false, op.dtype, outDtype},
        /*copiesToBeFast=*/false);
  };
  prepare(block.scores, {r, n, d}, {op.q[2], 1}, {1, op.k[2]}, scores, Dtype::F32);
  if (!op.grad)
    return prepare(block.result, {r, d, n}, rows, {op.v[2], 1}, {op.out[2], 1}, op.dtype);
  prepare(block.dp, {r, n, d}, {op.dout[2], 1}, {1, op.v[2]}, scores, Dtype::F32);
  prepare(block.dq, {r, d, n}, rows, {op.k[2], 1}, {op.dq[2], 1}, op.dtype);
  prepare(block.dk, {n, d, r}, transposed, {op.q[2], 1}, {dk, 1}, Dtype::F32, true);
  prepare(block.dv, {n, d, r}, transposed, {op.dout[2], 1}, {dv, 1}, Dtype::F32, true);
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
  rank.needScratch(Scratch(p, nullptr).floats * sizeof(float));
}

/// Returns whether the columns of a row have consecutive random counters. For this, the innermost
/// factor must have stride 1, and its size must be a multiple of the row length s. These
/// conditions can only fail if keys are sharded.
bool hasRunsOfCounters(const AttentionOp &op) {
  return op.factorSizes.empty() ||
         (op.factorStrides.back() == 1 && op.factorSizes.back() % op.s == 0);
}

} // namespace

void bindCall(CpuRank &rank, const AttentionOp &op, Bound &bound) {
  if (op.dtype != Dtype::F32 && !isNarrowFloat(op.dtype))
    PSRT_FAIL(BadInput, "attention of %s is not supported on the cpu; use f32, bf16 or f16",
              dtypeName(op.dtype));
  if (bound.buffers[AttentionOp::Mask] && op.maskDtype != Dtype::F32 &&
      op.maskDtype != Dtype::Bool && !isNarrowFloat(op.maskDtype))
    PSRT_FAIL(BadInput, "an attention mask of %s is not supported; use bool, f32, bf16 or f16",
              dtypeName(op.maskDtype));
  if (op.g < 1 || op.h % op.g != 0)
    PSRT_FAIL(BadInput,
              "attention has %lld query heads, not a multiple of its %lld key/value heads",
              (long long)op.h, (long long)op.g);
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
