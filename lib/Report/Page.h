// The report as a page: data put into the template.
#ifndef PARASHARD_LIB_REPORT_PAGE_H
#define PARASHARD_LIB_REPORT_PAGE_H

#include "llvm/Support/JSON.h"

namespace parashard::report {

/// One HTML document that names nothing outside of itself. Whatever stands in `data` and `title` is
/// text in it, never markup.
void printPage(const llvm::json::Value &data, llvm::StringRef title, llvm::raw_ostream &os);

} // namespace parashard::report

#endif
