// A compiled program as flat structs: what docs/program-format.md says, parsed once.
#ifndef PSRT_CORE_PROGRAM_H
#define PSRT_CORE_PROGRAM_H

#include "runtime/core/Placement.h"
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

/// Calls of generated code: rows [lo, hi) of its row space.
using Kernel = void (*)(void *const *buffers, const int64_t *scalars, int64_t lo, int64_t hi);

enum class Dtype : uint8_t { F32, F64, F16, BF16, I64, I32, I16, I8, U8, Bool, F8E4M3, F8E5M2 };
/// Bytes of one element.
int64_t dtypeSize(Dtype dtype);
const char *dtypeName(Dtype dtype);
/// Parses "f32" and the like; fails on others.
Dtype parseDtype(const std::string &name);
/// Nothing for an unknown name.
std::optional<Dtype> findDtype(const std::string &name);

/// A buffer of an instruction: `base` is an index into the bases of the run, `Absolute` for an
/// arena address.
struct BufferRef {
  static constexpr int32_t Absent = -1, Absolute = -2;
  int32_t base = Absent;
  int64_t offset = 0;
  bool present() const { return base != Absent; }
};

/// Generated code on rows [0, rows), called on pieces of `grain`, or on a device by a grid of
/// blocks. Buffers: its arguments.
struct KernelOp {
  int kernel = 0;
  int64_t rows = 0, grain = 1;
  int64_t grid = 0, block = 0;
  int64_t bytes = 0; ///< that it reads and writes, for traces
  bool saysWrites = false;
  std::vector<int> writes; ///< the arguments that it writes, where the table says them
};
/// out = lhs rhs (+ bias) (+ out). Buffers: lhs, rhs, out, bias, sums: of an operand over the inner
/// dim, one for each row of lhs or column of rhs, aux: of an activation, with the strides of out.
/// Strides in elements. Sums of 16-bit floats are of f32, rounded once.
struct MatmulOp {
  enum { Lhs, Rhs, Out, Bias, Sums, LhsScale, RhsScale, Aux, Buffers };
  /// What out is besides: the GELU, by the tanh formula, of lhs rhs (+ bias), which goes to aux
  /// where there is one; or lhs rhs times the GELU's derivative at aux.
  enum class Activation { None, Gelu, GeluGrad };
  Dtype dtype = Dtype::F32, outDtype = Dtype::F32; ///< of lhs and rhs; of out, bias and sums
  std::optional<Dtype> otherRhsDtype;              ///< where it differs: both are floats of 8 bits
  std::array<int64_t, 2> batch{1, 1};
  int64_t m = 0, n = 0, k = 0;
  std::array<int64_t, 4> lhs{}, rhs{}, out{}; ///< batch0, batch1, row, column
  int accumulate = -1; ///< the ref whose `first` flag decides; -1: never adds
  int summed = Lhs;    ///< the operand that sums are of: Lhs or Rhs
  Activation activation = Activation::None;
  int64_t countSums() const { return summed == Lhs ? m : n; }
  Dtype rhsDtype() const { return otherRhsDtype.value_or(dtype); }
};
/// softmax(scale q k^T + mask) v by head; the gradient when `grad`.
struct AttentionOp {
  enum { Q, K, V, Out, Lse, Dout, Dq, Dk, Dv, Offset, Mask, Padding, Buffers };
  bool grad = false;
  Dtype dtype = Dtype::F32, maskDtype = Dtype::Bool; ///< lse is of f32
  int64_t b = 0, h = 0, g = 0, t = 0, s = 0, d = 0;
  std::array<int64_t, 3> q{}, k{}, v{}, out{}, dout{}, dq{}, dk{}, dv{}; ///< batch, head, row
  std::array<int64_t, 4> mask{};
  bool causal = false;
  int64_t window = 0;
  float scale = 1, dropout = 0;
  int key = -1; ///< which of the run's keys
  std::vector<int64_t> factorSizes, factorStrides;
  int64_t globalSize = 0;
};
/// Rows by index. Buffers: table or cotangent, indices, out, first row (i64 scalar).
struct EmbeddingOp {
  enum { Table, Indices, Out, FirstRow, Buffers };
  bool grad = false;
  Dtype dtype = Dtype::F32, outDtype = Dtype::F32, indexDtype = Dtype::I64;
  int64_t count = 0, width = 0, rows = 0, paddingIndex = -1;
  int accumulate = -1;
};
/// How windows lie over a plane, or a volume: sizes by space dim, the outer ones 1 where there are
/// fewer than three. Window p of dim d has its tap k at p stride + k dilation - low.
struct WindowShape {
  std::array<int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1};
  std::array<int64_t, 3> strides{1, 1, 1}, low{}, dilation{1, 1, 1};
  auto operator<=>(const WindowShape &) const = default;
};
/// y[n, o, p] = sum over c, k of x[n, c, p stride + k dilation - low] w[o, c, k] by group, or x
/// from y and w, or w from x and y. Buffers: dense x, w and y.
struct ConvolutionOp {
  enum { X, W, Y, Buffers };
  int result = Y;                                  ///< which of the three is computed
  Dtype dtype = Dtype::F32, outDtype = Dtype::F32; ///< of what is read; of what is computed
  int64_t batch = 0, groups = 1, inChannels = 0, outChannels = 0; ///< channels: of a group
  WindowShape windows;
};
/// The maximum of each window, or each window's cotangent at the place of its maximum. Buffers: x,
/// y (the cotangent when `grad`), out when `grad`.
struct MaxPoolOp {
  enum { X, Y, Out, Buffers };
  bool grad = false;
  Dtype dtype = Dtype::F32;
  int64_t planes = 0; ///< batch x channels
  WindowShape windows;
};
/// Writes the shard index over `axes` as an i64. Buffers: out.
struct ShardIndexOp {
  std::vector<int> axes;
};
/// Buffers: in, out; or out alone: zeroes.
struct CopyOp {
  bool zero = false;
  int64_t bytes = 0;
};
/// Where something lies in the arenas: an address for each pipeline coordinate, or none.
class Addresses {
public:
  static constexpr int64_t Absent = -1;
  Addresses(std::vector<int64_t> byCoordinate = {0}) : byCoordinate(std::move(byCoordinate)) {}
  bool isAt(int64_t coordinate) const { return at(coordinate) != Absent; }
  int64_t at(int64_t coordinate) const { return byCoordinate[coordinate]; }
  /// The first coordinate that has it; -1 where none does.
  int64_t first() const {
    for (size_t i = 0; i < byCoordinate.size(); ++i)
      if (byCoordinate[i] != Absent)
        return int64_t(i);
    return -1;
  }
  /// Whether each coordinate that has `other` has this too.
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

/// Communication over `axes`, or over pipeline coordinates. Buffers: ins, then outs.
struct CollectiveOp {
  enum Kind { AllReduce, ReduceScatter, AllGather, AllToAll, Permute, ShardSlice };
  enum Reduction { Sum, Max, Min };
  Kind kind = AllReduce;
  Reduction reduction = Sum;
  Dtype dtype = Dtype::F32;
  std::vector<int> axes;
  std::vector<int64_t> overPipeline; ///< all_reduce: among these pipeline coordinates instead
  std::string queue;
  std::vector<int64_t> counts;            ///< all_reduce, permute: elements per pair of buffers
  int64_t outer = 1, size = 1, inner = 1; ///< `size`: local size of the dim
  int64_t whole = 0;                      ///< shard_slice: size of the dim of `in`
  std::vector<int64_t> shape;             ///< all_to_all: of the operand
  int split = 0, concat = 0;
  std::vector<int> targets;
  int64_t token = -1; ///< it is started, and over at the wait for this number; -1: over at once
  const char *name() const;
  /// Bytes of one rank's operand (all buffers of a bucket).
  int64_t bytes(const Mesh &mesh) const;
  /// The ranks that take part, in the order in which sums add them up.
  std::vector<int> members(const Mesh &mesh, int rank) const;
};

/// Starts to send to, or to receive from, the rank of pipeline coordinate `peer` that is as this
/// one on all other axes. Buffers: what is sent or received.
struct MessageOp {
  bool receives = false;
  int64_t peer = 0, bytes = 0, token = 0;
  std::string queue;
  int64_t value = 0, microBatch = 0; ///< which of the values that cross stages it is
};

/// Starts to copy from the host's part of the addresses, or to it. Buffers: ins, then outs.
struct TransferOp {
  bool toHost = false;
  int64_t token = 0;
  std::vector<int64_t> sizes; ///< bytes per pair of buffers
};

/// Returns when what that was started with the token is over. No buffers.
struct WaitOp {
  int64_t token = 0;
  bool isForTransfer = false; ///< started by the device, not by the communication
};

struct Instruction {
  std::variant<KernelOp, MatmulOp, AttentionOp, EmbeddingOp, ConvolutionOp, MaxPoolOp, ShardIndexOp,
               CopyOp, CollectiveOp, MessageOp, TransferOp, WaitOp>
      op;
  std::vector<BufferRef> buffers;
  std::string location;
};

/// Bytes and when they are in use: from what stands at `begin` in the code (-1: from before the
/// first) to what stands at `end`, both included.
struct BufferLifetime {
  int64_t address = 0, bytes = 0, begin = 0, end = 0;
};

/// Straight-line code that runs bind to addresses.
struct Function {
  std::string name;
  int bases = 0, refs = 0, keys = 0;
  std::vector<Instruction> code;
  std::vector<BufferLifetime> buffers; ///< in scratch, the last base
};

/// One entry of a program's code: a run of a function, or one instruction on arena addresses.
struct ProgramEntry {
  int function = -1; ///< -1: `instruction`
  std::vector<int64_t> bases;
  int64_t microBatch = 0;
  std::vector<int64_t> keys, first;
  std::string label, phase; ///< phase: "forward" and the like; empty: unknown
  int64_t stage = -1;       ///< of a pipeline; -1: none
  int instruction = -1;     ///< index into EntryCode::instructions
};

/// A tensor in the ranks' memory.
struct RankTensor {
  Dtype dtype = Dtype::F32;
  Placement placement;
  Addresses addresses;
  int64_t localBytes() const { return placement.localCount() * dtypeSize(dtype); }
};

/// What an entry gives to the host.
struct Output : RankTensor {
  static constexpr int64_t kNoBatch = -1, kWholeBatch = -2;
  std::string name;
  /// The dim whose major part is the samples of a batch; `kNoBatch`: the same for all batches;
  /// `kWholeBatch`: one of a batch, not of its samples. Of @evaluate; unused for other entries.
  int64_t batchDim = 0;
};

/// What the ranks of one pipeline coordinate do in an entry.
struct EntryCode {
  std::vector<ProgramEntry> code;
  std::vector<Instruction> instructions;
  std::vector<BufferLifetime> buffers; ///< of values, but those that slots keep
  bool hasBuffers = false;             ///< whether the table says them
  int64_t updateFrom = -1; ///< index in `code` of the first entry of the update; -1: unknown
  int64_t slots = 1, slotBase = 0, slotBytes = 0;
  /// Where an address lies in a slot: itself outside of the values that slots keep.
  int64_t inSlot(int64_t address, int64_t slot) const {
    bool kept = address >= slotBase && address < slotBase + slotBytes;
    return kept ? address + slot * slotBytes : address;
  }
};

/// What the host can run: step, evaluate, forward, backward, update.
struct EntryPoint {
  std::string name;
  std::vector<EntryCode> programs; ///< by pipeline coordinate
  std::vector<Output> outputs;
};

struct Variable : RankTensor {
  std::string symbol, kind, of, location;
  std::string rate; ///< of a parameter: the scalar that is its learning rate
  std::vector<std::string> names;
  bool frozen = false, transient = false;
  bool given = false; ///< has no value of its own: weights must be given
  /// Of an accumulator of a pipeline: the coordinate that adds to it (-1: none does), and whose
  /// further part it is, where several stages add to one.
  int64_t addedAt = -1;
  std::string addsTo;
  // At most one of file, value, data, distribution.
  struct File {
    std::string path; ///< empty: the program's own, or none where the variable is given
    std::string tensor;
    int64_t offset = 0, bytes = 0;
    std::vector<int64_t> shape;        ///< of the tensor in the file; empty: the variable's
    std::vector<int64_t> lower, upper; ///< the part that is this variable
    std::optional<uint32_t> crc{};     ///< of the `bytes`, where the model's archive has one
  };
  bool hasFile = false, hasValue = false;
  Dtype initialDtype = Dtype::F32; ///< of the file or the data
  File file;
  double value = 0;
  std::string data; ///< raw bytes, whole tensor
  std::string distribution;
  std::array<double, 2> parameters{};
  const std::string &displayName() const { return names.empty() ? symbol : names.front(); }
};

/// A file that initial values lie in, as it was when the program was compiled.
struct WeightFile {
  std::string path;
  int64_t bytes = 0;
  int64_t hashed = 0;   ///< that many bytes at the end, the archive's directory, have this hash
  std::string hash;     ///< FNV-1a, 16 hex digits
  std::string absolute; ///< its path on the machine that compiled the program; empty: unknown
};

struct Input {
  std::string name, role,
      entry; ///< role: data, labels, cotangent; entry: the program it belongs to
  Dtype dtype = Dtype::F32;
  Placement placement;
  int batchDim = 0;  ///< -1: none
  int64_t limit = 0; ///< values are in [0, limit); 0: anything
  bool hasIgnore = false;
  int64_t ignore = 0;
  std::vector<Addresses> addresses; ///< per micro-batch
};

struct Program {
  std::string version, llvm, model, compileLine, explain, labels, lossAverage;
  std::string target; ///< "cpu", or "cuda:" and what for
  Mesh mesh;
  std::vector<std::string> kernelNames;
  std::vector<int64_t> arenaBytes; ///< of a rank, by pipeline coordinate
  /// Of the host's memory, by pipeline coordinate: where its part of the addresses begins, behind
  /// the arena, and its bytes. 0 of them, or no such coordinate: there is none.
  std::vector<int64_t> hostBase, hostBytes;
  std::vector<Variable> variables;
  std::vector<WeightFile> files;
  std::vector<Input> inputs;
  std::vector<Function> functions;
  std::vector<EntryPoint> entries;
  int64_t microBatches = 1;
  std::map<std::string, double> defaults;
  /// Whether the loss's sums and counts of an evaluation are multiples of sums over its samples.
  bool hasRowSums = false;
  /// "step", "evaluate" or both, joined by "+".
  std::string ignoresRows;
  /// Whether rows with ignored labels fill up a batch of `entry` without a change of what it gives.
  bool ignoresRowsIn(const std::string &entry) const {
    return ("+" + ignoresRows + "+").find("+" + entry + "+") != std::string::npos;
  }
  double flopsPerStep = 0; ///< of contractions and attention, of the whole model

