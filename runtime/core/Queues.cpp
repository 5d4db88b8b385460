// Finds the queues in the programs of all pipeline coordinates.
#include "runtime/core/Queues.h"
#include <optional>
#include <set>

namespace psrt {

namespace {
/// A queue in which an instruction starts work, and the participating ranks.
struct QueueUse {
  const std::string &queue;
  std::vector<int> members;
};

std::optional<QueueUse> findQueueUse(const Instruction &instruction, const Mesh &mesh, int rank) {
  if (const auto *op = std::get_if<MessageOp>(&instruction.op))
    return QueueUse{op->queue, mesh.acrossPipeline(rank, {op->peer})};
  if (const auto *op = std::get_if<CollectiveOp>(&instruction.op); op && op->token >= 0)
    return QueueUse{op->queue, op->members(mesh, rank)};
  return std::nullopt;
}
} // namespace

/// Returns the instruction list of an entry, and then that of each function that the entry runs,
/// without duplicates.
static std::vector<const std::vector<Instruction> *> findCode(const Program &program,
                                                              const EntryCode &code) {
  std::vector<const std::vector<Instruction> *> result = {&code.instructions};
  std::set<int> functions;
  for (const ProgramEntry &entry : code.code)
    if (entry.function >= 0 && functions.insert(entry.function).second)
      result.push_back(&program.functions[entry.function].code);
  return result;
}

std::vector<Queue> findQueues(const Program &program, int rank) {
  const Mesh &mesh = program.mesh;
  int64_t own = mesh.pipelineCoordinate(mesh.coordinates(rank));
  std::map<std::string, std::set<int>> queues;
  for (const EntryPoint &entry : program.entries)
    for (size_t i = 0; i < entry.programs.size(); ++i)
      for (const std::vector<Instruction> *code : findCode(program, entry.programs[i]))
        for (const Instruction &instruction : *code)
          if (std::optional<QueueUse> use = findQueueUse(instruction, mesh, rank)) {
            std::set<int> &peers = queues[use->queue];
            if (int64_t(i) == own)
              peers.insert(use->members.begin(), use->members.end());
          }
  std::vector<Queue> result;
  for (auto &[name, peers] : queues) {
    peers.erase(rank);
    result.push_back({name, std::vector<int>(peers.begin(), peers.end())});
  }
  return result;
}

} // namespace psrt
