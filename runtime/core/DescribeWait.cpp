// Finds the communication that a rank waits for, and names the other participating ranks.
#include "runtime/core/DescribeWait.h"
#include "runtime/core/Status.h"
#include <algorithm>
#include <optional>

namespace psrt {
namespace {

/// The communication that an instruction starts or runs.
struct CommunicationInfo {
  std::vector<int> peers;
  std::string name;
  int64_t token; ///< -1: synchronous
};

std::string joined(const std::vector<std::string> &words) {
  std::string text;
  for (const std::string &word : words)
    text += (text.empty() ? "" : ",") + word;
  return text;
}

std::optional<CommunicationInfo> findCommunication(const Mesh &mesh, int rank,
                                                   const Instruction &instruction) {
  if (const auto *op = std::get_if<MessageOp>(&instruction.op))
    return CommunicationInfo{mesh.acrossPipeline(rank, {op->peer}),
                             format("%s of value %lld of micro-batch %lld in queue \"%s\"",
                                    op->receives ? "receive" : "send", (long long)op->value,
                                    (long long)op->microBatch, op->queue.c_str()),
                             op->token};
  const auto *op = std::get_if<CollectiveOp>(&instruction.op);
  if (!op || op->kind == CollectiveOp::ShardSlice)
    return std::nullopt;
  std::vector<int> members = op->members(mesh, rank);
  members.erase(std::remove(members.begin(), members.end(), rank), members.end());
  std::vector<std::string> axes;
  for (int axis : op->axes)
    axes.push_back(mesh.axes[axis].name);
  std::string over = op->overPipeline.empty() ? joined(axes) : "pipeline coordinates";
  return CommunicationInfo{std::move(members), std::string(op->name()) + " over " + over,
                           op->token};
}

/// Returns "for rank 1", or "for ranks 1, 2, 3 and 5 more".
std::string nameRanks(const std::vector<int> &ranks) {
  constexpr size_t shown = 8;
  std::string text = ranks.size() == 1 ? "for rank " : "for ranks ";
  for (size_t i = 0; i < std::min(shown, ranks.size()); ++i)
    text += (i ? ", " : "") + std::to_string(ranks[i]);
  return ranks.size() <= shown ? text : text + format(" and %zu more", ranks.size() - shown);
}

std::string describe(const CommunicationInfo &info, const std::string &location) {
  std::string text = nameRanks(info.peers) + " in " + info.name;
  return location.empty() ? text : text + " (at " + location + ")";
}

} // namespace

std::string describeWait(const Program &program, int rank, const Bound *current,
                         const std::vector<Bound> &code) {
  const Mesh &mesh = program.mesh;
  const auto *wait = current ? std::get_if<WaitOp>(&current->instruction->op) : nullptr;
  if (current && !wait) {
    std::optional<CommunicationInfo> info = findCommunication(mesh, rank, *current->instruction);
    return info ? describe(*info, current->instruction->location)
                : "in " + instructionName(program, *current->instruction);
  }
  for (const Bound &bound : code) {
    if (current && &bound >= current)
      break;
    std::optional<CommunicationInfo> info = findCommunication(mesh, rank, *bound.instruction);
    if (info && info->token >= 0 && (!wait || info->token == wait->token))
      return describe(*info, bound.instruction->location);
  }
  return "for its asynchronous work";
}

} // namespace psrt
