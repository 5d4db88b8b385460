// Writes files atomically, and keeps temporary folders private.
#include "lib/Support/Files.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <poll.h>
#include <random>
#include <sys/syscall.h>
#include <unistd.h>

namespace parashard::support {
namespace fs = llvm::sys::fs;

static llvm::Error fail(llvm::StringRef path, std::error_code code) {
  return llvm::createStringError(code, "cannot write '%s': %s", path.str().c_str(),
                                 code.message().c_str());
}

/// Returns an unpredictable path in the folder of `target`. The file name has at most 255 bytes.
static std::string drawTemporaryName(llvm::StringRef target) {
  constexpr size_t kMaxLength = 230;
  std::random_device random;
  uint64_t number = uint64_t(random()) << 32 | random();
  llvm::SmallString<128> result(llvm::sys::path::parent_path(target));
  llvm::sys::path::append(result, llvm::sys::path::filename(target).take_front(kMaxLength) + "." +
                                      llvm::utohexstr(number, /*LowerCase=*/true, /*Width=*/16) +
                                      ".tmp");
  return std::string(result);
}

/// Creates and opens a new file in the folder of `target`.
static std::error_code createNextTo(llvm::StringRef target, unsigned mode, int &descriptor,
                                    std::string &temporary) {
  std::error_code code;
  for (int attempt = 0; attempt < 100; ++attempt) {
    temporary = drawTemporaryName(target);
    code = fs::openFileForWrite(temporary, descriptor, fs::CD_CreateNew, fs::OF_None, mode);
    if (code != std::errc::file_exists)
      return code;
  }
  return code;
}

std::optional<std::string> findCacheFolder() {
  llvm::SmallString<128> path;
  if (const char *caches = std::getenv("XDG_CACHE_HOME"); caches && *caches)
    path = caches;
  else if (llvm::sys::path::home_directory(path))
    llvm::sys::path::append(path, ".cache");
  else
    return std::nullopt;
  llvm::sys::path::append(path, "parashard");
  return path.str().str();
}

llvm::Error writeAtomically(llvm::StringRef path,
                            llvm::function_ref<llvm::Error(llvm::raw_ostream &)> write,
                            unsigned mode) {
  llvm::SmallString<128> target(path);
  if (fs::is_symlink_file(path))
    if (std::error_code code = fs::real_path(path, target))
      return fail(path, code);
  if (fs::exists(target) && !fs::is_regular_file(target))
    return llvm::createStringError("cannot write '" + path + "': not a regular file");
  int descriptor = -1;
  std::string temporary;
  if (std::error_code code = createNextTo(target, mode, descriptor, temporary))
    return fail(path, code);
  llvm::sys::RemoveFileOnSignal(temporary);
  llvm::raw_fd_ostream os(descriptor, /*shouldClose=*/true);
  llvm::Error error = write(os);
  os.close();
  if (os.has_error() && !error)
    error = fail(path, os.error());
  os.clear_error();
  if (!error)
    if (std::error_code code = fs::rename(temporary, target))
      error = fail(path, code);
  if (error)
    (void)fs::remove(temporary);
  llvm::sys::DontRemoveFileOnSignal(temporary);
  return error;
}

llvm::Error writeAtomically(llvm::StringRef path,
                            llvm::function_ref<void(llvm::raw_ostream &)> write) {
  constexpr unsigned kReadWrite = 0666;
  return writeAtomically(
      path,
      [&](llvm::raw_ostream &os) {
        write(os);
        return llvm::Error::success();
      },
      kReadWrite);
}

//===--- Folders to remove on a signal ------------------------------------===//

/// Paths of existing folders, one per slot. A signal handler may read them at any moment.
static std::atomic<char *> signalFolders[8];
/// Whether a signal handler has begun to remove the folders. Other threads still run meanwhile.
static std::atomic<bool> isEnding;
/// Number of threads that are creating a folder, which is not in `signalFolders` yet.
static std::atomic<int> creating;

/// Blocks the signals whose handler removes folders, in this thread, as long as the object exists.
class SignalBlock {
public:
  SignalBlock() {
    sigset_t blocked;
    sigemptyset(&blocked);
    for (int signal : {SIGINT, SIGTERM, SIGHUP})
      sigaddset(&blocked, signal);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
  }
  ~SignalBlock() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  SignalBlock(const SignalBlock &) = delete;

private:
  sigset_t before;
};

/// Removes the files in a folder, using only calls that are safe in a signal handler.
static void emptyFolderInHandler(const char *path) {
  struct Entry { // layout of the records of getdents64
    uint64_t inode, offset;
    uint16_t size;
    uint8_t type;
    char name[];
  };
  alignas(Entry) char buffer[4096];
  int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  long bytes = 0;
  while (folder >= 0 && (bytes = syscall(SYS_getdents64, folder, buffer, sizeof(buffer))) > 0)
    for (long at = 0; at < bytes;) {
      auto *entry = reinterpret_cast<Entry *>(buffer + at);
      unlinkat(folder, entry->name, 0); // fails on "." and ".."
      at += entry->size;
    }
  if (folder >= 0)
    close(folder);
}

static void removeFoldersOnSignal(int signal) {
  isEnding = true;
  for (int tries = 0; tries < 100 && creating > 0; ++tries)
    poll(nullptr, 0, 2);             // milliseconds
  llvm::sys::RunInterruptHandlers(); // removes the files registered with RemoveFileOnSignal
  for (std::atomic<char *> &folder : signalFolders)
    if (const char *path = folder.exchange(nullptr))
      for (int tries = 0; tries < 100 && rmdir(path) != 0; ++tries) {
        emptyFolderInHandler(path); // the linker may still run and add its own files
        if (tries > 2)
          poll(nullptr, 0, 2); // milliseconds
      }
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void PrivateFolder::removeOnSignal() {
  static std::once_flag isInstalled;
  std::call_once(isInstalled, [] {
    for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction action{}, before;
      action.sa_handler = removeFoldersOnSignal;
      if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(signal, &action, nullptr);
    }
  });
  char *copy = strdup(path.c_str()); // freed by the destructor
  for (size_t i = 0; slot < 0 && i < std::size(signalFolders); ++i) {
    char *expected = nullptr;
    if (signalFolders[i].compare_exchange_strong(expected, copy))
      slot = int(i);
  }
  if (isEnding) { // the handler may have read the slots already
    rmdir(path.c_str());
    --creating;
    while (true)
      pause();
  }
  if (slot < 0) // all slots are in use: this folder survives a signal
    std::free(copy);
}

//===----------------------------------------------------------------------===//

llvm::Expected<PrivateFolder> PrivateFolder::create() {
  llvm::SmallString<128> pattern;
  llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, pattern);
  llvm::sys::path::append(pattern, "parashard-XXXXXX");
  PrivateFolder folder;
  folder.path = pattern.str().str();
  SignalBlock block;
  ++creating;
  bool isCreated = mkdtemp(folder.path.data()); // mode 0700
  int reason = errno;
  if (isCreated)
    folder.removeOnSignal();
  --creating;
  if (isCreated)
    return std::move(folder);
  folder.path.clear();
  std::error_code code(reason, std::generic_category());
  std::string parent = llvm::sys::path::parent_path(pattern).str();
  return llvm::createStringError(code, "cannot create a temporary folder in '%s': %s",
                                 parent.c_str(), code.message().c_str());
}

PrivateFolder::PrivateFolder(PrivateFolder &&other) noexcept
    : path(std::exchange(other.path, "")), files(std::exchange(other.files, {})),
      slot(std::exchange(other.slot, -1)) {}

std::string PrivateFolder::name(llvm::StringRef file) {
  llvm::SmallString<128> result(path);
  llvm::sys::path::append(result, file);
  llvm::sys::RemoveFileOnSignal(result);
  files.push_back(result.str().str());
  return files.back();
}

PrivateFolder::~PrivateFolder() {
  for (const std::string &file : files) {
    (void)fs::remove(file);
    llvm::sys::DontRemoveFileOnSignal(file);
  }
  if (!path.empty())
    (void)fs::remove(path);
  if (slot >= 0)
    std::free(signalFolders[slot].exchange(nullptr));
}

} // namespace parashard::support
