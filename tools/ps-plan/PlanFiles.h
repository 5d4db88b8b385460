// Declares what ps-plan writes to plan files, and how it compares them.
#ifndef PARASHARD_TOOLS_PS_PLAN_PLANFILES_H
#define PARASHARD_TOOLS_PS_PLAN_PLANFILES_H

#include "Flags.h"

namespace parashard {

/// Writes an object to a file, or to standard output if `path` is empty or "-".
llvm::Error writeJson(const std::string &path, llvm::json::Object object);

/// Writes a plan as `writeJson` does, and reports the file on stderr.
llvm::Error writePlanFile(const std::string &path, llvm::json::Object plan);

/// Writes the first plan to the file of `-o`, or the first ones to its folder (`--finalists`).
llvm::Error writePlans(PlanLine &line, const driver::PlanAnswer &answer,
                       const driver::PlanRequest &request);

/// Prints the flags that differ between two plan files, and both predictions. Fails if a file
/// cannot be read, and for keys that plan files do not have.
llvm::Error printDifference(const FlagTable &table, const std::string &first,
                            const std::string &second, llvm::raw_ostream &os);

} // namespace parashard

#endif
