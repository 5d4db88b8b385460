// Searches plans, and compiles the best ones.
#ifndef PARASHARD_LIB_DRIVER_PLANSEARCH_H
#define PARASHARD_LIB_DRIVER_PLANSEARCH_H

#include "lib/Driver/PlanCompiler.h"
#include <chrono>

namespace parashard::driver {

/// The error of predicted times. Plans whose times are within this factor of the fastest plan's
/// time count as equally fast.
constexpr double kPredictionError = 1.02;

/// A plan of the search, with the price of its program if it was compiled.
struct Finalist {
  planner::PricedCandidate estimate;
  std::optional<PlanPrice> price;
  /// How much slower this plan is than the fastest plan, if one figure of the cluster is wrong by
  /// `kFigureError` (the worst case over all figures). Example: 0.05 is 5 % slower. Only set for
  /// plans within `kPredictionError` of the fastest.
  std::optional<double> regret;
};

/// Searches plans of one model on one cluster. Several searches share the class tables. The
/// context, the request and the cluster must outlive the search.
class PlanSearch {
public:
  PlanSearch(mlir::MLIRContext &context, const PlanRequest &request, const costs::Cluster &cluster);

  /// Imports the model. Returns failure after a diagnostic. With `isQuiet`, prints no notes.
  llvm::LogicalResult start(bool isQuiet = false);
  /// Returns the request. If it has no global batch, `start` sets the global batch to the exported
  /// batch.
  const PlanRequest &getRequest() const { return request; }
  PlanCompiler &getCompiler() { return compiler; }
  mlir::MLIRContext &getContext() { return context; }
  const costs::Cluster &getCluster() const { return cluster; }

  /// Returns the search problem of the request under constraints. May only be called after `start`.
  planner::SearchProblem makeProblem(planner::Constraints constraints);

  struct Found {
    /// Compiled plans that fit the memory, followed by estimates of other plans. Each of the two
    /// parts is sorted by time, with one exception. If several plans are as fast as the fastest
    /// one, within the error of the prediction, the plan that depends least on the figures of the
    /// cluster comes first. The list is empty if no plan fits.
    std::vector<Finalist> plans;
    /// If no plan fits, the compiled plan that needs the least memory; nullopt if none can be
    /// compiled.
    std::optional<Finalist> leanest;
    std::set<int64_t> refusedBatches; ///< as in `planner::SearchResult`
    int64_t priced = 0;
    bool isComplete = true; ///< false: the time limit or an interrupt ended the search
  };
  /// Searches, and compiles the best plans up to level `placed`. If their programs need more memory
  /// than estimated and none fits, searches again with larger memory estimates. Fails if the
  /// constraints, the ranks and the global batch allow no plan, or if no plan can be compiled.
  llvm::Expected<Found> find(const planner::SearchProblem &problem);
  /// Compiles plans in parallel, and prices their programs. Omits plans that cannot be compiled.
  llvm::Expected<std::vector<Finalist>>
  compile(llvm::ArrayRef<planner::PricedCandidate> candidates);
  /// Fails if no plan of the request satisfies the constraints, for any model that has the same
  /// batches. May only be called after `start`.
  llvm::Error checkConflicts(const planner::Constraints &constraints) const;

private:
  struct Round;
  llvm::Expected<Round> compileFinalists(const planner::SearchResult &found, double memory);
  void preferRobust(const planner::SearchProblem &problem, std::vector<Finalist> &plans);
  llvm::Expected<std::optional<Finalist>>
  compileLeanest(const planner::SearchProblem &problem,
                 llvm::ArrayRef<planner::PricedCandidate> leanest);
  llvm::Expected<size_t> compile(llvm::ArrayRef<planner::PricedCandidate> candidates, double memory,
                                 Round &round);

  mlir::MLIRContext &context;
  PlanRequest request;
  const costs::Cluster &cluster;
  PlanCompiler compiler;
};

} // namespace parashard::driver

#endif
