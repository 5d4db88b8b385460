// Combines the costs of segments into the costs of stages, and simulates the schedule.
#include "lib/Planner/LayoutPrice.h"
#include "lib/Pipeline/StagePartition.h"
#include "lib/Schedules/Simulator.h"
#include <cmath>
#include <numeric>
#include <set>

using namespace llvm;
using namespace parashard::costs;
using namespace parashard::schedules;

namespace parashard::planner {
namespace {

/// Costs of the segments of one stage.
struct Stage {
  ArrayRef<SegmentCost> segments;
  Breakdown parts; ///< of one micro-batch
  StageTimes times;
  double saved = 0, deferred = 0, kept = 0;
};

/// Returns the seconds of the longest message between two stages.
double getHop(const ClassTable &table, const Cluster &cluster, const Layout &layout,
              ArrayRef<int64_t> cuts) {
  double bytes = 0;
  for (int64_t cut : cuts)
    bytes = std::max(bytes, table.segments[size_t(cut) - 1].boundary);
  return layout.coordinates > 1 && bytes > 0
             ? getMessageSeconds(cluster, 0, layout.stageStride, bytes)
             : 0;
}

/// Costs of one pipeline coordinate. Times are measured from the start of the step.
struct Coordinate {
  Breakdown parts;
  double busy = 0;    ///< end of the last task of its schedule
  double reduced = 0; ///< end of its last reduction of gradients over data axes
  double update = 0;  ///< seconds of the update with its communication
};

/// Computes the price of one layout, whose cuts are given.
class Pricer {
public:
  Pricer(const ClassTable &table, const Cluster &cluster, const Layout &layout,
         const Placement &placement)
      : table(table), cluster(cluster), layout(layout), placement(placement) {}

  Expected<LayoutPrice> price(ArrayRef<int64_t> cuts) {
    ArrayRef<SegmentCost> segments = table.segments;
    int64_t begin = 0;
    for (int64_t stage = 0; stage < placement.getNumStages(); ++stage) {
      int64_t end = size_t(stage) < cuts.size() ? cuts[size_t(stage)] : int64_t(segments.size());
      stages.push_back(makeStage(segments.slice(size_t(begin), size_t(end - begin))));
      begin = end;
    }
    Expected<PipelineSchedule> schedule =
        findPipelineSchedule(layout.schedule, placement, layout.microBatches);
    if (!schedule)
      return schedule.takeError();
    PipelineTimes times;
    for (const Stage &stage : stages)
      times.stages.push_back(stage.times);
    times.hop = times.send = getHop(table, cluster, layout, cuts);
    Expected<Replay> simulated = replay(*schedule, times);
    if (!simulated)
      return simulated.takeError();
    findTied(cuts);
    LayoutPrice result;
    std::vector<Coordinate> coordinates;
    for (int64_t rank = 0; rank < layout.coordinates; ++rank) {
      ArrayRef<Span> row = simulated->rows[size_t(rank)];
      coordinates.push_back(priceCoordinate(rank, row));
      for (int64_t zero = 0; zero < 4; ++zero)
        result.memories[size_t(zero)] =
            std::max(result.memories[size_t(zero)], getMemory(rank, row, zero));
    }
    result.memory = result.memories[size_t(layout.zero)];
    sumOverCoordinates(coordinates);
    std::vector<Breakdown> parts;
    for (const Coordinate &coordinate : coordinates) {
      result.seconds = std::max(result.seconds, coordinate.reduced + coordinate.update);
      parts.push_back(coordinate.parts);
    }
    result.parts = average(parts, result.seconds);
    return result;
  }

private:
  /// A tied parameter that several coordinates use.
  struct Tied {
    const SegmentCost &cost;
    SmallVector<int64_t, 2> coordinates; ///< ascending
    int64_t home; ///< coordinate of the first segment that uses the parameter
  };

  void findTied(ArrayRef<int64_t> cuts) {
    for (const TiedParameter &parameter : table.tied) {
      auto find = [&](int64_t segment) {
        return placement.getRank(llvm::upper_bound(cuts, segment) - cuts.begin());
      };
      std::set<int64_t> ranks;
      for (int64_t segment : parameter.segments)
        ranks.insert(find(segment));
      if (ranks.size() > 1)
        tied.push_back({parameter.cost, SmallVector<int64_t, 2>(ranks.begin(), ranks.end()),
                        find(parameter.segments.front())});
    }
  }

