// Builds launches of embeddings, attention, pooling, convolutions, activations and transpositions.
#include "runtime/device/cuda/kernels/Launches.h"
#include "runtime/core/Element.h"
#include "runtime/core/Status.h"
#include "runtime/device/cuda/kernels/LaunchHelpers.h"

namespace psrt::cuda {
namespace {

std::string named(const char *name, Dtype dtype) {
  return std::string(name) + "_" + dtypeName(dtype);
}

/// Fails if a shape has too many elements for the 32-bit indices of the kernels.
void checkWindows(const char *name, const WindowShape &shape) {
  for (int64_t size : {volumeOf(shape.in), volumeOf(shape.out)})
    if (size >= int64_t(1) << 31)
      PSRT_FAIL(BadInput,
                "%s over %lld positions is not supported on cuda; use fewer than 2^31 positions",
                name, (long long)size);
}

//===--- embedding --------------------------------------------------------===//

Launches launchGather(const EmbeddingOp &op, void *const *buffers) {
  const void *table = buffers[EmbeddingOp::Table];
  void *out = buffers[EmbeddingOp::Out];
  int64_t bytes = op.width * dtypeSize(op.dtype);
  int64_t unit = commonUnit({bytes, address(table), address(out)});
  EmbeddingArguments a{table,        buffers[EmbeddingOp::Indices],
                       out,          static_cast<const int64_t *>(buffers[EmbeddingOp::FirstRow]),
                       op.count,     op.rows,
                       bytes / unit, op.indexDtype == Dtype::I64};
  return {makeLaunch("psrt_embedding_" + std::to_string(unit), blocksFor(op.count, 4), 128, a)};
}

Launches launchGrad(const EmbeddingOp &op, void *const *buffers, bool accumulate, void *workspace) {
  if (!isFloat(op.dtype))
    PSRT_FAIL(BadInput,
              "embedding gradients of %s are not supported on cuda; use f32, bf16, f16 or f64",
              dtypeName(op.dtype));
  if (op.rows >= 0xffffffff || op.count >= 0xffffffff)
    PSRT_FAIL(
        BadInput,
        "an embedding gradient of %lld positions and %lld rows is not supported on cuda; both "
        "must be less than 2^32 - 1",
        (long long)op.count, (long long)op.rows);
  const void *grad = buffers[EmbeddingOp::Table];
  void *out = buffers[EmbeddingOp::Out];
  int64_t size = dtypeSize(op.dtype), outSize = dtypeSize(op.outDtype);
  EmbeddingGradArguments a{};
  a.grad = grad, a.indices = buffers[EmbeddingOp::Indices], a.out = out;
  a.firstRow = static_cast<const int64_t *>(buffers[EmbeddingOp::FirstRow]);
  a.positions = static_cast<uint32_t *>(workspace);
  a.keys = a.positions + op.count;
  a.count = op.count, a.rows = op.rows, a.width = op.width, a.paddingIndex = op.paddingIndex;
  a.wideIndices = op.indexDtype == Dtype::I64, a.accumulate = accumulate;
  a.packed =
      op.width % 4 == 0 && address(grad) % (4 * size) == 0 && address(out) % (4 * outSize) == 0;
  Launches result;
  if (!accumulate)
    result = launchZero(out, op.rows * op.width * outSize);
  if (op.count == 0)
    return result;
  result.push_back(makeLaunch("psrt_embedding_grad_clear", blocksFor(op.count, 256), 256, a));
  result.push_back(makeLaunch("psrt_embedding_grad_sort", (op.count + 127) / 128, 128, a));
  std::string name = named("psrt_embedding_grad", op.dtype) + "_" + dtypeName(op.outDtype);
  result.push_back(makeLaunch(name, std::min<int64_t>(op.count, 1 << 20), 128, a));
  return result;
}

//===--- attention --------------------------------------------------------===//

void check(const AttentionOp &op, bool hasMask) {
  if (op.dtype != Dtype::F32 && !isNarrowFloat(op.dtype))
    PSRT_FAIL(BadInput, "attention of %s is not supported on cuda; use f32, bf16 or f16",
              dtypeName(op.dtype));
  if (hasMask && op.maskDtype != Dtype::F32 && op.maskDtype != Dtype::Bool &&
      !isNarrowFloat(op.maskDtype))
    PSRT_FAIL(BadInput, "attention masks of %s are not supported; use bool, f32, bf16 or f16",
              dtypeName(op.maskDtype));
  if (op.g < 1 || op.h % op.g != 0)
    PSRT_FAIL(BadInput,
              "attention has %lld query heads, not a multiple of its %lld key/value heads",
              (long long)op.h, (long long)op.g);
  if (op.d > 256)
    PSRT_FAIL(
        BadInput,
        "attention heads of %lld elements are not supported on cuda; the limit is 256 elements",
        (long long)op.d);
  if (op.t + op.s >= 1 << 30)
    PSRT_FAIL(BadInput,
              "attention of %lld queries over %lld keys is not supported on cuda; their sum must "
              "be less than 2^30",
              (long long)op.t, (long long)op.s);
  if (op.factorSizes.size() > kMaxFactors)
    PSRT_FAIL(
        BadInput,
        "attention dropout over %zu factors is not supported on cuda; the limit is %d factors",
        op.factorSizes.size(), kMaxFactors);
}

MaskKind getMaskKind(const AttentionOp &op, bool hasMask) {
  if (!hasMask)
    return NoMask;
  switch (op.maskDtype) {
  case Dtype::Bool:
    return BoolMask;
  case Dtype::F32:
    return F32Mask;
  case Dtype::BF16:
    return Bf16Mask;
  default:
    return F16Mask;
  }
}

HeadStrides toStrides(const std::array<int64_t, 3> &strides) {
  return {strides[0], strides[1], strides[2]};
}

/// Returns true if rows of all matrices can be loaded and stored 16 bytes at once.
bool isPacked(const AttentionOp &op, void *const *buffers) {
  int64_t size = dtypeSize(op.dtype), all = op.d * size;
  auto add = [&](int buffer, const std::array<int64_t, 3> &strides) {
    all |= address(buffers[buffer]);
    for (int64_t stride : strides)
      all |= stride * size;
  };
  add(AttentionOp::Q, op.q), add(AttentionOp::K, op.k), add(AttentionOp::V, op.v);
  add(AttentionOp::Out, op.out);
  if (op.grad) {
    add(AttentionOp::Dout, op.dout), add(AttentionOp::Dq, op.dq);
    add(AttentionOp::Dk, op.dk), add(AttentionOp::Dv, op.dv);
  }
  return all % 16 == 0;
}

void setDropout(AttentionArguments &a, const AttentionOp &op) {
  a.dropout = op.dropout, a.globalSize = op.globalSize;
  a.factors = int32_t(op.factorSizes.size());
  std::copy(op.factorSizes.begin(), op.factorSizes.end(), a.factorSizes);
  std::copy(op.factorStrides.begin(), op.factorStrides.end(), a.factorStrides);
  a.runsOfCounters =
      op.factorSizes.empty() || (op.factorStrides.back() == 1 && op.factorSizes.back() % op.s == 0);
}

void setBuffers(AttentionArguments &a, const AttentionOp &op, void *const *buffers) {
  a.q = buffers[AttentionOp::Q], a.k = buffers[AttentionOp::K], a.v = buffers[AttentionOp::V];
  a.out = buffers[AttentionOp::Out], a.dout = buffers[AttentionOp::Dout];
  a.dq = buffers[AttentionOp::Dq], a.dk = buffers[AttentionOp::Dk];
  a.dv = buffers[AttentionOp::Dv];
  a.lse = static_cast<float *>(buffers[AttentionOp::Lse]);
  a.mask = buffers[AttentionOp::Mask];
  a.padding = static_cast<const uint8_t *>(buffers[AttentionOp::Padding]);
  a.offset = static_cast<const int64_t *>(buffers[AttentionOp::Offset]);
  a.qStrides = toStrides(op.q), a.kStrides = toStrides(op.k), a.vStrides = toStrides(op.v);
  a.outStrides = toStrides(op.out), a.doutStrides = toStrides(op.dout);
  a.dqStrides = toStrides(op.dq), a.dkStrides = toStrides(op.dk);
  a.dvStrides = toStrides(op.dv);
  std::copy(op.mask.begin(), op.mask.end(), a.maskStrides);
  a.packed = isPacked(op, buffers);
}

AttentionArguments toArguments(const AttentionOp &op, void *const *buffers, const int64_t *scalars,
                               int64_t key, void *workspace) {
  AttentionArguments a{};
  setBuffers(a, op, buffers);
  setDropout(a, op);
  a.scalars = scalars, a.key = key;
  a.delta = static_cast<float *>(workspace);
  a.factor = a.delta + op.b * op.h * op.t;
  a.b = int32_t(op.b), a.h = int32_t(op.h), a.g = int32_t(op.g);
  a.t = int32_t(op.t), a.s = int32_t(op.s), a.d = int32_t(op.d);
  a.causal = op.causal, a.window = int32_t(std::min(op.window, op.s + op.t));
  a.scale = op.scale;
  a.maskKind = getMaskKind(op, buffers[AttentionOp::Mask]);
  return a;
}

/// Returns the number of rows per block in the kernels for heads of up to `d` elements. The values
/// must equal those of Shape and kRows in the kernels.
int64_t getForwardRows(Dtype dtype, int d) {
  bool hasTensorCores = isNarrowFloat(dtype) && d <= 128;
  return d == 64 || hasTensorCores ? 64 : d == 128 ? 32 : 16;
}
int64_t getBackwardRows(Dtype dtype, int d) {
  bool hasTensorCores = isNarrowFloat(dtype) && d <= 128;
  return hasTensorCores ? 64 : d == 64 ? 32 : d == 128 ? 16 : 8;
}

} // namespace

int64_t workspaceBytes(const EmbeddingOp &op) {
  return op.grad ? 2 * op.count * int64_t(sizeof(uint32_t)) : 0;
}

int64_t workspaceBytes(const AttentionOp &op) {
  return op.grad ? 2 * op.b * op.h * op.t * int64_t(sizeof(float)) : 0;
}

Launches launchEmbedding(const EmbeddingOp &op, void *const *buffers, bool accumulate,
                         void *workspace) {
  if (op.indexDtype != Dtype::I64 && op.indexDtype != Dtype::I32)
    PSRT_FAIL(BadInput, "embedding indices of %s are not supported; use i64 or i32",
              dtypeName(op.indexDtype));
  return op.grad ? launchGrad(op, buffers, accumulate, workspace) : launchGather(op, buffers);
}

Launches launchAttentionBias(const AttentionOp &op, const std::array<int64_t, 4> &sizes,
                             void *const *buffers, void *out) {
  check(op, buffers[AttentionOp::Mask]);
  AttentionBiasArguments a{};
  a.mask = buffers[AttentionOp::Mask];
  a.padding = static_cast<const uint8_t *>(buffers[AttentionOp::Padding]);
  a.out = static_cast<float *>(out);
  std::copy(op.mask.begin(), op.mask.end(), a.maskStrides);
  a.b = int32_t(sizes[0]), a.h = int32_t(sizes[1]);
  a.t = int32_t(sizes[2]), a.s = int32_t(sizes[3]);
  a.maskKind = getMaskKind(op, a.mask);
  int64_t count = sizes[0] * sizes[1] * sizes[2] * sizes[3];
  return {makeLaunch("psrt_attention_bias", blocksFor(count, 128), 128, a)};
}

static KernelLaunch launchAttentionRows(const AttentionOp &op, const AttentionArguments &a) {
  return makeLaunch(named("psrt_attention_rows", op.dtype), blocksFor(op.b * op.h * op.t, 4), 128,
                    a);
}

Launches launchAttentionDout(const AttentionOp &op, void *const *buffers, void *workspace,
                             void *out) {
  check(op, buffers[AttentionOp::Mask]);
  AttentionArguments a = toArguments(op, buffers, nullptr, 0, workspace);
  AttentionArguments scale = a;
  scale.out = out; // the first launch reads `a.out`, the second writes `out`
  return {launchAttentionRows(op, a), makeLaunch(named("psrt_attention_dout", op.dtype),
                                                 blocksFor(op.b * op.h * op.t, 4), 128, scale)};
}

Launches launchAttentionKept(const AttentionOp &op, void *const *buffers, const int64_t *scalars,
                             int64_t key, void *out) {
  check(op, buffers[AttentionOp::Mask]);
  AttentionArguments a = toArguments(op, buffers, scalars, key, nullptr);
  a.out = out;
  return {
      makeLaunch(named("psrt_attention_kept", op.dtype), blocksFor(op.b * op.h * op.t, 4), 128, a)};
}

Launches launchAttentionLse(const AttentionOp &op, void *const *buffers, void *out) {
  AttentionArguments a = toArguments(op, buffers, nullptr, 0, out);
  return {makeLaunch("psrt_attention_lse", blocksFor(op.b * op.h * op.t, 128), 128, a)};
}

Launches launchAttention(const AttentionOp &op, void *const *buffers, const int64_t *scalars,
                         int64_t key, void *workspace) {
  check(op, buffers[AttentionOp::Mask]);
  AttentionArguments a = toArguments(op, buffers, scalars, key, workspace);
  int d = op.d <= 64 ? 64 : op.d <= 128 ? 128 : 256;
  auto launch = [&](const char *name, int64_t heads, int64_t length, int64_t rows) {
    return makeLaunch(named(name, op.dtype) + "_" + std::to_string(d),
                      heads * ((length + rows - 1) / rows), 128, a);
  };
  if (!op.grad)
    return {launch("psrt_attention", op.b * op.h, op.t, getForwardRows(op.dtype, d))};
  return {launchAttentionRows(op, a),
          launch("psrt_attention_dq", op.b * op.h, op.t, getBackwardRows(op.dtype, d)),
          launch("psrt_attention_dkv", op.b * op.g, op.s, getBackwardRows(op.dtype, d))};
}

Launches launchTranspose(const void *in, void *out, const ByteMatrices &m) {
  for (int64_t number : {m.rows, m.columns, m.rowStride, m.batchStride, address(in), address(out)})
    if (number % 4 != 0)
      PSRT_FAIL(BadInput, "transposing bytes requires sizes, strides and addresses that are "
                          "multiples of 4 on cuda");
  TransposeArguments a{static_cast<const uint8_t *>(in),
                       static_cast<uint8_t *>(out),
                       m.rows,
                       m.columns,
                       m.rowStride,
                       m.batches,
                       m.batchStride};
  auto tiles = [](int64_t size) { return (size + kTransposeTile - 1) / kTransposeTile; };
  return {makeLaunch("psrt_transpose_bytes", m.batches * tiles(m.rows) * tiles(m.columns),
                     kTransposeTile * kTransposeTile / 16, a)};
}

Launches launchMaxPool(const MaxPoolOp &op, void *const *buffers) {
  if (!isFloat(op.dtype))
    PSRT_FAIL(BadInput, "max pooling of %s is not supported on cuda; use f32, bf16, f16 or f64",
              dtypeName(op.dtype));
  checkWindows("max pooling", op.windows);
  MaxPoolArguments a{};
  a.x = buffers[MaxPoolOp::X], a.y = buffers[MaxPoolOp::Y];
  a.out = buffers[op.grad ? MaxPoolOp::Out : MaxPoolOp::Y];
  a.planes = op.planes, a.windows = toArguments(op.windows);
  int64_t count = op.planes * volumeOf(op.grad ? op.windows.in : op.windows.out);
  return {makeLaunch(named(op.grad ? "psrt_max_pool_grad" : "psrt_max_pool", op.dtype),
                     blocksFor(count, 128), 128, a)};
}

Launches launchConvolution(const ConvolutionOp &op, void *const *buffers) {
  if (!isFloat(op.dtype))
    PSRT_FAIL(BadInput, "convolutions of %s are not supported on cuda; use f32, bf16, f16 or f64",
              dtypeName(op.dtype));
  checkWindows("a convolution", op.windows);
  ConvolutionArguments a{};
  a.x = buffers[ConvolutionOp::X], a.w = buffers[ConvolutionOp::W], a.y = buffers[ConvolutionOp::Y];
  a.out = buffers[op.result];
  a.batch = op.batch, a.groups = op.groups;
  a.inChannels = op.inChannels, a.outChannels = op.outChannels;
  a.windows = toArguments(op.windows);
  int64_t channels = op.result == ConvolutionOp::X ? op.inChannels : op.outChannels;
  int64_t positions = volumeOf(op.result == ConvolutionOp::X ? op.windows.in : op.windows.out);
  int64_t count = op.batch * op.groups * ((channels + 3) / 4) * positions;
  if (op.result == ConvolutionOp::W) // one warp per element
    count = op.groups * op.outChannels * op.inChannels * volumeOf(op.windows.kernel) * 32;
  const char *names[] = {"psrt_convolution_x", "psrt_convolution_w", "psrt_convolution_y"};
  return {makeLaunch(named(names[op.result], op.dtype) + "_" + dtypeName(op.outDtype),
                     blocksFor(count, 128), 128, a)};
}

static Launches launchGelus(const char *name, Dtype dtype, GeluArguments a) {
  if (dtype != Dtype::F32 && !isNarrowFloat(dtype))
    PSRT_FAIL(BadInput, "GELUs of %s are not supported on cuda; use f32, bf16 or f16",
              dtypeName(dtype));
  int64_t bytes = 4 * dtypeSize(dtype);
  bool isAligned = (address(a.x) | address(a.grad) | address(a.out)) % bytes == 0;
  a.packed = isAligned && a.count % 4 == 0;
  return {makeLaunch(named(name, dtype), blocksFor(a.packed ? a.count / 4 : a.count, 256), 256, a)};
}

Launches launchGelu(Dtype dtype, const void *x, void *out, int64_t count) {
  return launchGelus("psrt_gelu", dtype, {x, nullptr, out, count, 0});
}

Launches launchGeluGrad(Dtype dtype, const void *grad, const void *x, void *out, int64_t count) {
  return launchGelus("psrt_gelu_grad", dtype, {x, grad, out, count, 0});
}

} // namespace psrt::cuda
