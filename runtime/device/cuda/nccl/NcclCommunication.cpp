// Implements the communication of a rank with NCCL, and orders it relative to the rank's other
// instructions.
#include "runtime/device/cuda/nccl/NcclCommunication.h"
#include "runtime/bootstrap/Processes.h"
#include "runtime/comm/local/Collectives.h"
#include "runtime/core/Status.h"
#include "runtime/device/cuda/nccl/Collectives.h"
#include <algorithm>

namespace psrt::nccl {

static double secondsNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

//===--- a rank -----------------------------------------------------------===//

NcclRank::NcclRank(NcclCommunication &all, std::unique_ptr<Communicators> given,
                   std::unique_ptr<RankComm> host, const Mesh &mesh, int rank,
                   cuda::CudaRank &device)
    : all(all), communicators(std::move(given)), host(std::move(host)), mesh(mesh), rank(rank),
      device(device), pulse("", device.getStream()->getGpu(), device.getStream()) {
  pulse.add("an instruction");
  device.setPulse([this] { pulse.recordPosition(++pulses); });
  if (device.getArenaBytes() > 0)
    communicators->registerMemory(device.getArena(), device.getArenaBytes());
  device.getGpu().setWatch([this] { watch(); });
}

NcclRank::~NcclRank() {
  device.getGpu().setWatch(nullptr);
  device.setPulse(nullptr);
  device.getGpu().tryToEnter(); // the destructors of the communicators need the GPU's context
}

CommStream &NcclRank::getCommStream(const std::string &queue) {
  std::unique_ptr<CommStream> &commStream = commStreams[queue];
  if (!commStream)
    commStream = std::make_unique<CommStream>(queue, device.getStream()->getGpu(),
                                              queue.empty() ? device.getStream() : nullptr);
  return *commStream;
}

bool NcclRank::bind(Bound &bound) {
  bound.self = this;
  if (std::holds_alternative<WaitOp>(bound.instruction->op)) {
    bound.run = [](const Bound &bound) {
      static_cast<NcclRank *>(bound.self)->wait(std::get<WaitOp>(bound.instruction->op).token);
    };
    return true;
  }
  if (const auto *message = std::get_if<MessageOp>(&bound.instruction->op)) {
    bindMessage(bound, *message);
    return true;
  }
  const auto *op = std::get_if<CollectiveOp>(&bound.instruction->op);
  if (!op)
    return false;
  checkCollective(*op, "nccl");
  bindCollective(bound, *op);
  return true;
}

void NcclRank::bindMessage(Bound &bound, const MessageOp &message) {
  GroupKey key = GroupKey::of(message, mesh.pipelineCoordinate(mesh.coordinates(rank)));
  std::vector<int> members = key.members(mesh, rank);
  int peer = mesh.acrossPipeline(rank, {message.peer}).front();
  NcclOp op;
  op.message = &message;
  op.group = &communicators->find(key);
  op.count = int(members.size());
  op.peer = int(std::find(members.begin(), members.end(), peer) - members.begin());
  op.bytes = message.bytes;
  bindOp(bound, std::move(op), message.token, key.queue, key.text(mesh));
}

void NcclRank::bindCollective(Bound &bound, const CollectiveOp &collective) {
  GroupKey key = GroupKey::of(collective);
  std::vector<int> members = key.members(mesh, rank);
  NcclOp op;
  op.op = collective;
  op.count = int(members.size());
  op.index = int(std::find(members.begin(), members.end(), rank) - members.begin());
  op.group = op.count > 1 ? &communicators->find(key) : nullptr;
  op.bytes = collective.bytes(mesh);
  if (collective.kind == CollectiveOp::Permute)
    op.source = permuteSource(collective, op.index, op.count);
  checkSupported(op);
  bool isStarted = op.count > 1 && collective.token >= 0;
  bindOp(bound, std::move(op), isStarted ? collective.token : -1, isStarted ? key.queue : "",
         key.text(mesh));
}

/// Returns the operation as text for messages, e.g. "all_reduce of 64 bytes over dp at
/// model.py:12".
static std::string describe(const Bound &bound, const NcclOp &op, const std::string &where) {
  std::string text = op.message ? (op.message->receives ? "a receive" : "a send") : op.op.name();
  text += format(" of %lld bytes %s", (long long)op.bytes, where.c_str());
  const std::string &location = bound.instruction->location;
  return location.empty() ? text : text + " at " + location;
}

void NcclRank::bindOp(Bound &bound, NcclOp op, int64_t token, const std::string &queue,
                      const std::string &where) {
  op.commStream = &getCommStream(token >= 0 ? queue : "");
  op.commStream->needScratch(scratchBytes(op));
  op.position = op.count > 1 ? op.commStream->add(describe(bound, op, where)) : -1;
  if (token >= 0) {
    const cuda::GpuRef &gpu = device.getStream()->getGpu();
    op.ready = std::make_unique<cuda::Event>(gpu);
    op.done = std::make_unique<cuda::Event>(gpu);
  }
  ops.push_back(std::move(op));
  bound.prepared = &ops.back();
  bound.run = [](const Bound &bound) {
    static_cast<NcclRank *>(bound.self)->run(bound, *static_cast<NcclOp *>(bound.prepared));
  };
}

void NcclRank::reserve() {
  device.getGpu().enter();
  pulse.reserve();
  for (auto &[queue, commStream] : commStreams)
    commStream->reserve();
}

/// Enqueues the operation. An asynchronous operation runs after the preceding instructions, and
/// before the instructions that follow its WaitOp.
void NcclRank::run(const Bound &bound, NcclOp &op) {
  const cuda::Stream &own = *device.getStream(), &stream = op.commStream->getStream();
  if (op.done) {
    op.ready->record(own);
    op.ready->makeWait(stream);
  }
  bool isTimed = isTraced && op.done;
  if (isTimed)
    spans.emplace_back(&bound, device.getStream()->getGpu()).begin.record(stream);
  enqueue(op, bound, device);
  if (isTimed)
    spans.back().end.record(stream);
  if (op.position >= 0)
    op.commStream->recordPosition(op.position);
  if (!op.done)
    return;
  op.done->record(stream);
  const Instruction &instruction = *bound.instruction;
  started[op.message ? op.message->token : std::get<CollectiveOp>(instruction.op).token].push_back(
      &op);
}

void NcclRank::wait(int64_t token) {
  auto known = started.find(token);
  if (known == started.end())
    return;
  for (const NcclOp *op : known->second)
    op->done->makeWait(*device.getStream());
  started.erase(known);
}

void NcclRank::drain() {
  while (!started.empty())
    wait(started.begin()->first);
}

std::vector<AsyncTimes> NcclRank::takeTimes() {
  std::vector<AsyncTimes> result;
  for (; !spans.empty(); spans.pop_front()) {
    Span &span = spans.front();
    span.end.synchronize();
    result.push_back({span.bound, device.timeOf(span.begin), device.timeOf(span.end)});
  }
  return result;
}

void NcclRank::barrier() { host->barrier(); }

void NcclRank::abort() { communicators->abort(); }

/// Checks the progress while the host waits for the GPU. Without this check, the wait would not end
/// if another rank were lost.
void NcclRank::watch() {
  try {
    checkProgress();
  } catch (...) {
    all.abortRanks();
    throw;
  }
}

void NcclRank::checkProgress() {
  communicators->checkHealth();
  double now = secondsNow();
  bool hasMoved = device.getGpu().isWaitNew();
  hasMoved |= pulse.hasMoved();
  for (auto &[queue, commStream] : commStreams)
    hasMoved |= commStream->hasMoved();
  if (hasMoved)
    progressAt = now;
  if (now - progressAt < silenceAllowed())
    return;
  std::string where;
  for (auto &[queue, commStream] : commStreams)
    where += (where.empty() ? "" : "; ") + commStream->describe();
  PSRT_FAIL(Failed,
            "rank %d has made no progress for %.0f s (PSRT_TIMEOUT): another rank is lost "
            "or hangs; %s",
            rank, silenceAllowed(), where.empty() ? "no operation was started" : where.c_str());
}

//===--- all ranks --------------------------------------------------------===//

NcclCommunication::NcclCommunication(Groups groups, std::unique_ptr<Communication> host,
                                     bool areProcesses, std::shared_ptr<cuda::RankTable> table)
    : library(loadNccl()), groups(std::move(groups)), host(std::move(host)),
      areProcesses(areProcesses), table(std::move(table)) {}

NcclCommunication::JobInfo NcclCommunication::getJobInfo() {
  std::lock_guard<std::mutex> lock(mutex);
  if (jobInfo)
    return *jobInfo;
  JobInfo made{{}, library->version};
  library->check(library->getUniqueId(&made.id), nullptr, "to create a job's id");
  if (areProcesses)
    host->broadcast(&made, sizeof(made), "broadcasting NCCL's id");
  if (made.version != library->version)
    cuda::refuse("rank 0 has NCCL %s, but this rank has %s; install the same version on all hosts",
                 versionText(made.version).c_str(), versionText(library->version).c_str());
  jobInfo = std::make_unique<JobInfo>(made);
  return made;
}

std::unique_ptr<RankComm> NcclCommunication::makeRank(int rank) {
  cuda::CudaRank &device = table->get(rank);
  auto communicators = std::make_unique<Communicators>(library, device.getStream()->getGpu(),
                                                       getJobInfo().id, groups, rank);
  auto made = std::make_unique<NcclRank>(*this, std::move(communicators), host->makeRank(rank),
                                         groups.mesh, rank, device);
  std::lock_guard<std::mutex> lock(mutex);
  ranks.push_back(made.get());
  return made;
}

void NcclCommunication::abort() {
  host->abort();
  abortRanks();
}

void NcclCommunication::abortRanks() {
  std::lock_guard<std::mutex> lock(mutex);
  for (NcclRank *rank : ranks)
    rank->abort();
}

} // namespace psrt::nccl
