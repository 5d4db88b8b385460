// Declares how ps-plan and `ps-compile --auto` make a request for a plan from their flags, and use
// the answer.
#ifndef PARASHARD_TOOLS_PLANREQUESTS_H
#define PARASHARD_TOOLS_PLANREQUESTS_H

#include "lib/Costs/Cluster.h"
#include "tools/CompileFlags.h"

namespace parashard {

/// The cluster of `--cluster`.
struct GivenCluster {
  std::string name; ///< as plan files have it: without the number of ranks
  std::optional<int64_t> ranks;
  std::optional<costs::Cluster> cluster; ///< nullopt: this machine, which is not measured yet

  std::string getTarget() const { return cluster ? cluster->device.target : "cpu:native"; }
};

/// Finds a preset, a file or `cpu` by the text of `--cluster`. Does not measure this machine.
llvm::Expected<GivenCluster> findGivenCluster(llvm::StringRef text);

/// Assigns the plan flags that a search does not choose. Each takes one value.
llvm::Error setFixedFlags(FlagTable &table);

/// Checks each value of the searched flags as ps-compile would, and the values of the other flags.
llvm::Error checkValues(FlagTable &table, CompileFlags &compile);

/// Makes the request for the plan flags of the table, which are constraints. A global batch that is
/// not given stays 0. Measures this machine if it is the cluster. `memory` is the text of
/// `memoryFlag`, or empty.
llvm::Expected<driver::PlanRequest> makeRequest(const FlagTable &table, const CompileFlags &compile,
                                                const GivenCluster &cluster,
                                                llvm::StringRef memoryFlag, llvm::StringRef memory);

/// Sets the plan flags to those of a searched plan.
llvm::Error setPlanFlags(FlagTable &table, const driver::CompileOptions &plan,
                         const GivenCluster &cluster);

/// Prints the best plans, at most `most`; the breakdown of the first; and its neighbors.
void printPlans(const driver::PlanAnswer &answer, size_t most, llvm::raw_ostream &os);

} // namespace parashard

#endif
