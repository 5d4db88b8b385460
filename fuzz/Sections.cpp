// Converts between texts, sections and zip archives.
#include "fuzz/Sections.h"
#include <cstdint>

namespace fuzz {

static const std::string kMark = "=== ";

Sections splitSections(const std::string &text) {
  Sections sections;
  size_t at = text.starts_with(kMark) ? 0 : std::string::npos;
  while (at != std::string::npos) {
    size_t line = text.find('\n', at);
    size_t next = text.find("\n" + kMark, at);
    if (line == std::string::npos)
      break;
    std::string content =
        line == next ? ""
                     : text.substr(line + 1, next == std::string::npos ? next : next - line - 1);
    sections.emplace_back(text.substr(at + kMark.size(), line - at - kMark.size()), content);
    at = next == std::string::npos ? next : next + 1;
  }
  return sections;
}

std::string joinSections(const Sections &sections) {
  std::string text;
  for (const auto &[name, content] : sections)
    text += (text.empty() ? "" : "\n") + kMark + name + "\n" + content;
  return text;
}

static void append(std::string &bytes, uint64_t value, unsigned width) {
  for (unsigned i = 0; i < width; ++i)
    bytes.push_back(char(value >> 8 * i));
}

/// Returns the CRC-32 of a file's content, which readers of archives check.
static uint32_t computeCrc(const std::string &content) {
  uint32_t crc = ~0u;
  for (unsigned char byte : content) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit)
      crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

/// Appends the fields shared by a local header and a directory entry.
static void appendEntry(std::string &bytes, const std::string &name, const std::string &content) {
  append(bytes, 20, 2); // version
  append(bytes, 0, 8);  // flags, method: stored, time and date
  append(bytes, computeCrc(content), 4);
  append(bytes, content.size(), 4);
  append(bytes, content.size(), 4);
  append(bytes, name.size(), 2);
  append(bytes, 0, 2); // extra
}

std::string makeArchive(const Sections &sections) {
  std::string archive, directory;
  for (const auto &[name, content] : sections) {
    append(directory, 0x02014b50, 4);
    append(directory, 20, 2);
    appendEntry(directory, name, content);
    append(directory, 0, 10); // comment, disk, attributes
    append(directory, archive.size(), 4);
    directory += name;
    append(archive, 0x04034b50, 4);
    appendEntry(archive, name, content);
    archive += name + content;
  }
  size_t start = archive.size();
  archive += directory;
  append(archive, 0x06054b50, 4);
  append(archive, 0, 4);
  append(archive, sections.size(), 2);
  append(archive, sections.size(), 2);
  append(archive, directory.size(), 4);
  append(archive, start, 4);
  append(archive, 0, 2);
  return archive;
}

} // namespace fuzz
