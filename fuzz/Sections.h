// Represents archives as text: files preceded by lines with their names. A fuzzer can change such a
// text without breaking the zip format.
#ifndef PARASHARD_FUZZ_SECTIONS_H
#define PARASHARD_FUZZ_SECTIONS_H

#include <string>
#include <utility>
#include <vector>

namespace fuzz {

/// Name and content of each file.
using Sections = std::vector<std::pair<std::string, std::string>>;

/// Splits a text in which each file follows a line "=== NAME".
Sections splitSections(const std::string &text);
std::string joinSections(const Sections &sections);

/// Returns an uncompressed zip archive of the files.
std::string makeArchive(const Sections &sections);

} // namespace fuzz

#endif