  /// Returns the costs (bytes and update) of the tied parameters that a coordinate uses, but whose
  /// home is another coordinate. The coordinate stores copies of these parameters.
  SegmentCost getCopies(int64_t rank) const {
    SegmentCost copies;
    for (const Tied &each : tied)
      if (each.home != rank && llvm::is_contained(each.coordinates, rank)) {
        copies.addVariables(each.cost);
        copies.update += each.cost.update;
        copies.updateLaunches += each.cost.updateLaunches;
        copies.updateCommunication += each.cost.updateCommunication;
      }
    return copies;
  }

  /// Adds the times of sums over the pipeline axis. These sums run one after the other: first the
  /// sums of values such as the loss, then the sums of the gradients of tied parameters. The update
  /// waits for all sums.
  void sumOverCoordinates(MutableArrayRef<Coordinate> coordinates) const {
    if (layout.coordinates == 1)
      return;
    double end = 0;
    auto all = llvm::to_vector(llvm::seq(layout.coordinates));
    for (double bytes : table.sums)
      end = sum(coordinates, all, &Coordinate::busy, bytes, end);
    double shards = layout.zero > 1 ? double(layout.shards) : 1;
    for (const Tied &each : tied)
      end = sum(coordinates, each.coordinates, &Coordinate::reduced, each.cost.gradients / shards,
                end);
  }

  /// Adds the time of a sum over `members`. The sum starts when all members are ready and the
  /// previous sum has ended (at `end`). Returns the end of the sum.
  double sum(MutableArrayRef<Coordinate> coordinates, ArrayRef<int64_t> members,
             double Coordinate::*ready, double bytes, double end) const {
    int64_t stride =
        layout.stageStride * (members.back() - members.front()) / int64_t(members.size() - 1);
    double seconds =
        getSeconds(cluster, Collective::AllReduce, {{stride, int64_t(members.size())}}, bytes);
    for (int64_t member : members)
      end = std::max(end, coordinates[size_t(member)].*ready);
    for (int64_t member : members) {
      Coordinate &coordinate = coordinates[size_t(member)];
      coordinate.reduced = std::max(coordinate.reduced, end + seconds);
      coordinate.parts[Part::DataParallel] += seconds;
    }
    return end + seconds;
  }

  Stage makeStage(ArrayRef<SegmentCost> segments) const {
    Stage stage;
    stage.segments = segments;
    double forwardGathers = 0, backwardGathers = 0;
    StageTimes &times = stage.times = {0, 0, 0};
    for (const SegmentCost &segment : segments) {
      for (const Breakdown *parts :
           {&segment.forward, &segment.backwardInput, &segment.backwardWeight})
        stage.parts.add(*parts);
      times.forward += segment.forward.sum();
      times.backwardInput += segment.backwardInput.sum();
      times.backwardWeight += segment.backwardWeight.sum();
      forwardGathers += segment.forwardGathers;
      backwardGathers += segment.backwardGathers;
      stage.saved += segment.saved;
      stage.deferred += segment.deferred;
      stage.kept += segment.kept;
    }
    // Parameters are gathered while the previous segment runs.
    double forward = getDelay(forwardGathers, times.forward);
    double backward = getDelay(backwardGathers, times.backwardInput + times.backwardWeight);
    times.forward += forward;
    times.backwardInput += backward;
    stage.parts[Part::DataParallel] += forward + backward;
    return stage;
  }

  /// Returns how much concurrent communication delays compute: the communication that does not
  /// overlap, plus the slowdown of the overlapped time. Example: with overlapSlowdown 1.2, 3 s of
  /// communication during 2 s of compute give 1 + 2 * 0.2 = 1.4 s.
  double getDelay(double communication, double compute) const {
    double beside = std::min(communication, compute);
    return communication - beside + beside * (cluster.overlapSlowdown - 1);
  }

