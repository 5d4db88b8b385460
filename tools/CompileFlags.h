// Declares the flags of CompileOptions, which ps-compile and ps-plan share.
#ifndef PARASHARD_TOOLS_COMPILEFLAGS_H
#define PARASHARD_TOOLS_COMPILEFLAGS_H

#include "parashard/Driver.h"
#include "tools/FlagTable.h"

namespace parashard {

/// The variables that the flags below set.
struct CompileFlags {
  driver::CompileOptions &options;
  std::string mode = "train"; ///< train or eval
  std::optional<int64_t> globalBatch =
      std::nullopt; ///< samples per step; nullopt: use `options.microBatches`
};

/// Each function adds flags to the current group of the table. `flags` must outlive the table.
void addModelFlags(FlagTable &table, CompileFlags &flags);
void addPlanFlags(FlagTable &table, CompileFlags &flags);
/// Adds `--target`, which writes to `target`. Plan files record the target only if it was given.
/// isOfCluster: the default is the target of the cluster.
void addTargetFlag(FlagTable &table, std::string &target, bool isOfCluster = false);
/// Adds `--messages`, which `chooseMessageFormat` reads. `format` keeps the value for checks.
void addMessagesFlag(FlagTable &table, std::string &format);
void addUpdateFlags(FlagTable &table, driver::CompileOptions &options);

/// Fails unless `--target` is the name of a target.
llvm::Error checkTarget(llvm::StringRef target);

/// Completes `flags.options` after `FlagTable::assign`: micro-batches, placement, optimizer, mode.
/// Fails if flags contradict each other.
llvm::Error finishCompileFlags(const FlagTable &table, CompileFlags &flags);

} // namespace parashard

#endif
