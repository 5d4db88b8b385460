// Declares the report: one self-contained HTML page that shows the plan of a compile.
#ifndef PARASHARD_REPORT_H
#define PARASHARD_REPORT_H

#include "parashard/Driver.h"
#include "llvm/Support/JSON.h"

namespace parashard::report {

struct ReportOptions {
  std::string path; ///< path of the page; empty: none
  std::string data; ///< path of a JSON file with the data of the page; empty: none
  std::string line; ///< the command line
  /// Options of the compile. They give the model's file, and the schedule if the module has not
  /// been scheduled yet.
  driver::CompileOptions compile;
  std::string measured; ///< path of a trace (`--trace`) of the program; empty: none
  std::optional<driver::PlanAnswer> plans; ///< answer of the search that found the plan
};

/// Returns the data of the page for a module at level `planned` or later: the header's fields and a
/// list of sections {"id", "title", "data"} (docs/report.md). For level `planned`, partitions a
/// copy of the module. Emits a diagnostic and returns nullopt on an error.
std::optional<llvm::json::Object> gatherReport(mlir::ModuleOp module, const ReportOptions &options);

/// Writes the page, and the file with its data. Each is written completely or not at all.
mlir::LogicalResult writeReport(mlir::ModuleOp module, const ReportOptions &options);

} // namespace parashard::report

#endif
