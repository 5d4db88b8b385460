// Implements communication among ranks in separate processes, over any transport.
#include "runtime/comm/process/ProcessCommunication.h"
#include "runtime/comm/local/Collectives.h"
#include "runtime/comm/process/AsyncQueue.h"
#include <algorithm>
#include <deque>

namespace psrt {
namespace {

std::string nameOf(const CollectiveOp &op, const Mesh &mesh) {
  std::string axes;
  for (int axis : op.axes)
    axes += (axes.empty() ? "" : ",") + mesh.axes[axis].name;
  return std::string(op.name()) + " over " + (axes.empty() ? "pipeline coordinates" : axes);
}

std::string nameOf(const MessageOp &op) {
  return format("%s value %lld of micro-batch %lld in queue \"%s\"",
                op.receives ? "receiving" : "sending", (long long)op.value,
                (long long)op.microBatch, op.queue.c_str());
}

/// Operations that run one after the other and share one scratch memory.
struct Sequence {
  std::deque<std::unique_ptr<ProcessOp>> ops;
  std::vector<char> scratch;
  size_t ready = 0;

  ProcessOp &add(std::unique_ptr<ProcessOp> op) { return *ops.emplace_back(std::move(op)); }

  void reserve() {
    size_t bytes = 0;
    for (const auto &op : ops)
      bytes = std::max(bytes, op->scratchBytes());
    bool moves = bytes > scratch.size();
    if (moves)
      scratch.resize(bytes);
    for (size_t i = moves ? 0 : ready; i < ops.size(); ++i)
      ops[i]->setScratch(scratch.data());
    ready = ops.size();
  }
};

/// The operations of one queue of the program, and the AsyncQueue that runs them.
struct ProcessQueue {
  explicit ProcessQueue(Transport &transport) : asyncQueue(transport) {}
  Sequence sequence;
  AsyncQueue asyncQueue; ///< destroyed first, as it runs the operations
};

/// The rank of this process.
class ProcessRank : public RankComm {
public:
  ProcessRank(const Mesh &mesh, Transport &transport, const QueueChannels &channels, int rank,
              const char *comm)
      : mesh(mesh), transport(transport), rank(rank), comm(comm) {
    for (const auto &[name, channel] : channels)
      queues.try_emplace(name, *channel);
  }

  bool bind(Bound &bound) override {
    bound.self = this;
    if (std::holds_alternative<WaitOp>(bound.instruction->op)) {
      bound.run = [](const Bound &bound) {
        static_cast<ProcessRank *>(bound.self)->wait(std::get<WaitOp>(bound.instruction->op).token);
      };
      return true;
    }
    if (const auto *op = std::get_if<MessageOp>(&bound.instruction->op)) {
      int peer = mesh.acrossPipeline(rank, {op->peer}).front();
      std::string activity =
          nameOf(*op) + format(op->receives ? " from rank %d" : " to rank %d", peer);
      bindAsync(bound, op->queue, op->token,
                std::make_unique<ProcessMessage>(*op, peer, bound.buffers[0], std::move(activity)));
      return true;
    }
    const auto *op = std::get_if<CollectiveOp>(&bound.instruction->op);
    if (!op)
      return false;
    auto collective = make(*op, bound.buffers);
    if (op->token >= 0 && (queues.contains(op->queue) || !op->overPipeline.empty())) {
      bindAsync(bound, op->queue, op->token, std::move(collective));
      return true;
    }
    bound.prepared = &synchronous.add(std::move(collective));
    bound.run = [](const Bound &bound) {
      static_cast<ProcessOp *>(bound.prepared)
          ->run(static_cast<ProcessRank *>(bound.self)->transport);
    };
    return true;
  }

  void reserve() override {
    synchronous.reserve();
    for (auto &[name, queue] : queues)
      queue.sequence.reserve();
  }

  void drain() override {
    for (auto &[name, queue] : queues)
      queue.asyncQueue.drain();
  }

  void startTrace() override {
    for (auto &[name, queue] : queues)
      queue.asyncQueue.startTrace();
  }

  std::vector<AsyncTimes> takeTimes() override {
    std::vector<AsyncTimes> result;
    for (auto &[name, queue] : queues)
      for (const AsyncTimes &times : queue.asyncQueue.takeTimes())
        result.push_back(times);
    return result;
  }

  void barrier() override;

private:
  /// The start of an operation in a queue.
  struct Start {
    ProcessOp *op;
    AsyncQueue *asyncQueue;
    int64_t token;
  };

