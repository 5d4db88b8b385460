// Defines a compiled program as flat structs, which are parsed once from its JSON table
// (docs/program-format.md).
#ifndef PSRT_CORE_PROGRAM_H
#define PSRT_CORE_PROGRAM_H

#include "runtime/core/LibraryOp.h"
#include "runtime/core/Placement.h"
#include "runtime/core/SortOp.h"
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace psrt {

/// A generated kernel. Computes rows [lo, hi) of its result.
using Kernel = void (*)(void *const *buffers, const int64_t *scalars, int64_t lo, int64_t hi);

/// Returns the bytes of one element.
int64_t dtypeSize(Dtype dtype);
inline const char *dtypeName(Dtype dtype) { return nameOf(dtype); }

/// A buffer of an instruction. Its address is bases[base] + offset, with the bases of the run; with
/// base `Absolute`, `offset` is an arena address.
struct BufferRef {
  static constexpr int32_t Absent = -1, Absolute = -2;
  int32_t base = Absent;
  int64_t offset = 0;
  bool present() const { return base != Absent; }
};

/// Runs a generated kernel on rows [0, rows). On the CPU, each call computes `grain` rows. On a
/// GPU, one launch has `grid` blocks of `block` threads. The buffers of the instruction are the
/// arguments of the kernel.
struct KernelOp {
  int kernel = 0;
  int64_t rows = 0, grain = 1;
  int64_t grid = 0, block = 0;
  int64_t bytes = 0; ///< bytes read and written, for traces
  bool hasWrites = false;
  std::vector<int> writes; ///< indices of the written arguments, if `hasWrites`
};
/// Computes out = lhs rhs (+ bias) (+ out), with lhs m x k, rhs k x n and out m x n. The buffer
/// BiasGrad gets the sum of lhs or rhs over k, with m or n elements. 16-bit operands are summed in
/// f32, and the sum is rounded once. `aux` holds the input of the activation and has the strides of
/// out. All strides are in elements.
struct MatmulOp {
  enum Buffer { Lhs, Rhs, Out, Bias, BiasGrad, LhsScale, RhsScale, Aux, Buffers };
  /// An activation fused into the matmul. Gelu: out = gelu(lhs rhs (+ bias)) by the tanh formula;
  /// the input of the GELU is stored to aux, if aux is present. GeluGrad: out = lhs rhs times the
  /// derivative of gelu at aux.
  enum class Activation { None, Gelu, GeluGrad };
  Dtype dtype = Dtype::F32;           ///< dtype of lhs and rhs
  Dtype outDtype = Dtype::F32;        ///< dtype of the other buffers, except for scales
  std::optional<Dtype> otherRhsDtype; ///< dtype of rhs if it differs: fp8 operands only
  std::array<int64_t, 2> batch{1, 1};
  int64_t m = 0, n = 0, k = 0;
  std::array<int64_t, 4> lhs{}, rhs{}, out{}; ///< batch0, batch1, row, column
  /// Index of the variable reference (one of `Function::refs`) that the result is added to. The
  /// flag `ProgramEntry::first[accumulate]` selects set (1) or add (0). -1: always set.
  int accumulate = -1;
  int summed = Lhs; ///< the operand whose sum is the bias gradient: Lhs or Rhs
  Activation activation = Activation::None;
  int64_t countBiasGrad() const { return summed == Lhs ? m : n; }
  Dtype rhsDtype() const { return otherRhsDtype.value_or(dtype); }
};
/// The operands whose sum over k can be the bias gradient.
template <> struct EnumNames<MatmulOp::Buffer> {
  static constexpr const char *what = "summed operand";
  static constexpr EnumName<MatmulOp::Buffer> table[] = {{MatmulOp::Lhs, "lhs"},
                                                         {MatmulOp::Rhs, "rhs"}};
};
/// Activation::None has no name: the field is absent.
template <> struct EnumNames<MatmulOp::Activation> {
  static constexpr const char *what = "activation";
  static constexpr EnumName<MatmulOp::Activation> table[] = {
      {MatmulOp::Activation::Gelu, "gelu"}, {MatmulOp::Activation::GeluGrad, "gelu_grad"}};
};

/// Computes softmax(scale q k^T + mask) v per head, or its gradient if `grad`. Sizes: batch b,
/// query heads h, key and value heads g, query positions t, key positions s, head dim d.
struct AttentionOp {
  enum { Q, K, V, Out, Lse, Dout, Dq, Dk, Dv, Offset, Mask, Padding, Buffers };
  bool grad = false;
  Dtype dtype = Dtype::F32, maskDtype = Dtype::Bool; ///< lse is always f32
  int64_t b = 0, h = 0, g = 0, t = 0, s = 0, d = 0;
  std::array<int64_t, 3> q{}, k{}, v{}, out{}, dout{}, dq{}, dk{},
      dv{}; ///< strides: batch, head, position
  std::array<int64_t, 4> mask{};
  bool causal = false;
  int64_t window = 0;
  float scale = 1, dropout = 0;
  int key = -1; ///< index into the run's keys
  std::vector<int64_t> factorSizes, factorStrides;
  int64_t globalSize = 0;
  static constexpr const char *kCategory = "attention";
  const char *name() const { return grad ? "attention_grad" : "attention"; }
  NamedSizes sizes() const { return {{"heads", b * h}, {"rows", t}, {"columns", s}}; }
  bool writes(size_t buffer) const {
    return grad ? buffer == Dq || buffer == Dk || buffer == Dv : buffer == Out || buffer == Lse;
  }
};
/// Gathers rows of a table by index; if `grad`, adds rows of the cotangent to the rows of the
/// table's gradient. Buffers: table (or cotangent), indices, out, and the global index of the first
/// row of this rank's shard of the table (i64 scalar, or absent).
struct EmbeddingOp {
  enum { Table, Indices, Out, FirstRow, Buffers };
  bool grad = false;
  Dtype dtype = Dtype::F32, outDtype = Dtype::F32, indexDtype = Dtype::I64;
  int64_t count = 0, width = 0, rows = 0, paddingIndex = -1;
  int accumulate = -1;
  static constexpr const char *kCategory = "embedding";
  const char *name() const { return grad ? "embedding_grad" : "embedding"; }
  NamedSizes sizes() const { return {{"rows", count}}; }
  bool writes(size_t buffer) const { return buffer == Out; }
};
/// The geometry of windows over 1 to 3 space dims; unused outer dims have size 1. Tap k of window p
/// reads input position p stride + k dilation - low, where `low` is the padding before the input.
struct WindowShape {
  std::array<int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1};
  std::array<int64_t, 3> strides{1, 1, 1}, low{}, dilation{1, 1, 1};
  auto operator<=>(const WindowShape &) const = default;
};
/// Computes y[n, o, p] = sum over c, k of x[n, c, p stride + k dilation - low] w[o, c, k] per
/// group. With `result` X or W, computes the gradient of x or of w from the other two. Buffers:
/// dense x, w and y.
struct ConvolutionOp {
  enum { X, W, Y, Buffers };
  int result = Y;                                  ///< the computed tensor: X, W or Y
  Dtype dtype = Dtype::F32, outDtype = Dtype::F32; ///< of the operands; of the result
  int64_t batch = 0, groups = 1, inChannels = 0, outChannels = 0; ///< channels per group
  WindowShape windows;
  static constexpr const char *kCategory = "convolution";
  const char *name() const {
    return result == Y ? "convolution" : result == X ? "convolution_input" : "convolution_kernel";
  }
  NamedSizes sizes() const {
    return {{"batch", batch}, {"groups", groups}, {"in", inChannels}, {"out", outChannels}};
  }
  bool writes(size_t buffer) const { return int(buffer) == result; }
};
/// Computes the maximum of each window. If `grad`, adds the cotangent of each window at the
/// position of its first maximum. Buffers: x and y, or x, the cotangent and out if `grad`.
struct MaxPoolOp {
  enum { X, Y, Out, Buffers };
  bool grad = false;
  Dtype dtype = Dtype::F32;
  int64_t planes = 0; ///< batch x channels
  WindowShape windows;
  static constexpr const char *kCategory = "pooling";
  const char *name() const { return grad ? "max_pool_grad" : "max_pool"; }
  NamedSizes sizes() const { return {{"planes", planes}}; }
  bool writes(size_t buffer) const { return buffer == (grad ? size_t(Out) : size_t(Y)); }
};
/// Writes this rank's shard index over `axes` as an i64. Buffers: out.
struct ShardIndexOp {
  std::vector<int> axes;
};
/// Copies bytes, or zeroes them. Buffers: in and out, or only out.
struct CopyOp {
  bool zero = false;
  int64_t bytes = 0;
};
/// The address of a tensor on each pipeline coordinate, or Absent.
class Addresses {
public:
  static constexpr int64_t Absent = -1;
  Addresses(std::vector<int64_t> byCoordinate = {0}) : byCoordinate(std::move(byCoordinate)) {}
  bool isAt(int64_t coordinate) const { return at(coordinate) != Absent; }
  int64_t at(int64_t coordinate) const { return byCoordinate[coordinate]; }
  /// Returns the first coordinate with an address, or -1 if there are none.
  int64_t first() const {
    for (size_t i = 0; i < byCoordinate.size(); ++i)
      if (byCoordinate[i] != Absent)
        return int64_t(i);
    return -1;
  }
  /// Returns whether this tensor has an address on every coordinate on which `other` has one.
  bool covers(const Addresses &other) const {
    for (size_t i = 0; i < byCoordinate.size(); ++i)
      if (other.isAt(int64_t(i)) && !isAt(int64_t(i)))
        return false;
    return true;
  }
  bool isEverywhere() const {
    return std::find(byCoordinate.begin(), byCoordinate.end(), Absent) == byCoordinate.end();
  }
  void set(int64_t coordinate, int64_t address) { byCoordinate[coordinate] = address; }

private:
  std::vector<int64_t> byCoordinate;
};

