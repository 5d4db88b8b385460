// Writes the program table of a placed module: inputs, programs, functions and defaults.
#include "Program.h"
#include "ClassCode.h"
#include "dialects/ps/Entries.h"
#include "dialects/ps/FoldSupport.h"
#include "lib/IR/RunLabel.h"
#include "lib/Memory/Buffers.h"
#include "mlir/IR/Matchers.h"
#include "parashard/Import.h"
#include "parashard/Training.h"
#include "parashard/Version.h"
#include "llvm/Config/llvm-config.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::memory;
using namespace parashard::codegen;
using namespace parashard::fusion;
namespace json = llvm::json;

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

int64_t ProgramTable::getVariableAddress(FlatSymbolRefAttr symbol) {
  return *fusion::getVariableAddress(symbols.lookup<ps::VariableOp>(symbol.getValue()), pp);
}

int64_t ProgramTable::getAddress(Value value) {
  Value root = getRoot(value);
  Operation *op = root.getDefiningOp();
  if (auto read = dyn_cast<ps::ReadOp>(op))
    return getVariableAddress(read.getVariableAttr());
  return op->getAttrOfType<DenseI64ArrayAttr>(
      kAddressesMark)[cast<OpResult>(root).getResultNumber()];
}

//===----------------------------------------------------------------------===//
// Inputs and outputs
//===----------------------------------------------------------------------===//

static void describeTensor(json::Object &object, Type local, std::optional<Type> global,
                           std::optional<ps::ShardingAttr> sharding, ps::MeshOp mesh) {
  auto type = cast<RankedTensorType>(global ? *global : local);
  object["dtype"] = getDtypeName(type.getElementType());
  describePlacement(object, type, sharding.value_or(ps::ShardingAttr()), mesh);
}

json::Value
codegen::describeByCoordinate(ModuleOp module,
                              llvm::function_ref<std::optional<int64_t>(int64_t coordinate)> get) {
  if (ir::getPipelineSize(module) == 1)
    return *get(0);
  json::Array list;
  for (int64_t coordinate = 0; coordinate < ir::getPipelineSize(module); ++coordinate)
    if (std::optional<int64_t> number = get(coordinate))
      list.push_back(*number);
    else
      list.push_back(nullptr);
  return list;
}

/// Returns the role of an input ("cotangent", "labels", "data"), from its attributes or else its
/// name.
static std::string getRole(rank::InputOp input) {
  if (input->hasAttr(kCotangentMark))
    return "cotangent";
  if (auto role = input->getAttrOfType<StringAttr>(kRoleMark))
    return role.getValue().str();
  return llvm::is_contained({"labels", "label", "targets", "target"}, input.getInput()) ? "labels"
                                                                                        : "data";
}

void ProgramTable::addInput(rank::InputOp input, StringRef entry) {
  bool isOfEntry = ps::isInferenceEntry(input->getParentOp());
  std::string key = (entry + "/" + input.getInput()).str();
  auto [at, isNew] = inputNumbers.try_emplace(key, inputs.size());
  if (isNew) {
    json::Object object{{"name", input.getInput()},
                        {"role", getRole(input)},
                        {"of_program", isOfEntry ? "inference" : entry.str()}};
    if (isOfEntry)
      object["entry"] = entry.str();
    describeTensor(object, input.getType(), input.getGlobal(), input.getSharding(),
                   ps::getMesh(module));
    auto copy = [&](StringRef mark, StringRef field) {
      if (auto value = input->getAttrOfType<IntegerAttr>(mark))
        object[field] = value.getInt();
    };
    copy(kBatchDimMark, "batch_dim");
    copy(kLimitMark, "limit");
    copy(kIgnoreMark, "ignore");
    object["addresses"] = json::Array();
    inputs.push_back(std::move(object));
  }
  json::Array &addresses = *inputs[at->second].getArray("addresses");
  while (addresses.size() <= input.getMicroBatch())
    addresses.push_back(
        json::Array(std::vector<json::Value>(ir::getPipelineSize(module), nullptr)));
  int64_t address = getAddress(input.getResult());
  if (ir::getPipelineSize(module) == 1)
    addresses[input.getMicroBatch()] = address;
  else
    (*addresses[input.getMicroBatch()].getAsArray())[pp] = address;
  if (entry == "step")
    microBatches = std::max<int64_t>(microBatches, input.getMicroBatch() + 1);
}

