// Writes traces for chrome://tracing and Perfetto: one process per rank, one event per instruction.
#include "runtime/data/OutputFile.h"
#include "runtime/main/Parts.h"
#include <numeric>
#include <string_view>

namespace psrt {
namespace {

/// Category and JSON arguments of a trace event.
struct Description {
  std::string category, arguments;
};

/// Returns category and arguments of an instruction, by its type.
struct Describe {
  const Program &program;
  Description operator()(const KernelOp &op) const {
    return {"kernel",
            format("\"rows\": %lld, \"bytes\": %lld", (long long)op.rows, (long long)op.bytes)};
  }
  Description operator()(const MatmulOp &op) const {
    double flops = 2.0 * double(op.batch[0] * op.batch[1] * op.m) * double(op.n) * double(op.k);
    return {"matmul", format("\"batch\": %lld, \"flops\": %.0f",
                             (long long)(op.batch[0] * op.batch[1]), flops)};
  }
  Description operator()(const LibraryOp auto &op) const {
    std::string sizes;
    for (auto [name, size] : op.sizes())
      sizes += format("%s\"%s\": %lld", sizes.empty() ? "" : ", ", name, (long long)size);
    return {op.kCategory, sizes};
  }
  Description operator()(const ShardIndexOp &) const { return {"other", ""}; }
  Description operator()(const CopyOp &op) const {
    return {"copy", format("\"bytes\": %lld", (long long)op.bytes)};
  }
  Description operator()(const MessageOp &op) const {
    return {"message",
            format("\"bytes\": %lld, \"queue\": %s, \"value\": %lld, \"micro_batch\": %lld",
                   (long long)op.bytes, quoted(op.queue).c_str(), (long long)op.value,
                   (long long)op.microBatch)};
  }
  Description operator()(const TransferOp &op) const {
    int64_t bytes = std::accumulate(op.sizes.begin(), op.sizes.end(), int64_t(0));
    return {"copy",
            format("\"bytes\": %lld, \"token\": %lld", (long long)bytes, (long long)op.token)};
  }
  Description operator()(const WaitOp &op) const {
    return {"collective", format("\"token\": %lld", (long long)op.token)};
  }
  Description operator()(const CollectiveOp &op) const {
    std::string axes = op.overPipeline.empty() ? "" : "pipeline coordinates";
    for (int axis : op.axes)
      axes += (axes.empty() ? "" : ",") + program.mesh.axes[axis].name;
    return {"collective", format("\"bytes\": %lld, \"axes\": \"%s\"",
                                 (long long)op.bytes(program.mesh), axes.c_str())};
  }
};

} // namespace

std::string quoted(const std::string &text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      result += '\\';
    result += static_cast<unsigned char>(c) < 32 ? ' ' : c;
  }
  return result + "\"";
}

/// Returns the queue of a started message or collective, or "" for other instructions.
static const std::string &queueOf(const Instruction &instruction) {
  static const std::string none;
  if (const auto *op = std::get_if<MessageOp>(&instruction.op))
    return op->queue;
  if (const auto *op = std::get_if<CollectiveOp>(&instruction.op))
    return op->queue;
  return none;
}

namespace {
/// The trace of one rank as JSON objects, each preceded by a comma and a newline. Instructions are
/// events of thread 0. Asynchronous work of each queue is on a thread of its own.
class RankTrace {
public:
  RankTrace(const Program &program, const Rank &rank) : program(program), rank(rank) {
    text = format(",\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": 0, "
                  "\"args\": {\"name\": \"rank %d\", \"pp\": %lld}}",
                  rank.index, rank.index, (long long)rank.stage);
    for (const TraceEvent &event : rank.executor->trace())
      add(event);
  }
  const std::string &getText() const { return text; }

private:
  /// Returns the thread of a queue, and names the thread at its first use.
  int threadOf(const std::string &queue) {
    auto [it, isNew] = threads.try_emplace(queue, int(threads.size()) + 1);
    if (isNew)
      text += format(",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": %d, "
                     "\"args\": {\"name\": %s}}",
                     rank.index, it->second, quoted("queue " + queue).c_str());
    return it->second;
  }

  void add(const TraceEvent &event) {
    const Instruction &instruction = *event.bound->instruction;
    Description d = std::visit(Describe{program}, instruction.op);
    int thread = event.isStarted ? threadOf(queueOf(instruction)) : 0;
    text += format(",\n{\"name\": %s, \"cat\": \"%s\", \"ph\": \"X\", \"pid\": %d, \"tid\": %d, "
                   "\"ts\": %.3f, \"dur\": %.3f, \"args\": {%s%s}}",
                   quoted(instructionName(program, instruction)).c_str(),
                   event.isStarted ? "communication" : d.category.c_str(), rank.index, thread,
                   event.start * 1e6, (event.end - event.start) * 1e6, d.arguments.c_str(),
                   describeLocation(event, !d.arguments.empty()).c_str());
  }

  /// Returns the arguments that locate an event: step, entry, phase, stage and source line.
  /// Asynchronous work has no phase, since it may run after its phase has ended.
  static std::string describeLocation(const TraceEvent &event, bool follows) {
    const ProgramEntry &entry = *event.entry;
    std::string result = format("%s\"step\": %lld, \"in\": %s", follows ? ", " : "",
                                (long long)event.step, quoted(entry.label).c_str());
    if (!entry.phase.empty() && !event.isStarted)
      result += format(", \"phase\": %s, \"micro_batch\": %lld", quoted(entry.phase).c_str(),
                       (long long)entry.microBatch);
    if (entry.stage >= 0)
      result += format(", \"stage\": %lld", (long long)entry.stage);
    if (const std::string &location = event.bound->instruction->location; !location.empty())
      result += ", \"source\": " + quoted(location);
    return result;
  }

  const Program &program;
  const Rank &rank;
  std::map<std::string, int> threads; ///< thread by queue
  std::string text;
};
} // namespace

static void writeEvents(const std::vector<std::string> &texts, const std::string &path) {
  OutputFile file(path, OutputFile::Takes::Devices);
  auto write = [&](std::string_view text) { file.write(text.data(), text.size()); };
  write("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [");
  for (size_t i = 0; i < texts.size(); ++i)
    write(std::string_view(texts[i]).substr(i == 0)); // no comma before the first
  write("\n]}\n");
  file.commit();
}

void writeTrace(Session &session, const std::string &path) {
  std::string here;
  size_t dropped = 0;
  for (int r = 0; r < session.getProgram().mesh.size(); ++r)
    if (const Rank *rank = session.rank(r)) {
      here += RankTrace(session.getProgram(), *rank).getText();
      dropped += rank->executor->dropped();
    }
  std::vector<std::string> texts = session.collect(here);
  if (session.isFirst())
    writeEvents(texts, path);
  if (dropped)
    std::fprintf(stderr,
                 "warning: the trace is full; dropped the last %zu events (trace fewer --steps)\n",
                 dropped);
}

} // namespace psrt
