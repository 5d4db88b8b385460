// The ops of a model that cannot be imported, said all at once.
#ifndef PARASHARD_LIB_IMPORT_MISSINGOPS_H
#define PARASHARD_LIB_IMPORT_MISSINGOPS_H

#include "lib/Import/SourceLocation.h"
#include <map>

namespace parashard::import {

class MissingOps {
public:
  void add(llvm::StringRef name, const SourceLocation &place);
  /// Each op with its number and first place, then `advice`; empty when there are none.
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