json::Object ProgramTable::writeOutput(rank::OutputOp output) {
  json::Object object{{"name", output.getOutput()}, {"address", getAddress(output.getValue())}};
  describeTensor(object, output.getValue().getType(), output.getGlobal(), output.getSharding(),
                 ps::getMesh(module));
  if (auto dim = output->getAttrOfType<IntegerAttr>(kBatchDimMark))
    object["batch_dim"] = dim.getInt();
  if (output.getMicroBatch() > 0)
    object["micro_batch"] = output.getMicroBatch();
  return object;
}

//===----------------------------------------------------------------------===//
// Runs and communication
//===----------------------------------------------------------------------===//

std::optional<int64_t> ProgramTable::getFunction(StringRef name) {
  if (auto known = functionNumbers.find(name); known != functionNumbers.end())
    return known->second;
  ClassCode code(symbols.lookup<func::FuncOp>(name), kernels);
  std::optional<json::Object> object = code.write();
  if (!object)
    return std::nullopt;
  functions.push_back(std::move(*object));
  return functionNumbers[name] = functions.size() - 1;
}

static int64_t getConstant(Value value) {
  IntegerAttr number;
  return value && matchPattern(value, m_Constant(&number)) ? number.getInt() : 0;
}

static int64_t getMicroBatch(rank::RunOp run) {
  if (auto number = run->getAttrOfType<IntegerAttr>(kMicroBatchMark))
    return number.getInt();
  return getConstant(run.getMicroBatch());
}

/// Returns true if `callee` does not belong to the update, and has a `ps.write` to the variable
/// that is passed as `argument`. Examples: `loss.count`, if its value is 1 or is computed from the
/// sums of `@count`; the running statistics of a batch norm; a variable that accumulates a maximum
/// or a minimum, because class functions do this with `ps.read` and `ps.write`.
static bool isWrittenBeforeUpdate(BlockArgument argument, func::FuncOp callee) {
  auto phase = callee->getAttrOfType<ps::PhaseAttr>(kPhaseMark);
  return phase && phase.getValue() != ps::Phase::Update &&
         llvm::any_of(argument.getUsers(), [](Operation *use) { return isa<ps::WriteOp>(use); });
}

std::optional<json::Object> ProgramTable::writeRun(rank::RunOp run,
                                                   llvm::StringSet<> &accumulated) {
  std::optional<int64_t> function = getFunction(run.getCallee());
  if (!function)
    return std::nullopt;
  auto callee = symbols.lookup<func::FuncOp>(run.getCallee());
  json::Array bases, keys, first;
  for (Value input : run.getInputs())
    bases.push_back(getAddress(input));
  SmallVector<FlatSymbolRefAttr> variables = run.getVariableSymbols();
  size_t number = 0;
  for (BlockArgument argument : callee.getArguments()) {
    if (!isa<ps::RefType>(argument.getType()))
      continue;
    StringRef symbol = variables[number].getValue();
    Value staged = run.getStaged(variables[number]);
    bases.push_back(staged ? getAddress(staged) : getVariableAddress(variables[number]));
    ++number;
    bool adds = llvm::any_of(argument.getUsers(),
                             [](Operation *use) { return isa<ps::AccumulateOp>(use); });
    first.push_back(int(adds && accumulated.insert(symbol).second));
    if (adds || isWrittenBeforeUpdate(argument, callee))
      adders[symbol] = pp;
  }
  for (Value result : run.getResults())
    bases.push_back(getAddress(result));
  bases.push_back(run->getAttrOfType<IntegerAttr>(kScratchAddressMark).getInt());
  if (auto list = run.getKeys())
    for (int64_t key : *list)
      keys.push_back(key);
  json::Object object{
      {"run", *function},        {"bases", std::move(bases)}, {"micro_batch", getMicroBatch(run)},
      {"keys", std::move(keys)}, {"first", std::move(first)}, {"label", ir::getRunLabel(run)}};
  if (auto phase = callee->getAttrOfType<ps::PhaseAttr>(kPhaseMark))
    object["phase"] = ps::stringifyPhase(phase.getValue());
  if (std::optional<int64_t> segment = run.getSegment(); segment && ir::getPipelineSize(module) > 1)
    object["stage"] = stages.getStage(*segment);
  return object;
}

int64_t ProgramTable::numberToken(Value token) {
  return tokenNumbers.try_emplace(token, tokenNumbers.size()).first->second;
}