  /// Returns the costs of a coordinate: its tasks, then the reductions of gradients and the update.
  Coordinate priceCoordinate(int64_t rank, ArrayRef<Span> row) const {
    Coordinate result;
    double update = 0, launches = 0, communication = 0, reductions = 0;
    for (int64_t chunk = 0; chunk < layout.chunks; ++chunk) {
      const Stage &stage = stages[size_t(placement.getStage(rank, chunk))];
      for (size_t i = 0; i < kParts; ++i)
        result.parts[Part(i)] += stage.parts[Part(i)] * double(layout.microBatches);
      for (const SegmentCost &segment : stage.segments) {
        update += segment.update;
        launches += segment.updateLaunches;
        communication += segment.updateCommunication;
        reductions += segment.reduction;
      }
    }
    SegmentCost copies = getCopies(rank);
    update += copies.update;
    launches += copies.updateLaunches;
    communication += copies.updateCommunication;
    if (layout.zero > 0)
      update *= double(layout.tableShards) / double(layout.shards);
    result.busy = row.empty() ? 0 : row.back().end;
    double end = std::max(result.busy, getReductionEnd(rank, row));
    double beside = std::max(0.0, reductions - (end - result.busy));
    update += launches;
    result.reduced = end + beside * (cluster.overlapSlowdown - 1);
    result.update = communication + update + table.sharedUpdate;
    result.parts[Part::DataParallel] += result.reduced - result.busy + communication;
    result.parts[Part::Update] += update + table.sharedUpdate;
    return result;
  }

  /// Returns the time at which the reduction of the last gradient ends. The gradients of a segment
  /// are reduced after its last backward, one segment after the other.
  double getReductionEnd(int64_t rank, ArrayRef<Span> row) const {
    std::vector<std::pair<double, double>> reductions; // time when ready, seconds
    for (int64_t chunk = 0; chunk < layout.chunks; ++chunk) {
      double ready = 0;
      for (const Span &span : row)
        if (span.task.chunk == chunk && span.task.work != Work::Forward &&
            span.task.work != Work::BackwardInput)
          ready = std::max(ready, span.end);
      ArrayRef<SegmentCost> segments = stages[size_t(placement.getStage(rank, chunk))].segments;
      std::vector<double> ends; // of the last backward, by segment; earlier segments end later
      for (const SegmentCost &segment : segments) {
        ends.push_back(ready);
        ready -= segment.backwardInput.sum() + segment.backwardWeight.sum();
      }
      for (auto [i, segment] : llvm::enumerate(segments))
        reductions.emplace_back(
            ends[size_t(std::max<int64_t>(0, int64_t(i) - segment.reductionDelay))],
            segment.reduction);
    }
    llvm::sort(reductions);
    double end = 0;
    for (auto [ready, seconds] : reductions)
      end = std::max(end, ready) + seconds;
    return end;
  }

  double getMemory(int64_t rank, ArrayRef<Span> row, int64_t zero) const {
    SegmentCost variables = getCopies(rank);
    for (int64_t chunk = 0; chunk < layout.chunks; ++chunk)
      for (const SegmentCost &segment : stages[size_t(placement.getStage(rank, chunk))].segments)
        variables.addVariables(segment);
    return variables.getVariableBytes(zero, layout.shards) +
           getMostValues(rank, row, zero > 0 ? layout.shards : 1);
  }

  /// Returns the maximum number of bytes that the segments of a stage use while the stage runs, in
  /// addition to the bytes that the stage keeps for backward.
  static double getTransient(const Stage &stage) {
    double transient = 0;
    double later = 0; // saved bytes of later segments, which do not exist yet while a segment runs
    for (const SegmentCost &segment : llvm::reverse(stage.segments)) {
      transient = std::max(transient, segment.transient - later);
      later += segment.saved;
    }
    return transient;
  }

