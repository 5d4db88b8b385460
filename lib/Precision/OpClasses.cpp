// Returns the precision class of each op, with the user's overrides.
#include "OpClasses.h"
#include "dialects/ps/Refusal.h"
#include "lib/IR/ModulePath.h"
#include "shared/Globs.h"
#include "shared/NearestNames.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace parashard::precision {

bool matchesOp(Operation *op, StringRef glob) {
  if (matchesGlob(glob, op->getName().getStringRef()))
    return true;
  std::optional<StringRef> path = ir::getModulePath(op->getLoc());
  for (StringRef part = path.value_or(""); !part.empty();) {
    if (matchesGlob(glob, part))
      return true;
    part = part.contains('.') ? part.rsplit('.').first : StringRef();
  }
  return false;
}

bool matchesAny(Operation *op, llvm::ArrayRef<std::string> globs) {
  return llvm::any_of(globs, [&](const std::string &glob) { return matchesOp(op, glob); });
}

ps::OpPrecision OpClasses::lookup(Operation *op) const {
  ps::OpPrecision precision;
  if (auto known = dyn_cast<ps::PrecisionOpInterface>(op))
    precision = known.getPrecision();
  if (spec.kind == PrecisionSpec::Kind::Half && precision.kind == ps::PrecisionClass::Fp32)
    precision.kind = ps::PrecisionClass::Widest; // kernels of the op accumulate in f32
  if (matchesAny(op, spec.keepFp32))
    precision.kind = ps::PrecisionClass::Fp32;
  else if (matchesAny(op, spec.compute))
    precision.kind = ps::PrecisionClass::Compute;
  return precision;
}

LogicalResult OpClasses::checkGlobs(ModuleOp module) const {
  llvm::SetVector<StringRef> names;
  llvm::SetVector<std::pair<StringRef, const std::string *>> unmatched;
  std::pair<StringRef, const std::vector<std::string> *> lists[] = {
      {"keep-fp32", &spec.keepFp32},
      {"compute", &spec.compute},
      {"include", &spec.float8.include},
      {"exclude", &spec.float8.exclude}};
  for (auto [key, globs] : lists)
    for (const std::string &glob : *globs)
      unmatched.insert({key, &glob});
  module.walk([&](Operation *op) {
    unmatched.remove_if([&](const auto &entry) { return matchesOp(op, *entry.second); });
    if (std::optional<StringRef> path = ir::getModulePath(op->getLoc()); path && !path->empty())
      names.insert(*path);
  });
  if (unmatched.empty())
    return success();
  std::vector<std::string> all;
  for (StringRef name : names)
    all.push_back(name.str());
  auto [key, glob] = unmatched.front();
  return ps::refuseFlag(module, "precision " + key + "=" + *glob)
         << " matches no op and no module of the model" << describeNearest(*glob, all);
}

} // namespace parashard::precision
