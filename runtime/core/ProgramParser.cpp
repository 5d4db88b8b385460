// Parses a program's JSON table into structs.
#include "runtime/core/CheckProgram.h"
#include "runtime/core/Element.h"
#include "runtime/core/InstructionParser.h"
#include "runtime/core/StrictJson.h"
#include <cmath>
#include <functional>

namespace psrt {
namespace {

Mesh parseMesh(const Json &axes) {
  Mesh mesh;
  if (!axes.is_null())
    for (const Json &axis : axes) {
      std::string name = axis.at("name");
      mesh.axes.push_back({name, getKind(axis, "kind", AxisKind::Data, "axis \"" + name + "\""),
                           getInt(axis, "size")});
    }
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

/// Returns the token of the asynchronous work that an instruction starts, or null if the
/// instruction starts none.
int64_t *startedToken(Instruction &instruction) {
  if (auto *op = std::get_if<CollectiveOp>(&instruction.op))
    return op->token >= 0 ? &op->token : nullptr;
  if (auto *op = std::get_if<TransferOp>(&instruction.op))
    return &op->token;
  auto *op = std::get_if<MessageOp>(&instruction.op);
  return op ? &op->token : nullptr;
}

/// Parses a wait. The instruction that starts the awaited work must precede the wait in `code`.
/// Error messages contain `where`.
Instruction parseWait(const Json &object, std::vector<Instruction> &code,
                      const std::string &where) {
  int64_t token = getInt(object, "wait");
  bool isForTransfer = false, isForCommunication = false;
  for (Instruction &instruction : code)
    if (const int64_t *started = startedToken(instruction); started && *started == token)
      (std::holds_alternative<TransferOp>(instruction.op) ? isForTransfer : isForCommunication) =
          true;
  if (isForTransfer && isForCommunication)
    PSRT_FAIL(BadInput, "%s waits for token %lld of both a copy and communication", where.c_str(),
              (long long)token);
  if (!isForTransfer && !isForCommunication)
    PSRT_FAIL(BadInput, "%s waits for token %lld, which was not started", where.c_str(),
              (long long)token);
  Instruction result;
  result.op = WaitOp{token, isForTransfer};
  return result;
}

/// Checks that the function waits for each of its tokens, after it has started all work of that
/// token. Renumbers the tokens so that they are unique in the program.
void resolveTokens(Function &function, size_t number) {
  constexpr int64_t kTokensOfFunction = int64_t(1) << 32;
  std::map<int64_t, bool> waited;
  auto resolve = [&](int64_t &token) {
    if (token < 0 || token >= kTokensOfFunction)
      PSRT_FAIL(BadInput, "function \"%s\" has the invalid token %lld", function.name.c_str(),
                (long long)token);
    token += kTokensOfFunction * int64_t(number + 1);
  };
  for (Instruction &instruction : function.code)
    if (int64_t *token = startedToken(instruction)) {
      if (!waited.try_emplace(*token, false).first->second) {
        resolve(*token);
        continue;
      }
      PSRT_FAIL(BadInput, "function \"%s\" starts work with token %lld after the wait for it",
                function.name.c_str(), (long long)*token);
    } else if (auto *wait = std::get_if<WaitOp>(&instruction.op)) {
      waited[wait->token] = true;
      resolve(wait->token);
    }
  for (auto [token, isWaited] : waited)
    if (!isWaited)
      PSRT_FAIL(BadInput, "function \"%s\" never waits for token %lld, which it starts",
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
    checkNoPipelineCommunication(result.code.back(), result.name);
    if (std::holds_alternative<TransferOp>(result.code.back().op))
      PSRT_FAIL(BadInput,
                "function \"%s\" copies to or from host memory, which only programs may "
                "do",
                result.name.c_str());
    for (const BufferRef &buffer : result.code.back().buffers)
      if (buffer.base >= result.bases)
        PSRT_FAIL(BadInput, "function \"%s\" uses base %d, but has %d bases", result.name.c_str(),
                  buffer.base, result.bases);
  }
  resolveTokens(result, program.functions.size());
  return result;
}

/// Parses one element of a program's code. `name` is the name of the entry point, for messages.
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
                  "entry \"%s\" has an instruction with a base; expected absolute addresses",
                  name.c_str());
    entry.code.push_back(std::move(result));
    return;
  }
  ProgramEntry result;
  result.function = getInt<int>(object, "run");
  if (result.function < 0 || size_t(result.function) >= program.functions.size())
    PSRT_FAIL(BadInput,
              "entry \"%s\" runs function %d, but the program has %zu functions; compile again",
              name.c_str(), result.function, program.functions.size());
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
    PSRT_FAIL(BadInput, "a run of \"%s\" has %zu bases, %zu keys, %zu flags; expected %d, %d, %d",
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

/// Adds an output. Outputs with the same name and micro-batch on several pipeline coordinates
/// become one output.
void addOutput(const Json &object, const Mesh &mesh, int64_t coordinate, EntryPoint &entry) {
  std::string name = object.at("name");
  int64_t address = toAddress(object.at("address"));
  int64_t microBatch = getOr<int64_t>(object, "micro_batch", 0);
  for (Output &known : entry.outputs)
    if (known.name == name && known.microBatch == microBatch)
      return known.addresses.set(coordinate, address);
  Output result{{getDtype(object, "dtype"), parsePlacement(object, mesh),
                 std::vector<int64_t>(mesh.pipelineSize(), Addresses::Absent)},
                name,
                getOr<int64_t>(object, "batch_dim", 0),
                microBatch};
  int64_t dims = int64_t(result.placement.shape.size());
  if (result.batchDim < Output::kWholeBatch || (dims > 0 && result.batchDim >= dims))
    PSRT_FAIL(BadInput, "output \"%s\" has batch_dim %lld, but %lld dims", name.c_str(),
              (long long)result.batchDim, (long long)dims);
  result.addresses.set(coordinate, address);
  entry.outputs.push_back(std::move(result));
}

/// Returns the kind of an entry: its name, or `inference`.
EntryKind parseEntryKind(const Json &object, const std::string &name) {
  if (getString(object, "kind").empty())
    return parseName<EntryKind>(name, "the program");
  auto kind = getKind(object, "kind", EntryKind::Inference, "entry \"" + name + "\"");
  if (kind != EntryKind::Inference || name.empty() || findName<EntryKind>(name))
    PSRT_FAIL(BadInput,
              "entry \"%s\" has the kind \"%s\"; only an entry with a name of its own "
              "has a kind, which is inference",
              name.c_str(), nameOf(kind));
  return kind;
}

/// Adds the code of one pipeline coordinate to the entry of the same name.
void addProgram(const Json &object, Program &program) {
  int64_t coordinate = 0;
  if (const Json &value = get(object, "pp"); !value.is_null())
    coordinate = parseCoordinate(value, program.mesh);
  std::string name = object.at("name");
  EntryKind kind = parseEntryKind(object, name);
  auto entry = std::find_if(program.entries.begin(), program.entries.end(),
                            [&](const EntryPoint &known) { return known.name() == name; });
  if (entry == program.entries.end())
    entry = program.entries.insert(
        entry, {kind, std::vector<EntryCode>(program.mesh.pipelineSize()), {}, name});
  if (entry->kind != kind)
    PSRT_FAIL(BadInput, "entry \"%s\" has two kinds", name.c_str());
  EntryCode &code = entry->programs[coordinate];
  if (!code.code.empty())
    PSRT_FAIL(BadInput, "entry \"%s\" appears twice for pipeline coordinate %lld", name.c_str(),
              (long long)coordinate);
  code = parseCode(object, name, program);
  for (const Instruction &instruction : code.instructions)
    checkPipelineCommunication(instruction, name, coordinate);
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
    count += 6;
    if (count >= 8) {
      count -= 8;
      result.push_back(char(bits >> count));
    }
  }
  return result;
}

/// Parses a number. Infinities and NaN are strings, as JSON cannot represent them.
double parseNumber(const Json &value) {
  return value.is_string() ? std::strtod(value.get<std::string>().c_str(), nullptr)
                           : value.get<double>();
}

/// Parses a distribution: its name and up to two parameters.
void parseDistribution(const Json &distribution, Variable &result) {
  auto kind =
      parseName<Distribution>(distribution.at(0), "variable \"" + result.displayName() + "\"");
  for (size_t i = 1; i < distribution.size() && i < 3; ++i)
    result.parameters[i - 1] = parseNumber(distribution.at(i));
  if (kind != Distribution::Value) {
    result.distribution = kind;
    return;
  }
  result.hasValue = true;
  result.value = result.parameters[0];
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
    if (const Json &crc = get(init, "crc32"); !crc.is_null())
      result.file.crc = toInteger<uint32_t>(crc);
  }
  if (const Json &value = get(object, "init_value"); !value.is_null()) {
    result.hasValue = true;
    result.value = parseNumber(value);
  }
  result.data = decodeBase64(getString(object, "init_data"));
  if (const Json &distribution = get(object, "init_distribution"); !distribution.is_null())
    parseDistribution(distribution, result);
}