/// Communicates over `axes`, or over pipeline coordinates. Buffers: ins, then outs.
struct CollectiveOp {
  enum Kind { AllReduce, ReduceScatter, AllGather, AllToAll, Permute, ShardSlice };
  enum Reduction { Sum, Max, Min };
  Kind kind = AllReduce;
  Reduction reduction = Sum;
  Dtype dtype = Dtype::F32;
  std::vector<int> axes;
  std::vector<int64_t> overPipeline; ///< all_reduce: pipeline coordinates, used instead of `axes`
  std::string queue;
  std::vector<int64_t> counts;            ///< all_reduce, permute: elements per pair of buffers
  int64_t outer = 1, size = 1, inner = 1; ///< `size`: local size of the dim
  int64_t whole = 0;                      ///< shard_slice: size of the dim of `in`
  std::vector<int64_t> shape;             ///< all_to_all: shape of the operand
  int split = 0, concat = 0;
  std::vector<int> targets;
  int64_t token = -1;       ///< a WaitOp with this token waits for the collective; -1: synchronous
  const char *name() const; ///< name of the instruction: "all_reduce"
  /// Returns the bytes of one rank's operand (all buffers of a bucket). For shard_slice, returns
  /// the bytes of the result.
  int64_t bytes(const Mesh &mesh) const;
  /// Returns the participating ranks, in the order in which reductions add their values.
  std::vector<int> members(const Mesh &mesh, int rank) const;
};

