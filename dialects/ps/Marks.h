// Declares the names of the discardable attributes of the IR ("marks"), and the table that
// describes them.
#ifndef PARASHARD_DIALECTS_PS_MARKS_H
#define PARASHARD_DIALECTS_PS_MARKS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace parashard::ps {
namespace marks {
#define PS_MARK(NAME, TEXT, CHECK, ON, TYPE, SET_BY)                                               \
  inline constexpr llvm::StringLiteral k##NAME##Mark = TEXT;
#include "dialects/ps/Marks.def"
} // namespace marks

using namespace marks;

enum class MarkCheck {
  Number, ///< an i64 from 0 to 2^40
  Other,  ///< no common check; a pass that reads the mark may check its value
};

/// One line of Marks.def.
struct MarkInfo {
  llvm::StringLiteral name;
  MarkCheck check;
  llvm::StringLiteral on, type, setBy;
};

/// Returns the descriptions of all marks, in the order of Marks.def.
llvm::ArrayRef<MarkInfo> getMarks();
/// Returns the description of the mark with this name, or null for other attributes.
const MarkInfo *findMark(llvm::StringRef name);

} // namespace parashard::ps

namespace parashard {
using namespace ps::marks;
} // namespace parashard

#endif
