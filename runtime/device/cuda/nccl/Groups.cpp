// Finds groups and splits the communicator of all ranks.
#include "runtime/device/cuda/nccl/Groups.h"
#include "runtime/bootstrap/Processes.h"
#include "runtime/core/Status.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

namespace psrt::nccl {

//===--- groups -----------------------------------------------------------===//

/// Returns the name of a queue of asynchronous operations. If a program has only one queue, this
/// queue has no name, and the function returns "all".
static std::string nameOf(const std::string &queue) { return queue.empty() ? "all" : queue; }

GroupKey GroupKey::of(const CollectiveOp &op) {
  GroupKey key;
  key.overPipeline = !op.overPipeline.empty();
  if (key.overPipeline)
    key.along = op.overPipeline;
  else
    key.along.assign(op.axes.begin(), op.axes.end());
  if (op.token >= 0 || key.overPipeline)
    key.queue = nameOf(op.queue);
  return key;
}

GroupKey GroupKey::of(const MessageOp &op, int64_t coordinate) {
  return {nameOf(op.queue), true, {std::min(op.peer, coordinate), std::max(op.peer, coordinate)}};
}

std::vector<int> GroupKey::members(const Mesh &mesh, int rank) const {
  if (overPipeline) {
    int64_t coordinate = mesh.pipelineCoordinate(mesh.coordinates(rank));
    if (std::find(along.begin(), along.end(), coordinate) == along.end())
      return {};
    return mesh.acrossPipeline(rank, along);
  }
  CollectiveOp op;
  op.axes.assign(along.begin(), along.end());
  return op.members(mesh, rank);
}

std::string GroupKey::text(const Mesh &mesh) const {
  std::string list;
  for (int64_t each : along)
    list += (list.empty() ? "" : ",") +
            (overPipeline ? std::to_string(each) : mesh.axes[size_t(each)].name);
  list = (overPipeline ? "among pipeline coordinates " : "over ") + list;
  return queue.empty() ? list : list + ", queue " + queue;
}

Groups findGroups(const Program &program) {
  Groups result{program.mesh, {}};
  auto add = [&](const Instruction &instruction, int64_t coordinate) {
    if (const auto *message = std::get_if<MessageOp>(&instruction.op))
      result.keys.insert(GroupKey::of(*message, coordinate));
    const auto *op = std::get_if<CollectiveOp>(&instruction.op);
    if (op && op->kind != CollectiveOp::ShardSlice &&
        (!op->overPipeline.empty() || program.mesh.shards(op->axes) > 1))
      result.keys.insert(GroupKey::of(*op));
  };
  for (const Function &function : program.functions)
    for (const Instruction &instruction : function.code)
      add(instruction, 0);
  for (const EntryPoint &entry : program.entries)
    for (size_t coordinate = 0; coordinate < entry.programs.size(); ++coordinate)
      for (const Instruction &instruction : entry.programs[coordinate].instructions)
        add(instruction, int64_t(coordinate));
  return result;
}

//===--- communicators ----------------------------------------------------===//

/// Finalizes the communicator. NCCL waits until captured CUDA graphs that use the communicator are
/// destroyed, so the rank must destroy its graphs first.
Communicator::~Communicator() {
  if (!comm || isAborted)
    return;
  if (registration)
    library->commDeregister(comm, registration);
  const char *call = "to finalize a communicator";
  try {
    library->check(library->commFinalize(comm), comm, call);
    settle(call);
    library->commDestroy(comm);
  } catch (const Error &error) {
    std::fprintf(stderr, "note: cannot finalize a communicator: %s\n", error.what());
    library->commAbort(comm);
  }
}

void Communicator::registerMemory(void *memory, size_t bytes) {
  if (!library->commRegister || !library->commDeregister)
    return;
  const char *call = "to register a rank's memory";
  library->check(library->commRegister(comm, memory, bytes, &registration), comm, call);
  settle(call);
}

void Communicator::settle(const char *call) const {
  auto start = std::chrono::steady_clock::now();
  ncclResult_t state = ncclInProgress;
  for (int turn = 0;; ++turn) {
    library->check(library->commGetAsyncError(comm, &state), comm, call);
    if (state != ncclInProgress)
      break;
    std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    if (waited.count() > silenceAllowed())
      PSRT_FAIL(Failed,
                "NCCL needs more than %.0f s %s (%s): another rank did not arrive; "
                "PSRT_TIMEOUT sets the limit",
                silenceAllowed(), call, name.c_str());
    if (turn > 100)
      std::this_thread::sleep_for(std::chrono::microseconds(turn > 1000 ? 1000 : 50));
  }
  library->check(state, comm, call);
}

void Communicator::checkHealth() const {
  ncclResult_t state = ncclSuccess;
  library->check(library->commGetAsyncError(comm, &state), comm, "to query a communicator's state");
  library->check(state, comm, name.c_str());
}

void Communicator::abort() {
  if (comm && !isAborted)
    library->commAbort(comm);
  isAborted = true;
}

Communicators::Communicators(NcclRef given, const cuda::GpuRef &gpu, const ncclUniqueId &id,
                             const Groups &wanted, int rank)
    : library(std::move(given)) {
  const Mesh &mesh = wanted.mesh;
  gpu->enter();
  ncclConfig_t config;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  const char *call = "to connect all ranks";
  library->check(library->commInitRankConfig(&comm, int(mesh.size()), id, rank, &config), comm,
                 call);
  world = std::make_unique<Communicator>(library, comm, "among all ranks");
  world->settle(call);
  for (const GroupKey &key : wanted.keys) {
    std::vector<int> members = key.members(mesh, rank);
    int color = members.empty() ? kSplitNoColor : *std::min_element(members.begin(), members.end());
    int index = int(std::find(members.begin(), members.end(), rank) - members.begin());
    std::string name = key.text(mesh);
    ncclComm_t made = nullptr;
    library->check(library->commSplit(world->get(), color, index, &made, &config), world->get(),
                   "to split a communicator");
    world->settle("to split a communicator");
    if (members.empty())
      continue;
    auto group = std::make_unique<Communicator>(library, made, name);
    group->settle("to split a communicator");
    groups.emplace(key, std::move(group));
  }
}

const Communicator &Communicators::find(const GroupKey &key) const {
  auto it = groups.find(key);
  if (it == groups.end())
    PSRT_FAIL(BadInput, "the program communicates in an unknown group");
  return *it->second;
}

void Communicators::registerMemory(void *memory, size_t bytes) {
  for (auto &[key, group] : groups)
    group->registerMemory(memory, bytes);
}

void Communicators::checkHealth() const {
  world->checkHealth();
  for (const auto &[key, group] : groups)
    group->checkHealth();
}

void Communicators::abort() {
  for (auto &[key, group] : groups)
    group->abort();
  if (world)
    world->abort();
}

} // namespace psrt::nccl
