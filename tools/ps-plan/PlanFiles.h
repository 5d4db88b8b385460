// Declares how ps-plan writes and compares plan files.
#ifndef PARASHARD_TOOLS_PS_PLAN_PLANFILES_H
#define PARASHARD_TOOLS_PS_PLAN_PLANFILES_H

#include "Flags.h"

namespace parashard {

/// Writes an object to a file, or to standard output if `path` is empty or "-".
llvm::Error writeJson(const std::string &path, llvm::json::Object object);

/// Writes a plan as `writeJson` does, and reports the file on stderr.
llvm::Error writePlanFile(const std::string &path, llvm::json::Object plan);

/// Writes the first plan to the file of `-o`. With `--finalists K`, writes the first K plans to the
/// folder of `-o`.
llvm::Error writePlans(PlanLine &line, const driver::PlanAnswer &answer,
                       const driver::PlanRequest &request);

/// Fails if a flag is given that is not one of `used`. `reason` follows the name of the flag in the
/// message.
llvm::Error refuseOthers(const FlagTable &table, llvm::ArrayRef<llvm::StringRef> used,
                         llvm::StringRef reason);

/// Prints the flags that differ between two plan files, and the predicted and measured figures of
/// both. Fails if a file cannot be read or has an unknown key.
llvm::Error printDifference(const FlagTable &table, const std::string &first,
                            const std::string &second, llvm::raw_ostream &os);

} // namespace parashard

#endif
