// Declares how ps-plan and `ps-compile --auto` build a plan request from their flags, print the
// answer and apply a plan.
#ifndef PARASHARD_TOOLS_PLANREQUESTS_H
#define PARASHARD_TOOLS_PLANREQUESTS_H

#include "lib/Costs/Cluster.h"
#include "tools/CompileFlags.h"
#include "tools/PlanPrediction.h"

namespace parashard {

/// The cluster of `--cluster`.
struct GivenCluster {
  std::string name; ///< name for plan files, without the number of ranks
  std::optional<int64_t> ranks;
  std::optional<costs::Cluster> cluster; ///< nullopt: this machine, not measured yet

  std::string getTarget() const { return cluster ? cluster->device.target : "cpu:native"; }
};

/// Finds the preset, file or machine (`cpu`) that the text of `--cluster` names. Does not measure
/// this machine.
llvm::Expected<GivenCluster> findGivenCluster(llvm::StringRef text);

/// Assigns the plan flags that the search does not choose. Fails if such a flag has several values.
llvm::Error setFixedFlags(FlagTable &table);

/// Checks each value of the searched flags as ps-compile would, and the values of the other flags.
llvm::Error checkValues(FlagTable &table, CompileFlags &compile);

/// Builds the request of a plan search. The searched flags of the table give its constraints. A
/// global batch that is not given stays 0. Measures this machine if `cluster` is this machine.
/// `memory` is the text of `memoryFlag`, or empty.
llvm::Expected<driver::PlanRequest> makeRequest(const FlagTable &table, const CompileFlags &compile,
                                                const GivenCluster &cluster,
                                                llvm::StringRef memoryFlag, llvm::StringRef memory);

/// Sets the plan flags to those of a searched plan.
llvm::Error setPlanFlags(FlagTable &table, const driver::CompileOptions &plan,
                         const GivenCluster &cluster);

/// Returns the prediction of a compiled plan, for its plan file.
PlanPrediction makePrediction(const driver::Plan &plan, const driver::PlanAnswer &answer,
                              const GivenCluster &cluster, int64_t ranks);

/// Prints at most `most` of the best plans. For the first plan, also prints the breakdown of its
/// step time and its neighbors: plans that differ from it in one choice.
void printPlans(const driver::PlanAnswer &answer, size_t most, llvm::raw_ostream &os);

} // namespace parashard

#endif
