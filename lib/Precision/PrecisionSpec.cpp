// The text of --precision.
#include "parashard/Precision.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSwitch.h"
#include <optional>

namespace parashard {

static llvm::Error fail(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

llvm::Expected<PrecisionSpec> parsePrecision(llvm::StringRef text) {
  using Kind = PrecisionSpec::Kind;
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ',');
  if (parts.front() == "fp8")
    return fail("--precision fp8 is not built yet; use bf16, fp16 or half");
  auto kind = llvm::StringSwitch<std::optional<Kind>>(parts.front())
                  .Case("fp32", Kind::Fp32)
                  .Case("bf16", Kind::Bf16)
                  .Case("fp16", Kind::Fp16)
                  .Case("half", Kind::Half)
                  .Default(std::nullopt);
  if (!kind)
    return fail("--precision takes fp32, bf16, fp16 or half, and after that keep-fp32=GLOB or "
                "compute=GLOB, not '" +
                text + "'");
  PrecisionSpec spec;
  spec.kind = *kind;
  for (llvm::StringRef part : llvm::ArrayRef(parts).drop_front()) {
    auto [key, glob] = part.split('=');
    bool keeps = key == "keep-fp32";
    if (glob.empty() || (!keeps && key != "compute"))
      return fail("--precision " + text + ": '" + part +
                  "' is neither keep-fp32=GLOB nor compute=GLOB (GLOB: of ops, such as ps.softmax, "
                  "or of modules, such as lm_head)");
    if (spec.kind == Kind::Fp32)
      return fail("--precision " + text + ": fp32 has no classes to override; use bf16");
    (keeps ? spec.keepFp32 : spec.compute).push_back(glob.str());
  }
  return spec;
}

} // namespace parashard
