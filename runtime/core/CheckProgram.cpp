// Implements the checks of a parsed program.
#include "runtime/core/CheckProgram.h"
#include "runtime/core/Element.h"
#include "runtime/core/ProgramJson.h"
#include <algorithm>
#include <array>
#include <functional>
#include <map>

namespace psrt {

/// The largest number of ranks. An int counts the ranks, and some arrays have one element per rank.
static constexpr int64_t kMaxRanks = 1 << 24;

void checkMesh(const Mesh &mesh) {
  int64_t ranks = 1;
  for (const Mesh::Axis &axis : mesh.axes) {
    ranks *= std::clamp<int64_t>(axis.size, 1, kMaxRanks + 1);
    if (axis.size < 1 || ranks > kMaxRanks)
      PSRT_FAIL(BadInput,
                "mesh axis \"%s\" has size %lld; expected at least 1, and at most 2^24 devices in "
                "the mesh",
                axis.name.c_str(), (long long)axis.size);
    for (const Mesh::Axis &other : mesh.axes)
      if (&other != &axis && other.name == axis.name)
        PSRT_FAIL(BadInput, "the mesh has two axes \"%s\"", axis.name.c_str());
  }
}

void checkAxes(const std::vector<int> &axes, const Mesh &mesh) {
  std::vector<int> sorted(axes);
  std::sort(sorted.begin(), sorted.end());
  auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    PSRT_FAIL(BadInput, "mesh axis \"%s\" appears twice in one list of axes",
              mesh.axes[*twice].name.c_str());
}

/// Largest size such that rounding up to a multiple of the shards cannot overflow.
constexpr int64_t kLargestSize = int64_t(1) << 56;

void checkFactors(const Placement &placement, const Mesh &mesh) {
  countElements(placement.shape);
  std::vector<int> used(placement.partial);
  for (size_t d = 0; d < placement.factors.size(); ++d) {
    std::vector<int64_t> sizes, nonzero; // sizes, and sizes with 0 replaced by 1
    for (const Placement::Factor &factor : placement.factors[d]) {
      if (factor.size > kLargestSize)
        PSRT_FAIL(BadInput, "a factor of dim %zu has size %lld; expected at most 2^56", d,
                  (long long)factor.size);
      int64_t shards = mesh.shards(factor.axes);
      if (factor.given && (factor.given > kLargestSize || factor.given < 1 ||
                           factor.given < (factor.size + shards - 1) / shards))
        PSRT_FAIL(BadInput,
                  "dim %zu: shards of %lld elements over %lld ranks cannot hold %lld elements", d,
                  (long long)factor.given, (long long)shards, (long long)factor.size);
      sizes.push_back(factor.size);
      nonzero.push_back(std::max<int64_t>(1, factor.size));
      used.insert(used.end(), factor.axes.begin(), factor.axes.end());
    }
    countElements(nonzero);
    if (int64_t size = countElements(sizes); size != placement.shape[d])
      PSRT_FAIL(BadInput, "factors of dim %zu multiply to %lld, but the dim has size %lld", d,
                (long long)size, (long long)placement.shape[d]);
  }
  checkAxes(used, mesh);
}

void checkCollective(const CollectiveOp &op, const Mesh &mesh) {
  if (!op.overPipeline.empty() && (op.kind != CollectiveOp::AllReduce || !op.axes.empty()))
    PSRT_FAIL(BadInput, "%s over pipeline coordinates; expected an all_reduce without axes",
              op.name());
  if (!op.overPipeline.empty() && op.token < 0)
    PSRT_FAIL(BadInput, "%s over pipeline coordinates has no \"wait\" token", op.name());
  if (!std::is_sorted(op.overPipeline.begin(), op.overPipeline.end(), std::less_equal<>()))
    PSRT_FAIL(BadInput, "the pipeline coordinates of an %s do not ascend", op.name());
  int64_t shards = mesh.shards(op.axes);
  countElements({op.outer, op.size, op.inner, shards});
  countElements({op.outer, op.whole, op.inner});
  countElements(op.shape);
  int64_t all = 0;
  for (int64_t count : op.counts)
    all = countElements({all + countElements({count})});
  int64_t rank = int64_t(op.shape.size());
  if (op.kind == CollectiveOp::AllToAll && (op.split < 0 || op.split >= rank || op.concat < 0 ||
                                            op.concat >= rank || op.shape[op.split] % shards != 0))
    PSRT_FAIL(
        BadInput,
        "an all_to_all over %lld shards splits dim %d and concatenates dim %d of a tensor of %lld "
        "dims; expected dims of the tensor, and a split dim that is divisible by the shards",
        (long long)shards, op.split, op.concat, (long long)rank);
  std::vector<int> targets(op.targets);
  std::sort(targets.begin(), targets.end());
  bool isPermutation = int64_t(targets.size()) == shards;
  for (size_t i = 0; i < targets.size(); ++i)
    isPermutation &= targets[i] == int(i);
  if (op.kind == CollectiveOp::Permute && !isPermutation)
    PSRT_FAIL(BadInput, "the targets of a permute are not a permutation of its %lld members",
              (long long)shards);
}

void checkNoPipelineCommunication(const Instruction &instruction, const std::string &function) {
  if (const auto *op = std::get_if<MessageOp>(&instruction.op))
    PSRT_FAIL(BadInput,
              "function \"%s\" has a message %s pipeline coordinate %lld, which only programs may "
              "have; compile again",
              function.c_str(), op->receives ? "from" : "to", (long long)op->peer);
  const auto *op = std::get_if<CollectiveOp>(&instruction.op);
  if (op && !op->overPipeline.empty())
    PSRT_FAIL(BadInput,
              "function \"%s\" has an %s over pipeline coordinates, which only programs may have; "
              "compile again",
              function.c_str(), op->name());
}

void checkPipelineCommunication(const Instruction &instruction, const std::string &entry,
                                int64_t coordinate) {
  const auto *message = std::get_if<MessageOp>(&instruction.op);
  if (message && message->peer == coordinate)
    PSRT_FAIL(BadInput,
              "entry \"%s\" has a message from pipeline coordinate %lld to itself; compile again",
              entry.c_str(), (long long)coordinate);
  const auto *op = std::get_if<CollectiveOp>(&instruction.op);
  if (op && !op->overPipeline.empty() &&
      std::find(op->overPipeline.begin(), op->overPipeline.end(), coordinate) ==
          op->overPipeline.end())
    PSRT_FAIL(BadInput,
              "entry \"%s\" has an %s on pipeline coordinate %lld that runs only over other "
              "coordinates; compile again",
              entry.c_str(), op->name(), (long long)coordinate);
}

void checkKernel(const KernelOp &op, size_t arguments) {
  if (op.grid < 0 || op.grid > INT32_MAX || op.block < 0 || op.block > 1024)
    PSRT_FAIL(BadInput,
              "a kernel has %lld blocks of %lld threads; expected 0 to 2^31 - 1 blocks "
              "of 0 to 1024 threads",
              (long long)op.grid, (long long)op.block);
  for (int index : op.writes)
    if (index < 0 || size_t(index) >= arguments)
      PSRT_FAIL(BadInput, "a kernel of %zu arguments writes argument %d", arguments, index);
}

static int64_t countPositions(const std::array<int64_t, 3> &sizes) {
  return countElements({sizes[0], sizes[1], sizes[2]});
}

static void checkWindows(const WindowShape &windows) {
  auto check = [](const char *property, int64_t number, int64_t least) {
    if (number < least || number > INT32_MAX)
      PSRT_FAIL(BadInput, "windows have %s %lld; expected %lld to 2^31 - 1", property,
                (long long)number, (long long)least);
  };
  for (size_t d = 0; d < windows.in.size(); ++d) {
    check("size", windows.in[d], 1);
    check("output size", windows.out[d], 1);
    check("kernel size", windows.kernel[d], 1);
    check("stride", windows.strides[d], 1);
    check("dilation", windows.dilation[d], 1);
    check("padding", windows.low[d], 0);
  }
}

void checkConvolution(const ConvolutionOp &op) {
  checkWindows(op.windows);
  if (op.groups < 1)
    PSRT_FAIL(BadInput, "a convolution has %lld groups; expected at least 1", (long long)op.groups);
  const WindowShape &windows = op.windows;
  countElements({op.groups, op.outChannels, op.inChannels, countPositions(windows.kernel)});
  countElements({op.batch, op.groups, op.inChannels, countPositions(windows.in)});
  countElements({op.batch, op.groups, op.outChannels, countPositions(windows.out)});
}

void checkMaxPool(const MaxPoolOp &op) {
  checkWindows(op.windows);
  countPositions(op.windows.kernel);
  countElements({op.planes, countPositions(op.windows.in)});
  countElements({op.planes, countPositions(op.windows.out)});
}

void checkInitial(const Variable &variable) {
  const Variable::File &file = variable.file;
  const std::vector<int64_t> &shape = variable.placement.shape;
  countElements(file.shape);
  bool fits = file.offset >= 0 && file.offset <= INT64_MAX / 2 && file.bytes >= 0;
  if (!file.lower.empty() && file.shape.size() == shape.size()) {
    fits &= file.lower.size() == shape.size();
    for (size_t d = 0; fits && d < shape.size(); ++d)
      fits = file.lower[d] >= 0 && file.lower[d] <= file.shape[d] - shape[d];
  }
  if (!fits)
    PSRT_FAIL(BadInput, "variable \"%s\" lies outside of the tensor \"%s\" of its initial value",
              variable.displayName().c_str(), file.tensor.c_str());
}

/// Checks that host memory begins at a page boundary, at least one page after the end of the arena.
static void checkHostPart(const Program &program) {
  constexpr int64_t kPage = 4096;
  for (size_t i = 0; i < program.arenaBytes.size(); ++i) {
    int64_t base = program.hostBase[i], bytes = program.hostBytes[i];
    if (bytes > 0 &&
        (base % kPage != 0 || base - kPage < program.arenaBytes[i] || bytes > INT64_MAX / 2 - base))
      PSRT_FAIL(BadInput,
                "host memory of %lld bytes begins at address %lld, and the arena has %lld bytes; "
                "expected an address that is a multiple of %lld, at least one page after the arena",
                (long long)bytes, (long long)base, (long long)program.arenaBytes[i],
                (long long)kPage);
  }
}

/// Checks that a tensor lies in the arena or in host memory. The message contains `kind`.
static void checkAddress(const Program &program, const char *kind, const std::string &name,
                         const Addresses &addresses, const Placement &placement, Dtype dtype) {
  int64_t bytes = countElements(placement.local) * dtypeSize(dtype);
  for (int64_t i = 0; i < program.mesh.pipelineSize(); ++i) {
    if (addresses.isAt(i) && !program.holds(addresses.at(i), bytes, i))
      PSRT_FAIL(BadInput, "%s \"%s\" has %lld bytes at address %lld, but the arena has %lld bytes",
                kind, name.c_str(), (long long)bytes, (long long)addresses.at(i),
                (long long)program.arenaBytes[i]);
  }
}

static void checkSlots(const EntryPoint &entry, const EntryCode &code, int64_t arena) {
  bool fits =
      code.slots >= 1 && code.slotBase >= 0 && code.slotBytes >= 0 && code.slotBase <= arena;
  if (!fits || countElements({code.slots, code.slotBytes}) > arena - code.slotBase)
    PSRT_FAIL(
        BadInput,
        "entry \"%s\" has %lld slots of %lld bytes at address %lld, but the arena has %lld bytes",
        entry.name(), (long long)code.slots, (long long)code.slotBytes, (long long)code.slotBase,
        (long long)arena);
  if (code.slots != entry.programs.front().slots)
    PSRT_FAIL(BadInput,
              "entry \"%s\" has %lld slots on one pipeline coordinate and %lld on another",
              entry.name(), (long long)code.slots, (long long)entry.programs.front().slots);
}

/// Checks that the outputs of one name differ only in their micro-batches, which are in order.
static void checkMicroBatches(const EntryPoint &entry) {
  std::map<std::string, const Output *> last;
  for (const Output &output : entry.outputs) {
    const Output *&before = last[output.name];
    bool isNext = before ? output.microBatch == before->microBatch + 1 &&
                               output.placement == before->placement &&
                               output.dtype == before->dtype && output.batchDim == before->batchDim
                         : output.microBatch == 0;
    if (!isNext)
      PSRT_FAIL(BadInput, "entry \"%s\" has the output \"%s\" of micro-batch %lld %s", entry.name(),
                output.name.c_str(), (long long)output.microBatch,
                before ? "with another type than the one before it, or out of order"
                       : "without those before it");
    before = &output;
  }
}

static void checkEntry(const EntryPoint &entry, const Program &program) {
  for (size_t i = 0; i < entry.programs.size(); ++i)
    checkSlots(entry, entry.programs[i], program.arenaBytes[i]);
  checkMicroBatches(entry);
  for (const Output &output : entry.outputs)
    checkAddress(program, "output", output.name, output.addresses, output.placement, output.dtype);
}

static void checkInput(const Input &input, const Program &program) {
  const EntryPoint *entry = program.entry(input.entry);
  if (input.readers == Readers::Inference && (!entry || entry->kind != EntryKind::Inference))
    PSRT_FAIL(BadInput,
              "input \"%s\" is of the inference entry \"%s\", but the program has no such entry",
              input.name.c_str(), input.entry.c_str());
  const std::vector<int64_t> &shape = input.placement.shape;
  if (input.batchDim < -1 || input.batchDim >= int(shape.size()) ||
      (input.batchDim >= 0 && shape[input.batchDim] < 1))
    PSRT_FAIL(BadInput, "input \"%s\" has no batch in dim %d", input.name.c_str(), input.batchDim);
  for (const Addresses &addresses : input.addresses)
    checkAddress(program, "input", input.name, addresses, input.placement, input.dtype);
}

/// Checks that inputs that the same entries read have the same number of samples.
static void checkBatches(const Program &program) {
  auto rowsOf = [](const Input &input) { return input.placement.shape[input.batchDim]; };
  auto hasBatch = [](const Input &input) {
    return input.batchDim >= 0 && input.role != InputRole::Cotangent;
  };
  std::map<std::pair<Readers, std::string>, const Input *> firstOf;
  for (const Input &input : program.inputs) {
    if (!hasBatch(input))
      continue;
    const Input &first =
        *firstOf.emplace(std::pair(input.readers, input.entry), &input).first->second;
    if (rowsOf(first) != rowsOf(input))
      PSRT_FAIL(BadInput, "input \"%s\" has %lld samples and input \"%s\" has %lld in one step",
                first.name.c_str(), (long long)rowsOf(first), input.name.c_str(),
                (long long)rowsOf(input));
  }
}

static void checkCopy(const Variable &variable, const Program &program) {
  int of = program.variable(variable.of);
  const Variable *whole = of < 0 ? nullptr : &program.variables[of];
  if (!whole || whole->kind == VariableKind::Copy ||
      whole->placement.shape != variable.placement.shape || !isFloat(whole->dtype) ||
      !isFloat(variable.dtype))
    PSRT_FAIL(BadInput,
              "variable \"%s\" is a copy of \"%s\", which is not a float of the same shape",
              variable.symbol.c_str(), variable.of.c_str());
}

static void checkForm(const Variable &variable, const Program &program) {
  int of = program.variable(variable.of);
  if (variable.kind != VariableKind::Scalar || of < 0 || !program.variables[of].isSettable())
    PSRT_FAIL(BadInput, "variable \"%s\" is a form of \"%s\", which is not a scalar",
              variable.symbol.c_str(), variable.of.c_str());
}

static void checkVariable(const Variable &variable, const Program &program) {
  checkAddress(program, "variable", variable.symbol, variable.addresses, variable.placement,
               variable.dtype);
  if (variable.addresses.first() < 0)
    PSRT_FAIL(BadInput, "variable \"%s\" has no address", variable.symbol.c_str());
  if (variable.addedAt >= 0 && !variable.addresses.isAt(variable.addedAt))
    PSRT_FAIL(BadInput,
              "variable \"%s\" is accumulated on a pipeline coordinate where it has no address",
              variable.symbol.c_str());
  if (variable.kind == VariableKind::Copy)
    checkCopy(variable, program);
  if (variable.form != ScalarForm::Value)
    checkForm(variable, program);
  if (variable.addsTo.empty())
    return;
  int to = program.variable(variable.addsTo);
  const Variable *whole = to < 0 ? nullptr : &program.variables[to];
  if (!whole || !(whole->placement == variable.placement) || whole->dtype != variable.dtype)
    PSRT_FAIL(BadInput, "variable \"%s\" adds to \"%s\", which has another layout or dtype",
              variable.symbol.c_str(), variable.addsTo.c_str());
}

void checkProgram(const Program &program) {
  checkHostPart(program);
  for (const Variable &variable : program.variables)
    checkVariable(variable, program);
  for (const Input &input : program.inputs)
    checkInput(input, program);
  checkBatches(program);
  for (const EntryPoint &entry : program.entries)
    checkEntry(entry, program);
  for (const WeightFile &file : program.files)
    if (file.hashed < 0 || file.bytes < file.hashed)
      PSRT_FAIL(BadInput, "file \"%s\" has %lld bytes, but its hash covers the last %lld",
                file.path.c_str(), (long long)file.bytes, (long long)file.hashed);
  if (program.microBatches < 1 || program.microBatches > INT32_MAX)
    PSRT_FAIL(BadInput, "a step has %lld micro-batches; expected 1 to 2^31 - 1",
              (long long)program.microBatches);
}

} // namespace psrt