/// Writes a send or a receive; `buffer` is the value sent or received.
template <typename Op>
json::Object ProgramTable::writeMessage(Op op, StringRef name, StringRef role, Value buffer) {
  return json::Object{{"op", name},
                      {role, getAddress(buffer)},
                      {"bytes", ps::getByteSize(buffer.getType())},
                      {"pp", int64_t(op.getPp())},
                      {"queue", op.getQueue()},
                      {"value", int64_t(op.getValue())},
                      {"micro_batch", int64_t(op.getMicroBatch())},
                      {"wait", numberToken(op.getToken())}};
}

void ProgramTable::writeStart(rank::StartOp start, json::Array &code) {
  auto typeOf = [](Value value) { return cast<RankedTensorType>(value.getType()); };
  auto begin = [&](Type element) {
    json::Object object;
    describeCollective(object, start.getCollective(),
                       start.getAxes().value_or(ArrayAttr::get(start.getContext(), {})), element);
    if (std::optional<ArrayRef<int64_t>> over = start.getOverPp())
      object["over_pp"] = json::Array(*over);
    if (auto kind = start.getKind())
      object["kind"] = ps::stringifyReductionKind(*kind);
    object["queue"] = start.getQueue();
    object["wait"] = numberToken(start.getToken());
    return object;
  };
  // Writes one all-reduce per element type, or any other collective once per operand.
  if (start.getCollective() == "all_reduce") {
    llvm::MapVector<Type, SmallVector<unsigned>> byType;
    for (auto [i, operand] : llvm::enumerate(start.getOperands()))
      byType[typeOf(operand).getElementType()].push_back(i);
    for (auto &[element, members] : byType) {
      json::Object object = begin(element);
      json::Array ins, outs, counts;
      for (unsigned i : members) {
        ins.push_back(getAddress(start.getOperands()[i]));
        outs.push_back(getAddress(start.getResults()[i]));
        counts.push_back(typeOf(start.getOperands()[i]).getNumElements());
      }
      object["ins"] = std::move(ins);
      object["outs"] = std::move(outs);
      object["counts"] = std::move(counts);
      code.push_back(std::move(object));
    }
    return;
  }
  for (auto [operand, result, dim] :
       llvm::zip_equal(start.getOperands(), start.getResults(), *start.getDims())) {
    bool gathers = start.getCollective() == "all_gather";
    json::Object object = begin(typeOf(operand).getElementType());
    describeDim(object, typeOf(gathers ? operand : Value(result)).getShape(), dim);
    object["in"] = getAddress(operand);
    object["out"] = getAddress(result);
    code.push_back(std::move(object));
  }
}

json::Object ProgramTable::writeStaging(ValueRange staged, bool toHost, Value token) {
  json::Array staging, variables, sizes;
  for (Value value : staged) {
    auto fetch = value.getDefiningOp<rank::FetchOp>();
    staging.push_back(getAddress(value));
    variables.push_back(getVariableAddress(fetch.getVariable(cast<OpResult>(value))));
    sizes.push_back(ps::getByteSize(cast<ps::RefType>(value.getType()).getTensorType()));
  }
  return json::Object{{"op", toHost ? "offload" : "fetch"},
                      {"ins", std::move(toHost ? staging : variables)},
                      {"outs", std::move(toHost ? variables : staging)},
                      {"sizes", std::move(sizes)},
                      {"wait", numberToken(token)}};
}