template <> struct EnumNames<CollectiveOp::Kind> {
  static constexpr const char *what = "instruction";
  static constexpr EnumName<CollectiveOp::Kind> table[] = {
      {CollectiveOp::AllReduce, "all_reduce"}, {CollectiveOp::ReduceScatter, "reduce_scatter"},
      {CollectiveOp::AllGather, "all_gather"}, {CollectiveOp::AllToAll, "all_to_all"},
      {CollectiveOp::Permute, "permute"},      {CollectiveOp::ShardSlice, "shard_slice"}};
};
template <> struct EnumNames<CollectiveOp::Reduction> {
  static constexpr const char *what = "reduction";
  static constexpr EnumName<CollectiveOp::Reduction> table[] = {
      {CollectiveOp::Sum, "sum"}, {CollectiveOp::Max, "max"}, {CollectiveOp::Min, "min"}};
};
inline const char *CollectiveOp::name() const { return nameOf(kind); }

/// Starts a send to, or a receive from, the rank with pipeline coordinate `peer` and this rank's
/// coordinates on all other axes. The buffer is the message.
struct MessageOp {
  bool receives = false;
  int64_t peer = 0, bytes = 0, token = 0;
  std::string queue;
  int64_t value = 0, microBatch = 0; ///< identify the message
};

/// Starts a copy between the device's memory and host memory. Buffers: the sources, then the
/// destinations.
struct TransferOp {
  bool toHost = false;
  int64_t token = 0;
  std::vector<int64_t> sizes; ///< bytes per pair of buffers
};

/// Waits for the asynchronous work that was started with the token. No buffers.
struct WaitOp {
  int64_t token = 0;
  bool isForTransfer = false; ///< the work is a TransferOp (true) or communication (false)
};

/// One instruction of the program's code.
struct Instruction {
  std::variant<KernelOp, MatmulOp, AttentionOp, EmbeddingOp, ConvolutionOp, MaxPoolOp, SortOp,
               ShardIndexOp, CopyOp, CollectiveOp, MessageOp, TransferOp, WaitOp>
      op;
  std::vector<BufferRef> buffers;
  std::string location;
};

