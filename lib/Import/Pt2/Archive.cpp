// Reads the directory of a zip archive (PKWARE's specification APPNOTE 6.3.9, with zip64), since
// libzip does not expose the offsets of entries. libzip inflates compressed entries.
#include "lib/Import/Pt2/Archive.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CRC.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"
#include <zip.h>

using namespace llvm;
using namespace llvm::support::endian;

namespace parashard::import {
namespace {

constexpr uint32_t kEndOfDirectory = 0x06054b50;
constexpr uint32_t kEndOfDirectory64 = 0x06064b50;
constexpr uint32_t kLocator64 = 0x07064b50;
constexpr uint32_t kDirectoryHeader = 0x02014b50;
constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint16_t kExtra64 = 0x0001;
constexpr unsigned kMethodStored = 0;
/// Maximum ratio of the inflated size of an entry to its stored size. model.json has a ratio of 10
/// to 30; the maximum of deflate is 1032. Entries of up to `kAlwaysInflated` bytes may have any
/// ratio.
constexpr uint64_t kMaxInflation = 100;
constexpr uint64_t kAlwaysInflated = uint64_t(64) << 20;
constexpr size_t kPiece = size_t(1) << 20; ///< bytes inflated at once

/// Reads little-endian numbers. A number that is not entirely inside `data` reads as 0.
struct Bytes {
  StringRef data;
  bool has(uint64_t at, uint64_t n) const { return at <= data.size() && n <= data.size() - at; }
  uint16_t u16(uint64_t at) const { return has(at, 2) ? read16le(data.data() + at) : 0; }
  uint32_t u32(uint64_t at) const { return has(at, 4) ? read32le(data.data() + at) : 0; }
  uint64_t u64(uint64_t at) const { return has(at, 8) ? read64le(data.data() + at) : 0; }
};

struct Directory {
  uint64_t offset = 0;
  uint64_t count = 0;
};

/// Finds the central directory by its end record. Only a comment of less than 64 KiB may follow the
/// end record in the file.
std::optional<Directory> findDirectory(Bytes file) {
  if (file.data.size() < 22)
    return std::nullopt;
  uint64_t last = file.data.size() - 22;
  uint64_t first = last > 0xffff ? last - 0xffff : 0;
  for (uint64_t at = last + 1; at-- > first;) {
    if (file.u32(at) != kEndOfDirectory)
      continue;
    Directory directory{file.u32(at + 16), file.u16(at + 10)};
    if (at >= 20 && file.u32(at - 20) == kLocator64) {
      uint64_t end = file.u64(at - 20 + 8);
      if (file.u32(end) != kEndOfDirectory64)
        return std::nullopt;
      directory = {file.u64(end + 48), file.u64(end + 32)};
    }
    return directory;
  }
  return std::nullopt;
}

/// Appends the inflated bytes of `file` to `text`. Inflates in pieces, so that memory grows with
/// the data, not with the declared size. Returns false if the stream is damaged, or does not end
/// after `size` bytes.
bool inflate(zip_file_t *file, uint64_t size, std::string &text) {
  std::vector<char> piece(kPiece);
  while (text.size() <= size) {
    zip_int64_t got = zip_fread(file, piece.data(), piece.size());
    if (got < 0)
      return false;
    if (got == 0)
      return text.size() == size;
    text.append(piece.data(), size_t(got));
  }
  return false;
}

/// Replaces each argument that does not fit 32 bits, and is thus 0xffffffff, by a value of the
/// zip64 extra field. The field has the replaced values in the order of the arguments.
void readExtra64(Bytes extra, uint64_t &size, uint64_t &storedSize, uint64_t &header) {
  for (uint64_t at = 0; at + 4 <= extra.data.size(); at += 4 + extra.u16(at + 2)) {
    if (extra.u16(at) != kExtra64)
      continue;
    uint64_t field = at + 4;
    for (uint64_t *value : {&size, &storedSize, &header})
      if (*value == 0xffffffff) {
        *value = extra.u64(field);
        field += 8;
      }
    return;
  }
}

/// Returns the maximum inflated size of an entry.
uint64_t getInflationLimit(uint64_t storedSize) {
  return std::max(kAlwaysInflated, SaturatingMultiply(storedSize, kMaxInflation));
}

bool leavesArchive(StringRef name) {
  if (name.starts_with("/") || name.contains('\\') || name.contains('\0') ||
      (name.size() > 1 && name[1] == ':'))
    return true;
  SmallVector<StringRef> parts;
  name.split(parts, '/');
  return is_contained(parts, "..");
}

} // namespace

Error Archive::error(const Twine &message) const {
  return createStringError("'" + path + "' " + message);
}

Expected<Archive> Archive::open(StringRef path) {
  Archive archive;
  archive.path = path.str();
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return archive.error("cannot be read: " + buffer.getError().message());
  archive.buffer = std::move(*buffer);
  if (Error e = archive.readDirectory())
    return std::move(e);
  archive.removeTopFolder();
  for (auto [i, entry] : enumerate(archive.entries))
    if (!archive.byName.try_emplace(entry.name, i).second)
      return archive.error("has two entries '" + entry.name +
                           "'; names must be unique, export it again");
  return std::move(archive);
}

Error Archive::readDirectory() {
  Bytes file{buffer->getBuffer()};
  std::optional<Directory> directory = findDirectory(file);
  if (!directory) {
    if (file.u32(0) == kLocalHeader)
      return error(
          "is a truncated zip archive: it has no directory at its end; copy or export it again");
    return error("is not a zip archive; expected a file written by torch.export.save");
  }
  this->directory = directory->offset;
  uint64_t at = directory->offset;
  for (uint64_t i = 0; i < directory->count; ++i) {
    if (!file.has(at, 46) || file.u32(at) != kDirectoryHeader)
      return error("has a damaged directory (entry " + Twine(i) + " of " + Twine(directory->count) +
                   "); copy or export it again");
    uint64_t nameSize = file.u16(at + 28), extraSize = file.u16(at + 30);
    uint64_t commentSize = file.u16(at + 32);
    if (!file.has(at + 46, nameSize + extraSize + commentSize))
      return error("has a damaged directory; copy or export it again");
    uint64_t storedSize = file.u32(at + 20), size = file.u32(at + 24), header = file.u32(at + 42);
    readExtra64({file.data.substr(at + 46 + nameSize, extraSize)}, size, storedSize, header);
    ArchiveEntry entry;
    entry.storedSize = storedSize;
    entry.size = size;
    entry.crc = file.u32(at + 16);
    if (Error e = addEntry(file.data.substr(at + 46, nameSize), header, file.u16(at + 10), entry))
      return e;
    at += 46 + nameSize + extraSize + commentSize;
  }
  return checkOverlaps();
}

/// Fails if entries overlap, so that all entries together are not larger than the file.
Error Archive::checkOverlaps() const {
  std::vector<const ArchiveEntry *> sorted;
  for (const ArchiveEntry &entry : entries)
    if (entry.storedSize)
      sorted.push_back(&entry);
  llvm::sort(sorted, [](auto *a, auto *b) { return a->offset < b->offset; });
  for (size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i]->offset - sorted[i - 1]->offset < sorted[i - 1]->storedSize)
      return error("has the entries '" + sorted[i - 1]->name + "' and '" + sorted[i]->name +
                   "' at the same offset; copy or export it again");
  return Error::success();
}

