// Searches for the plan with the least predicted time that fits the memory of a rank.
#ifndef PARASHARD_LIB_PLANNER_SEARCH_H
#define PARASHARD_LIB_PLANNER_SEARCH_H

#include "lib/Planner/Constraints.h"
#include "lib/Planner/LayoutPrice.h"
#include <set>

namespace parashard::planner {

/// A plan: mesh, micro-batches, schedule and sharding.
struct Candidate {
  int64_t pp = 1, dp = 1, tp = 1;
  std::string order = "pdt"; ///< axes from the slowest to the fastest varying, by first letter
  int64_t samples = 1;       ///< samples per micro-batch and data-parallel rank
  int64_t microBatches = 1;
  int64_t chunks = 1;
  std::string schedule = "1f1b";
  std::string policy = "megatron";
  int64_t zero = 0;
  std::string recompute = "none";

  /// Returns the size of an axis, 'p', 'd' or 't'.
  int64_t getSize(char axis) const { return axis == 'p' ? pp : axis == 'd' ? dp : tp; }
  /// The axes of the mesh: whether it has pp, dp and tp.
  using Kind = std::array<bool, 3>;
  Kind getKind() const { return {pp > 1, dp > 1, tp > 1}; }
  /// Returns the mesh without axes of size 1: "pp=2,tp=4"; "dp=1" for one rank.
  std::string getMesh() const;
  /// Returns the distance between the rank numbers of neighbors along an axis, 'p', 'd' or 't'.
  int64_t getStride(char axis) const;
};

struct PricedCandidate {
  Candidate candidate;
  LayoutPrice price;
};

/// The problem of a search.
struct SearchProblem {
  costs::Cluster cluster;
  int64_t ranks = 1;
  int64_t globalBatch = 1; ///< samples per step
  /// Samples per micro-batch over all data-parallel ranks, if the export fixes them.
  std::optional<int64_t> fixedBatch;
  /// Returns true if the model can be imported with this number of samples per micro-batch over all
  /// data-parallel ranks. If the function is empty, any number is possible.
  std::function<bool(int64_t)> allowsBatch;
  /// Returns why the model could not be imported or compiled so far, for errors.
  /// Returns "" if nothing failed. May be empty.
  std::function<std::string()> getFailure;
  double memory = 0; ///< bytes of memory per rank
  /// By kind (`Candidate::getKind`): the memory of compiled programs, divided by the estimate of
  /// this memory.
  std::map<Candidate::Kind, double> memoryFactors;
  /// Returns the factor of the candidate's kind; 1 if no program of this kind was compiled.
  double getMemoryFactor(const Candidate &candidate) const;
  /// Returns the estimated memory of a candidate, multiplied by the factor of its kind.
  double correctMemory(const PricedCandidate &priced) const {
    return priced.price.memory * getMemoryFactor(priced.candidate);
  }
  Constraints constraints;
  double timeLimit = 30; ///< seconds
  /// Called repeatedly during the search. The search ends when the function returns true. May be
  /// empty.
  std::function<bool()> isInterrupted;
  size_t wanted = 12; ///< number of plans to return
  /// A fraction of the time of a step. The search tries larger micro-batches only if they can save
  /// more than this fraction. The same holds for ZeRO stages that are not needed to fit the memory.
  double tolerance = 0.02;
  /// Returns the class table of a candidate, priced on a cluster. The table depends on the
  /// candidate's axes, samples, policy, recomputation and ZeRO stage. Returns null if the model
  /// cannot be compiled with them. The search does not store the pointer.
  std::function<const ClassTable *(const Candidate &, const costs::Cluster &)> getTable;
  /// Called with several candidates before the search requests their tables, so that the tables can
  /// be built in parallel. May be empty.
  std::function<void(llvm::ArrayRef<Candidate>)> prepareTables;
  /// Returns the cuts of `--split-method`, if they do not depend on times. May be empty.
  CutCache::FindCuts findCuts;
  /// Returns the number of data-parallel ranks of the program from which the table of a candidate
  /// is read.
  std::function<int64_t(const Candidate &)> getTableShards;
};

struct SearchResult {
  /// The plans that fit the memory, fastest first: at most `wanted` plans. Also contains the
  /// fastest plan of each kind if it takes at most `kKindMargin` times as long as the fastest plan.
  /// Plans of one kind have the same axes in their mesh.
  std::vector<PricedCandidate> plans;
  /// If no plan fits: the plan of each kind that needs the least memory. The plan with the least
  /// corrected memory (`SearchProblem::correctMemory`) comes first.
  std::vector<PricedCandidate> leanest;
  /// Samples per micro-batch over all data-parallel ranks for which the model cannot be imported.
  std::set<int64_t> refusedBatches;
  int64_t priced = 0;     ///< number of candidates that were priced, and fit the memory
  bool isComplete = true; ///< false: the time limit or an interrupt ended the search
};

constexpr double kKindMargin = 1.15;

/// Searches all meshes over pp, dp and tp, with the schedules, policies and other choices that the
/// constraints allow. Skips a candidate if a lower bound of its time is more than 5 % above the
/// time of the best plan. The bound is the time of all micro-batches without bubble, and without
/// communication over data axes. Fails if the constraints, the ranks and the global batch allow no
/// plan. Also fails if the model cannot be compiled for any allowed plan.
llvm::Expected<SearchResult> search(const SearchProblem &problem);

/// Returns true if two candidates of one problem are the same plan.
bool isSamePlan(const Candidate &a, const Candidate &b);

/// Returns true if the constraints allow a candidate.
bool isAllowed(const SearchProblem &problem, const Candidate &candidate);

/// Returns true if the candidate has a tensor axis, but splits no work over this axis: all ranks of
/// the axis compute the same.
bool isUndivided(const SearchProblem &problem, const Candidate &candidate);

/// Prices one candidate without checking the constraints. Fails if the model cannot be compiled
/// with the candidate, or if its schedule does not fit its stages and micro-batches.
llvm::Expected<LayoutPrice> priceCandidate(const SearchProblem &problem,
                                           const Candidate &candidate);

} // namespace parashard::planner

#endif
