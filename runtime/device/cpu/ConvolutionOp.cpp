// A convolution instruction: the images of a batch over the rank's threads.
#include "runtime/core/Status.h"
#include "runtime/device/cpu/Convolution.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/cpu/Windows.h"

namespace psrt {
namespace {

/// Images in as many pieces as there are threads (one image is one piece). A kernel is computed
/// from each piece and added up in their order, so its last bits depend on the number of threads.
struct PreparedConvolution : Prepared {
  ConvolutionOp op;
  int64_t piece = 0, pieces = 0;
  std::unique_ptr<ConvolutionPrimitive> primitives[2];   ///< [last piece]
  std::vector<ConvolutionPrimitive::Handles> handles[2]; ///< by thread
  int64_t elements[3] = {};                              ///< of an image in x and y, and of w
  std::vector<float> parts; ///< kernels of the pieces from the second on
};

struct Context {
  const Bound *bound;
  PreparedConvolution *prepared;
};

void runPiece(void *context, int thread, int64_t lo, int64_t hi) {
  auto [bound, p] = *static_cast<Context *>(context);
  auto tensor = [&](int i) { return static_cast<float *>(bound->buffers[i]); };
  char *scratch = reinterpret_cast<char *>(CpuRank::of(*bound).scratch(thread));
  for (int64_t i = lo; i < hi; ++i) {
    std::array<float *, 3> tensors;
    for (int side : {ConvolutionOp::X, ConvolutionOp::Y})
      tensors[side] = tensor(side) + i * p->piece * p->elements[side];
    bool isPart = p->op.result == ConvolutionOp::W && i > 0;
    tensors[ConvolutionOp::W] = isPart ? p->parts.data() + (i - 1) * p->elements[ConvolutionOp::W]
                                       : tensor(ConvolutionOp::W);
    bool isLast = i == p->pieces - 1;
    p->primitives[isLast]->run(p->handles[isLast][thread], tensors, scratch);
  }
}

/// Elements [lo, hi) of the kernel: plus the other parts, in their order.
void addParts(void *context, int, int64_t lo, int64_t hi) {
  auto [bound, p] = *static_cast<Context *>(context);
  auto *out = static_cast<float *>(bound->buffers[ConvolutionOp::W]);
  for (int64_t part = 1; part < p->pieces; ++part) {
    const float *from = p->parts.data() + (part - 1) * p->elements[ConvolutionOp::W];
    for (int64_t i = lo; i < hi; ++i)
      out[i] += from[i];
  }
}

void runConvolution(const Bound &bound) {
  auto *p = static_cast<PreparedConvolution *>(bound.prepared);
  Context context{&bound, p};
  ThreadPool &pool = CpuRank::of(bound).pool;
  pool.run(runPiece, &context, p->pieces, 1);
  if (!p->parts.empty())
    pool.run(addParts, &context, p->elements[ConvolutionOp::W], 4096);
}

//===--- by plain loops ---------------------------------------------------===//

/// Row `row` of the result: all places of one channel of one image, or the kernels of one channel.
template <typename T> void computeRow(const ConvolutionOp &op, void *const *buffers, int64_t row) {
  auto *x = static_cast<T *>(buffers[ConvolutionOp::X]);
  auto *w = static_cast<T *>(buffers[ConvolutionOp::W]);
  auto *y = static_cast<T *>(buffers[ConvolutionOp::Y]);
  const WindowShape &s = op.windows;
  int64_t in = op.inChannels, out = op.outChannels, taps = volume(s.kernel);
  int64_t elements = volume(s.in), places = volume(s.out);
  auto xAt = [&](int64_t n, int64_t g, int64_t c) {
    return ((n * op.groups + g) * in + c) * elements;
  };
  auto yAt = [&](int64_t n, int64_t o) { return (n * op.groups * out + o) * places; };
  if (op.result == ConvolutionOp::X) {
    int64_t c = row % in, g = row / in % op.groups, n = row / in / op.groups;
    std::vector<double> sums(elements);
    for (int64_t o = g * out; o < (g + 1) * out; ++o)
      for (int64_t p = 0; p < places; ++p)
        forEachTap(s, p, [&](int64_t tap, int64_t element) {
          sums[element] += double(y[yAt(n, o) + p]) * double(w[(o * in + c) * taps + tap]);
        });
    std::copy(sums.begin(), sums.end(), x + xAt(n, g, c));
  } else if (op.result == ConvolutionOp::Y) {
    int64_t o = row % (op.groups * out), g = o / out, n = row / (op.groups * out);
    for (int64_t p = 0; p < places; ++p) {
      double sum = 0;
      for (int64_t c = 0; c < in; ++c)
        forEachTap(s, p, [&](int64_t tap, int64_t element) {
          sum += double(x[xAt(n, g, c) + element]) * double(w[(o * in + c) * taps + tap]);
        });
      y[yAt(n, o) + p] = T(sum);
    }
  } else {
    int64_t o = row, g = o / out;
    std::vector<double> sums(in * taps);
    for (int64_t n = 0; n < op.batch; ++n)
      for (int64_t c = 0; c < in; ++c)
        for (int64_t p = 0; p < places; ++p)
          forEachTap(s, p, [&](int64_t tap, int64_t element) {
            sums[c * taps + tap] += double(x[xAt(n, g, c) + element]) * double(y[yAt(n, o) + p]);
          });
    std::copy(sums.begin(), sums.end(), w + o * in * taps);
  }
}

/// f64, for exact comparisons, and what oneDNN has no convolution for: correct, not fast.
template <typename T> void runLoops(const Bound &bound) {
  auto piece = [](void *context, int, int64_t lo, int64_t hi) {
    const Bound &bound = *static_cast<const Bound *>(context);
    for (int64_t row = lo; row < hi; ++row)
      computeRow<T>(std::get<ConvolutionOp>(bound.instruction->op), bound.buffers, row);
  };
  const ConvolutionOp &op = std::get<ConvolutionOp>(bound.instruction->op);
  int64_t rows = op.result == ConvolutionOp::W   ? op.groups * op.outChannels
                 : op.result == ConvolutionOp::X ? op.batch * op.groups * op.inChannels
                                                 : op.batch * op.groups * op.outChannels;
  CpuRank::of(bound).pool.run(piece, const_cast<Bound *>(&bound), rows, 1);
}

/// The pieces, and their primitives on every thread; null where oneDNN has none.
std::unique_ptr<PreparedConvolution> prepare(CpuRank &rank, const ConvolutionOp &op) {
  auto p = std::make_unique<PreparedConvolution>();
  p->op = op;
  p->piece = (op.batch + rank.threads() - 1) / rank.threads();
  p->pieces = (op.batch + p->piece - 1) / p->piece;
  for (int last : {0, 1}) {
    if (!last && p->pieces == 1)
      continue;
    int64_t images = last ? op.batch - (p->pieces - 1) * p->piece : p->piece;
    p->primitives[last] = ConvolutionPrimitive::make(rank.cache().getEngine(), op, images);
    if (!p->primitives[last])
      return nullptr;
    rank.needScratch(p->primitives[last]->getScratchBytes());
    for (int thread = 0; thread < rank.threads(); ++thread)
      p->handles[last].push_back(p->primitives[last]->makeHandles());
  }
  p->elements[ConvolutionOp::X] = op.groups * op.inChannels * volume(op.windows.in);
  p->elements[ConvolutionOp::Y] = op.groups * op.outChannels * volume(op.windows.out);
  p->elements[ConvolutionOp::W] =
      op.groups * op.inChannels * op.outChannels * volume(op.windows.kernel);
  if (op.result == ConvolutionOp::W)
    p->parts.resize((p->pieces - 1) * p->elements[ConvolutionOp::W]);
  return p;
}

} // namespace

void bindConvolution(CpuRank &rank, const ConvolutionOp &op, Bound &bound) {
  if (op.dtype == Dtype::F64) {
    bound.run = runLoops<double>;
    return;
  }
  if (op.dtype != Dtype::F32)
    PSRT_FAIL(BadInput,
              "a convolution of %s is not built for the cpu yet; compile with --precision fp32",
              dtypeName(op.dtype));
  auto prepared = prepare(rank, op);
  bound.run = prepared ? runConvolution : runLoops<float>;
  if (prepared)
    bound.prepared = rank.keep(std::move(prepared));
}

} // namespace psrt
