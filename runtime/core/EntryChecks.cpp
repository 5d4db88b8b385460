// Computes CRC-32 eight bytes at a time and checks archive entries.
#include "runtime/core/EntryChecks.h"
#include "runtime/core/Status.h"
#include <array>
#include <cstring>

namespace psrt {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

/// Returns tables where tables[k][b] is the CRC of byte b followed by k zero bytes ("slicing by 8",
/// Kounavis and Berry 2005).
static constexpr Tables makeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit)
      value = value >> 1 ^ (value & 1 ? 0xEDB88320u : 0);
    tables[0][byte] = value;
  }
  for (size_t k = 1; k < tables.size(); ++k)
    for (size_t byte = 0; byte < 256; ++byte) {
      uint32_t before = tables[k - 1][byte];
      tables[k][byte] = before >> 8 ^ tables[0][before & 0xFF];
    }
  return tables;
}

uint32_t computeCrc32(const char *data, size_t bytes) {
  static constexpr Tables tables = makeTables();
  uint32_t crc = ~0u;
  for (; bytes >= 8; data += 8, bytes -= 8) {
    uint64_t word; // CRC-32 takes bytes in little-endian order
    std::memcpy(&word, data, 8);
    word ^= crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k)
      crc ^= tables[7 - k][word >> 8 * k & 0xFF];
  }
  for (; bytes > 0; ++data, --bytes)
    crc = crc >> 8 ^ tables[0][(crc ^ uint8_t(*data)) & 0xFF];
  return ~crc;
}

void EntryChecks::check(const Variable &variable, const std::string &path, const char *bytes) {
  const Variable::File &file = variable.file;
  Entry *entry = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex);
    std::unique_ptr<Entry> &known = entries[{path, file.offset}];
    if (!known)
      known = std::make_unique<Entry>();
    entry = known.get();
  }
  std::lock_guard<std::mutex> lock(entry->mutex);
  if (entry->isGood)
    return;
  if (computeCrc32(bytes, size_t(file.bytes)) != *file.crc)
    PSRT_FAIL(BadInput,
              "\"%s\" is damaged or has changed since it was compiled: the CRC-32 of \"%s\" (%s) "
              "does not match; restore the file, or export and compile the model again",
              path.c_str(), variable.displayName().c_str(), file.tensor.c_str());
  entry->isGood = true;
}

} // namespace psrt
