// Reads a program's JSON table into structs.
#include "runtime/core/CheckProgram.h"
#include "runtime/core/Element.h"
#include "runtime/core/ProgramJson.h"
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <unordered_map>

namespace psrt {
namespace {

using Json = nlohmann::json;

/// The field, or null when absent.
const Json &get(const Json &object, const char *key) {
  static const Json none;
  auto it = object.find(key);
  return it == object.end() ? none : *it;
}

template <typename T> T convert(const Json &value) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
    return toInteger<T>(value);
  else
    return value.get<T>();
}

template <typename T> T getOr(const Json &object, const char *key, T otherwise) {
  const Json &value = get(object, key);
  return value.is_null() ? otherwise : convert<T>(value);
}

template <typename T = int64_t> T getInt(const Json &object, const char *key) {
  return toInteger<T>(object.at(key));
}

std::string getString(const Json &object, const char *key) {
  return getOr<std::string>(object, key, "");
}

std::vector<int64_t> getInts(const Json &object, const char *key) {
  const Json &list = get(object, key);
  if (!list.is_null() && !list.is_array())
    PSRT_FAIL(BadInput, "\"%s\" is %s, expected a list of integers", key, list.type_name());
  std::vector<int64_t> result;
  for (const Json &value : list)
    result.push_back(toInteger(value));
  return result;
}

template <size_t N> std::array<int64_t, N> getStrides(const Json &object, const char *key) {
  std::array<int64_t, N> result{};
  std::vector<int64_t> list = getInts(object, key);
  if (list.size() != N)
    PSRT_FAIL(BadInput, "\"%s\" has %zu numbers, %zu are needed", key, list.size(), N);
  std::copy(list.begin(), list.end(), result.begin());
  return result;
}

std::vector<int> parseAxes(const Json &names, const Mesh &mesh) {
  std::vector<int> result;
  if (!names.is_null())
    for (const Json &name : names)
      result.push_back(mesh.axis(name.get<std::string>()));
  checkAxes(result, mesh);
  return result;
}

Placement parsePlacement(const Json &object, const Mesh &mesh) {
  Placement result;
  result.shape = getInts(object, "shape");
  const Json &factors = get(object, "factors");
  for (size_t d = 0; d < result.shape.size(); ++d) {
    std::vector<Placement::Factor> dim;
    if (!factors.is_null() && d < factors.size())
      for (const Json &factor : factors[d])
        dim.push_back({getInt(factor, "size"), parseAxes(get(factor, "axes"), mesh),
                       getOr(factor, "places", 0)});
    if (dim.empty())
      dim.push_back({result.shape[d], {}, 0});
    result.factors.push_back(std::move(dim));
  }
  result.partial = parseAxes(get(object, "partial"), mesh);
  checkFactors(result, mesh);
  result.local = result.computeLocal(mesh);
  if (!get(object, "local").is_null() && getInts(object, "local") != result.local)
    PSRT_FAIL(BadInput, "\"local\" is not what the factors give");
  return result;
}

/// Addresses and offsets can be added up.
int64_t toAddress(const Json &value) { return countElements({toInteger(value)}); }

BufferRef parseBuffer(const Json &value) {
  if (value.is_null())
    return {};
  if (value.is_number())
    return {BufferRef::Absolute, toAddress(value)};
  BufferRef result{toInteger<int32_t>(value.at(0)), toAddress(value.at(1))};
  if (result.base < 0)
    PSRT_FAIL(BadInput, "a buffer has the base %d; bases are counted from 0", result.base);
  return result;
}

/// What a table has for each pipeline coordinate: a list, or one value where there is one
/// coordinate.
void checkCoordinates(const Json &value, const Mesh &mesh) {
  int64_t count = value.is_array() ? int64_t(value.size()) : 1;
  if (count != mesh.pipelineSize())
    PSRT_FAIL(BadInput, "the table has values for %lld pipeline coordinates, the mesh has %lld",
              (long long)count, (long long)mesh.pipelineSize());
}

/// An address, or a list with null where a coordinate has none.
Addresses parseAddresses(const Json &value, const Mesh &mesh) {
  checkCoordinates(value, mesh);
  if (!value.is_array())
    return std::vector<int64_t>{toAddress(value)};
  std::vector<int64_t> result;
  for (const Json &address : value)
    result.push_back(address.is_null() ? Addresses::Absent : toAddress(address));
  return result;
}

/// A coordinate of the mesh's pipeline axis.
int64_t parseCoordinate(const Json &value, const Mesh &mesh) {
  int64_t coordinate = toInteger(value);
  if (coordinate < 0 || coordinate >= mesh.pipelineSize())
    PSRT_FAIL(BadInput, "the table names pipeline coordinate %lld, the mesh has %lld",
              (long long)coordinate, (long long)mesh.pipelineSize());
  return coordinate;
}

using Keys = std::initializer_list<const char *>;

void addOptionalBuffers(Instruction &result, const Json &object, Keys keys) {
  for (const char *key : keys)
    result.buffers.push_back(parseBuffer(get(object, key)));
}

void addBuffers(Instruction &result, const Json &object, Keys keys) {
  for (const char *key : keys) {
    result.buffers.push_back(parseBuffer(object.at(key)));
    if (!result.buffers.back().present())
      PSRT_FAIL(BadInput, "the buffer \"%s\" is null", key);
  }
}

//===--- instructions -----------------------------------------------------===//

using Parser = void (*)(const Json &, const Mesh &, Instruction &);

void parseKernel(const Json &object, const Mesh &, Instruction &result) {
  KernelOp op;
  op.kernel = getInt<int>(object, "kernel");
  op.rows = getInt(object, "rows");
  op.grain = std::max<int64_t>(1, getOr<int64_t>(object, "grain", op.rows));
  op.grid = getOr<int64_t>(object, "grid", 0);
  op.block = getOr<int64_t>(object, "block", 0);
  op.saysWrites = !get(object, "writes").is_null();
  for (int64_t index : getInts(object, "writes"))
    op.writes.push_back(int(std::clamp<int64_t>(index, -1, INT32_MAX)));
  checkKernel(op, object.at("args").size());
  for (const Json &argument : object.at("args"))
    result.buffers.push_back(parseBuffer(argument));
  result.op = op;
}

/// "out_dtype", where it may differ: a result of 16-bit floats may be of f32.
Dtype parseOutDtype(const Json &object, Dtype dtype) {
  if (get(object, "out_dtype").is_null())
    return dtype;
  Dtype result = parseDtype(object.at("out_dtype"));
  if (result != dtype && !(isNarrowFloat(dtype) && result == Dtype::F32))
    PSRT_FAIL(BadInput, "%s of %s with the \"out_dtype\" %s; expected %s%s",
              object.at("op").get<std::string>().c_str(), dtypeName(dtype), dtypeName(result),
              dtypeName(dtype), isNarrowFloat(dtype) ? " or f32" : "");
  return result;
}

/// Which operand the sums are of. There is one product then, without a bias.
void parseSummed(const Json &object, const Instruction &instruction, MatmulOp &op) {
  std::string summed = object.at("summed").get<std::string>();
  if (summed != "lhs" && summed != "rhs")
    PSRT_FAIL(BadInput, "a matmul has the sums of \"%s\"; expected lhs or rhs", summed.c_str());
  op.summed = summed == "lhs" ? MatmulOp::Lhs : MatmulOp::Rhs;
  if (op.batch[0] != 1 || op.batch[1] != 1 || instruction.buffers[MatmulOp::Bias].present())
    PSRT_FAIL(BadInput, "a matmul with sums and %s; expected one without",
              instruction.buffers[MatmulOp::Bias].present() ? "a bias" : "a batch");
}

void parseMatmul(const Json &object, const Mesh &, Instruction &result) {
  MatmulOp op;
  op.dtype = parseDtype(object.at("dtype"));
  op.outDtype = parseOutDtype(object, op.dtype);
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
  addOptionalBuffers(result, object, {"bias", "sums"});
  if (result.buffers[MatmulOp::Sums].present())
    parseSummed(object, result, op);
  result.op = op;
}

void parseAttention(const Json &object, const Mesh &, Instruction &result) {
  AttentionOp op;
  op.grad = object.at("op") == "attention_grad";
  op.dtype = parseDtype(object.at("dtype"));
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
    PSRT_FAIL(BadInput, "an attention has %lld heads in %lld groups", (long long)op.h,
              (long long)op.g);
  if (!get(object, "mask").is_null()) {
    op.maskDtype = parseDtype(object.at("mask_dtype"));
    op.mask = getStrides<4>(object, "mask_strides");
  }
  addBuffers(result, object, {"q", "k", "v", "out", "lse"});
  (op.grad ? addBuffers : addOptionalBuffers)(result, object, {"dout", "dq", "dk", "dv"});
  addOptionalBuffers(result, object, {"offset", "mask", "padding"});
  result.op = op;
}

void parseEmbedding(const Json &object, const Mesh &, Instruction &result) {
  EmbeddingOp op;
  op.grad = object.at("op") == "embedding_grad";
  op.dtype = parseDtype(getOr<std::string>(object, "dtype", "f32"));
  op.outDtype = op.grad ? parseOutDtype(object, op.dtype) : op.dtype;
  op.indexDtype = parseDtype(getOr<std::string>(object, "index_dtype", "i64"));
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

/// The lists of a window, whose dims are the last ones of three.
WindowShape parseWindows(const Json &object) {
  WindowShape result;
  for (auto [key, list] :
       {std::pair("in", &result.in), std::pair("out_size", &result.out),
        std::pair("window", &result.kernel), std::pair("strides", &result.strides),
        std::pair("low", &result.low), std::pair("dilation", &result.dilation)}) {
    std::vector<int64_t> numbers = getInts(object, key);
    if (numbers.empty() || numbers.size() > 3)
      PSRT_FAIL(BadInput, "\"%s\" has %zu numbers; windows over 1 to 3 space dims are built", key,
                numbers.size());
    std::copy(numbers.begin(), numbers.end(), list->end() - numbers.size());
  }
  return result;
}

void parseConvolution(const Json &object, const Mesh &, Instruction &result) {
  ConvolutionOp op;
  std::string name = object.at("op");
  op.result = name == "convolution"         ? ConvolutionOp::Y
              : name == "convolution_input" ? ConvolutionOp::X
                                            : ConvolutionOp::W;
  op.dtype = parseDtype(object.at("dtype"));
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

void parseMaxPool(const Json &object, const Mesh &, Instruction &result) {
  MaxPoolOp op;
  op.grad = object.at("op") == "max_pool_grad";
  op.dtype = parseDtype(object.at("dtype"));
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

CollectiveOp::Reduction parseReduction(const Json &object) {
  std::string kind = getOr<std::string>(object, "kind", "sum");
  if (kind == "sum")
    return CollectiveOp::Sum;
  if (kind == "max")
    return CollectiveOp::Max;
  if (kind == "min")
    return CollectiveOp::Min;
  PSRT_FAIL(BadInput, "unknown reduction \"%s\"", kind.c_str());
}

/// "in"/"out"/"count", or the lists "ins"/"outs"/"counts" of a bucket.
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
    PSRT_FAIL(BadInput, "a bucket of %zu counts has %zu buffers", op.counts.size(),
              result.buffers.size());
}

template <CollectiveOp::Kind kind>
void parseCollective(const Json &object, const Mesh &mesh, Instruction &result) {
  CollectiveOp op;
  op.kind = kind;
  op.reduction = parseReduction(object);
  op.dtype = parseDtype(object.at("dtype"));
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

void parseMessage(const Json &object, const Mesh &mesh, Instruction &result) {
  MessageOp op;
  op.receives = object.at("op") == "recv";
  op.peer = parseCoordinate(object.at("pp"), mesh);
  op.bytes = countElements({getInt(object, "bytes")});
  op.token = getInt(object, "wait");
  op.queue = object.at("queue");
  op.value = getInt(object, "value");
  op.microBatch = getInt(object, "micro_batch");
  addBuffers(result, object, {op.receives ? "out" : "in"});
  result.op = op;
}

void parseTransfer(const Json &object, const Mesh &, Instruction &result) {
  TransferOp op;
  op.toHost = object.at("op") == "offload";
  op.token = getInt(object, "wait");
  for (int64_t size : getInts(object, "sizes"))
    op.sizes.push_back(countElements({size}));
  for (const char *key : {"ins", "outs"}) {
    const Json &buffers = object.at(key);
    if (!buffers.is_array() || buffers.size() != op.sizes.size())
      PSRT_FAIL(BadInput,
                "\"%s\" of a copy to or from the host's memory is not a list of %zu "
                "buffers, one for each size",
                key, op.sizes.size());
    for (const Json &buffer : buffers)
      result.buffers.push_back(parseBuffer(buffer));
  }
  for (const BufferRef &buffer : result.buffers)
    if (!buffer.present())
      PSRT_FAIL(BadInput, "a copy to or from the host's memory has a buffer that is null");
  result.op = std::move(op);
}

Instruction parseInstruction(const Json &object, const Mesh &mesh) {
  static const std::unordered_map<std::string, Parser> parsers = {
      {"kernel", parseKernel},
      {"matmul", parseMatmul},
      {"attention", parseAttention},
      {"attention_grad", parseAttention},
      {"embedding", parseEmbedding},
      {"embedding_grad", parseEmbedding},
      {"convolution", parseConvolution},
      {"convolution_input", parseConvolution},
      {"convolution_kernel", parseConvolution},
      {"max_pool", parseMaxPool},
      {"max_pool_grad", parseMaxPool},
      {"shard_index", parseShardIndex},
      {"copy", parseCopy},
      {"zero", parseZero},
      {"all_reduce", parseCollective<CollectiveOp::AllReduce>},
      {"reduce_scatter", parseCollective<CollectiveOp::ReduceScatter>},
      {"all_gather", parseCollective<CollectiveOp::AllGather>},
      {"all_to_all", parseCollective<CollectiveOp::AllToAll>},
      {"send", parseMessage},
      {"recv", parseMessage},
      {"fetch", parseTransfer},
      {"offload", parseTransfer},
      {"permute", parseCollective<CollectiveOp::Permute>},
      {"shard_slice", parseCollective<CollectiveOp::ShardSlice>}};
  std::string name = object.at("op");
  auto it = parsers.find(name);
  if (it == parsers.end())
    PSRT_FAIL(BadInput, "this runtime has no instruction \"%s\"; compile and link with one version",
              name.c_str());
  Instruction result;
  result.location = getString(object, "loc");
  it->second(object, mesh, result);
  return result;
}

//===--- sections ---------------------------------------------------------===//

Mesh parseMesh(const Json &axes) {
  Mesh mesh;
  if (!axes.is_null())
    for (const Json &axis : axes)
      mesh.axes.push_back({axis.at("name"), getString(axis, "kind"), getInt(axis, "size")});
  checkMesh(mesh);
  return mesh;
}

std::vector<BufferLifetime> parseBuffers(const Json &object) {
  std::vector<BufferLifetime> result;
  const Json &buffers = get(object, "buffers");
  for (const Json &buffer : buffers.is_null() ? Json::array() : buffers)
    result.push_back({toAddress(buffer.at(0)), countElements({toInteger(buffer.at(1))}),
                      toInteger(buffer.at(2)), toInteger(buffer.at(3))});
  return result;
}

/// The token of what is started; none where the instruction starts nothing.
int64_t *startedToken(Instruction &instruction) {
  if (auto *op = std::get_if<CollectiveOp>(&instruction.op))
    return op->token >= 0 ? &op->token : nullptr;
  if (auto *op = std::get_if<TransferOp>(&instruction.op))
    return &op->token;
  auto *op = std::get_if<MessageOp>(&instruction.op);
  return op ? &op->token : nullptr;
}

/// A wait for what stands before it in `code`; `where`: for messages.
Instruction parseWait(const Json &object, std::vector<Instruction> &code,
                      const std::string &where) {
  int64_t token = getInt(object, "wait");
  bool isForTransfer = false, isForOthers = false;
  for (Instruction &instruction : code)
    if (const int64_t *started = startedToken(instruction); started && *started == token)
      (std::holds_alternative<TransferOp>(instruction.op) ? isForTransfer : isForOthers) = true;
  if (isForTransfer && isForOthers)
    PSRT_FAIL(BadInput, "%s waits for %lld, which is both of a copy and of communication",
              where.c_str(), (long long)token);
  if (!isForTransfer && !isForOthers)
    PSRT_FAIL(BadInput, "%s waits for %lld, which was not started", where.c_str(),
              (long long)token);
  Instruction result;
  result.op = WaitOp{token, isForTransfer};
  return result;
}

/// Each token of a function is waited for, behind all that is started with it; what it is
/// in the table is that function's own, and becomes one of the program.
void resolveTokens(Function &function, size_t number) {
  constexpr int64_t kTokensOfFunction = int64_t(1) << 32;
  std::map<int64_t, bool> waited;
  auto resolve = [&](int64_t &token) {
    if (token < 0 || token >= kTokensOfFunction)
      PSRT_FAIL(BadInput, "function \"%s\" numbers a wait %lld", function.name.c_str(),
                (long long)token);
    token += kTokensOfFunction * int64_t(number + 1);
  };
  for (Instruction &instruction : function.code)
    if (int64_t *token = startedToken(instruction)) {
      if (!waited.try_emplace(*token, false).first->second) {
        resolve(*token);
        continue;
      }
      PSRT_FAIL(BadInput, "function \"%s\" starts something with %lld behind the wait for it",
                function.name.c_str(), (long long)*token);
    } else if (auto *wait = std::get_if<WaitOp>(&instruction.op)) {
      waited[wait->token] = true;
      resolve(wait->token);
    }
  for (auto [token, isWaited] : waited)
    if (!isWaited)
      PSRT_FAIL(BadInput, "function \"%s\" never waits for %lld, which it starts",
                function.name.c_str(), (long long)token);
}

Function parseFunction(const Json &object, const Program &program) {
  Function result;
  result.name = object.at("name");
  result.bases = getOr(object, "bases", 0);
  result.refs = getOr(object, "refs", 0);
  result.keys = getOr(object, "keys", 0);
  result.buffers = parseBuffers(object);
  for (const Json &instruction : object.at("code")) {
    result.code.push_back(
        get(instruction, "op").is_null()
            ? parseWait(instruction, result.code, "function \"" + result.name + "\"")
            : parseInstruction(instruction, program.mesh));
    checkMeeting(result.code.back(), /*coordinate=*/-1);
    if (std::holds_alternative<TransferOp>(result.code.back().op))
      PSRT_FAIL(BadInput,
                "function \"%s\" copies to or from the host's memory, which programs alone "
                "do",
                result.name.c_str());
    for (const BufferRef &buffer : result.code.back().buffers)
      if (buffer.base >= result.bases)
        PSRT_FAIL(BadInput, "function \"%s\" uses base %d of %d", result.name.c_str(), buffer.base,
                  result.bases);
  }
  resolveTokens(result, program.functions.size());
  return result;
}

/// `name`: of the entry point, for messages.
void parseEntry(const Json &object, const Program &program, const std::string &name,
                EntryCode &entry) {
  if (get(object, "run").is_null()) {
    ProgramEntry result;
    result.instruction = int(entry.instructions.size());
    entry.instructions.push_back(
        get(object, "op").is_null()
            ? parseWait(object, entry.instructions, "entry \"" + name + "\"")
            : parseInstruction(object, program.mesh));
    for (const BufferRef &buffer : entry.instructions.back().buffers)
      if (buffer.base >= 0)
        PSRT_FAIL(BadInput,
                  "entry \"%s\" has an instruction with a base; its buffers are addresses",
                  name.c_str());
    entry.code.push_back(std::move(result));
    return;
  }
  ProgramEntry result;
  result.function = getInt<int>(object, "run");
  if (result.function < 0 || size_t(result.function) >= program.functions.size())
    PSRT_FAIL(BadInput, "entry \"%s\" runs function %d of %zu", name.c_str(), result.function,
              program.functions.size());
  const Function &function = program.functions[result.function];
  for (int64_t base : getInts(object, "bases"))
    result.bases.push_back(countElements({base}));
  result.microBatch = getOr<int64_t>(object, "micro_batch", 0);
  result.keys = getInts(object, "keys");
  result.first = getInts(object, "first");
  result.label = getOr<std::string>(object, "label", function.name);
  result.phase = getString(object, "phase");
  result.stage = getOr<int64_t>(object, "stage", -1);
  if (result.bases.size() != size_t(function.bases) ||
      result.keys.size() != size_t(function.keys) || result.first.size() != size_t(function.refs))
    PSRT_FAIL(BadInput, "a run of \"%s\" gives %zu bases, %zu keys, %zu flags; it takes %d, %d, %d",
              function.name.c_str(), result.bases.size(), result.keys.size(), result.first.size(),
              function.bases, function.keys, function.refs);
  entry.code.push_back(std::move(result));
}

EntryCode parseCode(const Json &object, const std::string &name, const Program &program) {
  EntryCode result;
  result.buffers = parseBuffers(object);
  result.hasBuffers = !get(object, "buffers").is_null();
  result.slots = getOr<int64_t>(object, "slots", 1);
  result.slotBase = getOr<int64_t>(object, "slot_base", 0);
  result.slotBytes = getOr<int64_t>(object, "slot_bytes", 0);
  int64_t updateFrom = getOr<int64_t>(object, "update_from", -1), at = 0;
  for (const Json &entry : object.at("code")) {
    if (at++ == updateFrom)
      result.updateFrom = int64_t(result.code.size());
    parseEntry(entry, program, name, result);
  }
  if (updateFrom >= at)
    result.updateFrom = int64_t(result.code.size());
  return result;
}

/// An output that several pipeline coordinates have is one.
void addOutput(const Json &object, const Mesh &mesh, int64_t coordinate, EntryPoint &entry) {
  std::string name = object.at("name");
  int64_t address = toAddress(object.at("address"));
  for (Output &known : entry.outputs)
    if (known.name == name)
      return known.addresses.set(coordinate, address);
  Output result{{parseDtype(object.at("dtype")), parsePlacement(object, mesh),
                 std::vector<int64_t>(mesh.pipelineSize(), Addresses::Absent)},
                name};
  result.addresses.set(coordinate, address);
  entry.outputs.push_back(std::move(result));
}

/// What one pipeline coordinate does in an entry joins what the others do.
void addProgram(const Json &object, Program &program) {
  int64_t coordinate = 0;
  if (const Json &value = get(object, "pp"); !value.is_null())
    coordinate = parseCoordinate(value, program.mesh);
  std::string name = object.at("name");
  auto entry = std::find_if(program.entries.begin(), program.entries.end(),
                            [&](const EntryPoint &known) { return known.name == name; });
  if (entry == program.entries.end())
    entry = program.entries.insert(entry,
                                   {name, std::vector<EntryCode>(program.mesh.pipelineSize()), {}});
  EntryCode &code = entry->programs[coordinate];
  if (!code.code.empty())
    PSRT_FAIL(BadInput, "entry \"%s\" stands twice for pipeline coordinate %lld", name.c_str(),
              (long long)coordinate);
  code = parseCode(object, name, program);
  for (const Instruction &instruction : code.instructions)
    checkMeeting(instruction, coordinate);
  const Json &outputs = get(object, "outputs");
  if (!outputs.is_null())
    for (const Json &output : outputs)
      addOutput(output, program.mesh, coordinate, *entry);
}

std::string decodeBase64(const std::string &text) {
  std::string result;
  uint32_t bits = 0;
  int count = 0;
  for (unsigned char c : text) {
    int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                : c >= 'a' && c <= 'z' ? c - 'a' + 26
                : c >= '0' && c <= '9' ? c - '0' + 52
                : c == '+'             ? 62
                : c == '/'             ? 63
                                       : -1;
    if (value < 0)
      continue;
    bits = bits << 6 | uint32_t(value);
    if ((count += 6) >= 8)
      result.push_back(char(bits >> (count -= 8)));
  }
  return result;
}

/// JSON has no infinities and NaN: they come as strings.
double parseNumber(const Json &value) {
  return value.is_string() ? std::strtod(value.get<std::string>().c_str(), nullptr)
                           : value.get<double>();
}

void parseInitial(const Json &object, Variable &result) {
  if (const Json &init = get(object, "init"); !init.is_null()) {
    result.hasFile = true;
    result.file = {init.at("file"),
                   getString(init, "tensor"),
                   getOr<int64_t>(init, "offset", 0),
                   getOr<int64_t>(init, "bytes", 0),
                   getInts(init, "file_shape"),
                   getInts(init, "lower"),
                   getInts(init, "upper")};
  }
  if (const Json &value = get(object, "init_value"); !value.is_null()) {
    result.hasValue = true;
    result.value = parseNumber(value);
  }
  result.data = decodeBase64(getString(object, "init_data"));
  if (const Json &distribution = get(object, "init_distribution"); !distribution.is_null()) {
    result.distribution = distribution.at(0);
    for (size_t i = 1; i < distribution.size() && i < 3; ++i)
      result.parameters[i - 1] = parseNumber(distribution.at(i));
    if (result.distribution == "value") {
      result.hasValue = true;
      result.value = result.parameters[0];
      result.distribution.clear();
    } else if (result.distribution != "normal" && result.distribution != "uniform") {
      PSRT_FAIL(BadInput,
                "variable \"%s\" is drawn from \"%s\"; normal, uniform and value are built",
                result.displayName().c_str(), result.distribution.c_str());
    }
  }
}

/// Of the file's tensor, where a float variable has it in another type.
Dtype parseInitialDtype(const Json &object, Dtype dtype) {
  std::string name = getString(object, "init_dtype");
  if (name.empty())
    return dtype;
  Dtype result = parseDtype(name);
  if (!isFloat(result) || !isFloat(dtype))
    PSRT_FAIL(BadInput, "an initial value of %s for a variable of %s; only floats are converted",
              dtypeName(result), dtypeName(dtype));
  return result;
}

Variable parseVariable(const Json &object, const Mesh &mesh) {
  Variable result;
  result.symbol = object.at("symbol");
  result.names = getOr<std::vector<std::string>>(object, "names", {});
  result.kind = object.at("kind");
  result.of = getString(object, "of");
  result.rate = getOr<std::string>(object, "lr", "lr");
  result.dtype = parseDtype(object.at("dtype"));
  result.initialDtype = parseInitialDtype(object, result.dtype);
  result.frozen = getOr(object, "frozen", false);
  result.transient = getOr(object, "transient", false);
  result.given = getOr(object, "given", false);
  result.placement = parsePlacement(object, mesh);
  result.addresses = parseAddresses(object.at("address"), mesh);
  result.addsTo = getString(object, "adds_to");
  if (const Json &at = get(object, "added_at"); !at.is_null())
    result.addedAt = parseCoordinate(at, mesh);
  result.location = getString(object, "location");
  parseInitial(object, result);
  checkInitial(result);
  return result;
}

Input parseInput(const Json &object, const Mesh &mesh) {
  Input result;
  result.name = object.at("name");
  result.role = getOr<std::string>(object, "role", "data");
  result.entry = getString(object, "of_program");
  result.dtype = parseDtype(object.at("dtype"));
  result.placement = parsePlacement(object, mesh);
  result.batchDim = getOr(object, "batch_dim", result.placement.shape.empty() ? -1 : 0);
  result.limit = getOr<int64_t>(object, "limit", 0);
  if (const Json &ignore = get(object, "ignore"); !ignore.is_null()) {
    result.hasIgnore = true;
    result.ignore = toInteger(ignore);
  }
  for (const Json &address : object.at("addresses"))
    result.addresses.push_back(parseAddresses(address, mesh));
  return result;
}

std::vector<int64_t> parseArenas(const Json &value, const Mesh &mesh) {
  checkCoordinates(value, mesh);
  if (!value.is_array())
    return {countElements({toInteger(value)})};
  std::vector<int64_t> result;
  for (const Json &bytes : value)
    result.push_back(countElements({toInteger(bytes)}));
  return result;
}

Program parseTable(const Json &table) {
  Program result;
  if (getOr(table, "version", 0) != 1)
    PSRT_FAIL(BadInput,
              "the program's table has version %d, this runtime reads version 1; compile again",
              getOr(table, "version", 0));
  result.version = getString(table, "parashard");
  result.model = getString(table, "model");
  result.compileLine = getString(table, "compile_line");
  result.explain = getString(table, "explain");
  result.labels = getOr<std::string>(table, "labels", "given");
  result.target = getOr<std::string>(table, "target", "cpu");
  result.lossAverage = getString(table, "loss_average");
  result.mesh = parseMesh(get(table, "mesh"));
  result.kernelNames = getOr<std::vector<std::string>>(table, "kernels", {});
  result.arenaBytes = parseArenas(table.at("arena_bytes"), result.mesh);
  result.hostBase = result.hostBytes = std::vector<int64_t>(result.arenaBytes.size(), 0);
  if (const Json &bytes = get(table, "host_bytes"); !bytes.is_null()) {
    result.hostBase = parseArenas(table.at("host_base"), result.mesh);
    result.hostBytes = parseArenas(bytes, result.mesh);
  }
  result.microBatches = getOr<int64_t>(table, "micro_batches", 1);
  result.flopsPerStep = getOr(table, "flops_per_step", 0.0);
  if (const Json &defaults = get(table, "defaults"); !defaults.is_null())
    for (const auto &[name, value] : defaults.items())
      if (value.is_number())
        result.defaults[name] = value;
  for (const Json &variable : table.at("variables"))
    result.variables.push_back(parseVariable(variable, result.mesh));
  if (const Json &files = get(table, "files"); files.is_array())
    for (const Json &file : files)
      result.files.push_back(
          {file.at("path"), getInt(file, "bytes"), getInt(file, "hashed"), file.at("hash")});
  for (const Json &input : table.at("inputs"))
    result.inputs.push_back(parseInput(input, result.mesh));
  for (const Json &function : table.at("functions"))
    result.functions.push_back(parseFunction(function, result));
  for (const Json &entry : table.at("programs"))
    addProgram(entry, result);
  checkProgram(result);
  return result;
}

} // namespace

Program parseProgram(std::string_view json) {
  try {
    return parseTable(Json::parse(json.begin(), json.end()));
  } catch (const nlohmann::json::exception &error) {
    PSRT_FAIL(BadInput, "the program's table cannot be read: %s; compile the model again",
              error.what());
  }
}

} // namespace psrt