json::Object ProgramTable::writeStash(Operation *op, bool toHost) {
  json::Array ins, outs, sizes;
  for (auto [operand, result] : llvm::zip_first(op->getOperands(), op->getResults())) {
    ins.push_back(getAddress(operand));
    outs.push_back(getAddress(result));
    sizes.push_back(ps::getByteSize(operand.getType()));
  }
  return json::Object{{"op", toHost ? "offload" : "fetch"},
                      {"ins", std::move(ins)},
                      {"outs", std::move(outs)},
                      {"sizes", std::move(sizes)},
                      {"wait", numberToken(op->getResults().back())}};
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// One entry, that is, one function that the host calls.
struct ProgramTable::Entry {
  std::string name;
  json::Array code, outputs, buffers;
  /// Index in `code` at which the update begins: after the last send, receive or run of the
  /// micro-batches; -1 without any of these.
  int64_t updateFrom = -1;
};

/// Writes the number of slots for values that a later section needs, the address of the first slot,
/// and the bytes of each slot.
static void writeSlots(rank::ProgramOp program, json::Object &object) {
  auto copy = [&](StringRef mark, StringRef field) {
    if (auto value = program->getAttrOfType<IntegerAttr>(mark))
      object[field] = value.getInt();
  };
  copy(kSlotsMark, "slots");
  copy(kSlotBaseMark, "slot_base");
  copy(kSlotBytesMark, "slot_bytes");
}

/// The position of an op's code: its entry, and the number of instructions before it.
struct ProgramTable::CodePosition {
  size_t entry = 0;
  int64_t at = 0;
};

/// Adds the buffers of a program with their lifetimes. Omits the scratch of runs, because
/// "functions" contains the buffers in scratch. `positions` has the position of each op and of the
/// program's end.
void ProgramTable::addBuffers(rank::ProgramOp program, ArrayRef<CodePosition> positions,
                              std::vector<Entry> &entries) {
  ProgramBuffers buffers = findProgramBuffers(program, symbols);
  for (const Buffer &buffer : llvm::concat<const Buffer>(buffers.shared, buffers.host)) {
    if (buffer.result < 0)
      continue;
    auto [begin, end, bytes] = buffer.lifetime;
    CodePosition first = positions[begin];
    Entry &entry = entries[first.entry];
    bool isOver = end + 1 < int64_t(positions.size()) && positions[end + 1].entry == first.entry;
    entry.buffers.push_back(
        json::Array{*memory::getAddress(buffer, kAddressesMark, kScratchAddressMark), bytes,
                    isa<rank::InputOp>(buffer.op) ? -1 : first.at,
                    isOver ? positions[end + 1].at - 1 : int64_t(entry.code.size())});
  }
}

LogicalResult ProgramTable::writeProgram(rank::ProgramOp program) {
  pp = program.getPp();
  std::vector<Entry> entries(1);
  entries.back().name = program.getEntry().str();
  bool sections = !program.getBody().front().getOps<rank::SectionOp>().empty();
  llvm::StringSet<> accumulated;
  entries.back().code.reserve(llvm::range_size(program.getBody().front())); // avoids copies
  std::vector<CodePosition> positions;
  for (Operation &op : program.getBody().front()) {
    Entry &entry = entries.back();
    positions.push_back({entries.size() - 1, int64_t(entry.code.size())});
    if (auto section = dyn_cast<rank::SectionOp>(op)) {
      if (entry.code.empty())
        entries.pop_back();
      accumulated.clear(); // the host may run sections in another order
      entries.emplace_back();
      entries.back().name = section.getEntry().str();
      positions.back() = {entries.size() - 1, 0};
    } else if (auto input = dyn_cast<rank::InputOp>(op)) {
      addInput(input, entry.name);
    } else if (auto output = dyn_cast<rank::OutputOp>(op)) {
      entry.outputs.push_back(writeOutput(output));
    } else if (auto start = dyn_cast<rank::StartOp>(op)) {
      writeStart(start, entry.code);
    } else if (auto send = dyn_cast<rank::SendOp>(op)) {
      entry.code.push_back(writeMessage(send, "send", "in", send.getOperand()));
      entry.updateFrom = entry.code.size();
    } else if (auto receive = dyn_cast<rank::RecvOp>(op)) {
      entry.code.push_back(writeMessage(receive, "recv", "out", receive.getResult()));
      entry.updateFrom = entry.code.size();
    } else if (auto fetch = dyn_cast<rank::FetchOp>(op)) {
      entry.code.push_back(writeStaging(fetch.getResults(), /*toHost=*/false, fetch.getToken()));
    } else if (auto offload = dyn_cast<rank::OffloadOp>(op)) {
      entry.code.push_back(writeStaging(offload.getStaged(), /*toHost=*/true, offload.getToken()));
    } else if (isa<rank::StashOp, rank::UnstashOp>(op)) {
      entry.code.push_back(writeStash(&op, /*toHost=*/isa<rank::StashOp>(op)));
    } else if (auto wait = dyn_cast<rank::WaitOp>(op)) {
      entry.code.push_back(json::Object{{"wait", tokenNumbers.lookup(wait.getToken())}});
    } else if (auto run = dyn_cast<rank::RunOp>(op)) {
      auto object = writeRun(run, accumulated);
      if (!object)
        return failure();
      entry.code.push_back(std::move(*object));
      auto phase = symbols.lookup(run.getCallee())->getAttrOfType<ps::PhaseAttr>(kPhaseMark);
      if (!phase || phase.getValue() != ps::Phase::Update)
        entry.updateFrom = entry.code.size();
    } else if (auto write = dyn_cast<ps::WriteOp>(op)) {
      entry.code.push_back(json::Object{{"op", "copy"},
                                        {"in", getAddress(write.getValue())},
                                        {"out", getVariableAddress(write.getVariableAttr())},
                                        {"bytes", ps::getByteSize(write.getValue().getType())}});
    } else if (!isa<ps::ReadOp>(op) && !isView(&op) && !op.hasTrait<OpTrait::ConstantLike>()) {
      return op.emitError() << "'" << op.getName() << "' is not supported in a program";
    }
  }
  positions.push_back({entries.size() - 1, int64_t(entries.back().code.size())});
  addBuffers(program, positions, entries);
  for (Entry &entry : entries) {
    json::Object object{{"name", entry.name},
                        {"code", std::move(entry.code)},
                        {"outputs", std::move(entry.outputs)},
                        {"buffers", std::move(entry.buffers)}};
    if (ir::getPipelineSize(module) > 1)
      object["pp"] = pp;
    if (entry.name == "step")
      object["update_from"] = entry.updateFrom;
    if (ps::isInferenceEntry(program))
      object["kind"] = "inference";
    if (sections)
      writeSlots(program, object);
    programs.push_back(std::move(object));
  }
  return success();
}

json::Object ProgramTable::describeDefaults() {
  json::Object defaults;
  for (auto variable : module.getOps<ps::VariableOp>())
    if (variable.getKind() == ps::VariableKind::Scalar && !variable.getOf())
      if (auto value = dyn_cast_or_null<DenseElementsAttr>(variable.getInitAttr());
          value && value.isSplat())
        defaults[variable.getSymName()] = toNumber(ps::getSplatElement(value).get(0));
  return defaults;
}

static json::Array describeMesh(ps::MeshOp mesh) {
  json::Array axes;
  for (Attribute attribute : mesh ? mesh.getAxes().getValue() : ArrayRef<Attribute>()) {
    auto axis = cast<ps::AxisAttr>(attribute);
    if (axis.getKind() == ps::AxisKind::Multiple) // only pads dims, and has no devices
      continue;
    axes.push_back(json::Object{{"name", axis.getName().getValue()},
                                {"kind", ps::stringifyAxisKind(axis.getKind())},
                                {"size", axis.getSize()}});
  }
  return axes;
}

LogicalResult ProgramTable::write(const CodegenOptions &options, Payload &payload,
                                  llvm::raw_ostream &os) {
  for (auto program : module.getOps<rank::ProgramOp>())
    if (failed(writeProgram(program)))
      return failure();
  auto flops = module->getAttrOfType<IntegerAttr>(kFlopsMark); // per micro-batch
  json::OStream json(os);
  json.objectBegin();
  json.attribute("version", 1);
  json.attribute("parashard", describeVersion());
  json.attribute("llvm", LLVM_VERSION_STRING);
  json.attribute("target", options.target);
  json.attribute("model", options.model);
  json.attribute("compile_line", options.compileLine);
  json.attribute("explain", options.explain);
  json.attribute("mesh", describeMesh(ps::getMesh(module)));
  json.attributeArray("kernels", [&] {
    for (const std::string &name : kernels.getNames())
      json.value(name);
  });
  json.attribute("arena_bytes", describeByCoordinate(module, [&](int64_t coordinate) {
                   return getArenaBytes(module, coordinate);
                 }));
  if (module->hasAttr(kHostBytesMark)) {
    json.attribute("host_base", describeByCoordinate(module, [&](int64_t coordinate) {
                     return getHostPart(module, coordinate)->base;
                   }));
    json.attribute("host_bytes", describeByCoordinate(module, [&](int64_t coordinate) {
                     return getHostPart(module, coordinate)->bytes;
                   }));
  }
  LogicalResult result = writeVariables(module, options.weights, adders, payload, json);
  auto writeAll = [&](StringRef name, std::deque<json::Object> &objects) {
    json.attributeArray(name, [&] {
      for (json::Object &object : objects)
        json.value(std::move(object));
    });
  };
  writeAll("inputs", inputs);
  writeAll("functions", functions);
  writeAll("programs", programs);
  json.attribute("micro_batches", microBatches);
  json.attribute("defaults", describeDefaults());
  auto writeText = [&](StringRef name, StringRef mark, StringRef otherwise) {
    auto value = module->getAttrOfType<StringAttr>(mark);
    json.attribute(name, value ? value.getValue() : otherwise);
  };
  writeText("labels", kLabelsMark, "given");
  writeText("loss_average", kLossAverageMark, "micro-batch");
  writeText("ignores_rows", kIgnoresRowsMark, "");
  if (module->hasAttr(kRowSumsMark))
    json.attribute("row_sums", true);
  json.attribute("flops_per_step", flops ? double(flops.getInt()) * microBatches : 0.0);
  json.objectEnd();
  return result;
}