/// A buffer and its lifetime: from index `begin` to index `end` of the code, both inclusive. In a
/// Function, these are indices of instructions; in EntryCode, indices into `code`. `begin` -1: live
/// before the code runs.
struct BufferLifetime {
  int64_t address = 0, bytes = 0, begin = 0, end = 0;
};

/// A class function: straight-line code. Each run passes `bases` addresses, one flag `first` for
/// each of `refs` references to accumulated variables, and `keys` random keys.
struct Function {
  std::string name;
  int bases = 0, refs = 0, keys = 0;
  std::vector<Instruction> code;
  std::vector<BufferLifetime> buffers; ///< in scratch, whose address is the last base
};

/// One element of a program's code: a run of a function, or one instruction on arena addresses. If
/// `first[i]` is 1, accumulation into ref i overwrites the variable instead of adding to it.
struct ProgramEntry {
  int function = -1; ///< index into Program::functions; -1: one `instruction`
  std::vector<int64_t> bases;
  int64_t microBatch = 0;
  std::vector<int64_t> keys, first;
  std::string label, phase; ///< phase: for example "forward"; empty: unknown
  int64_t stage = -1;       ///< pipeline stage; -1: none
  int instruction = -1;     ///< index into EntryCode::instructions
};

/// A tensor in the ranks' memory.
struct RankTensor {
  Dtype dtype = Dtype::F32;
  Placement placement;
  Addresses addresses;
  int64_t localBytes() const { return placement.localCount() * dtypeSize(dtype); }
};

/// A result of an entry that the host can read.
struct Output : RankTensor {
  static constexpr int64_t kNoBatch = -1, kWholeBatch = -2;
  std::string name;
  /// The batch dim. `kNoBatch`: the output does not depend on the batch. `kWholeBatch`: one value
  /// per batch. Outputs of `forward` do not use batchDim.
  int64_t batchDim = 0;
  int64_t microBatch = 0; ///< the micro-batch of an output of `step`
};

/// The code of an entry on the ranks of one pipeline coordinate.
struct EntryCode {
  std::vector<ProgramEntry> code;
  std::vector<Instruction> instructions;
  std::vector<BufferLifetime> buffers; ///< lifetimes of values, except those in slots
  bool hasBuffers = false;             ///< whether the program's table contains `buffers`
  int64_t updateFrom = -1; ///< index in `code` of the update's first element; -1: unknown
  int64_t slots = 1, slotBase = 0, slotBytes = 0;
  /// Moves an address in slot 0 to the same position in `slot`. Returns other addresses unchanged.
  int64_t inSlot(int64_t address, int64_t slot) const {
    bool kept = address >= slotBase && address < slotBase + slotBytes;
    return kept ? address + slot * slotBytes : address;
  }
};

/// An entry that the host can run.
struct EntryPoint {
  EntryKind kind = EntryKind::Step;
  std::vector<EntryCode> programs; ///< by pipeline coordinate
  std::vector<Output> outputs;
  std::string ownName; ///< of an inference entry; other entries are named after their kind
  const char *name() const { return kind == EntryKind::Inference ? ownName.c_str() : nameOf(kind); }
};

/// A variable of the model or of training, with its initial value.
struct Variable : RankTensor {
  VariableKind kind = VariableKind::Parameter;
  std::string symbol, of, location;
  ScalarForm form = ScalarForm::Value; ///< of the scalar `of`
  std::string rate;                    ///< symbol of the parameter's learning-rate scalar
  std::vector<std::string> names;
  bool frozen = false, transient = false;
  bool given = false; ///< has no initial value: weights must be given
  /// For an accumulator in a pipeline: the pipeline coordinate that adds to it (-1: none). If
  /// several stages add to one gradient, each stage has its own variable. All but the first of
  /// these variables name the first in `addsTo`.
  int64_t addedAt = -1;
  std::string addsTo;
  // At most one of file, value, data and distribution is set.
  struct File {
    std::string path; ///< empty: the program's own file, or no file if `given`
    std::string tensor;
    int64_t offset = 0, bytes = 0;
    std::vector<int64_t> shape;        ///< shape of the file's tensor; empty: the variable's shape
    std::vector<int64_t> lower, upper; ///< range of this variable in the tensor
    std::optional<uint32_t> crc{};     ///< CRC-32 of these bytes, if the model's archive has one
  };
  bool hasFile = false, hasValue = false;
  Dtype initialDtype = Dtype::F32; ///< type of the elements in the file or data
  File file;
  double value = 0;
  std::string data;                         ///< raw bytes of the whole tensor
  std::optional<Distribution> distribution; ///< normal or uniform
  std::array<double, 2> parameters{};
  const std::string &displayName() const { return names.empty() ? symbol : names.front(); }
  /// Returns true for a scalar that the host can set, and false for a form of another scalar.
  bool isSettable() const { return kind == VariableKind::Scalar && of.empty(); }
};