Error Archive::addEntry(StringRef name, uint64_t header, unsigned method, ArchiveEntry entry) {
  if (leavesArchive(name))
    return error("has the entry '" + name + "', which leaves the archive; refusing to read it");
  Bytes file{buffer->getBuffer()};
  if (!file.has(header, 30) || file.u32(header) != kLocalHeader)
    return error("has no data for its entry '" + name + "'; copy or export it again");
  entry.offset = header + 30 + file.u16(header + 26) + file.u16(header + 28);
  if (!file.has(entry.offset, entry.storedSize))
    return error("is truncated inside its entry '" + name + "'; copy or export it again");
  entry.stored = method == kMethodStored;
  if (entry.stored && entry.size != entry.storedSize)
    return error("has the uncompressed entry '" + name + "' with " + Twine(entry.storedSize) +
                 " stored bytes, but the size " + Twine(entry.size) + "; copy or export it again");
  if (uint64_t limit = getInflationLimit(entry.storedSize); !entry.stored && entry.size > limit)
    return error("has the entry '" + name + "', which would inflate from " +
                 Twine(entry.storedSize) + " to " + Twine(entry.size) + " bytes; at most " +
                 Twine(limit) + " are allowed; export it again, or store it uncompressed (zip -0)");
  entry.name = name.str();
  if (!name.ends_with("/"))
    entries.push_back(std::move(entry));
  return Error::success();
}

