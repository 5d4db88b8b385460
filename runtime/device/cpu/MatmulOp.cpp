// Runs matmul instructions. The result is split into a grid of pieces, or the contracted dim into
// parts (split-K). One of the rank's threads computes each piece or part with oneDNN.
#include "runtime/core/Status.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/cpu/NarrowFloat.h"
#include "runtime/device/cpu/TiledMatmul.h"
#include <optional>

namespace psrt {
namespace {

/// A matmul whose result is split into a grid of pieces, which the threads claim. oneDNN's order of
/// additions may depend on a piece's shape, so the last bits of a result depend on the number of
/// threads per rank.
struct PreparedMatmul : Prepared {
  MatmulOp op;
  int64_t rowPiece = 0, columnPiece = 0, rowPieces = 0, columnPieces = 0;
  std::optional<TiledMatmul> matmuls[2][2]; ///< [last row piece][last column piece]
};

struct Operands {
  const Bound *bound;
  const PreparedMatmul *matmul;
};

void runPiece(void *context, int thread, int64_t lo, int64_t hi) {
  const Operands &operands = *static_cast<Operands *>(context);
  const PreparedMatmul &p = *operands.matmul;
  const MatmulOp &op = p.op;
  void *const *buffers = operands.bound->buffers;
  for (int64_t piece = lo; piece < hi; ++piece) {
    int64_t column = piece % p.columnPieces, row = piece / p.columnPieces % p.rowPieces;
    int64_t batch = piece / (p.columnPieces * p.rowPieces);
    int64_t b0 = batch / op.batch[1], b1 = batch % op.batch[1];
    auto at = [&](const std::array<int64_t, 4> &strides, int64_t r, int64_t c) {
      return b0 * strides[0] + b1 * strides[1] + r * strides[2] + c * strides[3];
    };
    int64_t r = row * p.rowPiece, c = column * p.columnPiece;
    const float *bias = static_cast<const float *>(buffers[MatmulOp::Bias]);
    CpuRank &rank = CpuRank::of(*operands.bound);
    p.matmuls[row == p.rowPieces - 1][column == p.columnPieces - 1]->run(
        *rank.runners[thread], rank.scratch(thread),
        elementAt(buffers[MatmulOp::Lhs], op.dtype, at(op.lhs, r, 0)),
        elementAt(buffers[MatmulOp::Rhs], op.dtype, at(op.rhs, 0, c)),
        elementAt(buffers[MatmulOp::Out], op.outDtype, at(op.out, r, c)),
        bias ? bias + c : nullptr);
  }
}

void runMatmul(const Bound &bound) {
  const auto &p = *static_cast<const PreparedMatmul *>(bound.prepared);
  Operands operands{&bound, &p};
  CpuRank::of(bound).pool.run(runPiece, &operands,
                              p.op.batch[0] * p.op.batch[1] * p.rowPieces * p.columnPieces, 1);
}

/// A matmul split over its contracted dim (split-K), one part per thread; the result is f32.
struct PreparedSum : Prepared {
  MatmulOp op;
  int64_t part = 0; ///< elements of the contracted dim per part; the last part may have fewer
  std::vector<TiledMatmul> matmuls;