  const EntryPoint *entry(const std::string &name) const;
  /// Index of the variable of that symbol; -1 if none.
  int variable(const std::string &symbol) const;
  /// Of the coordinate whose ranks need most.
  int64_t largestArena() const;
  /// Whether an address is one of the host's part.
  bool isInHost(int64_t address, int64_t coordinate) const {
    return hasHostPart(coordinate) && address >= hostBase[coordinate];
  }
  bool hasHostPart(int64_t coordinate) const {
    return size_t(coordinate) < hostBytes.size() && hostBytes[coordinate] > 0;
  }
  /// Whether bytes from an address on lie in the arena, or all in the host's part.
  bool holds(int64_t address, int64_t bytes, int64_t coordinate) const;
};

/// The symbols of a compiled object, and the file that they are in: its folder is where relative
/// file names start from, and it may carry weights. Empty: of no file.
struct ProgramSource {
  const char *json = nullptr;
  uint64_t size = 0;
  const Kernel *kernels = nullptr;
  std::string path;
  const char *image = nullptr; ///< the kernels of a program for a device, as its driver loads them
  uint64_t imageSize = 0;
  std::string folder() const;
};

/// An instruction as traces and messages name it: a kernel's name, "matmul 4x8x16", "all_reduce".
std::string instructionName(const Program &program, const Instruction &instruction);

/// Parses and checks a table; fails with what is wrong in it.
Program parseProgram(std::string_view json);

} // namespace psrt

#endif
