// Prints the report as an HTML page, by inserting data into the template.
#ifndef PARASHARD_LIB_REPORT_PAGE_H
#define PARASHARD_LIB_REPORT_PAGE_H

#include "llvm/Support/JSON.h"

namespace parashard::report {

/// Prints one self-contained HTML document. `title` is a path; the page shows its file name. Text
/// from `data` and `title` never becomes markup.
void printPage(const llvm::json::Value &data, llvm::StringRef title, llvm::raw_ostream &os);

} // namespace parashard::report

#endif