void Archive::removeTopFolder() {
  // torch.export.save writes an entry "NAME/archive_format", where NAME is the top folder. Other
  // archives may have no top folder.
  for (const ArchiveEntry &entry : entries) {
    StringRef name = entry.name;
    if (name != "archive_format" && name != "models/model.json" &&
        (name.ends_with("/archive_format") || name.ends_with("/models/model.json")))
      topFolder = name.take_front(name.find('/') + 1).str();
  }
  if (topFolder.empty())
    return;
  for (ArchiveEntry &entry : entries)
    if (StringRef(entry.name).starts_with(topFolder))
      entry.name = entry.name.substr(topFolder.size());
}

const ArchiveEntry *Archive::find(StringRef name) const {
  auto it = byName.find(name);
  return it == byName.end() ? nullptr : &entries[it->second];
}

Expected<const ArchiveEntry *> Archive::findStored(StringRef name) const {
  const ArchiveEntry *entry = find(name);
  if (!entry)
    return error("has no entry '" + name + "'; the archive is incomplete, export the model again");
  if (!entry->stored)
    return error("has a compressed entry '" + name +
                 "'; weights are memory-mapped, so store it uncompressed (zip -0)");
  return entry;
}

Error Archive::checkSum(const ArchiveEntry &entry, StringRef bytes) const {
  if (crc32(arrayRefFromStringRef(bytes)) == entry.crc)
    return Error::success();
  return error("has a damaged entry '" + entry.name +
               "': its bytes do not match the CRC in the archive; copy or export it again");
}

Expected<StringRef> Archive::readBytes(const ArchiveEntry &entry) const {
  StringRef bytes = buffer->getBuffer().substr(entry.offset, entry.storedSize);
  if (Error e = checkSum(entry, bytes))
    return std::move(e);
  return bytes;
}

Expected<std::string> Archive::readText(const ArchiveEntry &entry) const {
  if (entry.stored) {
    Expected<StringRef> bytes = readBytes(entry);
    if (!bytes)
      return bytes.takeError();
    return bytes->str();
  }
  int code = 0;
  zip_t *zip = zip_open(path.c_str(), ZIP_RDONLY, &code);
  if (!zip)
    return error("cannot be opened by libzip (code " + Twine(code) + ")");
  scope_exit close([&] { zip_discard(zip); });
  zip_file_t *file = zip_fopen(zip, (topFolder + entry.name).c_str(), 0);
  if (!file)
    return error("has an entry '" + entry.name + "' that cannot be read: " + zip_strerror(zip));
  scope_exit closeFile([&] { zip_fclose(file); });
  std::string text;
  if (!inflate(file, entry.size, text))
    return error("has a damaged entry '" + entry.name + "': the directory states " +
                 Twine(entry.size) + " bytes, but the entry inflates to " +
                 (text.size() > entry.size ? Twine("more") : Twine(text.size())) +
                 "; copy or export it again");
  if (Error e = checkSum(entry, text))
    return std::move(e);
  return text;
}

} // namespace parashard::import
