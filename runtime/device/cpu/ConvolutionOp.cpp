// Runs convolution instructions. The images of a batch are split over the rank's threads.
#include "runtime/core/Status.h"
#include "runtime/device/cpu/Convolution.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/cpu/NarrowFloat.h"
#include "runtime/device/cpu/Windows.h"
#include <utility>

namespace psrt {
namespace {

/// A convolution whose batch is split into one piece of whole images per thread. For the weight
/// gradient, each piece computes a partial gradient. The partial gradients are summed in piece
/// order, so the last bits depend on the number of threads.
struct PreparedConvolution : Prepared {
  ConvolutionOp op;
  /// Dtypes in memory and in the primitive, indexed by ConvolutionOp::X, W, Y.
  ConvolutionPrimitive::Dtypes stored{}, computed{};
  /// Number of images per piece (the last piece may have fewer), and number of pieces.
  int64_t piece = 0, pieces = 0;
  std::unique_ptr<ConvolutionPrimitive> primitives[2];   ///< [is last piece]
  std::vector<ConvolutionPrimitive::Handles> handles[2]; ///< [is last piece][thread]
  int64_t elements[3] = {}; ///< elements per image of x and y, and all elements of w
  int64_t offsets[3] = {};  ///< offsets of f32 copies in a thread's scratch memory, in floats
  /// The first piece whose partial weight gradient is in `parts`. This is piece 0 if the result is
  /// rounded to 16 bits. Otherwise, this is piece 1, because piece 0 writes directly to the result.
  int64_t firstPart = 1;
  std::vector<float> parts; ///< partial weight gradients of piece `firstPart` and later pieces

