// Prints the text of --info.
#include "runtime/device/cuda/Workspace.h"
#include "runtime/main/Parts.h"
#include "runtime/session/Averages.h"
#include "shared/PrintableText.h"

namespace psrt {
namespace {

using parashard::escapeControls; // names come from the model

std::string axesText(const Program &program, const std::vector<int> &axes) {
  std::string result;
  for (int axis : axes)
    result += (result.empty() ? "" : ",") + program.mesh.axes[axis].name;
  return result;
}

/// Returns a placement's text. Examples: "[8192{tp}, 384]", "[30{tp} padded to 16 per rank, 32]".
std::string placementText(const Program &program, const Placement &placement) {
  std::string result = "[";
  for (size_t d = 0; d < placement.shape.size(); ++d) {
    result += d ? ", " : "";
    for (size_t f = 0; f < placement.factors[d].size(); ++f) {
      const Placement::Factor &factor = placement.factors[d][f];
      result += format("%s%lld", f ? " x " : "", (long long)factor.size);
      if (!factor.axes.empty())
        result += "{" + axesText(program, factor.axes) + "}";
      if (factor.given)
        result += format(" padded to %lld per rank", (long long)factor.given);
    }
  }
  result += "]";
  return placement.partial.empty() ? result
                                   : result + " partial " + axesText(program, placement.partial);
}

/// Returns " of pipeline coordinate 1", or "" without a pipeline.
std::string ofCoordinate(const Program &program, int64_t coordinate) {
  return program.mesh.pipelineSize() == 1
             ? ""
             : format(" of pipeline coordinate %lld", (long long)coordinate);
}

/// Prints the number and size of the variables in device memory or in host memory, by kind.
void printKinds(const Program &program, int64_t coordinate, bool inHost) {
  std::map<std::string, std::pair<int64_t, int64_t>> kinds; // count, local bytes
  for (const Variable &variable : program.variables) {
    if (!variable.addresses.isAt(coordinate) ||
        program.isInHost(variable.addresses.at(coordinate), coordinate) != inHost)
      continue;
    auto &[count, bytes] = kinds[nameOf(variable.kind)];
    ++count;
    bytes += variable.localBytes();
  }
  for (const auto &[kind, sizes] : kinds)
    std::printf("  %-12s %5lld tensors  %s\n", kind.c_str(), (long long)sizes.first,
                describeBytes(double(sizes.second)).c_str());
}

/// Returns the bytes of host memory for a rank's offloaded activations.
int64_t findStashedBytes(const Program &program, int64_t coordinate) {
  int64_t begin = INT64_MAX, end = 0;
  for (const EntryPoint &entry : program.entries)
    for (const BufferLifetime &buffer : entry.programs[coordinate].buffers)
      if (program.isInHost(buffer.address, coordinate)) {
        begin = std::min(begin, buffer.address);
        end = std::max(end, buffer.address + buffer.bytes);
      }
  return std::max<int64_t>(0, end - std::min(begin, end));
}

void printMemory(const Program &program, int64_t coordinate) {
  std::string whose = ofCoordinate(program, coordinate);
  std::printf("memory      %s per rank%s, including:\n",
              describeBytes(double(program.arenaBytes[coordinate])).c_str(), whose.c_str());
  printKinds(program, coordinate, /*inHost=*/false);
  if (program.hostBytes[coordinate] == 0)
    return;
  std::printf("host memory %s per rank%s, including:\n",
              describeBytes(double(program.hostBytes[coordinate])).c_str(), whose.c_str());
  printKinds(program, coordinate, /*inHost=*/true);
  if (int64_t bytes = findStashedBytes(program, coordinate))
    std::printf("  %-12s                %s\n", "activations", describeBytes(double(bytes)).c_str());
}

/// Returns the pipeline coordinates that hold a variable, or "" if all do.
std::string coordinatesText(const Program &program, const Addresses &addresses) {
  std::string result;
  for (int64_t i = 0; i < program.mesh.pipelineSize() && !addresses.isEverywhere(); ++i)
    if (addresses.isAt(i))
      result += (result.empty() ? "  pp " : ",") + std::to_string(i);
  return result;
}

void printVariables(const Program &program) {
  int64_t parameters = 0;
  for (const Variable &variable : program.variables)
    if (variable.kind == VariableKind::Parameter)
      parameters += variable.placement.count();
  std::printf("parameters  %lld\n", (long long)parameters);
  for (int64_t coordinate = 0; coordinate < program.mesh.pipelineSize(); ++coordinate)
    printMemory(program, coordinate);
  std::printf("variables\n");
  for (const Variable &variable : program.variables)
    if (variable.kind == VariableKind::Parameter || variable.kind == VariableKind::Buffer) {
      std::printf("  %-48s %-4s %s", escapeControls(variable.displayName()).c_str(),
                  dtypeName(variable.dtype), placementText(program, variable.placement).c_str());
      if (!variable.file.lower.empty())
        std::printf("  (part of a tensor)");
      for (size_t i = 1; i < variable.names.size(); ++i)
        std::printf("%s%s", i > 1 ? ", " : "  tied: ", escapeControls(variable.names[i]).c_str());
      std::printf("%s%s\n", coordinatesText(program, variable.addresses).c_str(),
                  variable.frozen ? "  frozen" : "");
    }
}

/// Adds a collective, send or receive to the number and operand bytes of its kind. Ignores all
/// other instructions.
void countCommunication(const Program &program, const Instruction &instruction,
                        std::map<std::string, std::pair<int64_t, int64_t>> &counts) {
  auto add = [&](const std::string &name, int64_t operand) {
    auto &[count, bytes] = counts[name];
    ++count;
    bytes += operand;
  };
  if (const auto *op = std::get_if<MessageOp>(&instruction.op))
    add(format("%s %s", op->receives ? "recv" : "send", op->queue.c_str()), op->bytes);
  const auto *op = std::get_if<CollectiveOp>(&instruction.op);
  if (op && op->kind != CollectiveOp::ShardSlice)
    add(format("%s over %s", op->name(),
               op->overPipeline.empty() ? axesText(program, op->axes).c_str()
                                        : "pipeline coordinates"),
        op->bytes(program.mesh));
}

/// Prints the numbers and sizes of the collectives, sends and receives of an entry.
void printCommunication(const Program &program, const EntryPoint &entry, int64_t coordinate) {
  std::map<std::string, std::pair<int64_t, int64_t>> counts;
  const EntryCode &all = entry.programs[coordinate];
  for (const ProgramEntry &code : all.code) {
    if (code.function < 0)
      countCommunication(program, all.instructions[code.instruction], counts);
    else
      for (const Instruction &instruction : program.functions[code.function].code)
        countCommunication(program, instruction, counts);
  }
  std::printf("communication per %s (operand bytes per rank%s)\n", entry.name(),
              ofCoordinate(program, coordinate).c_str());
  for (const auto &[name, sizes] : counts)
    std::printf("  %-36s %5lld  %s\n", name.c_str(), (long long)sizes.first,
                describeBytes(double(sizes.second)).c_str());
  if (counts.empty())
    std::printf("  none\n");
}

/// Returns how a part of the loss is combined over the micro-batches of a step.
const char *describeAverage(LossAverage average) {
  switch (average) {
  case LossAverage::Step:
    return "averaged over the whole batch";
  case LossAverage::Sum:
    return "summed over the whole batch";
  case LossAverage::MicroBatch:
    break;
  }
  return "averaged over micro-batches";
}

/// Returns how the loss and the added terms are averaged. Example: ", loss averaged over the whole
/// batch, added terms averaged over micro-batches".
std::string averageText(const std::vector<LossAverage> &averages) {
  std::string result;
  for (LossAverage average : averages) {
    result += result.empty() ? ", loss " : ", added terms ";
    result += describeAverage(average);
  }
  return result;
}

/// Returns how labels are derived from the tokens of a .bin file.
const char *labelsText(LabelRule labels) {
  switch (labels) {
  case LabelRule::Next:
    return "next (labels[t] = x[t+1]: the graph does not shift)";
  case LabelRule::Same:
    return "same (labels = x: the graph shifts them)";
  case LabelRule::Given:
    break;
  }
  return "unknown from the graph (token files need --labels)";
}

/// Returns where initial weights come from: files, the program itself, random numbers, or
/// --weights.
std::string weightsText(const Program &program) {
  std::string result;
  for (const WeightFile &file : program.files)
    result += (result.empty() ? "read from " : ", ") + escapeControls(file.path);
  bool carries = false, given = false;
  for (const Variable &variable : program.variables) {
    given |= variable.given;
    carries |= variable.hasFile && variable.file.path.empty() && !variable.given;
  }
  if (given)
    return "given at start (--weights)";
  return carries ? "in the program" : result.empty() ? "random (--seed)" : result;
}

} // namespace

void printInfo(const Program &program) {
  std::printf("model       %s\ncompiled    parashard %s: %s\nmesh        %s (%lld ranks)\n",
              escapeControls(program.model).c_str(), program.version.c_str(),
              escapeControls(program.compileLine).c_str(), program.mesh.text().c_str(),
              (long long)program.mesh.size());
  if (program.entry(EntryKind::Step) || program.entry(EntryKind::Update))
    std::printf("step        %lld micro-batch%s%s\n", (long long)program.microBatches,
                program.microBatches == 1 ? "" : "es", averageText(program.lossAverages).c_str());
  else
    std::printf("step        none: the program only evaluates (--inference)\n");
  if (program.target.device == DeviceKind::Cuda) {
    int64_t extra = 0;
    for (int64_t coordinate = 0; coordinate < program.mesh.pipelineSize(); ++coordinate)
      extra = std::max(extra, cuda::bytesBesides(program, coordinate));
    std::printf("target      %s; in addition to its planned memory, a rank needs %s for cuBLASLt's "
                "workspace and prefetched inputs\n",
                program.target.text.c_str(), describeBytes(double(extra)).c_str());
  }
  std::printf("labels      %s\n", labelsText(program.labels));
  if (keepsAverages(program))
    std::printf("averages    of the parameters (--ema): also evaluated and exported\n");
  std::printf("weights     %s\n", weightsText(program).c_str());
  for (const Input &input : program.inputs)
    std::printf("input       %s (%s) %s %s %s\n", escapeControls(input.name).c_str(),
                input.readerName(), nameOf(input.role), dtypeName(input.dtype),
                placementText(program, input.placement).c_str());
  for (const EntryPoint &entry : program.entries)
    for (const Output &output : entry.outputs)
      if (output.microBatch == 0)
        std::printf("output      %s (%s) %s %s\n", escapeControls(output.name).c_str(),
                    entry.name(), dtypeName(output.dtype),
                    placementText(program, output.placement).c_str());
  for (const auto &[name, value] : program.defaults)
    std::printf("default     %s = %g\n", name.c_str(), value);
  printVariables(program);
  const EntryPoint *entry = program.entry(EntryKind::Step);
  entry = entry ? entry : program.entry(EntryKind::Forward);
  for (int64_t coordinate = 0; entry && coordinate < program.mesh.pipelineSize(); ++coordinate)
    printCommunication(program, *entry, coordinate);
  if (program.flopsPerStep > 0)
    std::printf("flops       %.4g of matmuls, convolutions and attention %s, whole model\n",
                program.flopsPerStep, program.entry(EntryKind::Step) ? "per step" : "per batch");
  if (!program.explain.empty())
    std::printf("\n%s\n", escapeControls(program.explain, "\n").c_str());
}

} // namespace psrt
