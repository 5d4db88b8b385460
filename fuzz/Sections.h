// Represents an archive as a text: the files of the archive, each after a line with its name. A
// fuzzer can change such a text without breaking the zip format.
#ifndef PARASHARD_FUZZ_SECTIONS_H
#define PARASHARD_FUZZ_SECTIONS_H

#include <string>
#include <utility>
#include <vector>

namespace fuzz {

/// The name and the content of each file of an archive.
using Sections = std::vector<std::pair<std::string, std::string>>;

/// Splits a text in which each file follows a line "=== NAME".
Sections splitSections(const std::string &text);
std::string joinSections(const Sections &sections);

/// Returns an uncompressed zip archive of the files.
std::string makeArchive(const Sections &sections);

} // namespace fuzz

#endif
