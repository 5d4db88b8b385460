// Implements the measurements, with warm-up, repetition and a time budget.
#include "runtime/probe/Prober.h"
#include "runtime/main/Progress.h"
#include "runtime/probe/Fit.h"
#include <algorithm>
#include <cmath>
#include <sstream>

namespace psrt {
namespace {

constexpr int64_t kMaxSamples = 50, kMaxRuns = 1000;
/// The minimum time of a sample in seconds, much longer than a barrier of all ranks.
constexpr double kMinSample = 0.5e-3;
/// The minimum time budget of a probe in seconds.
constexpr double kMinShare = 2e-3;

} // namespace

Prober::Prober(Session &session, ProbePlan &plan, double seconds)
    : session(session), plan(plan), seconds(seconds) {}

/// Fills the memory of each rank with small numbers. Pages that were never written all map to one
/// page of zeros, which is faster to read than memory.
void Prober::fillMemory() {
  session.parallel([&](Rank &rank) {
    std::vector<float> values(1 << 18);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = 0.5f + float(i * 7919 % 1021) / 1021;
    int64_t bytes = int64_t(values.size() * sizeof(float));
    for (int64_t at = 0; at < plan.arenaBytes; at += bytes)
      rank.memory->write(at, values.data(), size_t(std::min(bytes, plan.arenaBytes - at)));
  });
}

void Prober::run() {
  fillMemory();
  CoreUse before = readCoreUse();
  session.prepare(EntryKind::Step);
  double begin = steadySeconds(), weights = 0;
  for (const Probe &probe : plan.probes)
    weights += probe.weight;
  for (Probe &probe : plan.probes) {
    double left = begin + seconds - steadySeconds();
    measure(probe, std::max(kMinShare, left * probe.weight / weights));
    weights -= probe.weight;
  }
  uses = {subtract(readCoreUse(), before)};
  if (session.isOneOfMany())
    collect();
}

/// On rank 0, adds the spread and the use of cores of the other processes.
void Prober::collect() {
  std::vector<std::string> spreads = session.collect(spread.print());
  std::vector<std::string> texts = session.collect(print(uses.front()));
  for (size_t rank = 1; rank < texts.size() && session.isFirst(); ++rank) {
    spread.merge(spreads[rank]);
    uses.push_back(parseCoreUse(texts[rank]));
  }
}

const Probe *Prober::find(Figure figure) const {
  for (const Probe &probe : plan.probes)
    if (probe.figure == figure)
      return &probe;
  return nullptr;
}

/// Predicts the seconds of a probe from the earlier probes of its series. A matmul is assumed to
/// have the rate of the previous matmul. The time of a message is extrapolated linearly from the
/// previous two messages. Returns 0 if there are too few earlier probes, and infinity if the
/// previous probe was not measured.
double Prober::predict(const Probe &probe) const {
  std::vector<const Probe *> before;
  for (const Probe &other : plan.probes) {
    if (&other == &probe)
      break;
    if (other.isInSeriesOf(probe))
      before.push_back(&other);
  }
  if (before.empty())
    return 0;
  const Probe &last = *before.back();
  if (last.seconds <= 0)
    return INFINITY;
  if (probe.figure == Figure::Matmul)
    return last.seconds * probe.work / last.work;
  if (before.size() < 2)
    return 0;
  const Probe &other = *before[before.size() - 2];
  double slope = (last.seconds - other.seconds) / (last.work - other.work);
  return last.seconds + std::max(0.0, slope) * (probe.work - last.work);
}

/// For an overlap probe, returns the number of matmuls that take about as long as the collective
/// that runs at the same time. Returns 1 for other probes, and if one of the two times is unknown.
/// `agree` uses only the number of rank 0.
int64_t Prober::countMatmuls(const Probe &probe) const {
  if (probe.figure != Figure::Overlap)
    return 1;
  double matmul = find(Figure::OverlapMatmul)->seconds;
  double collective = find(Figure::OverlapCollective)->seconds;
  bool isKnown = matmul > 0 && collective > 0;
  return isKnown ? std::clamp<int64_t>(std::llround(collective / matmul), 1, kMaxRuns) : 1;
}

/// Returns the repeats that rank 0 has chosen, in every process.
Prober::Repeats Prober::agree(const Repeats &chosen) {
  std::istringstream text(
      session.broadcast(format("%lld %lld %lld", (long long)chosen.samples, (long long)chosen.runs,
                               (long long)chosen.matmuls)));
  Repeats result;
  text >> result.samples >> result.runs >> result.matmuls;
  return result;
}

/// Measures one probe in about `share` seconds.
void Prober::measure(Probe &probe, double share) {
  constexpr double kPatience = 4; // one run may take at most kPatience * share seconds
  bool isSkipped = predict(probe) > kPatience * share;
  Repeats repeats = agree({isSkipped ? 0 : 1, 1, countMatmuls(probe)});
  if (repeats.samples == 0)
    return;
  // The first run is a warm-up: it fills caches, records GPU graphs and opens connections.
  double first = findMedianOfRanks(time(probe, repeats));
  repeats = agree({first > share ? 0 : 1, 1, repeats.matmuls});
  if (repeats.samples == 0) {
    probe.seconds = first;
    return;
  }
  double second = std::max(1e-9, findMedianOfRanks(time(probe, repeats)));
  repeats.runs = std::clamp<int64_t>(std::llround(kMinSample / second), 1, kMaxRuns);
  repeats.samples =
      std::clamp<int64_t>(int64_t(share / (second * double(repeats.runs))), 1, kMaxSamples);
  probe.seconds = findMedianOfRanks(time(probe, agree(repeats)));
}

/// Measures a probe on all ranks. Returns, for each rank of the mesh, the median time of a run in
/// seconds. The times of ranks in other processes are 0. Adds the times of matmuls to the spread.
std::vector<double> Prober::time(const Probe &probe, const Repeats &repeats) {
  std::vector<double> medians(size_t(session.getProgram().mesh.size()));
  std::vector<std::vector<double>> times(medians.size());
  session.parallel([&](Rank &rank) {
    std::vector<double> &samples = times[size_t(rank.index)];
    samples.reserve(size_t(repeats.samples));
    for (int64_t i = 0; i < repeats.samples; ++i)
      samples.push_back(timeOnce(rank, probe, repeats));
    rank.device->getActivity().leave();
    rank.comm->drain();
    medians[size_t(rank.index)] = findMedian(samples);
  });
  if (probe.figure == Figure::Matmul)
    for (const std::vector<double> &samples : times)
      spread.add(samples, repeats.runs);
  return medians;
}

/// Returns the seconds per run of one sample.
double Prober::timeOnce(Rank &rank, const Probe &probe, const Repeats &repeats) {
  Executor::BoundEntry &entry = rank.executor->bind(session.entry(EntryKind::Step), 0, false);
  auto run = [&](size_t first, size_t last) {
    rank.device->run(entry.code.data() + first, entry.code.data() + last);
  };
  rank.device->begin(entry.scalars.data());
  rank.comm->barrier();
  double begin = steadySeconds();
  for (int64_t i = 0; i < repeats.runs; ++i) {
    if (probe.figure != Figure::Overlap) {
      run(probe.code.first, probe.code.last);
      continue;
    }
    run(probe.code.first, probe.code.first + 1);
    for (int64_t matmul = 0; matmul < repeats.matmuls; ++matmul)
      run(probe.repeated.first, probe.repeated.last);
    run(probe.code.first + 1, probe.code.last);
  }
  rank.device->synchronize();
  return (steadySeconds() - begin) / double(repeats.runs);
}

/// In the process of rank 0, returns the median over all ranks. In other processes, returns the
/// time of the process's own rank.
double Prober::findMedianOfRanks(const std::vector<double> &here) {
  if (!session.isOneOfMany())
    return findMedian(here);
  double own = *std::max_element(here.begin(), here.end());
  std::vector<double> all;
  for (const std::string &text : session.collect(format("%.9g", own)))
    all.push_back(std::strtod(text.c_str(), nullptr));
  return session.isFirst() ? findMedian(all) : own;
}

} // namespace psrt
