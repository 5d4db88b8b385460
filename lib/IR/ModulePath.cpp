// Reads module paths from locations.
#include "lib/IR/ModulePath.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace parashard::ir {

StringRef getBlockOfPath(StringRef path) {
  size_t begin = 0;
  while (begin < path.size()) {
    size_t end = std::min(path.find('.', begin), path.size());
    StringRef part = path.slice(begin, end);
    if (begin > 0 && !part.empty() && llvm::all_of(part, [](char c) { return llvm::isDigit(c); }))
      return path.take_front(end);
    begin = end + 1;
  }
  return {};
}

std::optional<StringRef> getModulePath(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc))
    return name.getName().getValue();
  if (auto call = dyn_cast<CallSiteLoc>(loc))
    return getModulePath(call.getCallee());
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location part : fused.getLocations())
      if (auto path = getModulePath(part))
        return path;
  return std::nullopt;
}

StringRef getListName(StringRef block) {
  StringRef list = block.rsplit('.').first;
  size_t dot = list.rfind('.');
  return dot == StringRef::npos ? list : list.drop_front(dot + 1);
}

} // namespace parashard::ir
