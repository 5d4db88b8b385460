// Parses the value of --precision.
#include "dialects/ps/Refusal.h"
#include "parashard/Precision.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSwitch.h"
#include <optional>

namespace parashard::precision {
namespace {

llvm::Error fail(const llvm::Twine &message) { return ps::createFlagError("precision", message); }

/// Parses the parts KEY=VALUE after the precision. `read` returns an error message, or nullopt on
/// success.
class PartReader {
public:
  explicit PartReader(PrecisionSpec &spec) : spec(spec), float8(spec.float8) {}

  std::optional<std::string> read(llvm::StringRef part) {
    auto [key, value] = part.split('=');
    bool isClass = key == "keep-fp32" || key == "compute";
    if (!value.empty() && isClass) {
      if (spec.kind == PrecisionSpec::Kind::Fp32)
        return "fp32 has no precision classes to override; use bf16";
      (key == "compute" ? spec.compute : spec.keepFp32).push_back(value.str());
      return std::nullopt;
    }
    bool isFloat8 =
        llvm::is_contained({"scaling", "history", "margin", "misfit", "include", "exclude"}, key);
    if (value.empty() || !isFloat8)
      return "'" + part.str() +
             "' is neither keep-fp32=GLOB nor compute=GLOB (GLOB matches ops, such as "
             "ps.softmax, or modules, such as lm_head)" +
             (spec.kind == PrecisionSpec::Kind::Fp8
                  ? ", nor KEY=VALUE with the key scaling, history, margin, include, exclude or "
                    "misfit"
                  : "");
    if (spec.kind != PrecisionSpec::Kind::Fp8)
      return "'" + part.str() + "' needs fp8";
    return readFloat8(key, value);
  }

private:
  std::optional<std::string> readFloat8(llvm::StringRef key, llvm::StringRef value) {
    if (key == "include" || key == "exclude") {
      (key == "include" ? float8.include : float8.exclude).push_back(value.str());
      return std::nullopt;
    }
    if (key == "scaling")
      return choose(key, value, "current", "delayed", float8.delayed);
    if (key == "misfit")
      return choose(key, value, "bf16", "error", float8.failsOnMisfit);
    bool isHistory = key == "history";
    int64_t &number = isHistory ? float8.history : float8.margin;
    int64_t least = isHistory, most = isHistory ? 1 << 16 : 32;
    if (!value.getAsInteger(10, number) && number >= least && number <= most)
      return std::nullopt;
    return (key + " takes a number from " + llvm::Twine(least) + " to " + llvm::Twine(most) +
            ", not '" + value + "'")
        .str();
  }

  static std::optional<std::string> choose(llvm::StringRef key, llvm::StringRef value,
                                           llvm::StringRef no, llvm::StringRef yes, bool &choice) {
    choice = value == yes;
    if (choice || value == no)
      return std::nullopt;
    return (key + " takes " + yes + " or " + no + ", not '" + value + "'").str();
  }

  PrecisionSpec &spec;
  PrecisionSpec::Float8 &float8;
};
} // namespace

llvm::Expected<PrecisionSpec> parsePrecision(llvm::StringRef text) {
  using Kind = PrecisionSpec::Kind;
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ',');
  auto kind = llvm::StringSwitch<std::optional<Kind>>(parts.front())
                  .Case("fp32", Kind::Fp32)
                  .Case("bf16", Kind::Bf16)
                  .Case("fp16", Kind::Fp16)
                  .Case("half", Kind::Half)
                  .Case("fp8", Kind::Fp8)
                  .Default(std::nullopt);
  if (!kind)
    return fail(" takes fp32, bf16, fp16, half or fp8, optionally followed by "
                "keep-fp32=GLOB or compute=GLOB, not '" +
                text + "'");
  PrecisionSpec spec;
  spec.kind = *kind;
  PartReader reader(spec);
  for (llvm::StringRef part : llvm::ArrayRef(parts).drop_front())
    if (std::optional<std::string> error = reader.read(part))
      return fail(" " + text + ": " + *error);
  if (!spec.float8.delayed && text.contains("history="))
    return fail(" " + text + ": history needs scaling=delayed");
  return spec;
}

} // namespace parashard::precision