  /// Returns whether the primitive uses an f32 copy of the tensor.
  bool isStaged(int tensor) const {
    bool isSum = tensor == ConvolutionOp::W && op.result == ConvolutionOp::W;
    return stored[tensor] != computed[tensor] && !isSum;
  }
  /// Returns the number of elements of a tensor in one piece.
  int64_t countOf(int tensor, bool isLast) const {
    int64_t images = isLast ? op.batch - (pieces - 1) * piece : piece;
    return elements[tensor] * (tensor == ConvolutionOp::W ? 1 : images);
  }
  float *getPart(int64_t i) { return parts.data() + (i - firstPart) * elements[ConvolutionOp::W]; }
};

struct Context {
  const Bound *bound;
  PreparedConvolution *prepared;
};

/// Returns the address of the images of piece `i` in x or y. For w, returns the address of all
/// weights, or of the piece's partial gradient in `parts`.
void *findTensor(const Context &context, int tensor, int64_t i) {
  auto [bound, p] = context;
  if (tensor != ConvolutionOp::W)
    return elementAt(bound->buffers[tensor], p->stored[tensor], i * p->piece * p->elements[tensor]);
  bool isPart = p->op.result == ConvolutionOp::W && i >= p->firstPart;
  return isPart ? p->getPart(i) : bound->buffers[ConvolutionOp::W];
}

void runPiece(void *data, int thread, int64_t lo, int64_t hi) {
  const Context &context = *static_cast<Context *>(data);
  auto [bound, p] = context;
  float *scratch = CpuRank::of(*bound).scratch(thread);
  for (int64_t i = lo; i < hi; ++i) {
    bool isLast = i == p->pieces - 1;
    std::array<void *, 3> tensors;
    for (int tensor : {ConvolutionOp::X, ConvolutionOp::W, ConvolutionOp::Y}) {
      tensors[tensor] = findTensor(context, tensor, i);
      if (!p->isStaged(tensor))
        continue;
      void *from = std::exchange(tensors[tensor], scratch + p->offsets[tensor]);
      if (tensor != p->op.result)
        widen(p->stored[tensor], from, scratch + p->offsets[tensor], p->countOf(tensor, isLast));
    }
    p->primitives[isLast]->run(p->handles[isLast][thread], tensors,
                               reinterpret_cast<char *>(scratch));
    if (int result = p->op.result; p->isStaged(result))
      narrow(scratch + p->offsets[result], p->stored[result], findTensor(context, result, i),
             p->countOf(result, isLast));
  }
}

/// Sums elements [lo, hi) of the partial weight gradients in piece order.
void addParts(void *context, int, int64_t lo, int64_t hi) {
  auto [bound, p] = *static_cast<Context *>(context);
  void *result = bound->buffers[ConvolutionOp::W];
  float *sum = p->firstPart == 0 ? p->getPart(0) : static_cast<float *>(result);
  for (int64_t part = 1; part < p->pieces; ++part) {
    const float *from = p->getPart(part);
    for (int64_t i = lo; i < hi; ++i)
      sum[i] += from[i];
  }
  if (p->firstPart == 0)
    narrow(sum + lo, p->op.outDtype, elementAt(result, p->op.outDtype, lo), hi - lo);
}

void runConvolution(const Bound &bound) {
  auto *p = static_cast<PreparedConvolution *>(bound.prepared);
  Context context{&bound, p};
  ThreadPool &pool = CpuRank::of(bound).pool;
  pool.run(runPiece, &context, p->pieces, 1);
  if (!p->parts.empty())
    pool.run(addParts, &context, p->elements[ConvolutionOp::W], 4096);
}

//===--- plain loops ------------------------------------------------------===//

/// Computes row `row` of the result: all positions of one channel of one image, or all weights of
/// one output channel.
template <typename T, typename Result>
void computeRow(const ConvolutionOp &op, void *const *buffers, int64_t row) {
  auto *x = static_cast<const T *>(buffers[ConvolutionOp::X]);
  auto *w = static_cast<const T *>(buffers[ConvolutionOp::W]);
  auto *y = static_cast<const T *>(buffers[ConvolutionOp::Y]);
  auto *result = static_cast<Result *>(buffers[op.result]);
  const WindowShape &s = op.windows;
  int64_t in = op.inChannels, out = op.outChannels, taps = volume(s.kernel);
  int64_t elements = volume(s.in), positions = volume(s.out);
  auto xAt = [&](int64_t n, int64_t g, int64_t c) {
    return ((n * op.groups + g) * in + c) * elements;
  };
  auto yAt = [&](int64_t n, int64_t o) { return (n * op.groups * out + o) * positions; };
  if (op.result == ConvolutionOp::X) {
    int64_t c = row % in, g = row / in % op.groups, n = row / in / op.groups;
    std::vector<double> sums(elements);
    for (int64_t o = g * out; o < (g + 1) * out; ++o)
      for (int64_t p = 0; p < positions; ++p)
        forEachTap(s, p, [&](int64_t tap, int64_t element) {
          sums[element] += double(y[yAt(n, o) + p]) * double(w[(o * in + c) * taps + tap]);
        });
    std::copy(sums.begin(), sums.end(), result + xAt(n, g, c));
  } else if (op.result == ConvolutionOp::Y) {
    int64_t o = row % (op.groups * out), g = o / out, n = row / (op.groups * out);
    for (int64_t p = 0; p < positions; ++p) {
      double sum = 0;
      for (int64_t c = 0; c < in; ++c)
        forEachTap(s, p, [&](int64_t tap, int64_t element) {
          sum += double(x[xAt(n, g, c) + element]) * double(w[(o * in + c) * taps + tap]);
        });
      result[yAt(n, o) + p] = Result(sum);
    }
  } else {
    int64_t o = row, g = o / out;
    std::vector<double> sums(in * taps);
    for (int64_t n = 0; n < op.batch; ++n)
      for (int64_t c = 0; c < in; ++c)
        for (int64_t p = 0; p < positions; ++p)
          forEachTap(s, p, [&](int64_t tap, int64_t element) {
            sums[c * taps + tap] += double(x[xAt(n, g, c) + element]) * double(y[yAt(n, o) + p]);
          });
    std::copy(sums.begin(), sums.end(), result + o * in * taps);
  }
}

/// Computes a convolution with plain loops, which are slow. Used for f64, and for convolutions that
/// oneDNN does not support.
template <typename T, typename Result = T> void runLoops(const Bound &bound) {
  auto piece = [](void *context, int, int64_t lo, int64_t hi) {
    const Bound &bound = *static_cast<const Bound *>(context);
    for (int64_t row = lo; row < hi; ++row)
      computeRow<T, Result>(std::get<ConvolutionOp>(bound.instruction->op), bound.buffers, row);
  };
  const ConvolutionOp &op = std::get<ConvolutionOp>(bound.instruction->op);
  int64_t rows = op.result == ConvolutionOp::W   ? op.groups * op.outChannels
                 : op.result == ConvolutionOp::X ? op.batch * op.groups * op.inChannels
                                                 : op.batch * op.groups * op.outChannels;
  CpuRank::of(bound).pool.run(piece, const_cast<Bound *>(&bound), rows, 1);
}

template <Dtype dtype> void (*getNarrowLoops(Dtype outDtype))(const Bound &) {
  using Stored = NarrowFloat<dtype>;
  return outDtype == Dtype::F32 ? runLoops<Stored, float> : runLoops<Stored, Stored>;
}

auto getLoops(const ConvolutionOp &op) {
  switch (op.dtype) {
  case Dtype::BF16:
    return getNarrowLoops<Dtype::BF16>(op.outDtype);
  case Dtype::F16:
    return getNarrowLoops<Dtype::F16>(op.outDtype);
  case Dtype::F64:
    return runLoops<double, double>;
  default:
    return runLoops<float, float>;
  }
}

//===--- preparation ------------------------------------------------------===//

/// Chooses the dtypes of the tensors in memory, and those of the oneDNN primitive.
void chooseDtypes(PreparedConvolution &p) {
  const ConvolutionOp &op = p.op;
  Dtype computed = hasMatmuls(op.dtype) ? op.dtype : Dtype::F32;
  for (int tensor : {ConvolutionOp::X, ConvolutionOp::W, ConvolutionOp::Y}) {
    p.stored[tensor] = tensor == op.result ? op.outDtype : op.dtype;
    p.computed[tensor] = computed;
  }
  bool isSum = op.result == ConvolutionOp::W;
  p.computed[op.result] = isSum || computed == Dtype::F32 ? Dtype::F32 : op.outDtype;
  p.firstPart = isSum && isNarrowFloat(op.outDtype) ? 0 : 1;
}

/// Assigns scratch offsets to the f32 copies, after the memory of the primitives.
void placeCopies(CpuRank &rank, PreparedConvolution &p) {
  size_t floats = 0;
  for (const std::unique_ptr<ConvolutionPrimitive> &primitive : p.primitives)
    if (primitive)
      floats = std::max(floats, primitive->getScratchBytes() / sizeof(float));
  for (int tensor : {ConvolutionOp::X, ConvolutionOp::W, ConvolutionOp::Y}) {
    p.offsets[tensor] = floats;
    if (p.isStaged(tensor))
      floats += (std::max(p.countOf(tensor, false), p.countOf(tensor, true)) + 15) / 16 * 16;
  }
  rank.needScratch(floats * sizeof(float));
}

/// Prepares the pieces and their primitives on every thread. Returns null if oneDNN does not
/// support the convolution.
std::unique_ptr<PreparedConvolution> prepare(CpuRank &rank, const ConvolutionOp &op) {
  auto p = std::make_unique<PreparedConvolution>();
  p->op = op;
  chooseDtypes(*p);
  p->piece = (op.batch + rank.threads() - 1) / rank.threads();
  p->pieces = (op.batch + p->piece - 1) / p->piece;
  for (int last : {0, 1}) {
    if (!last && p->pieces == 1)
      continue;
    int64_t images = last ? op.batch - (p->pieces - 1) * p->piece : p->piece;
    p->primitives[last] =
        ConvolutionPrimitive::make(rank.cache().getEngine(), op, p->computed, images);
    if (!p->primitives[last])
      return nullptr;
    for (int thread = 0; thread < rank.threads(); ++thread)
      p->handles[last].push_back(p->primitives[last]->makeHandles());
  }
  p->elements[ConvolutionOp::X] = op.groups * op.inChannels * volume(op.windows.in);
  p->elements[ConvolutionOp::Y] = op.groups * op.outChannels * volume(op.windows.out);
  p->elements[ConvolutionOp::W] =
      op.groups * op.inChannels * op.outChannels * volume(op.windows.kernel);
  if (op.result == ConvolutionOp::W)
    p->parts.resize((p->pieces - p->firstPart) * p->elements[ConvolutionOp::W]);
  placeCopies(rank, *p);
  return p;
}

} // namespace

void bindCall(CpuRank &rank, const ConvolutionOp &op, Bound &bound) {
  if (!isFloat(op.dtype))
    PSRT_FAIL(BadInput,
              "a convolution of %s is not supported on the cpu; use f32, bf16, f16 or f64",
              dtypeName(op.dtype));
  auto prepared = op.dtype == Dtype::F64 ? nullptr : prepare(rank, op);
  bound.run = prepared ? runConvolution : getLoops(op);
  if (prepared)
    bound.prepared = rank.keep(std::move(prepared));
}

} // namespace psrt