  /// Returns the result of part i > 0, stored after the scratch memory of the matmuls.
  static float *getPart(CpuRank &rank, int i) {
    return rank.scratch(i) + TiledMatmul::getScratchFloats();
  }
};

struct SumOperands {
  const Bound *bound;
  const PreparedSum *sum;
};

/// Computes parts [lo, hi) of the contracted dim. Part 0 is written or added to the result; each
/// other part is written to its own scratch memory.
void runPart(void *context, int thread, int64_t lo, int64_t hi) {
  const SumOperands &operands = *static_cast<SumOperands *>(context);
  const PreparedSum &p = *operands.sum;
  CpuRank &rank = CpuRank::of(*operands.bound);
  void *const *buffers = operands.bound->buffers;
  for (int64_t i = lo; i < hi; ++i)
    p.matmuls[i].run(*rank.runners[thread], rank.scratch(thread),
                     elementAt(buffers[MatmulOp::Lhs], p.op.dtype, i * p.part * p.op.lhs[3]),
                     elementAt(buffers[MatmulOp::Rhs], p.op.dtype, i * p.part * p.op.rhs[2]),
                     i ? PreparedSum::getPart(rank, i) : buffers[MatmulOp::Out], nullptr);
}

/// Adds parts 1, 2, ... in this order to rows [lo, hi) of the result.
void addParts(void *context, int, int64_t lo, int64_t hi) {
  const SumOperands &operands = *static_cast<SumOperands *>(context);
  const PreparedSum &p = *operands.sum;
  CpuRank &rank = CpuRank::of(*operands.bound);
  for (int64_t row = lo; row < hi; ++row) {
    float *out = static_cast<float *>(operands.bound->buffers[MatmulOp::Out]) + row * p.op.out[2];
    for (size_t i = 1; i < p.matmuls.size(); ++i) {
      const float *part = PreparedSum::getPart(rank, i) + row * p.op.n;
      for (int64_t n = 0; n < p.op.n; ++n)
        out[n] += part[n];
    }
  }
}

void runSum(const Bound &bound) {
  const auto &p = *static_cast<const PreparedSum *>(bound.prepared);
  SumOperands operands{&bound, &p};
  ThreadPool &pool = CpuRank::of(bound).pool;
  pool.run(runPart, &operands, p.matmuls.size(), 1);
  pool.run(addParts, &operands, p.op.m, 16);
}

/// Computes a matmul in f64 with plain loops. The loops are slow; f64 is used for exact
/// comparisons.
void runMatmulF64(const Bound &bound) {
  auto piece = [](void *context, int, int64_t lo, int64_t hi) {
    const Bound &bound = *static_cast<Bound *>(context);
    const MatmulOp &op = std::get<MatmulOp>(bound.instruction->op);
    auto *lhs = static_cast<const double *>(bound.buffers[MatmulOp::Lhs]);
    auto *rhs = static_cast<const double *>(bound.buffers[MatmulOp::Rhs]);
    auto *out = static_cast<double *>(bound.buffers[MatmulOp::Out]);
    auto *bias = static_cast<const double *>(bound.buffers[MatmulOp::Bias]);
    for (int64_t i = lo; i < hi; ++i) {
      int64_t row = i % op.m, b1 = i / op.m % op.batch[1], b0 = i / op.m / op.batch[1];
      const double *l = lhs + b0 * op.lhs[0] + b1 * op.lhs[1] + row * op.lhs[2];
      const double *r = rhs + b0 * op.rhs[0] + b1 * op.rhs[1];
      double *o = out + b0 * op.out[0] + b1 * op.out[1] + row * op.out[2];
      for (int64_t n = 0; n < op.n; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < op.k; ++k)
          sum += l[k * op.lhs[3]] * r[k * op.rhs[2] + n * op.rhs[3]];
        double &x = o[n * op.out[3]];
        x = sum + (bias ? bias[n] : 0) + (bound.accumulate ? x : 0);
      }
    }
  };
  const MatmulOp &op = std::get<MatmulOp>(bound.instruction->op);
  CpuRank::of(bound).pool.run(piece, const_cast<Bound *>(&bound), op.batch[0] * op.batch[1] * op.m,
                              16);
}

int64_t divideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Chooses pieces of 256 rows, or of 192 rows if lhs is transposed, as in weight gradients. These
/// sizes were the fastest in measurements. Splits the columns as well if there are fewer than 4
/// pieces and at least 512 columns.
void chooseSmallPieces(PreparedMatmul &p) {
  const MatmulOp &op = p.op;
  bool transposed = op.lhs[3] != 1 && op.m > 1;
  p.rowPiece = std::min<int64_t>(op.m, transposed ? 192 : 256);
  p.columnPiece = op.n;
  if (op.batch[0] * op.batch[1] * divideUp(op.m, p.rowPiece) < 4 && op.n >= 512)
    p.columnPiece = std::max<int64_t>(256, divideUp(op.n / 8, 64) * 64);
}

/// Returns the number of operand elements that an m x n matmul copies per index of the contracted
/// dim.
int64_t copiesOf(int64_t m, int64_t n) { return m + n; }

/// Does not split the result if the batch has at least one matmul per thread. Otherwise, chooses
/// two pieces per thread if both sides of a piece are then at least 192, else one piece per thread.
/// Among the grids with this number of pieces, chooses the grid that copies the fewest elements.
void chooseLargePieces(PreparedMatmul &p, int64_t threads) {
  constexpr int64_t kLargeSide = 192;
  const MatmulOp &op = p.op;
  p.rowPiece = op.m, p.columnPiece = op.n;
  int64_t wanted = divideUp(threads, op.batch[0] * op.batch[1]);
  if (wanted == 1)
    return;
  for (int64_t pieces : {2 * wanted, wanted}) {
    int64_t least = INT64_MAX;
    for (int64_t r = 1; r <= pieces; ++r) {
      if (pieces % r)
        continue;
      int64_t rows = std::min(op.m, divideUp(divideUp(op.m, r), 32) * 32);
      int64_t columns = std::min(op.n, divideUp(divideUp(op.n, pieces / r), 32) * 32);
      if (divideUp(op.m, rows) * divideUp(op.n, columns) >= pieces &&
          copiesOf(rows, columns) < least) {
        least = copiesOf(rows, columns);
        p.rowPiece = rows, p.columnPiece = columns;
      }
    }
    if (least < INT64_MAX && std::min(p.rowPiece, p.columnPiece) >= kLargeSide)
      return;
  }
}

void choosePieces(PreparedMatmul &p, int64_t threads) {
  if (hasWideKernels() && hasMatmuls(p.op.dtype))
    chooseSmallPieces(p);
  else
    chooseLargePieces(p, threads);
  p.rowPieces = divideUp(p.op.m, p.rowPiece);
  p.columnPieces = divideUp(p.op.n, p.columnPiece);
}

/// Returns whether split-K copies fewer elements than splitting the result into pieces. This is the
/// case for a long contracted dim and a small result, as in weight gradients.
bool isBetterAsSum(const PreparedMatmul &p, int64_t threads, bool hasBias) {
  const MatmulOp &op = p.op;
  bool isOne =
      op.batch[0] * op.batch[1] == 1 && !hasBias && op.out[3] == 1 && op.outDtype == Dtype::F32;
  if (hasWideKernels() || threads == 1 || !isOne || op.k < 256 * threads)
    return false;
  return copiesOf(op.m, op.n) * op.k / threads + op.m * op.n * 2 <
         copiesOf(p.rowPiece, p.columnPiece) * op.k;
}

void bindSum(CpuRank &rank, const MatmulOp &op, Bound &bound) {
  auto prepared = std::make_unique<PreparedSum>();
  prepared->op = op;
  prepared->part = divideUp(divideUp(op.k, rank.threads()), 32) * 32;
  for (int64_t at = 0; at < op.k; at += prepared->part) {
    MatmulShape shape;
    shape.m = op.m, shape.n = op.n, shape.k = std::min(prepared->part, op.k - at);
    shape.lhs = {op.lhs[2], op.lhs[3]};
    shape.rhs = {op.rhs[2], op.rhs[3]};
    shape.out = {at ? op.n : op.out[2], 1};
    shape.accumulate = bound.accumulate && at == 0;
    shape.dtype = op.dtype;
    prepared->matmuls.emplace_back(rank, shape);
  }
  rank.needScratch((TiledMatmul::getScratchFloats() + op.m * op.n) * sizeof(float));
  bound.run = runSum;
  bound.prepared = rank.keep(std::move(prepared));
}

void bindBlasMatmul(CpuRank &rank, const MatmulOp &op, Bound &bound) {
  if (op.dtype == Dtype::F64) {
    bound.run = runMatmulF64;
    return;
  }
  if (op.dtype != Dtype::F32 && !isNarrowFloat(op.dtype))
    PSRT_FAIL(BadInput, "matmul of %s is not supported on the cpu; use f32, bf16, f16 or f64",
              dtypeName(op.dtype));
  if (op.outDtype != Dtype::F32 && bound.buffers[MatmulOp::Bias])
    PSRT_FAIL(BadInput,
              "matmul with a bias of %s is not supported on the cpu; add the bias in a kernel",
              dtypeName(op.outDtype));
  auto prepared = std::make_unique<PreparedMatmul>();
  prepared->op = op;
  choosePieces(*prepared, rank.threads());
  if (isBetterAsSum(*prepared, rank.threads(), bound.buffers[MatmulOp::Bias]))
    return bindSum(rank, op, bound);
  for (int lastRow : {0, 1})
    for (int lastColumn : {0, 1}) {
      if ((!lastRow && prepared->rowPieces == 1) || (!lastColumn && prepared->columnPieces == 1))
        continue;
      MatmulShape shape;
      shape.m =
          lastRow ? op.m - (prepared->rowPieces - 1) * prepared->rowPiece : prepared->rowPiece;
      shape.n = lastColumn ? op.n - (prepared->columnPieces - 1) * prepared->columnPiece
                           : prepared->columnPiece;
      shape.k = op.k;
      shape.lhs = {op.lhs[2], op.lhs[3]};
      shape.rhs = {op.rhs[2], op.rhs[3]};
      shape.out = {op.out[2], op.out[3]};
      shape.accumulate = bound.accumulate;
      shape.bias = bound.buffers[MatmulOp::Bias] != nullptr;
      shape.dtype = op.dtype, shape.outDtype = op.outDtype;
      prepared->matmuls[lastRow][lastColumn].emplace(rank, shape);
    }
  bound.run = runMatmul;
  bound.prepared = rank.keep(std::move(prepared));
}

//===--- bias gradients ---------------------------------------------------===//

/// A matmul with a bias gradient. `run` and `prepared` are the fields of Bound for the matmul
/// alone.
struct PreparedSums : Prepared {
  void (*run)(const Bound &) = nullptr;
  void *prepared = nullptr;
};

/// Computes elements [lo, hi) of a bias gradient: sums of an operand over the contracted dim. These
/// loops are slow. The compiler fuses bias gradients into matmuls only for GPUs, so speed does not
/// matter here.
void runBiasGrad(void *context, int, int64_t lo, int64_t hi) {
  const Bound &bound = *static_cast<const Bound *>(context);
  const MatmulOp &op = std::get<MatmulOp>(bound.instruction->op);
  bool isLhs = op.summed == MatmulOp::Lhs;
  int64_t step = isLhs ? op.lhs[2] : op.rhs[3], inner = isLhs ? op.lhs[3] : op.rhs[2];
  auto *from = static_cast<const char *>(bound.buffers[op.summed]);
  auto *to = static_cast<char *>(bound.buffers[MatmulOp::BiasGrad]);
  for (int64_t i = lo; i < hi; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < op.k; ++k)
      sum += loadFloat(elementAt(from, op.dtype, i * step + k * inner), op.dtype);
    storeElement(elementAt(to, op.outDtype, i), op.outDtype, sum);
  }
}

void runWithSums(const Bound &bound) {
  const auto &p = *static_cast<const PreparedSums *>(bound.prepared);
  Bound matmul = bound;
  matmul.run = p.run;
  matmul.prepared = p.prepared;
  matmul.run(matmul);
  const MatmulOp &op = std::get<MatmulOp>(bound.instruction->op);
  CpuRank::of(bound).pool.run(runBiasGrad, const_cast<Bound *>(&bound), op.countBiasGrad(), 16);
}

} // namespace

void bindMatmul(CpuRank &rank, const MatmulOp &op, Bound &bound) {
  if (op.activation != MatmulOp::Activation::None)
    PSRT_FAIL(BadInput, "a matmul with an activation is not supported on the cpu; compile without "
                        "--matmul-epilogues");
  bindBlasMatmul(rank, op, bound);
  if (!hasBiasGrad(bound))
    return;
  auto prepared = std::make_unique<PreparedSums>();
  prepared->run = bound.run;
  prepared->prepared = bound.prepared;
  bound.run = runWithSums;
  bound.prepared = rank.keep(std::move(prepared));
}

} // namespace psrt
