// The greedy choice of what goes to the host's memory.
#include "Stashes.h"
#include <algorithm>
#include <numeric>

namespace parashard::schedules {

namespace {
class StashChooser {
public:
  explicit StashChooser(const StashProblem &problem)
      : problem(problem), begins(problem.seconds.size() + 1, 0), places(problem.away.size()) {
    std::partial_sum(problem.seconds.begin(), problem.seconds.end(), begins.begin() + 1);
  }

  std::vector<std::optional<StashPosition>> choose() {
    sendAway();
    bringBack();
    keepWhatHelpsNothing();
    return std::move(places);
  }

private:
  double getDuration(const AwayTime &away) const {
    return double(away.bytes) / problem.bytesPerSecond;
  }
  /// The first step at or after `step` that begins at a time or later.
  int64_t findStep(double time, int64_t step) const {
    return std::lower_bound(begins.begin() + step, begins.end(), time) - begins.begin();
  }
  /// The first step behind `step` that comes after one that takes time.
  int64_t findAfterWork(int64_t step) const {
    for (++step; step < int64_t(problem.seconds.size()); ++step)
      if (problem.seconds[step] > 0)
        return step + 1;
    return step;
  }
  /// The last step in front of `step` that takes time.
  int64_t findWorkBefore(int64_t step) const {
    for (--step; step > 0; --step)
      if (problem.seconds[step] > 0)
        return step;
    return step;
  }

  template <typename Less> std::vector<size_t> sortBy(Less less) const {
    std::vector<size_t> order(problem.away.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return less(problem.away[a], problem.away[b]); });
    return order;
  }

  /// In the order of their last uses, each behind the one before it.
  void sendAway() {
    double free = 0;
    for (size_t at : sortBy([](auto &a, auto &b) { return a.from < b.from; })) {
      const AwayTime &away = problem.away[at];
      double over = std::max(free, begins[away.from + 1]) + getDuration(away);
      int64_t gone = problem.onlyHidden ? findStep(over, away.from + 1) : findAfterWork(away.from);
      bool returnsInTime = !problem.onlyHidden || over + getDuration(away) <= begins[away.to];
      if (gone >= away.to || !returnsInTime)
        continue;
      free = over;
      places[at] = StashPosition{gone, away.to};
    }
  }

  /// As late as each is in time for its use, and for those that follow it.
  void bringBack() {
    double needed = begins.back();
    for (size_t at : sortBy([](auto &a, auto &b) { return a.to > b.to; })) {
      if (!places[at])
        continue;
      const AwayTime &away = problem.away[at];
      double begin = std::min(needed, begins[away.to]) - getDuration(away);
      // The last step that begins by then.
      int64_t fetch = problem.onlyHidden ? std::upper_bound(begins.begin(), begins.end(), begin) -
                                               begins.begin() - 1
                                         : findWorkBefore(away.to);
      if (fetch <= places[at]->gone) {
        places[at].reset();
        continue;
      }
      needed = begin;
      places[at]->fetch = std::min(fetch, away.to);
    }
  }

  /// Of those that are away shortest first: one without which no step has more than the fullest.
  void keepWhatHelpsNothing() {
    std::vector<int64_t> live = problem.liveBytes;
    auto add = [&](size_t at, int64_t bytes) {
      for (int64_t step = places[at]->gone; step < places[at]->fetch; ++step)
        live[step] += bytes;
    };
    std::vector<size_t> order =
        sortBy([](auto &a, auto &b) { return a.to - a.from < b.to - b.from; });
    for (size_t at : order)
      if (places[at])
        add(at, -problem.away[at].bytes);
    int64_t most = live.empty() ? 0 : *std::max_element(live.begin(), live.end());
    for (size_t at : order) {
      if (!places[at])
        continue;
      auto begin = live.begin() + places[at]->gone, end = live.begin() + places[at]->fetch;
      int64_t bytes = problem.away[at].bytes;
      if (std::any_of(begin, end, [&](int64_t there) { return there + bytes > most; }))
        continue;
      add(at, bytes);
      places[at].reset();
    }
  }

  const StashProblem &problem;
  std::vector<double> begins; ///< of each step, and the end of the last
  std::vector<std::optional<StashPosition>> places;
};
} // namespace

std::vector<std::optional<StashPosition>> chooseStashes(const StashProblem &problem) {
  return StashChooser(problem).choose();
}

} // namespace parashard::schedules
