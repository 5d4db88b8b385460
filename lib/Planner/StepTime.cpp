// Replays the programs of the pipeline coordinates with the predicted times of their ops.
#include "lib/Planner/StepTime.h"
#include "lib/Costs/Quantity.h"
#include "lib/IR/Stages.h"
#include "lib/Planner/RunTimes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>
#include <numeric>

using namespace mlir;
using namespace parashard::costs;

namespace parashard::planner {

StringRef getName(Part part) {
  switch (part) {
  case Part::Matmul:
    return "matmuls";
  case Part::Kernel:
    return "kernels";
  case Part::Recomputation:
    return "recomputation";
  case Part::Launch:
    return "launches";
  case Part::TensorParallel:
    return "tensor-parallel communication";
  case Part::DataParallel:
    return "data-parallel communication";
  case Part::Message:
    return "messages";
  case Part::HostCopy:
    return "host copies";
  case Part::Update:
    return "update";
  case Part::Imbalance:
    return "imbalance";
  case Part::Bubble:
    return "bubble";
  }
  return "";
}

void Breakdown::add(const Breakdown &other, double factor) {
  for (size_t i = 0; i < kParts; ++i)
    seconds[i] += factor * other.seconds[i];
}

double Breakdown::sum() const { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

Part Breakdown::getLargest() const {
  return Part(std::distance(seconds.begin(), llvm::max_element(seconds)));
}

Breakdown average(ArrayRef<Breakdown> coordinates, double seconds) {
  Breakdown mean;
  double busiest = 0;
  for (const Breakdown &parts : coordinates) {
    busiest = std::max(busiest, parts.sum());
    for (size_t i = 0; i < kParts; ++i)
      mean[Part(i)] += parts[Part(i)] / double(coordinates.size());
  }
  // Replaces a wait that is only a rounding error by 0, and adds the error to the largest part. So
  // no part is negative, and the sum of the parts is still the time of the step.
  double rounding = 0;
  auto setWait = [&](Part part, double wait) {
    bool isNoise = wait < 1e-12 * seconds;
    mean[part] = isNoise ? 0 : wait;
    rounding += isNoise ? wait : 0;
  };
  double computed = mean.sum();
  setWait(Part::Imbalance, busiest - computed);
  setWait(Part::Bubble, seconds - busiest);
  mean[mean.getLargest()] += rounding;
  return mean;
}

llvm::json::Object StepTime::toJson() const {
  llvm::json::Object breakdown;
  for (size_t i = 0; i < kParts; ++i)
    breakdown[getName(Part(i))] = parts[Part(i)];
  return llvm::json::Object{{"step_s", seconds},
                            {"breakdown", std::move(breakdown)},
                            {"mfu", mfu},
                            {"limits", getName(parts.getLargest())}};
}

namespace {

/// A message, a copy or a collective of one or more pipeline coordinates.
struct Transfer {
  size_t members = 1;
  size_t started = 0;   ///< number of members that have started the transfer
  double begin = 0;     ///< time of the last start
  double seconds = 0;   ///< duration without the wait for earlier transfers of the queue
  bool isKnown = false; ///< whether `end` is known
  double end = 0;
  Part part = Part::Message;
};

/// A queue of transfers, which run one after the other.
struct Queue {
  std::vector<Transfer *> waiting;
  double end = 0; ///< of the last transfer whose end is known
};

/// The progress of a pipeline coordinate in its program.
struct Coordinate {
  Block::iterator next, end;
  double now = 0;
  double idle = 0; ///< seconds of waiting for other coordinates
  Breakdown parts;
};

/// Replays the programs of one entry.
class ProgramReplay {
public:
  ProgramReplay(ModuleOp module, const ir::OpTimes &times, const MeasuredRuns *measured)
      : runs(module, times, measured), times(times), pipeline(ir::getPipelineAxis(module)) {}

  /// Fails if a run was not measured.
  llvm::Error checkMeasured(ArrayRef<rank::ProgramOp> programs) {
    for (rank::ProgramOp program : programs)
      for (auto run : program.getBody().front().getOps<rank::RunOp>())
        if (llvm::Error error = runs.checkMeasured(run))
          return error;
    return llvm::Error::success();
  }

  StepTime run(ArrayRef<rank::ProgramOp> programs) {
    for (rank::ProgramOp program : programs) {
      Block &block = program.getBody().front();
      coordinates[program.getPp()] = {block.begin(), block.end(), 0, 0, {}};
    }
    for (bool moves = true; moves;) {
      moves = false;
      for (auto &[pp, coordinate] : coordinates)
        while (coordinate.next != coordinate.end && advance(pp, coordinate)) {
          ++coordinate.next;
          moves = true;
        }
      moves |= finishTransfers();
    }
    return addUp();
  }

private:
  /// Runs the next op of a coordinate. Returns false if the op waits for a transfer whose end is
  /// not known yet.
  bool advance(int64_t pp, Coordinate &coordinate) {
    Operation *op = &*coordinate.next;
    if (auto run = dyn_cast<rank::RunOp>(op)) {
      Breakdown parts = runs.get(run);
      auto phase = run->getAttrOfType<ps::PhaseAttr>(kPhaseMark);
      if (phase && phase.getValue() == ps::Phase::Update) // launches count as update, too
        parts[Part::Update] += std::exchange(parts[Part::Launch], 0);
      coordinate.parts.add(parts);
      coordinate.now += parts.sum();
    } else if (auto wait = dyn_cast<rank::WaitOp>(op)) {
      return waitFor(coordinate, wait.getToken().getDefiningOp());
    } else {
      start(pp, coordinate, op);
    }
    return true;
  }

  void start(int64_t pp, Coordinate &coordinate, Operation *op) {
    if (auto send = dyn_cast<rank::SendOp>(op))
      startMessage(coordinate, op, send.getQueue(), pp, send.getPp(), send.getOperand().getType());
    else if (auto recv = dyn_cast<rank::RecvOp>(op))
      startMessage(coordinate, op, recv.getQueue(), recv.getPp(), pp, recv->getResult(0).getType());
    else if (auto collective = dyn_cast<rank::StartOp>(op))
      startCollective(pp, coordinate, collective);
    else if (isa<rank::FetchOp, rank::OffloadOp, rank::StashOp, rank::UnstashOp>(op))
      startCopy(pp, coordinate, op);
  }

  void startMessage(Coordinate &coordinate, Operation *op, StringRef queue, int64_t from,
                    int64_t to, Type type) {
    int64_t stride = times.getStride(pipeline);
    double seconds = getMessageSeconds(times.getCluster(), from * stride, to * stride,
                                       double(ps::getByteSize(type)));
    auto key = std::make_tuple(queue.str(), from, to);
    join(coordinate, op, queues[key], 2, seconds, Part::Message);
  }

  void startCollective(int64_t pp, Coordinate &coordinate, rank::StartOp op) {
    Collective collective = *findCollective(op.getCollective()); // valid because of start_c1
    SmallVector<StringAttr> axes;
    if (auto over = op.getAxesAttr())
      axes = llvm::to_vector(over.getAsRange<StringAttr>());
    Group group = times.getGroup(axes);
    size_t members = 1;
    int64_t first = pp;
    if (std::optional<ArrayRef<int64_t>> over = op.getOverPp()) {
      members = over->size();
      first = over->front();
      group = {{times.getStride(pipeline) * (over->back() - first) / int64_t(members - 1),
                int64_t(members)}};
    }
    // All-reduces of a bucket are one operation. Other collectives run tensor by tensor.
    double seconds = 0, bytes = 0;
    for (auto [operand, result] : llvm::zip(op.getOperands(), op.getResults())) {
      double size = double(ir::getCollectiveBytes(operand.getType(), result.getType()));
      bytes += size;
      if (collective != Collective::AllReduce)
        seconds += getSeconds(times.getCluster(), collective, group, size);
    }
    if (collective == Collective::AllReduce)
      seconds = getSeconds(times.getCluster(), collective, group, bytes);
    auto key = std::make_tuple(op.getQueue().str(), first, int64_t(members));
    join(coordinate, op, queues[key], members, seconds, Part::DataParallel);
  }

  void startCopy(int64_t pp, Coordinate &coordinate, Operation *op) {
    double bytes = 0;
    for (Type type : llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes()))
      if (auto ref = dyn_cast<ps::RefType>(type))
        bytes += double(ps::getByteSize(ref.getTensorType()));
      else if (isa<RankedTensorType>(type))
        bytes += double(ps::getByteSize(type));
    bool isToHost = isa<rank::OffloadOp, rank::StashOp>(op);
    auto key = std::make_tuple(std::string(isToHost ? "to host" : "from host"), pp, pp);
    join(coordinate, op, queues[key], 1, bytes / times.getCluster().device.hostBandwidth,
         Part::HostCopy);
  }

  /// Starts a transfer on one of its members. All members of a queue start the same transfers in
  /// the same order (scheduled_c7, scheduled_c9).
  void join(Coordinate &coordinate, Operation *op, Queue &queue, size_t members, double seconds,
            Part part) {
    size_t &position = positions[{&coordinate, &queue}];
    std::vector<std::unique_ptr<Transfer>> &all = transfers[&queue];
    if (position == all.size()) {
      all.push_back(std::make_unique<Transfer>());
      all.back()->members = members;
      all.back()->seconds = seconds;
      all.back()->part = part;
      queue.waiting.push_back(all.back().get());
    }
    Transfer &transfer = *all[position++];
    ++transfer.started;
    transfer.begin = std::max(transfer.begin, coordinate.now);
    byOp[op] = {&transfer, coordinate.now};
  }

  /// Computes the ends of transfers that all members have started.
  bool finishTransfers() {
    bool moves = false;
    for (auto &[key, queue] : queues) {
      size_t done = 0;
      for (; done < queue.waiting.size(); ++done) {
        Transfer &transfer = *queue.waiting[done];
        if (transfer.started < transfer.members)
          break;
        transfer.begin = std::max(transfer.begin, queue.end);
        queue.end = transfer.end = transfer.begin + transfer.seconds;
        transfer.isKnown = moves = true;
      }
      queue.waiting.erase(queue.waiting.begin(), queue.waiting.begin() + long(done));
    }
    return moves;
  }

  bool waitFor(Coordinate &coordinate, Operation *op) {
    auto [transfer, started] = byOp.lookup(op);
    if (!transfer)
      return true;
    if (!transfer->isKnown)
      return false;
    if (transfer->part == Part::DataParallel) { // a collective slows down concurrent matmuls
      double beside = std::min(coordinate.now, transfer->end) - std::max(started, transfer->begin);
      spend(coordinate, transfer->part, std::max(0.0, beside) * (runs.getOverlapSlowdown() - 1));
    }
    double missing = transfer->end - coordinate.now;
    if (missing <= 0)
      return true;
    // The rest of the wait is the time until the other members started the transfer.
    double moving = std::min(missing, transfer->seconds);
    spend(coordinate, transfer->part, moving);
    coordinate.idle += missing - moving;
    coordinate.now += missing - moving;
    return true;
  }

  static void spend(Coordinate &coordinate, Part part, double seconds) {
    coordinate.parts[part] += seconds;
    coordinate.now += seconds;
  }

  StepTime addUp() const {
    StepTime step;
    std::vector<Breakdown> parts;
    for (auto &[pp, coordinate] : coordinates) {
      step.seconds = std::max(step.seconds, coordinate.now);
      parts.push_back(coordinate.parts);
    }
    step.parts = average(parts, step.seconds);
    return step;
  }

  RunTimes runs;
  const ir::OpTimes &times;
  StringAttr pipeline;
  std::map<int64_t, Coordinate> coordinates;
  std::map<std::tuple<std::string, int64_t, int64_t>, Queue> queues;
  DenseMap<Queue *, std::vector<std::unique_ptr<Transfer>>> transfers;
  DenseMap<std::pair<Coordinate *, Queue *>, size_t> positions;
  /// The transfer that an op started, and the time at which the op started it.
  DenseMap<Operation *, std::pair<Transfer *, double>> byOp;
};

} // namespace

/// Returns the number of micro-batches of a step.
static int64_t countMicroBatches(ArrayRef<rank::ProgramOp> programs) {
  int64_t count = 1;
  for (rank::ProgramOp program : programs)
    for (Operation &op : program.getBody().front())
      if (auto number = op.getAttrOfType<IntegerAttr>(kMicroBatchMark))
        count = std::max(count, number.getInt() + 1);
  return count;
}

/// Returns the element type in which most flops of contractions are computed, with its name in
/// cluster files. Example: "bf16".
static std::string findComputeType(ModuleOp module, const Cluster &cluster) {
  ir::OpTimes times(cluster, ps::getMesh(module));
  std::map<std::string, double> flops;
  module.walk([&](ps::ContractOp op) {
    Call call = times.getCall(op);
    flops[call.type] += call.flops;
  });
  auto most = llvm::max_element(flops, llvm::less_second());
  return most == flops.end() ? "f32" : most->first;
}

llvm::Expected<std::optional<StepTime>> predictStep(ModuleOp module, const Cluster &cluster,
                                                    const MeasuredRuns *measured) {
  SmallVector<rank::ProgramOp> programs;
  for (auto program : module.getOps<rank::ProgramOp>())
    if (program.getEntry() == "step")
      programs.push_back(program);
  if (programs.empty())
    return std::nullopt;
  ps::MeshOp mesh = ps::getMesh(module);
  int64_t ranks = mesh ? mesh.getDeviceCount() : 1;
  if (std::optional<int64_t> most = cluster.getMostRanks(); most && ranks > *most)
    return llvm::createStringError(llvm::formatv("the mesh has {0} ranks, but {1} has at most {2}",
                                                 ranks, cluster.name, *most));
  ir::OpTimes times(cluster, mesh);
  ProgramReplay replay(module, times, measured);
  if (llvm::Error error = replay.checkMeasured(programs))
    return std::move(error);
  StepTime step = replay.run(programs);
  double flops = 0; // of all ranks in one step
  if (auto counted = module->getAttrOfType<IntegerAttr>(kFlopsMark))
    flops = double(counted.getInt());
  flops *= double(countMicroBatches(programs));
  double peak = cluster.device.getMatmulRate(findComputeType(module, cluster)).peak;
  step.mfu = flops / (step.seconds * double(ranks) * peak);
  return step;
}

std::string describe(const StepTime &step, const Cluster &cluster, int64_t ranks) {
  std::string text = llvm::formatv("predicted step on {0} x {1}: {2}, {3:f1} % of the peak rate "
                                   "(MFU); largest part: {4}\n",
                                   ranks, cluster.name, printSeconds(step.seconds), 100 * step.mfu,
                                   getName(step.parts.getLargest()));
  for (size_t i = 0; i < kParts; ++i) {
    double seconds = step.parts[Part(i)];
    if (seconds > 1e-6 * step.seconds)
      text += llvm::formatv("  {0,-30} {1,9} {2,6:f1} %\n", getName(Part(i)), printSeconds(seconds),
                            100 * seconds / step.seconds);
  }
  return text;
}

} // namespace parashard::planner
