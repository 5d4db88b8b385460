// Declares a reader of the zip archive that `torch.export.save` writes: its entries, and the
// offsets of their bytes.
#ifndef PARASHARD_LIB_IMPORT_PT2_ARCHIVE_H
#define PARASHARD_LIB_IMPORT_PT2_ARCHIVE_H

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include <memory>
#include <string>
#include <vector>

namespace parashard::import {

/// One entry of the archive. Offset and sizes are in bytes.
struct ArchiveEntry {
  std::string name;        ///< without the archive's top folder
  uint64_t offset = 0;     ///< file offset of the first data byte
  uint64_t storedSize = 0; ///< size in the file
  uint64_t size = 0;       ///< uncompressed size
  bool stored = true;      ///< the entry is not compressed
  uint32_t crc = 0;        ///< CRC-32 of the uncompressed bytes, as in the directory
};

/// An open archive. The file is memory-mapped. Uncompressed entries are views of the mapping.
class Archive {
public:
  /// Opens an archive. Fails for a file that is not a zip archive, is truncated, or has entries
  /// whose names leave the archive ("../x").
  static llvm::Expected<Archive> open(llvm::StringRef path);

  llvm::StringRef getPath() const { return path; }
  const std::vector<ArchiveEntry> &getEntries() const { return entries; }
  /// Returns the entry `name` (without the top folder), or null.
  const ArchiveEntry *find(llvm::StringRef name) const;
  /// Returns the entry like `find`. Fails if the entry is missing or compressed.
  llvm::Expected<const ArchiveEntry *> findStored(llvm::StringRef name) const;
  /// Returns the bytes of an uncompressed entry. Fails if the bytes do not match the CRC.
  llvm::Expected<llvm::StringRef> readBytes(const ArchiveEntry &entry) const;
  /// Returns the uncompressed text of an entry. Fails if the text does not match the CRC.
  llvm::Expected<std::string> readText(const ArchiveEntry &entry) const;
  /// Returns the bytes from the archive's directory to the end of the file. These bytes contain the
  /// name, size and CRC of each entry, so they identify an archive without a read of its weights.
  llvm::StringRef getDirectoryBytes() const { return buffer->getBuffer().substr(directory); }
  uint64_t getFileSize() const { return buffer->getBufferSize(); }

private:
  llvm::Error readDirectory();
  /// Adds an entry. `entry` has the sizes and the CRC that the directory records. `header` is the
  /// offset of the local header.
  llvm::Error addEntry(llvm::StringRef name, uint64_t header, unsigned method, ArchiveEntry entry);
  llvm::Error checkSum(const ArchiveEntry &entry, llvm::StringRef bytes) const;
  llvm::Error checkOverlaps() const;
  void removeTopFolder();
  llvm::Error error(const llvm::Twine &message) const;

  std::string path;
  std::string topFolder;  ///< with its '/', or empty
  uint64_t directory = 0; ///< offset of the directory
  std::unique_ptr<llvm::MemoryBuffer> buffer;
  std::vector<ArchiveEntry> entries;
  llvm::StringMap<unsigned> byName;
};

} // namespace parashard::import

#endif