/// Parses the dtype of the initial value. The initial value of a float variable may have another
/// float dtype.
Dtype parseInitialDtype(const Json &object, Dtype dtype) {
  if (get(object, "init_dtype").is_null())
    return dtype;
  Dtype result = getDtype(object, "init_dtype");
  if (!isFloat(result) || !isFloat(dtype))
    PSRT_FAIL(BadInput, "an initial value of %s for a variable of %s; only floats can be converted",
              dtypeName(result), dtypeName(dtype));
  return result;
}

/// Returns the form of the scalar `of` that a variable holds. Example: "beta1.log" of "beta1".
ScalarForm parseForm(const Variable &variable) {
  if (variable.kind != VariableKind::Scalar || variable.of.empty())
    return ScalarForm::Value;
  std::string owner = "variable \"" + variable.symbol + "\"", prefix = variable.of + ".";
  bool isNamed = variable.symbol.starts_with(prefix);
  return parseName<ScalarForm>(isNamed ? variable.symbol.substr(prefix.size()) : "", owner);
}

Variable parseVariable(const Json &object, const Mesh &mesh) {
  Variable result;
  result.symbol = object.at("symbol");
  result.names = getOr<std::vector<std::string>>(object, "names", {});
  result.kind = parseName<VariableKind>(object.at("kind"), "variable \"" + result.symbol + "\"");
  result.of = getString(object, "of");
  result.form = parseForm(result);
  result.rate = getOr<std::string>(object, "lr", "lr");
  result.dtype = getDtype(object, "dtype");
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
  std::string owner = "input \"" + result.name + "\"";
  result.role = getKind(object, "role", InputRole::Data, owner);
  result.readers = getKind(object, "of_program", Readers::All, owner);
  result.entry = getString(object, "entry");
  result.dtype = getDtype(object, "dtype");
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
              "the program's table has version %d, but this runtime reads version 1; compile again",
              getOr(table, "version", 0));
  result.version = getString(table, "parashard");
  result.llvm = getString(table, "llvm");
  result.model = getString(table, "model");
  result.compileLine = getString(table, "compile_line");
  result.explain = getString(table, "explain");
  result.labels = getKind(table, "labels", LabelRule::Given, "the program");
  result.target = parseTarget(getOr<std::string>(table, "target", "cpu"));
  result.lossAverages = getKinds<LossAverage>(table, "loss_average");
  result.mesh = parseMesh(get(table, "mesh"));
  result.kernelNames = getOr<std::vector<std::string>>(table, "kernels", {});
  result.arenaBytes = parseArenas(table.at("arena_bytes"), result.mesh);
  result.hostBase = result.hostBytes = std::vector<int64_t>(result.arenaBytes.size(), 0);
  if (const Json &bytes = get(table, "host_bytes"); !bytes.is_null()) {
    result.hostBase = parseArenas(table.at("host_base"), result.mesh);
    result.hostBytes = parseArenas(bytes, result.mesh);
  }
  result.microBatches = getOr<int64_t>(table, "micro_batches", 1);
  result.ignoresRows = getKinds<EntryKind>(table, "ignores_rows");
  result.hasRowSums = getOr(table, "row_sums", false);
  result.flopsPerStep = getOr(table, "flops_per_step", 0.0);
  if (const Json &defaults = get(table, "defaults"); !defaults.is_null())
    for (const auto &[name, value] : defaults.items())
      result.defaults[name] = parseNumber(value);
  for (const Json &variable : table.at("variables"))
    result.variables.push_back(parseVariable(variable, result.mesh));
  if (const Json &files = get(table, "files"); files.is_array())
    for (const Json &file : files)
      result.files.push_back({file.at("path"), getInt(file, "bytes"), getInt(file, "hashed"),
                              file.at("hash"), getString(file, "absolute")});
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
              describeJsonError(error).c_str());
  }
}

} // namespace psrt
