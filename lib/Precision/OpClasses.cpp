// The table of ops by class of precision, and what a user overrides in it.
#include "OpClasses.h"
#include "lib/IR/ModulePath.h"
#include "shared/Globs.h"
#include "shared/NearestNames.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace parashard {

/// As torch.autocast has it, but for losses' and norms' own ops, which stand here as themselves.
llvm::ArrayRef<PrecisionRow> getPrecisionTable() {
  using enum PrecisionClass;
  static constexpr PrecisionRow table[] = {
      {"ps.contract", Compute},
      {"ps.convolution", Compute},
      {"ps.convolution_input", Compute},
      {"ps.convolution_kernel", Compute},
      {"ps.attention", Compute, 3, 1},
      {"ps.attention_grad", Compute, 5, 3},
      // What sums over many elements, or has values of any size.
      {"ps.reduce", Fp32},
      {"ps.softmax", Fp32},
      {"ps.softmax_grad", Fp32},
      {"ps.log_softmax", Fp32},
      {"ps.layer_norm", Fp32, 1, 1},
      {"ps.layer_norm_grad", Fp32, 2, 1},
      {"ps.cross_entropy", Fp32, 1, 0},
      {"ps.cross_entropy_grad", Fp32, 1, 1},
      {"ps.binary_cross_entropy", Fp32},
      {"ps.exp", Fp32},
      {"ps.expm1", Fp32},
      {"ps.log", Fp32},
      {"ps.log1p", Fp32},
      {"ps.pow", Fp32},
      {"ps.rsqrt", Fp32},
      {"ps.softplus", Fp32},
      {"ps.embedding_grad", Fp32},
  };
  return table;
}

OpClasses::OpClasses(const PrecisionSpec &spec) : spec(spec) {
  for (const PrecisionRow &row : getPrecisionTable())
    rows.insert({row.op, row});
}

bool matchesOp(Operation *op, StringRef glob) {
  if (matchesGlob(glob, op->getName().getStringRef()))
    return true;
  std::optional<StringRef> path = ps::getModulePath(op->getLoc());
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

PrecisionRow OpClasses::lookup(Operation *op) const {
  StringRef name = op->getName().getStringRef();
  auto found = rows.find(name);
  PrecisionRow row = found == rows.end() ? PrecisionRow{"", PrecisionClass::Widest} : found->second;
  if (spec.kind == PrecisionSpec::Kind::Half && row.kind == PrecisionClass::Fp32)
    row.kind = PrecisionClass::Widest; // it computes in f32 inside
  if (matchesAny(op, spec.keepFp32))
    row.kind = PrecisionClass::Fp32;
  else if (matchesAny(op, spec.compute))
    row.kind = PrecisionClass::Compute;
  return row;
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
    if (std::optional<StringRef> path = ps::getModulePath(op->getLoc()); path && !path->empty())
      names.insert(*path);
  });
  if (unmatched.empty())
    return success();
  std::vector<std::string> all;
  for (StringRef name : names)
    all.push_back(name.str());
  auto [key, glob] = unmatched.front();
  return module.emitError() << "--precision " << key << "=" << *glob
                            << " matches no op and no module of the model"
                            << describeNearest(*glob, all);
}

} // namespace parashard
