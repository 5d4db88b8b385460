// Runs the measurements of psrt-probe on all ranks at the same time.
#ifndef PSRT_PROBE_PROBER_H
#define PSRT_PROBE_PROBER_H

#include "runtime/probe/CoreUse.h"
#include "runtime/probe/ProbePlan.h"
#include "runtime/probe/RunSpread.h"
#include "runtime/session/Session.h"

namespace psrt {

/// Runs the measurements of a ProbePlan. Ranks share the cores and the memory of their host, so
/// every rank runs each measurement, and all ranks start the measurement together. Rank 0 decides
/// how often each measurement is repeated.
class Prober {
public:
  /// `seconds` is the time budget. The session must have opened the program of `plan`.
  Prober(Session &session, ProbePlan &plan, double seconds);
  /// Measures all probes. In the process of rank 0, sets `Probe::seconds` to the median over all
  /// ranks, where the time of a rank is the median of repeated runs. In other processes, sets
  /// `Probe::seconds` to the time of their own rank. The value stays 0 if the budget is too small
  /// for the probe.
  void run();
  /// Returns the spread of the repeated matmuls. In the process of rank 0, the spread covers the
  /// matmuls of all ranks. In every other process, the spread covers only the matmuls of the
  /// process's own rank. Must be called after `run`.
  const RunSpread &getSpread() const { return spread; }
  /// Returns the use of the cores during `run`. The process of rank 0 gets one entry per process;
  /// every other process gets only its own entry.
  const std::vector<CoreUse> &getCoreUses() const { return uses; }

private:
  /// How often a probe runs. The time of `runs` runs is measured `samples` times. In an overlap
  /// probe, each run contains `matmuls` matmuls.
  struct Repeats {
    int64_t samples = 1, runs = 1, matmuls = 1;
  };
  void fillMemory();
  void measure(Probe &probe, double share);
  Repeats agree(const Repeats &chosen);
  std::vector<double> time(const Probe &probe, const Repeats &repeats);
  void collect();
  double timeOnce(Rank &rank, const Probe &probe, const Repeats &repeats);
  double findMedianOfRanks(const std::vector<double> &here);
  double predict(const Probe &probe) const;
  int64_t countMatmuls(const Probe &probe) const;
  const Probe *find(Figure figure) const;

  Session &session;
  ProbePlan &plan;
  double seconds;
  RunSpread spread;
  std::vector<CoreUse> uses;
};

} // namespace psrt

#endif
