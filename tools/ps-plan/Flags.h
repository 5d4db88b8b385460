// Declares the parsed command line of ps-plan.
#ifndef PARASHARD_TOOLS_PS_PLAN_FLAGS_H
#define PARASHARD_TOOLS_PS_PLAN_FLAGS_H

#include "tools/PlanRequests.h"

namespace parashard {

/// The command line of ps-plan. The flags of the table write into the other members.
struct PlanLine {
  driver::CompileOptions options;
  CompileFlags compile{options};
  FlagTable table;
  /// Arguments without a flag: the model, or plans. Those after `--measured` are traces.
  std::vector<std::string> files, traces;
  std::string output, planFile, memory, target, constraintsFile;
  std::string messages = "text"; ///< format of messages on stderr
  std::string diff;              ///< first plan of `--diff A.json B.json`; the second is in `files`
  std::vector<std::string> whyNot;
  std::optional<int64_t> finalists; ///< number of plans to write to the folder `output`
  GivenCluster cluster;
  bool predicts = false;
  bool compares = false; ///< true for `--measured` without `--predict`
  std::string measured;  ///< trace of the plan to price; empty if not given
  int64_t timeLimit = 30;

  PlanLine() = default;
  PlanLine(const PlanLine &) = delete;
};

/// Adds all flags. With `predicts`, the plan flags take values; otherwise, they take constraints.
void addFlags(PlanLine &line, bool predicts);

/// Checks and completes the command line after `FlagTable::assign`, except for the searched flags.
llvm::Error readLine(PlanLine &line, bool predicts);

/// Returns the request for a search. Checks the constraints, and each value as ps-compile would.
llvm::Expected<driver::PlanRequest> readRequest(PlanLine &line);

} // namespace parashard

#endif
