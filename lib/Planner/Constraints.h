// Restricts the values that a searched plan may have.
#ifndef PARASHARD_LIB_PLANNER_CONSTRAINTS_H
#define PARASHARD_LIB_PLANNER_CONSTRAINTS_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace parashard::planner {

/// The values that one flag may have. The default allows all.
class Choices {
public:
  /// Reads `*`, a value, a list "1|2|4", or a range "<=8", ">=2" or "2..8". Fails for an empty
  /// value and for a range whose ends are not whole numbers of at least 0 in ascending order.
  static llvm::Expected<Choices> parse(llvm::StringRef text);

  bool allows(llvm::StringRef value) const;
  bool allows(int64_t value) const;
  /// Returns true if every value is allowed.
  bool isFree() const { return values.empty() && !least && !most; }
  /// Returns the only values that are allowed; empty if the choices are free or a range.
  llvm::ArrayRef<std::string> getValues() const { return values; }

private:
  std::vector<std::string> values;
  std::optional<int64_t> least, most;
};

/// The axes of a mesh constraint, in mesh order.
struct MeshChoices {
  std::vector<std::pair<std::string, Choices>> axes;
  const Choices *find(llvm::StringRef axis) const;
};

/// Reads a mesh whose sizes are choices: "pp=*,dp=2|4,tp=<=8". The axes are pp, dp and tp; an axis
/// that is left out may have any size.
llvm::Expected<MeshChoices> parseMeshChoices(llvm::StringRef text);

/// Constraints by flag of ps-compile: "zero", "recompute", ...
struct Constraints {
  MeshChoices mesh;
  std::map<std::string, Choices> flags;
  /// Returns the choices of a flag; all values for a flag without constraint.
  const Choices &get(llvm::StringRef flag) const;
};

} // namespace parashard::planner

#endif
