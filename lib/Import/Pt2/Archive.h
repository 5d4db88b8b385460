// Reads the zip archive that `torch.export.save` writes: which entries it has and where their bytes
// are.
#ifndef PARASHARD_LIB_IMPORT_PT2_ARCHIVE_H
#define PARASHARD_LIB_IMPORT_PT2_ARCHIVE_H

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include <memory>
#include <string>
#include <vector>

namespace parashard::import {

/// One entry: its place in the file, in bytes.
struct ArchiveEntry {
  std::string name;        ///< without the archive's top folder
  uint64_t offset = 0;     ///< of the first byte of its data
  uint64_t storedSize = 0; ///< as it lies in the file
  uint64_t size = 0;       ///< uncompressed
  bool stored = true;      ///< not compressed
  uint32_t crc = 0;        ///< CRC-32 of the uncompressed bytes, as the directory says
};

/// An open archive. The file is mapped, not read; entries that are not compressed are views of the
/// mapping.
class Archive {
public:
  /// Fails for files that are no zip archive, are truncated, or have entries that leave the
  /// archive.
  static llvm::Expected<Archive> open(llvm::StringRef path);

  llvm::StringRef getPath() const { return path; }
  const std::vector<ArchiveEntry> &getEntries() const { return entries; }
  /// Null when there is no such entry. `name` is without the top folder.
  const ArchiveEntry *find(llvm::StringRef name) const;
  /// Like `find`, and fails for entries that are missing or compressed.
  llvm::Expected<const ArchiveEntry *> findStored(llvm::StringRef name) const;
  /// The raw bytes of an entry that is not compressed. Fails where they do not have their CRC.
  llvm::Expected<llvm::StringRef> readBytes(const ArchiveEntry &entry) const;
  /// The uncompressed text of an entry. Fails likewise.
  llvm::Expected<std::string> readText(const ArchiveEntry &entry) const;
  /// The bytes from the directory of the archive to its end. They have name, size and CRC of each
  /// entry, so they tell one archive from another without its weights being read.
  llvm::StringRef getDirectoryBytes() const { return buffer->getBuffer().substr(directory); }
  uint64_t getFileSize() const { return buffer->getBufferSize(); }

private:
  llvm::Error readDirectory();
  /// Without a name and an offset, as the directory has them.
  llvm::Error addEntry(llvm::StringRef name, uint64_t header, unsigned method, ArchiveEntry entry);
  llvm::Error checkSum(const ArchiveEntry &entry, llvm::StringRef bytes) const;
  llvm::Error checkOverlaps() const;
  void removeTopFolder();
  llvm::Error error(const llvm::Twine &message) const;

  std::string path;
  std::string topFolder;  ///< with its '/', or empty
  uint64_t directory = 0; ///< its offset
  std::unique_ptr<llvm::MemoryBuffer> buffer;
  std::vector<ArchiveEntry> entries;
  llvm::StringMap<unsigned> byName;
};

} // namespace parashard::import

#endif
