// Computes lower bounds of step times from known work.
#include "lib/Planner/WorkBounds.h"
#include "llvm/ADT/STLExtras.h"

using namespace parashard::costs;

namespace parashard::planner {

Work Work::of(const ClassTable &table) {
  Work work;
  for (const SegmentCost &segment : table.segments)
    for (const Breakdown *parts :
         {&segment.forward, &segment.backwardInput, &segment.backwardWeight}) {
      double launches = (*parts)[Part::Launch], communication = (*parts)[Part::TensorParallel];
      work.launches += launches;
      work.communication += communication;
      work.compute += parts->sum() - launches - communication;
    }
  return work;
}

void WorkBounds::add(const Candidate &candidate, const ClassTable &table) {
  Work work = Work::of(table);
  auto [found, isNew] = works[candidate.policy][candidate.tp].try_emplace(candidate.samples, work);
  if (!isNew) // another order of the axes
    found->second.communication = std::min(found->second.communication, work.communication);
}

double WorkBounds::getBound(const Candidate &candidate) const {
  double rate = double(candidate.microBatches) / double(candidate.pp);
  if (candidate.policy == kReplicatedPolicy && candidate.tp > 1) {
    std::optional<Work> work = findUndivided(candidate.samples);
    return work ? rate * (work->compute + work->launches) : 0;
  }
  auto found = works.find(candidate.policy);
  if (found == works.end())
    return 0;
  for (const auto &[tp, ofSamples] : llvm::reverse(found->second))
    if (tp < candidate.tp && candidate.tp % tp == 0)
      if (std::optional<Work> work = find(tp, ofSamples, candidate.samples))
        return rate * (work->compute * double(tp) / double(candidate.tp) + work->communication +
                       work->launches);
  return 0;
}

std::optional<Work> WorkBounds::findUndivided(int64_t samples) const {
  for (const auto &[policy, ofAxes] : works)
    if (auto one = ofAxes.find(1); one != ofAxes.end())
      return find(1, one->second, samples);
  return std::nullopt;
}

/// Returns the work of a micro-batch of `samples` samples on a tensor axis of size `tp`, if a
/// candidate with this number of samples was added. Returns a lower bound if `samples` exceeds the
/// largest added number, and this number is at least that of `setEnd`. The bound has the compute
/// and communication of the largest number, scaled to `samples`, less the tolerance. Otherwise,
/// returns nullopt.
std::optional<Work> WorkBounds::find(int64_t tp, const BySamples &ofSamples,
                                     int64_t samples) const {
  if (auto known = ofSamples.find(samples); known != ofSamples.end())
    return known->second;
  auto [most, work] = *ofSamples.rbegin();
  auto end = ends.find(tp);
  if (samples < most || end == ends.end() || most < end->second)
    return std::nullopt;
  double factor = (1 - tolerance) * double(samples) / double(most);
  return Work{factor * work.compute, factor * work.communication, work.launches};
}

} // namespace parashard::planner
