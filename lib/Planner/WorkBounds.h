// Lower bounds of step times, from the work of plans with a smaller tensor axis.
#ifndef PARASHARD_LIB_PLANNER_WORKBOUNDS_H
#define PARASHARD_LIB_PLANNER_WORKBOUNDS_H

#include "lib/Planner/Search.h"

namespace parashard::planner {

/// Seconds of all segments for one micro-batch.
struct Work {
  double compute = 0; ///< of the work that a larger tensor axis may divide
  double communication = 0, launches = 0;

  static Work of(const ClassTable &table);
};

/// The work of priced candidates. Bounds the time of other candidates without their tables.
class WorkBounds {
public:
  /// `tolerance` is `SearchProblem::tolerance`.
  explicit WorkBounds(double tolerance) : tolerance(tolerance) {}

  /// Stores the work of a candidate.
  void add(const Candidate &candidate, const ClassTable &table);
  /// Records that more samples than `samples` save less than the tolerance, for one size of the
  /// tensor axis. Only the first call for a size has an effect.
  void setEnd(int64_t tp, int64_t samples) { ends.try_emplace(tp, samples); }

  /// Returns a lower bound of the time of a step that needs no table of the candidate. Uses the
  /// work of the largest smaller tensor axis whose size divides the candidate's. Assumes that the
  /// candidate's axis divides the compute evenly (with the policy `replicated`: not at all), and
  /// that its communication takes no less time. Returns 0 if no smaller axis has been priced.
  ///
  /// Example: with tp=4, compute takes 0.8 s, and launches and communication take 0.2 s. With tp=8,
  /// a micro-batch takes at least 0.4 + 0.2 = 0.6 s.
  double getBound(const Candidate &candidate) const;
  /// Returns the work without a tensor axis; nullopt if it is not known. Without a tensor axis, all
  /// policies are equal.
  std::optional<Work> findUndivided(int64_t samples) const;

private:
  using BySamples = std::map<int64_t, Work>;
  std::optional<Work> find(int64_t tp, const BySamples &ofSamples, int64_t samples) const;

  double tolerance;
  /// By policy, then by the size of the tensor axis.
  std::map<std::string, std::map<int64_t, BySamples>> works;
  std::map<int64_t, int64_t> ends; ///< samples of `setEnd`, by the size of the tensor axis
};

} // namespace parashard::planner

#endif
