// The plan of a compile as one HTML page that needs nothing beside itself.
#ifndef PARASHARD_REPORT_H
#define PARASHARD_REPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"
#include <string>

namespace parashard {

struct ReportOptions {
  std::string path;         ///< of the page
  std::string model;        ///< path of the model's file, as messages name it
  std::string line;         ///< the command line
  int64_t microBatches = 1; ///< of a step, where the module has no schedule yet
};

/// What the page shows, as data, of a module at level `planned` or later: the header's fields and a
/// list of sections {"id", "title", "data"} (docs/report.md). A module at level `planned` is
/// partitioned on a copy. Nothing after a diagnostic.
std::optional<llvm::json::Object> gatherReport(mlir::ModuleOp module, const ReportOptions &options);

/// Writes the page. The file appears whole or not at all.
mlir::LogicalResult writeReport(mlir::ModuleOp module, const ReportOptions &options);

} // namespace parashard

#endif