  /// Returns the maximum number of bytes of values that exist at once on a coordinate. If gradients
  /// of weights are separate tasks, a micro-batch keeps only their operands after its gradients of
  /// inputs are computed. A chunk keeps its reduced gradients, divided by `shards`, from its last
  /// backward on.
  double getMostValues(int64_t rank, ArrayRef<Span> row, int64_t shards) const {
    double held = 0, most = 0, reduced = 0, transient = 0;
    for (int64_t chunk = 0; chunk < layout.chunks; ++chunk)
      transient =
          std::max(transient, getTransient(stages[size_t(placement.getStage(rank, chunk))]));
    SmallVector<int64_t> left(size_t(layout.chunks), layout.microBatches);
    for (const Span &span : row) {
      const Stage &stage = stages[size_t(placement.getStage(rank, span.task.chunk))];
      bool hasWeights = span.task.work == Work::Backward || span.task.work == Work::BackwardWeight;
      if (span.task.work == Work::Forward)
        held += stage.saved + stage.kept;
      most = std::max(most, held + transient);
      if (hasWeights && --left[size_t(span.task.chunk)] == 0) {
        double later = 0;
        for (const SegmentCost &segment : llvm::reverse(stage.segments)) {
          most = std::max(most, held + reduced - later + segment.transient);
          reduced += segment.reduced / double(shards);
          later += segment.saved;
        }
      }
      if (span.task.work == Work::BackwardInput)
        held += stage.deferred - stage.saved;
      else if (hasWeights)
        held -= span.task.work == Work::BackwardWeight ? stage.deferred : stage.saved;
    }
    return std::max(most, reduced);
  }

