// Keeps the compiler's results in files of the user's cache folder. Only the same build of the
// compiler reads these files again.
#include "lib/Support/FileCache.h"
#include "lib/Support/Files.h"
#include "parashard/Version.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"
#include <vector>

namespace fs = llvm::sys::fs;
using llvm::StringRef;

namespace parashard::support {

std::string hashText(StringRef text) {
  llvm::XXH128_hash_t hash = llvm::xxh3_128bits(llvm::arrayRefFromStringRef(text));
  return llvm::formatv("{0:x-16}{1:x-16}", hash.high64, hash.low64);
}

std::string hashFile(StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  return buffer ? hashText((*buffer)->getBuffer()) : "";
}

/// Returns a text that identifies this build of the compiler. The keys of all entries contain the
/// text, so a build does not read the entries of another build.
static std::string describeCompiler() {
  std::string path = fs::getMainExecutable(nullptr, reinterpret_cast<void *>(&describeCompiler));
  fs::file_status status;
  if (fs::status(path, status))
    return describeVersion();
  return llvm::formatv("{0}|{1}|{2}", describeVersion(), status.getSize(),
                       status.getLastModificationTime().time_since_epoch().count());
}

FileCache::FileCache(StringRef name, uint64_t maxBytes)
    : maxBytes(maxBytes), compiler(describeCompiler()) {
  std::optional<std::string> caches = findCacheFolder();
  if (!caches)
    return;
  llvm::SmallString<128> path(*caches);
  llvm::sys::path::append(path, name);
  if (!fs::create_directories(path))
    folder = path.str();
}

std::string FileCache::getPath(StringRef key) const {
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, hashText(compiler + "|" + key.str()));
  return path.str().str();
}

std::optional<std::string> FileCache::find(StringRef key) const {
  if (folder.empty())
    return std::nullopt;
  std::string path = getPath(key);
  auto file = fs::openNativeFileForRead(path);
  if (!file)
    return llvm::consumeError(file.takeError()), std::nullopt;
  // `prune` removes the files with the oldest times first.
  [[maybe_unused]] std::error_code notSet =
      fs::setLastAccessAndModificationTime(*file, std::chrono::system_clock::now());
  auto buffer = llvm::MemoryBuffer::getOpenFile(*file, path, /*FileSize=*/-1,
                                                /*RequiresNullTerminator=*/false);
  [[maybe_unused]] std::error_code notClosed = fs::closeFile(*file);
  if (!buffer)
    return std::nullopt;
  auto [hash, bytes] = (*buffer)->getBuffer().split('\n');
  return hash == hashText(bytes) ? std::optional(bytes.str()) : std::nullopt;
}

void FileCache::keep(StringRef key, StringRef bytes) {
  if (folder.empty())
    return;
  hasGrown = true;
  // Ignores errors such as a full disk, which only make the next compile slower.
  llvm::consumeError(writeAtomically(getPath(key), [&](llvm::raw_ostream &os) {
    os << hashText(bytes) << "\n" << bytes;
  }));
}

FileCache::~FileCache() {
  if (hasGrown && isTimeToPrune())
    prune();
}

/// Returns true at most once an hour per folder, because listing thousands of files takes long. The
/// modification time of the file `FOLDER.pruned` is the time of the last `true`.
bool FileCache::isTimeToPrune() const {
  constexpr std::chrono::hours kPause(1);
  std::string path = folder + ".pruned";
  auto now = std::chrono::system_clock::now();
  fs::file_status status;
  if (!fs::status(path, status) && now - status.getLastModificationTime() < kPause)
    return false;
  llvm::Error error = writeAtomically(path, [](llvm::raw_ostream &) {});
  // Returns false if the file cannot be written. Without the file, each call would return true.
  bool isWritten = !error;
  llvm::consumeError(std::move(error));
  return isWritten;
}

void FileCache::prune() const {
  struct Entry {
    llvm::sys::TimePoint<> used;
    uint64_t bytes;
    std::string path;
  };
  std::vector<Entry> entries;
  uint64_t total = 0;
  std::error_code error;
  for (fs::directory_iterator file(folder, error), end; !error && file != end;
       file.increment(error)) {
    auto status = file->status();
    if (!status || status->type() != fs::file_type::regular_file)
      continue;
    entries.push_back({status->getLastModificationTime(), status->getSize(), file->path()});
    total += status->getSize();
  }
  llvm::sort(entries, [](const Entry &a, const Entry &b) { return a.used < b.used; });
  for (const Entry &entry : entries) {
    if (total <= maxBytes)
      break;
    if (!fs::remove(entry.path))
      total -= entry.bytes;
  }
}

} // namespace parashard::support
