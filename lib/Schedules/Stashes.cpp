// Chooses greedily which values move to host memory.
#include "Stashes.h"
#include "llvm/ADT/STLExtras.h"
#include <numeric>

namespace parashard::schedules {

namespace {
class StashChooser {
public:
  explicit StashChooser(const StashProblem &problem)
      : problem(problem), begins(problem.seconds.size() + 1, 0), positions(problem.away.size()) {
    std::partial_sum(problem.seconds.begin(), problem.seconds.end(), begins.begin() + 1);
  }

  std::vector<std::optional<StashPosition>> choose() {
    scheduleOffloads();
    scheduleFetches();
    undoUselessOffloads();
    return std::move(positions);
  }

private:
  double getDuration(const AwayTime &away) const {
    return double(away.bytes) / problem.bytesPerSecond;
  }
  /// Returns the first step at or after number `step` that begins at or after `time`.
  int64_t findStep(double time, int64_t step) const {
    return std::lower_bound(begins.begin() + step, begins.end(), time) - begins.begin();
  }
  /// Returns s + 1, where s is the first step after `step` with a duration above 0. Returns the
  /// number of steps if all later steps have a duration of 0.
  int64_t findAfterWork(int64_t step) const {
    for (++step; step < int64_t(problem.seconds.size()); ++step)
      if (problem.seconds[step] > 0)
        return step + 1;
    return step;
  }
  /// Returns the last step before `step` with a duration above 0, or 0 if there is none.
  int64_t findWorkBefore(int64_t step) const {
    for (--step; step > 0; --step)
      if (problem.seconds[step] > 0)
        return step;
    return step;
  }

  template <typename Less> std::vector<size_t> sortBy(Less less) const {
    std::vector<size_t> order(problem.away.size());
    std::iota(order.begin(), order.end(), 0);
    llvm::stable_sort(order,
                      [&](size_t a, size_t b) { return less(problem.away[a], problem.away[b]); });
    return order;
  }

  /// Schedules the copies to the host one after another, in the order of `from` (the last use
  /// before the interval).
  void scheduleOffloads() {
    double free = 0;
    for (size_t at : sortBy([](auto &a, auto &b) { return a.from < b.from; })) {
      const AwayTime &away = problem.away[at];
      double end = std::max(free, begins[away.from + 1]) + getDuration(away);
      int64_t gone = problem.onlyHidden ? findStep(end, away.from + 1) : findAfterWork(away.from);
      bool returnsInTime = !problem.onlyHidden || end + getDuration(away) <= begins[away.to];
      if (gone >= away.to || !returnsInTime)
        continue;
      free = end;
      positions[at] = StashPosition{gone, away.to};
    }
  }

  /// Schedules the copies back to the device. With `onlyHidden`, each copy begins as late as
  /// possible, but ends before its values are used and before the next copy begins. Otherwise, each
  /// copy begins at the last step with a duration above 0 before its values are used. Undoes an
  /// offload if its copy back would not begin after step `gone`.
  void scheduleFetches() {
    double needed = begins.back();
    for (size_t at : sortBy([](auto &a, auto &b) { return a.to > b.to; })) {
      if (!positions[at])
        continue;
      const AwayTime &away = problem.away[at];
      double begin = std::min(needed, begins[away.to]) - getDuration(away);
      // The last step that starts at or before `begin`.
      int64_t fetch = problem.onlyHidden ? std::upper_bound(begins.begin(), begins.end(), begin) -
                                               begins.begin() - 1
                                         : findWorkBefore(away.to);
      if (fetch <= positions[at]->gone) {
        positions[at].reset();
        continue;
      }
      needed = begin;
      positions[at]->fetch = std::min(fetch, away.to);
    }
  }

  /// Undoes offloads that do not lower the peak of live bytes, shortest intervals first.
  void undoUselessOffloads() {
    std::vector<int64_t> live = problem.liveBytes;
    auto add = [&](size_t at, int64_t bytes) {
      for (int64_t step = positions[at]->gone; step < positions[at]->fetch; ++step)
        live[step] += bytes;
    };
    std::vector<size_t> order =
        sortBy([](auto &a, auto &b) { return a.to - a.from < b.to - b.from; });
    for (size_t at : order)
      if (positions[at])
        add(at, -problem.away[at].bytes);
    int64_t peak = live.empty() ? 0 : *std::max_element(live.begin(), live.end());
    for (size_t at : order) {
      if (!positions[at])
        continue;
      auto begin = live.begin() + positions[at]->gone, end = live.begin() + positions[at]->fetch;
      int64_t bytes = problem.away[at].bytes;
      if (std::any_of(begin, end, [&](int64_t other) { return other + bytes > peak; }))
        continue;
      add(at, bytes);
      positions[at].reset();
    }
  }

  const StashProblem &problem;
  std::vector<double> begins; ///< start of each step, then the end of the last step
  std::vector<std::optional<StashPosition>> positions;
};
} // namespace

std::vector<std::optional<StashPosition>> chooseStashes(const StashProblem &problem) {
  return StashChooser(problem).choose();
}

} // namespace parashard::schedules