  const ClassTable &table;
  const Cluster &cluster;
  const Layout &layout;
  const Placement &placement;
  std::vector<Stage> stages; ///< in model order
  std::vector<Tied> tied;
};

} // namespace

/// Returns cuts that give each stage about the same weight, and at least one segment.
static SmallVector<int64_t> cutEvenly(ArrayRef<int64_t> weights, int64_t stages) {
  int64_t total = std::accumulate(weights.begin(), weights.end(), int64_t(0)), sum = 0, next = 0;
  SmallVector<int64_t> cuts;
  for (int64_t stage = 1; stage < stages; ++stage) {
    int64_t last = int64_t(weights.size()) - (stages - stage);
    do
      sum += weights[size_t(next++)];
    while (next < last && sum * stages < stage * total);
    cuts.push_back(next);
  }
  return cuts;
}

/// Returns the cuts of `findCuts` for a placement.
Expected<ArrayRef<int64_t>> CutCache::getFixed(const Placement &placement, int64_t segments) {
  Key key{int64_t(placement.kind), placement.ranks, placement.chunks};
  if (auto found = known.find(key); found != known.end())
    return ArrayRef<int64_t>(found->second);
  Expected<SmallVector<int64_t>> cuts = findCuts(placement);
  if (!cuts)
    return cuts.takeError();
  if (!cuts->empty() && cuts->back() >= segments)
    return createStringError("a stage begins after the last segment");
  return ArrayRef<int64_t>(known[key] = std::move(*cuts));
}

Expected<ArrayRef<int64_t>> CutCache::get(ArrayRef<SegmentCost> segments,
                                          const Placement &placement) {
  if (int64_t(segments.size()) < placement.getNumStages())
    return createStringError("fewer segments than stages");
  if (findCuts)
    return getFixed(placement, int64_t(segments.size()));
  // Few distinct weights make the search for many segments fast.
  bool isLarge = segments.size() > 64;
  double steps = isLarge ? 16 : 1024;
  double longest = 0;
  for (const SegmentCost &segment : segments)
    longest = std::max(longest, segment.getSeconds());
  std::vector<int64_t> weights, bytes;
  for (const SegmentCost &segment : segments) {
    weights.push_back(std::llround(steps * segment.getSeconds() / std::max(longest, 1e-30)));
    bytes.push_back(isLarge ? 0 : int64_t(2 * segment.boundary)); // bytes matter only for ties
  }
  if (!bytes.empty())
    bytes.pop_back(); // the last segment has no cut after it
  Key key{int64_t(placement.kind), placement.ranks, placement.chunks};
  llvm::append_range(key, weights);
  llvm::append_range(key, bytes);
  if (auto found = known.find(key); found != known.end())
    return ArrayRef<int64_t>(found->second);
  constexpr int64_t kMaxStates = int64_t(1) << 20; // a few tens of milliseconds
  Expected<pipeline::StagePartition> partition =
      pipeline::findPartition({weights, bytes, placement, kMaxStates});
  if (partition)
    return ArrayRef<int64_t>(known[key] = partition->cuts);
  consumeError(partition.takeError()); // the search gave up
  return ArrayRef<int64_t>(known[key] = cutEvenly(weights, placement.getNumStages()));
}

Expected<std::pair<Placement, ArrayRef<int64_t>>> LayoutPricer::cut(const Layout &layout) {
  Expected<PlacementKind> kind = findPlacement(layout.schedule);
  if (!kind)
    return kind.takeError();
  Placement placement{*kind, layout.coordinates, layout.chunks};
  Expected<ArrayRef<int64_t>> cuts = cache.get(table.segments, placement);
  if (!cuts)
    return cuts.takeError();
  return std::pair(placement, *cuts);
}

Expected<LayoutPricer::Bounds> LayoutPricer::getBounds(const Layout &layout) {
  auto division = cut(layout);
  if (!division)
    return division.takeError();
  auto [placement, cuts] = *division;
  std::vector<double> loads(size_t(layout.coordinates), 0), fills(loads), saved(loads),
      sends(loads);
  std::vector<SegmentCost> variables(size_t(layout.coordinates), SegmentCost());
  double hop = getHop(table, cluster, layout, cuts);
  double forwards = 0; // seconds of the forwards of all earlier stages, and of their messages
  for (int64_t stage = 0; stage < placement.getNumStages(); ++stage) {
    size_t begin = stage == 0 ? 0 : size_t(cuts[size_t(stage) - 1]);
    size_t end = size_t(stage) < cuts.size() ? size_t(cuts[size_t(stage)]) : table.segments.size();
    size_t rank = size_t(placement.getRank(stage));
    fills[rank] = loads[rank] == 0 ? forwards : fills[rank];
    double ofStage = 0;
    for (const SegmentCost &segment : ArrayRef(table.segments).slice(begin, end - begin)) {
      loads[rank] += segment.getSeconds();
      forwards += segment.forward.sum();
      ofStage += segment.saved;
      variables[rank].addVariables(segment);
    }
    saved[rank] = std::max(saved[rank], ofStage);
    int64_t next =
        stage + 1 < placement.getNumStages() ? placement.getRank(stage + 1) : int64_t(rank);
    if (size_t(next) != rank) { // activations, and their gradients
      forwards += hop;
      sends[rank] += hop;
      sends[size_t(next)] += hop;
    }
  }
  Bounds bounds;
  for (size_t rank = 0; rank < loads.size(); ++rank) {
    double own = (loads[rank] + sends[rank]) * double(layout.microBatches);
    // No task waits for the last message, so its time is subtracted.
    bounds.seconds = std::max(bounds.seconds, fills[rank] + own - hop);
    for (int64_t zero = 0; zero < 4; ++zero)
      bounds.memories[size_t(zero)] =
          std::max(bounds.memories[size_t(zero)],
                   variables[rank].getVariableBytes(zero, layout.shards) + saved[rank]);
  }
  return bounds;
}

Expected<LayoutPrice> LayoutPricer::price(const Layout &layout) {
  auto division = cut(layout);
  if (!division)
    return division.takeError();
  auto [placement, cuts] = *division;
  // A round of a schedule has as many micro-batches as there are stages. After three rounds, each
  // further round adds the same time and memory. The price of many micro-batches therefore follows
  // from that of three to four rounds, and of one round more.
  int64_t round = placement.getNumStages();
  if (layout.microBatches <= 5 * round)
    return Pricer(table, cluster, layout, placement).price(cuts);
  Layout few = layout, more = layout;
  few.microBatches = 3 * round + layout.microBatches % round;
  more.microBatches = few.microBatches + round;
  Expected<LayoutPrice> first = Pricer(table, cluster, few, placement).price(cuts);
  if (!first)
    return first.takeError();
  Expected<LayoutPrice> second = Pricer(table, cluster, more, placement).price(cuts);
  if (!second)
    return second.takeError();
  int64_t rounds = (layout.microBatches - few.microBatches) / round;
  LayoutPrice result = *second;
  result.seconds = first->seconds + double(rounds) * (second->seconds - first->seconds);
  for (size_t i = 0; i < kParts; ++i)
    result.parts[Part(i)] =
        first->parts[Part(i)] + double(rounds) * (second->parts[Part(i)] - first->parts[Part(i)]);
  // Memory grows with each round if outputs are kept, or with the schedule gpipe.
  for (size_t zero = 0; zero < result.memories.size(); ++zero)
    result.memories[zero] += double(rounds - 1) * (second->memories[zero] - first->memories[zero]);
  result.memory = result.memories[size_t(layout.zero)];
  return result;
}

} // namespace parashard::planner
