// Collects the ops of a model that cannot be imported, to report all of them at once.
#ifndef PARASHARD_LIB_IMPORT_MISSINGOPS_H
#define PARASHARD_LIB_IMPORT_MISSINGOPS_H

#include "lib/Import/SourceLocation.h"
#include <map>

namespace parashard::import {

class MissingOps {
public:
  void add(llvm::StringRef name, const SourceLocation &location);
  /// Returns a message that lists each op with its count and first location, followed by `advice`.
  /// Returns "" if no op is missing.
  std::string describe(llvm::StringRef advice) const;

private:
  struct Uses {
    unsigned count = 0;
    std::string first;
  };
  std::map<std::string, Uses> ops;
};

} // namespace parashard::import

#endif