  void bindAsync(Bound &bound, const std::string &name, int64_t token,
                 std::unique_ptr<ProcessOp> op) {
    auto queue = queues.find(name);
    if (queue == queues.end())
      PSRT_FAIL(
          BadArgument,
          "a pipeline needs communication on several threads, which this MPI does not support "
          "(MPI_THREAD_SERIALIZED); use another MPI, or --comm tcp");
    AsyncQueue &asyncQueue = queue->second.asyncQueue;
    starts.push_back({&queue->second.sequence.add(std::move(op)), &asyncQueue, token});
    std::vector<AsyncQueue *> &waited = waits[token];
    if (std::find(waited.begin(), waited.end(), &asyncQueue) == waited.end())
      waited.push_back(&asyncQueue);
    bound.prepared = &starts.back();
    bound.run = [](const Bound &bound) {
      const Start &start = *static_cast<const Start *>(bound.prepared);
      start.asyncQueue->start(*start.op, start.token, bound);
    };
  }

  void wait(int64_t token) {
    if (auto known = waits.find(token); known != waits.end())
      for (AsyncQueue *asyncQueue : known->second)
        asyncQueue->wait(token);
  }

  std::unique_ptr<ProcessOp> make(const CollectiveOp &op, void *const *buffers) const {
    ProcessCollective::Member member;
    member.op = op;
    member.group = op.members(mesh, rank);
    member.index =
        int(std::find(member.group.begin(), member.group.end(), rank) - member.group.begin());
    member.bytes = op.bytes(mesh);
    member.buffers = buffers;
    member.activity = nameOf(op, mesh);
    checkCollective(op, comm);
    return ProcessCollective::make(std::move(member));
  }

  Mesh mesh;
  Transport &transport;
  int rank;
  const char *comm;
  Sequence synchronous;
  std::deque<Start> starts;
  std::map<int64_t, std::vector<AsyncQueue *>> waits; ///< by token: queues with its operations
  std::map<std::string, ProcessQueue> queues;
};

void ProcessRank::barrier() { runBarrier(transport, rank, int(mesh.size())); }

class ProcessCommunication : public Communication {
public:
  ProcessCommunication(const Mesh &mesh, Transport &transport, QueueChannels channels,
                       HeartbeatMonitor &monitor, const char *comm)
      : mesh(mesh), transport(transport), channels(std::move(channels)), monitor(monitor),
        comm(comm) {}

  std::unique_ptr<RankComm> makeRank(int rank) override {
    return std::make_unique<ProcessRank>(mesh, transport, channels, rank, comm);
  }
  /// Marks this rank as failed. The job reports the reason to the other ranks.
  void abort() override { monitor.abandon(); }
  void reset() override {}

  void sendToRank0(int from, const void *data, void *received, size_t bytes,
                   const std::string &purpose) override {
    bool first = monitor.getRank() == 0;
    Exchange exchange;
    if (first)
      exchange.with(from).in.push_back({static_cast<char *>(received), bytes});
    else if (monitor.getRank() == from)
      exchange.with(0).out.push_back({static_cast<char *>(const_cast<void *>(data)), bytes});
    if (!exchange.transfers.empty())
      transport.run(exchange, purpose);
  }

  void broadcast(void *data, size_t bytes, const std::string &purpose) override {
    Exchange exchange;
    Span span{static_cast<char *>(data), bytes};
    for (int peer = 1; peer < mesh.size() && monitor.getRank() == 0; ++peer)
      exchange.with(peer).out.push_back(span);
    if (monitor.getRank() != 0)
      exchange.with(0).in.push_back(span);
    if (!exchange.transfers.empty())
      transport.run(exchange, purpose);
  }

private:
  Mesh mesh;
  Transport &transport;
  QueueChannels channels;
  HeartbeatMonitor &monitor;
  const char *comm;
};

} // namespace

std::unique_ptr<Communication> makeProcessCommunication(const Mesh &mesh, Transport &transport,
                                                        QueueChannels channels,
                                                        HeartbeatMonitor &monitor,
                                                        const char *comm) {
  return std::make_unique<ProcessCommunication>(mesh, transport, std::move(channels), monitor,
                                                comm);
}

// All ranks send to rank 0, which then sends to all ranks.
void runBarrier(Transport &transport, int rank, int size) {
  char byte = 0;
  std::vector<char> bytes(size);
  Exchange in, out;
  for (int peer = 0; peer < size; ++peer)
    if (rank == 0 ? peer != 0 : peer == 0) {
      (rank == 0 ? in.with(peer).in : in.with(peer).out).push_back({&bytes[peer], 1});
      (rank == 0 ? out.with(peer).out : out.with(peer).in)
          .push_back({rank == 0 ? &byte : &bytes[peer], 1});
    }
  transport.run(in, "a barrier of all ranks");
  transport.run(out, "a barrier of all ranks");
}

} // namespace psrt
