// Archives as text: files under lines of their names, which a fuzzer changes without breaking a zip
// archive.
#ifndef PARASHARD_FUZZ_SECTIONS_H
#define PARASHARD_FUZZ_SECTIONS_H

#include <string>
#include <utility>
#include <vector>

namespace fuzz {

/// Name and content of each file.
using Sections = std::vector<std::pair<std::string, std::string>>;

/// Of a text of "=== NAME" lines, each before its file.
Sections splitSections(const std::string &text);
std::string joinSections(const Sections &sections);

/// A zip archive of them, not compressed.
std::string makeArchive(const Sections &sections);

} // namespace fuzz

#endif