/// A file with initial values, as it was at compile time.
struct WeightFile {
  std::string path;
  int64_t bytes = 0;
  int64_t hashed = 0;   ///< number of hashed bytes at the end; in an archive: its directory
  std::string hash;     ///< FNV-1a, 16 hex digits
  std::string absolute; ///< absolute path on the compiling machine; empty: unknown
};

/// An input tensor of an entry.
struct Input {
  std::string name;
  InputRole role = InputRole::Data;
  Readers readers = Readers::All;
  std::string entry; ///< with Readers::Inference: the name of the entry
  Dtype dtype = Dtype::F32;
  Placement placement;
  int batchDim = 0;  ///< -1: none
  int64_t limit = 0; ///< values are in [0, limit); 0: no limit
  bool hasIgnore = false;
  int64_t ignore = 0;
  std::vector<Addresses> addresses; ///< one per micro-batch
  bool isReadBy(const EntryPoint &point) const {
    return includes(readers, point.kind) &&
           (point.kind != EntryKind::Inference || entry == point.ownName);
  }
  /// Returns the name of the entries that read the input.
  const char *readerName() const {
    return readers == Readers::Inference ? entry.c_str() : nameOf(readers);
  }
};

/// A parsed and checked program.
struct Program {
  std::string version, llvm, model, compileLine, explain;
  LabelRule labels = LabelRule::Given;
  std::vector<LossAverage> lossAverages; ///< how parts of the loss are averaged, without duplicates
  Target target;
  Mesh mesh;
  std::vector<std::string> kernelNames;
  std::vector<int64_t> arenaBytes; ///< arena size of a rank, by pipeline coordinate
  /// Host memory by pipeline coordinate: first address (after the arena) and size. Size 0, or an
  /// empty list: no host memory.
  std::vector<int64_t> hostBase, hostBytes;
  std::vector<Variable> variables;
  std::vector<WeightFile> files;
  std::vector<Input> inputs;
  std::vector<Function> functions;
  std::vector<EntryPoint> entries;
  int64_t microBatches = 1;
  std::map<std::string, double> defaults;
  /// Whether each loss sum and count of an evaluation is a constant times a sum over samples, or
  /// does not depend on the samples.
  bool hasRowSums = false;
  /// The entries whose batch can be padded with rows of ignored labels without changing the
  /// results.
  std::vector<EntryKind> ignoresRows;
  bool ignoresRowsIn(EntryKind entry) const {
    return std::find(ignoresRows.begin(), ignoresRows.end(), entry) != ignoresRows.end();
  }
  /// Flops of matmuls, convolutions and attention in one step, for the whole model before sharding.
  /// In a program that only evaluates, flops of one batch.
  double flopsPerStep = 0;

  /// Returns the entry of a kind or with a name, or null if the program has none.
  const EntryPoint *entry(EntryKind kind) const;
  const EntryPoint *entry(const std::string &name) const;
  /// Returns the index of the variable with the symbol, or -1 if there is none.
  int variable(const std::string &symbol) const;
  /// Returns the largest arena of any pipeline coordinate.
  int64_t largestArena() const;
  /// Returns whether an address is in host memory.
  bool isInHost(int64_t address, int64_t coordinate) const {
    return hasHostPart(coordinate) && address >= hostBase[coordinate];
  }
  bool hasHostPart(int64_t coordinate) const {
    return size_t(coordinate) < hostBytes.size() && hostBytes[coordinate] > 0;
  }
  /// Returns whether a byte range lies completely in the arena or completely in host memory.
  bool holds(int64_t address, int64_t bytes, int64_t coordinate) const;
};

/// The symbols of a compiled object and the path of its file (empty: no file). Relative paths of
/// weight files are relative to the folder of this file. The file itself may also contain weights
/// (`--weights copy`).
struct ProgramSource {
  const char *json = nullptr;
  uint64_t size = 0;
  const Kernel *kernels = nullptr;
  std::string path;
  const char *image = nullptr; ///< kernels for a device, as its driver loads them
  uint64_t imageSize = 0;
  std::string folder() const;
};

/// Returns an instruction's name for traces and messages: a kernel's name, "matmul 4x8x16",
/// "all_reduce".
std::string instructionName(const Program &program, const Instruction &instruction);

/// Parses and checks a program's table. Fails with a description of the error.
Program parseProgram(std::string_view json);

} // namespace psrt

#endif
