// Restricts the values that a searched plan may have.
#ifndef PARASHARD_LIB_PLANNER_CONSTRAINTS_H
#define PARASHARD_LIB_PLANNER_CONSTRAINTS_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace parashard::planner {

/// The values of `--num-chunks` and `--recompute` that a search tries.
inline constexpr int64_t kSearchedChunks[] = {1, 2, 3, 4};
inline constexpr const char *kSearchedModes[] = {"none", "selective", "full"};
/// The sharding policies that a search tries. The named policies look for known patterns. The
/// searching policies run a search for the best splits, which takes longer.
inline constexpr const char *kNamedPolicies[] = {"megatron", "megatron+sp"};
inline constexpr const char *kSearchingPolicies[] = {"searched", "searched+memory"};
/// The policy that splits nothing over the tensor axis, so all its ranks compute the same.
inline constexpr const char *kReplicatedPolicy = "replicated";

/// The values that one flag may have. The default allows all.
class Choices {
public:
  /// Reads `*`, a value, a list "1,2,4" or "1|2|4", or a range "<=8", ">=2" or "2..8". A text that
  /// begins with `{`, such as the JSON of a sharding file, is one value. Fails for an empty value,
  /// and for a range whose ends are not whole numbers of at least 0 in ascending order.
  static llvm::Expected<Choices> parse(llvm::StringRef text);

  bool allows(llvm::StringRef value) const;
  bool allows(int64_t value) const;
  /// Returns true if a number from `first` to `last` is allowed.
  bool allowsAny(int64_t first, int64_t last) const;
  /// Returns true if every value is allowed.
  bool isFree() const { return values.empty() && !isRange(); }
  bool isRange() const { return least || most; }
  /// Returns the values that are allowed; empty if all values or a range is allowed.
  llvm::ArrayRef<std::string> getValues() const { return values; }
  /// Returns the numbers among the values, or the ends of the range.
  llvm::SmallVector<int64_t> getNumbers() const;
  /// Returns the text that was parsed: "1|2"; "*" if all values are allowed.
  llvm::StringRef getText() const { return text; }

private:
  std::string text = "*";
  std::vector<std::string> values;
  std::optional<int64_t> least, most;
};

/// The axes of a mesh constraint, in mesh order.
struct MeshChoices {
  std::vector<std::pair<std::string, Choices>> axes;
  const Choices *find(llvm::StringRef axis) const;
};

/// Reads a mesh whose sizes are choices: "pp=*,dp=2,4,tp=<=8". The axes are pp, dp and tp. An
/// omitted axis may have any size. Fails for another axis, for an axis that is named twice, for a
/// value that is not a number from 1 to 2^20, and for a range without such a number.
llvm::Expected<MeshChoices> parseMeshChoices(llvm::StringRef text);

/// Constraints by flag of ps-compile: "zero", "recompute", ...
struct Constraints {
  MeshChoices mesh;
  std::map<std::string, Choices> flags;
  /// Returns the choices of a flag. All values are allowed for a flag without a constraint.
  const Choices &get(llvm::StringRef flag) const;
};

/// Returns the values of a flag that the search tries, such as 0 to 3 for "zero". Returns an empty
/// list for a flag that may have any value that ps-compile accepts.
std::vector<std::string> listSearchedValues(llvm::StringRef flag);

/// Fails if a listed value is not one that the search tries. Also fails if the choices allow no
/// value that the search tries; example: `>=4` for "zero". The message is the end of a sentence
/// that begins with the flag.
llvm::Error checkChoices(llvm::StringRef flag, const Choices &choices);

} // namespace parashard::planner

#endif
