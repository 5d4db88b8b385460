// Parses the instructions of a program's JSON table, with one function per kind.
#include "runtime/core/InstructionParser.h"
#include "runtime/core/CheckProgram.h"
#include "runtime/core/Element.h"
#include <map>

namespace psrt {
namespace {

using Keys = std::initializer_list<const char *>;

void addOptionalBuffers(Instruction &result, const Json &object, Keys keys) {
  for (const char *key : keys)
    result.buffers.push_back(parseBuffer(get(object, key)));
}

using Parser = void (*)(const Json &, const Mesh &, Instruction &);

void parseKernel(const Json &object, const Mesh &, Instruction &result) {
  KernelOp op;
  op.kernel = getInt<int>(object, "kernel");
  op.rows = getInt(object, "rows");
  op.grain = std::max<int64_t>(1, getOr<int64_t>(object, "grain", op.rows));
  op.grid = getOr<int64_t>(object, "grid", 0);
  op.block = getOr<int64_t>(object, "block", 0);
  op.bytes = getOr<int64_t>(object, "bytes", 0);
  op.hasWrites = !get(object, "writes").is_null();
  for (int64_t index : getInts(object, "writes"))
    op.writes.push_back(int(std::clamp<int64_t>(index, -1, INT32_MAX)));
  checkKernel(op, object.at("args").size());
  for (const Json &argument : object.at("args"))
    result.buffers.push_back(parseBuffer(argument));
  result.op = op;
}

/// Parses "out_dtype". A result of 16-bit operands may also be f32.
Dtype parseOutDtype(const Json &object, Dtype dtype) {
  if (get(object, "out_dtype").is_null())
    return dtype;
  Dtype result = getDtype(object, "out_dtype");
  if (result != dtype && !(isNarrowFloat(dtype) && result == Dtype::F32))
    PSRT_FAIL(BadInput, "%s of %s has \"out_dtype\" %s; expected %s%s",
              object.at("op").get<std::string>().c_str(), dtypeName(dtype), dtypeName(result),
              dtypeName(dtype), isNarrowFloat(dtype) ? " or f32" : "");
  return result;
}

/// Parses the dtypes of a matmul. fp8 operands need two scales, and the result has another dtype.
void parseFloat8(const Json &object, const Instruction &instruction, MatmulOp &op) {
  if (!get(object, "rhs_dtype").is_null())
    op.otherRhsDtype = getDtype(object, "rhs_dtype");
  auto has = [&](int buffer) { return instruction.buffers[size_t(buffer)].present(); };
  bool is8 = isFloat8(op.dtype),
       hasOutDtype = op.outDtype == Dtype::F32 || isNarrowFloat(op.outDtype);
  if (is8 != isFloat8(op.rhsDtype()) || (!is8 && op.rhsDtype() != op.dtype))
    PSRT_FAIL(BadInput, "a matmul of %s and %s; expected equal types, or two 8-bit floats",
              dtypeName(op.dtype), dtypeName(op.rhsDtype()));
  if (is8 != has(MatmulOp::LhsScale) || is8 != has(MatmulOp::RhsScale))
    PSRT_FAIL(BadInput,
              "a matmul of %s with%s scales; f8e4m3 and f8e5m2 need two, other types have none",
              dtypeName(op.dtype), is8 ? "out two" : "");
  if (is8 && (!hasOutDtype || has(MatmulOp::BiasGrad)))
    PSRT_FAIL(BadInput, "a matmul of %s yields %s%s; expected only f32, bf16 or f16",
              dtypeName(op.dtype), dtypeName(op.outDtype),
              has(MatmulOp::BiasGrad) ? " and a bias gradient" : "");
}

/// Parses which operand the bias gradient sums. A matmul with a bias gradient must have neither a
/// batch nor a bias.
void parseSummed(const Json &object, const Instruction &instruction, MatmulOp &op) {
  op.summed = parseName<MatmulOp::Buffer>(object.at("summed"), "a matmul");
  if (op.batch[0] != 1 || op.batch[1] != 1 || instruction.buffers[MatmulOp::Bias].present())
    PSRT_FAIL(BadInput, "a matmul with a bias gradient and %s is not supported",
              instruction.buffers[MatmulOp::Bias].present() ? "a bias" : "a batch");
}

/// Parses the activation. A matmul with an activation must not have a bias gradient, a ref to
/// accumulate into, a batch or scales. With `gelu_grad`, it must not have a bias either.
void parseActivation(const Json &object, const Instruction &instruction, MatmulOp &op) {
  op.activation = parseName<MatmulOp::Activation>(object.at("activation"), "a matmul");
  bool isGrad = op.activation == MatmulOp::Activation::GeluGrad;
  const char *conflict = instruction.buffers[MatmulOp::BiasGrad].present() ? "a bias gradient"
                         : op.accumulate >= 0                              ? "a ref"
                         : op.batch[0] != 1 || op.batch[1] != 1            ? "a batch"
                         : isFloat8(op.dtype)                              ? "scales"
                         : isGrad && instruction.buffers[MatmulOp::Bias].present() ? "a bias"
                                                                                   : nullptr;
  if (conflict)
    PSRT_FAIL(BadInput, "a matmul with activation %s and %s is not supported",
              nameOf(op.activation), conflict);
  if (isGrad && !instruction.buffers[MatmulOp::Aux].present())
    PSRT_FAIL(BadInput, "a matmul with activation gelu_grad has no \"aux\"");
}

void parseMatmul(const Json &object, const Mesh &, Instruction &result) {
  MatmulOp op;
  op.dtype = getDtype(object, "dtype");
  op.outDtype =
      isFloat8(op.dtype) ? getDtype(object, "out_dtype") : parseOutDtype(object, op.dtype);
  if (!get(object, "batch").is_null())
    op.batch = getStrides<2>(object, "batch");
  op.m = getInt(object, "m");
  op.n = getInt(object, "n");
  op.k = getInt(object, "k");
  op.lhs = getStrides<4>(object, "lhs_strides");
  op.rhs = getStrides<4>(object, "rhs_strides");
  op.out = getStrides<4>(object, "out_strides");
  op.accumulate = getOr(object, "accumulate", -1);
  countElements({op.batch[0], op.batch[1], op.m, op.n});
  countElements({op.batch[0], op.batch[1], op.k, std::max(op.m, op.n)});
  addBuffers(result, object, {"lhs", "rhs", "out"});
  addOptionalBuffers(result, object, {"bias", "sums", "lhs_scale", "rhs_scale", "aux"});
  parseFloat8(object, result, op);
  if (result.buffers[MatmulOp::BiasGrad].present())
    parseSummed(object, result, op);
  if (!get(object, "activation").is_null())
    parseActivation(object, result, op);
  else if (result.buffers[MatmulOp::Aux].present())
    PSRT_FAIL(BadInput, "a matmul without an activation has an \"aux\"");
  result.op = op;
}

template <bool isGrad> void parseAttention(const Json &object, const Mesh &, Instruction &result) {
  AttentionOp op;
  op.grad = isGrad;
  op.dtype = getDtype(object, "dtype");
  std::array<int64_t, 6> sizes = getStrides<6>(object, "sizes");
  op.b = sizes[0], op.h = sizes[1], op.g = sizes[2], op.t = sizes[3], op.s = sizes[4],
  op.d = sizes[5];
  op.q = getStrides<3>(object, "q_strides");
  op.k = getStrides<3>(object, "k_strides");
  op.v = getStrides<3>(object, "v_strides");
  op.out = getStrides<3>(object, "out_strides");
  if (op.grad) {
    op.dout = getStrides<3>(object, "dout_strides");
    op.dq = getStrides<3>(object, "dq_strides");
    op.dk = getStrides<3>(object, "dk_strides");
    op.dv = getStrides<3>(object, "dv_strides");
  }
  op.causal = getOr(object, "causal", false);
  op.window = getOr<int64_t>(object, "window", 0);
  op.scale = object.at("scale").get<float>();
  op.dropout = getOr(object, "dropout", 0.0f);
  op.key = getOr(object, "key", -1);
  op.factorSizes = getInts(object, "factor_sizes");
  op.factorStrides = getInts(object, "factor_strides");
  countElements({op.b, op.h, std::max(op.t, op.s), op.d});
  op.globalSize = getOr<int64_t>(object, "global_size", countElements({op.b, op.h, op.t, op.s}));
  if (op.g < 1 || op.h % op.g != 0)
    PSRT_FAIL(BadInput, "an attention has %lld heads, which is not a multiple of its %lld groups",
              (long long)op.h, (long long)op.g);
  if (!get(object, "mask").is_null()) {
    op.maskDtype = getDtype(object, "mask_dtype");
    op.mask = getStrides<4>(object, "mask_strides");
  }
  addBuffers(result, object, {"q", "k", "v", "out", "lse"});
  (op.grad ? addBuffers : addOptionalBuffers)(result, object, {"dout", "dq", "dk", "dv"});
  addOptionalBuffers(result, object, {"offset", "mask", "padding"});
  result.op = op;
}

template <bool isGrad> void parseEmbedding(const Json &object, const Mesh &, Instruction &result) {
  EmbeddingOp op;
  op.grad = isGrad;
  op.dtype = getKind(object, "dtype", Dtype::F32, "an embedding");
  op.outDtype = op.grad ? parseOutDtype(object, op.dtype) : op.dtype;
  op.indexDtype = getKind(object, "index_dtype", Dtype::I64, "the indices of an embedding");
  op.count = getInt(object, "count");
  op.width = getInt(object, "width");
  op.rows = getInt(object, "rows");
  countElements({op.count, op.width});
  countElements({op.rows, op.width});
  op.accumulate = getOr(object, "accumulate", -1);
  op.paddingIndex = getOr<int64_t>(object, "padding_index", -1);
  addBuffers(result, object, {op.grad ? "grad" : "table", "indices", "out"});
  addOptionalBuffers(result, object, {"first_row"});
  result.op = op;
}

/// Parses the lists of a window. A list of fewer than 3 numbers sets the last dims. The outer dims
/// keep their defaults, such as size 1 and padding 0.
WindowShape parseWindows(const Json &object) {
  WindowShape result;
  for (auto [key, list] :
       {std::pair("in", &result.in), std::pair("out_size", &result.out),
        std::pair("window", &result.kernel), std::pair("strides", &result.strides),
        std::pair("low", &result.low), std::pair("dilation", &result.dilation)}) {
    std::vector<int64_t> numbers = getInts(object, key);
    if (numbers.empty() || numbers.size() > 3)
      PSRT_FAIL(BadInput, "\"%s\" has %zu numbers; expected 1 to 3 space dims", key,
                numbers.size());
    std::copy(numbers.begin(), numbers.end(), list->end() - numbers.size());
  }
  return result;
}

template <int computed>
void parseConvolution(const Json &object, const Mesh &, Instruction &result) {
  ConvolutionOp op;
  op.result = computed;
  op.dtype = getDtype(object, "dtype");
  op.outDtype = parseOutDtype(object, op.dtype);
  op.batch = getInt(object, "batch");
  op.groups = getInt(object, "groups");
  std::array<int64_t, 2> channels = getStrides<2>(object, "channels");
  op.inChannels = channels[0], op.outChannels = channels[1];
  op.windows = parseWindows(object);
  checkConvolution(op);
  addBuffers(result, object, {"x", "w", "y"});
  result.op = op;
}

template <bool isGrad> void parseMaxPool(const Json &object, const Mesh &, Instruction &result) {
  MaxPoolOp op;
  op.grad = isGrad;
  op.dtype = getDtype(object, "dtype");
  op.planes = getInt(object, "planes");
  op.windows = parseWindows(object);
  checkMaxPool(op);
  addBuffers(result, object, {"x", "y"});
  (op.grad ? addBuffers : addOptionalBuffers)(result, object, {"out"});
  result.op = op;
}

void parseShardIndex(const Json &object, const Mesh &mesh, Instruction &result) {
  result.op = ShardIndexOp{parseAxes(object.at("axes"), mesh)};
  addBuffers(result, object, {"out"});
}

void parseCopy(const Json &object, const Mesh &, Instruction &result) {
  result.op = CopyOp{false, countElements({getInt(object, "bytes")})};
  addBuffers(result, object, {"in", "out"});
}

void parseZero(const Json &object, const Mesh &, Instruction &result) {
  result.op = CopyOp{true, countElements({getInt(object, "bytes")})};
  addBuffers(result, object, {"out"});
}

/// Parses "in"/"out"/"count", or the lists "ins"/"outs"/"counts" of a bucket.
void parseCollectiveBuffers(const Json &object, CollectiveOp &op, Instruction &result) {
  if (get(object, "ins").is_null()) {
    addBuffers(result, object, {"in", "out"});
    op.counts = {getOr<int64_t>(object, "count", countElements({op.outer, op.size, op.inner}))};
    return;
  }
  for (const char *key : {"ins", "outs"})
    for (const Json &buffer : object.at(key))
      result.buffers.push_back(parseBuffer(buffer));
  op.counts = getInts(object, "counts");
  if (result.buffers.size() != 2 * op.counts.size())
    PSRT_FAIL(BadInput,
              "a bucket of %zu counts has %zu buffers; expected one of \"ins\" and one of \"outs\" "
              "per count",
              op.counts.size(), result.buffers.size());
}

template <CollectiveOp::Kind kind>
void parseCollective(const Json &object, const Mesh &mesh, Instruction &result) {
  CollectiveOp op;
  op.kind = kind;
  op.reduction = getKind(object, "kind", CollectiveOp::Sum, op.name());
  op.dtype = getDtype(object, "dtype");
  if (isFloat8(op.dtype) &&
      (kind == CollectiveOp::AllReduce || kind == CollectiveOp::ReduceScatter))
    PSRT_FAIL(BadInput, "%s of %s; expected a type of 16 bits or more, or an integer", op.name(),
              dtypeName(op.dtype));
  op.axes = parseAxes(get(object, "axes"), mesh);
  if (const Json &over = get(object, "over_pp"); !over.is_null())
    for (const Json &coordinate : over)
      op.overPipeline.push_back(parseCoordinate(coordinate, mesh));
  op.queue = getString(object, "queue");
  op.token = getOr<int64_t>(object, "wait", -1);
  op.outer = getOr<int64_t>(object, "outer", 1);
  op.size = getOr<int64_t>(object, "size", 1);
  op.inner = getOr<int64_t>(object, "inner", 1);
  op.whole = getOr<int64_t>(object, "whole", countElements({op.size, mesh.shards(op.axes)}));
  op.shape = getInts(object, "shape");
  op.split = getOr(object, "split", 0);
  op.concat = getOr(object, "concat", 0);
  for (int64_t target : getInts(object, "targets"))
    op.targets.push_back(int(std::clamp<int64_t>(target, -1, INT32_MAX)));
  parseCollectiveBuffers(object, op, result);
  checkCollective(op, mesh);
  result.op = op;
}

template <bool receives>
void parseMessage(const Json &object, const Mesh &mesh, Instruction &result) {
  MessageOp op;
  op.receives = receives;
  op.peer = parseCoordinate(object.at("pp"), mesh);
  op.bytes = countElements({getInt(object, "bytes")});
  op.token = getInt(object, "wait");
  op.queue = object.at("queue");
  op.value = getInt(object, "value");
  op.microBatch = getInt(object, "micro_batch");
  addBuffers(result, object, {op.receives ? "out" : "in"});
  result.op = op;
}

template <bool toHost> void parseTransfer(const Json &object, const Mesh &, Instruction &result) {
  TransferOp op;
  op.toHost = toHost;
  op.token = getInt(object, "wait");
  for (int64_t size : getInts(object, "sizes"))
    op.sizes.push_back(countElements({size}));
  for (const char *key : {"ins", "outs"}) {
    const Json &buffers = object.at(key);
    if (!buffers.is_array() || buffers.size() != op.sizes.size())
      PSRT_FAIL(BadInput,
                "\"%s\" of a copy to or from host memory is not a list of %zu "
                "buffers, one per size",
                key, op.sizes.size());
    for (const Json &buffer : buffers)
      result.buffers.push_back(parseBuffer(buffer));
  }
  for (const BufferRef &buffer : result.buffers)
    if (!buffer.present())
      PSRT_FAIL(BadInput, "a copy to or from host memory has a null buffer");
  result.op = std::move(op);
}

template <CollectiveOp::Kind kind> std::pair<const char *const, Parser> collective() {
  return {nameOf(kind), parseCollective<kind>};
}

/// Returns the parsers, keyed by the names of the instructions.
const std::map<std::string, Parser> &getParsers() {
  static const std::map<std::string, Parser> parsers = {
      {"kernel", parseKernel},
      {"matmul", parseMatmul},
      {"attention", parseAttention<false>},
      {"attention_grad", parseAttention<true>},
      {"embedding", parseEmbedding<false>},
      {"embedding_grad", parseEmbedding<true>},
      {"convolution", parseConvolution<ConvolutionOp::Y>},
      {"convolution_input", parseConvolution<ConvolutionOp::X>},
      {"convolution_kernel", parseConvolution<ConvolutionOp::W>},
      {"max_pool", parseMaxPool<false>},
      {"max_pool_grad", parseMaxPool<true>},
      {"sort", parseSort},
      {"sort_grad", parseSort},
      {"shard_index", parseShardIndex},
      {"copy", parseCopy},
      {"zero", parseZero},
      {"send", parseMessage<false>},
      {"recv", parseMessage<true>},
      {"fetch", parseTransfer<false>},
      {"offload", parseTransfer<true>},
      collective<CollectiveOp::AllReduce>(),
      collective<CollectiveOp::ReduceScatter>(),
      collective<CollectiveOp::AllGather>(),
      collective<CollectiveOp::AllToAll>(),
      collective<CollectiveOp::Permute>(),
      collective<CollectiveOp::ShardSlice>()};
  return parsers;
}

/// Fails on an unknown instruction and lists the known ones.
[[noreturn]] void refuseInstruction(const std::string &name) {
  std::vector<std::string> names;
  for (const auto &[known, parser] : getParsers())
    names.push_back(known);
  PSRT_FAIL(BadInput,
            "unknown instruction \"%s\"; compile the model again, and link with the same version "
            "of Parashard (known instructions: %s)",
            name.c_str(), joinNames(names).c_str());
}

} // namespace

void addBuffers(Instruction &result, const Json &object, std::initializer_list<const char *> keys) {
  for (const char *key : keys) {
    result.buffers.push_back(parseBuffer(object.at(key)));
    if (!result.buffers.back().present())
      PSRT_FAIL(BadInput, "the buffer \"%s\" is null", key);
  }
}

Instruction parseInstruction(const Json &object, const Mesh &mesh) {
  std::string name = object.at("op");
  auto it = getParsers().find(name);
  if (it == getParsers().end())
    refuseInstruction(name);
  Instruction result;
  result.location = getString(object, "loc");
  it->second(object, mesh, result);
  return result;
}

} // namespace psrt
