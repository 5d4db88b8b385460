// The plan of a compile as one HTML page that needs nothing beside itself.
#ifndef PARASHARD_REPORT_H
#define PARASHARD_REPORT_H

#include "parashard/Driver.h"
#include "llvm/Support/JSON.h"

namespace parashard {

struct ReportOptions {
  std::string path;       ///< of the page
  std::string line;       ///< the command line
  CompileOptions compile; ///< the model's file; a step's schedule, where the module has none yet
  std::string measured;   ///< path of what the program traced of its pipeline; empty: nothing
};

/// What the page shows, as data, of a module at level `planned` or later: the header's fields and a
/// list of sections {"id", "title", "data"} (docs/report.md). A module at level `planned` is
/// partitioned on a copy. Nothing after a diagnostic.
std::optional<llvm::json::Object> gatherReport(mlir::ModuleOp module, const ReportOptions &options);

/// Writes the page. The file appears whole or not at all.
mlir::LogicalResult writeReport(mlir::ModuleOp module, const ReportOptions &options);

} // namespace parashard

#endif
