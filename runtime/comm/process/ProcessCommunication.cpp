// Communication among ranks that are processes, over any transport.
#include "runtime/comm/process/ProcessCommunication.h"
#include "runtime/comm/local/Collectives.h"
#include "runtime/comm/process/Background.h"
#include <deque>
#include <optional>

namespace psrt {
namespace {

std::string nameOf(const CollectiveOp &op, const Mesh &mesh) {
  std::string axes;
  for (int axis : op.axes)
    axes += (axes.empty() ? "" : ",") + mesh.axes[axis].name;
  return std::string(op.name()) + " over " + axes;
}

/// This process's rank.
class ProcessRank : public RankComm {
public:
  ProcessRank(const Mesh &mesh, Transport &transport, Transport *background, int rank,
              const char *comm)
      : mesh(mesh), transport(transport), rank(rank), comm(comm) {
    if (background)
      started.emplace(*background);
  }

  bool bind(Bound &bound) override {
    bound.self = this;
    if (std::holds_alternative<WaitOp>(bound.instruction->op)) {
      bound.run = [](const Bound &bound) {
        auto &self = *static_cast<ProcessRank *>(bound.self);
        if (self.started)
          self.started->wait(std::get<WaitOp>(bound.instruction->op).token);
      };
      return true;
    }
    const auto *op = std::get_if<CollectiveOp>(&bound.instruction->op);
    if (!op)
      return false;
    bound.prepared = &add(*op, bound.buffers);
    bound.run = [](const Bound &bound) {
      static_cast<ProcessCollective *>(bound.prepared)
          ->run(static_cast<ProcessRank *>(bound.self)->transport);
    };
    if (isStarted(*op))
      bound.run = [](const Bound &bound) {
        static_cast<ProcessRank *>(bound.self)
            ->started->start(*static_cast<ProcessCollective *>(bound.prepared),
                             std::get<CollectiveOp>(bound.instruction->op).token);
      };
    return true;
  }

  void reserve() override {
    atOnce.reserve();
    later.reserve();
  }

  void drain() override {
    if (started)
      started->drain();
  }

  void barrier() override;

private:
  /// Collectives that run one after the other: one piece of memory serves all.
  struct Sequence {
    std::deque<std::unique_ptr<ProcessCollective>> collectives;
    std::vector<char> scratch;
    size_t placed = 0;

    void reserve() {
      size_t bytes = 0;
      for (const auto &collective : collectives)
        bytes = std::max(bytes, collective->scratchBytes());
      bool moves = bytes > scratch.size();
      if (moves)
        scratch.resize(bytes);
      for (size_t i = moves ? 0 : placed; i < collectives.size(); ++i)
        collectives[i]->setScratch(scratch.data());
      placed = collectives.size();
    }
  };

  bool isStarted(const CollectiveOp &op) const { return op.token >= 0 && started; }

  ProcessCollective &add(const CollectiveOp &op, void *const *buffers) {
    ProcessCollective::Place place;
    place.op = op;
    place.group = mesh.group(rank, op.axes);
    place.index = int(mesh.shardIndex(op.axes, mesh.coordinates(rank)));
    place.bytes = op.bytes(mesh);
    place.buffers = buffers;
    place.what = nameOf(op, mesh);
    checkCollective(op, place.count(), comm);
    auto &list = (isStarted(op) ? later : atOnce).collectives;
    return *list.emplace_back(ProcessCollective::make(std::move(place)));
  }

  Mesh mesh;
  Transport &transport;
  int rank;
  const char *comm;
  Sequence atOnce, later;
  std::optional<Background> started; ///< destroyed first: it runs those of `later`
};

/// All send to rank 0, then rank 0 to all.
void meet(Transport &transport, int rank, int size) {
  char byte = 0;
  std::vector<char> bytes(size);
  Exchange in, out;
  for (int peer = 0; peer < size; ++peer)
    if (rank == 0 ? peer != 0 : peer == 0) {
      (rank == 0 ? in.with(peer).in : in.with(peer).out).push_back({&bytes[peer], 1});
      (rank == 0 ? out.with(peer).out : out.with(peer).in)
          .push_back({rank == 0 ? &byte : &bytes[peer], 1});
    }
  transport.run(in, "a meeting of all ranks");
  transport.run(out, "a meeting of all ranks");
}

void ProcessRank::barrier() { meet(transport, rank, int(mesh.size())); }

class ProcessCommunication : public Communication {
public:
  ProcessCommunication(const Mesh &mesh, Transport &transport, Transport *background, Watch &watch,
                       const char *comm)
      : mesh(mesh), transport(transport), background(background), watch(watch), comm(comm) {}

  std::unique_ptr<RankComm> makeRank(int rank) override {
    return std::make_unique<ProcessRank>(mesh, transport, background, rank, comm);
  }
  /// The job tells the others, with the reason.
  void abort() override { watch.abandon(); }
  void reset() override {}

  void bring(int from, const void *data, void *received, size_t bytes,
             const std::string &what) override {
    bool first = watch.getRank() == 0;
    Exchange exchange;
    if (first)
      exchange.with(from).in.push_back({static_cast<char *>(received), bytes});
    else if (watch.getRank() == from)
      exchange.with(0).out.push_back({static_cast<char *>(const_cast<void *>(data)), bytes});
    if (!exchange.lanes.empty())
      transport.run(exchange, what);
  }

  void share(void *data, size_t bytes, const std::string &what) override {
    Exchange exchange;
    Span span{static_cast<char *>(data), bytes};
    for (int peer = 1; peer < mesh.size() && watch.getRank() == 0; ++peer)
      exchange.with(peer).out.push_back(span);
    if (watch.getRank() != 0)
      exchange.with(0).in.push_back(span);
    if (!exchange.lanes.empty())
      transport.run(exchange, what);
  }

private:
  Mesh mesh;
  Transport &transport;
  Transport *background;
  Watch &watch;
  const char *comm;
};

} // namespace

std::unique_ptr<Communication> makeProcessCommunication(const Mesh &mesh, Transport &transport,
                                                        Transport *background, Watch &watch,
                                                        const char *comm) {
  return std::make_unique<ProcessCommunication>(mesh, transport, background, watch, comm);
}

void meetAll(Transport &transport, int rank, int size) { meet(transport, rank, size); }

} // namespace psrt
