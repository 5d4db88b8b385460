// Writes files under a temporary name and then renames them.
#include "runtime/data/OutputFile.h"
#include "runtime/core/NewFile.h"
#include "runtime/core/Status.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace psrt {

[[noreturn]] static void failToWrite(const std::string &path) {
  PSRT_FAIL(BadInput, "cannot write \"%s\": %s", path.c_str(), std::strerror(errno));
}

/// Fails because an output path that the user gave cannot be opened. errno is the reason.
[[noreturn]] static void refusePath(const std::string &path) {
  int reason = errno;
  std::string folder = std::filesystem::path(path).parent_path();
  if (reason == ENOENT && !folder.empty() && !std::filesystem::exists(folder))
    PSRT_FAIL(BadArgument, "cannot write \"%s\": folder \"%s\" does not exist; create it first",
              path.c_str(), folder.c_str());
  fail(findPathFault(reason), __FILE__, __LINE__,
       format("cannot write \"%s\": %s", path.c_str(), std::strerror(reason)));
}

/// Follows symbolic links, including dangling links, and returns the path of the file. Fails if the
/// file exists but is not regular, since a rename would replace a device by a file.
static std::string findTarget(const std::string &path) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status))
    PSRT_FAIL(BadArgument, "cannot write \"%s\": it is %s; give a file", path.c_str(),
              fs::is_directory(status) ? "a folder" : "a device or pipe");
  fs::path target = path;
  for (int links = 0; links < 40 && fs::is_symlink(fs::symlink_status(target, error)); ++links) {
    fs::path next = fs::read_symlink(target, error);
    if (error)
      break;
    target = target.parent_path() / next; // an absolute path replaces the prefix
  }
  return target.string();
}

/// Returns the descriptor of stdout or stderr if that stream goes to the regular file at `path`,
/// else -1.
static int findOwnStream(const std::string &path) {
  struct stat file, stream;
  if (stat(path.c_str(), &file) != 0 || !S_ISREG(file.st_mode))
    return -1;
  for (int descriptor : {STDOUT_FILENO, STDERR_FILENO})
    if (fstat(descriptor, &stream) == 0 && stream.st_dev == file.st_dev &&
        stream.st_ino == file.st_ino)
      return descriptor;
  return -1;
}

bool isOwnStream(const std::string &path) { return findOwnStream(path) >= 0; }

/// Returns whether a file must be written in place: a device, a pipe, or the file of stdout or
/// stderr.
static bool isInPlace(const std::string &path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || S_ISDIR(info.st_mode))
    return false;
  return !S_ISREG(info.st_mode) || isOwnStream(path);
}

/// Opens a device or FIFO for writing, or duplicates the descriptor of stdout or stderr. Two
/// separately opened descriptors of one file have separate offsets and would overwrite each other's
/// data. Fails for a FIFO without a reader. Opening such a FIFO blocks, and SIGTERM could not
/// interrupt the call.
static int openInPlace(const std::string &path) {
  if (int stream = findOwnStream(path); stream >= 0)
    return fcntl(stream, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  int descriptor = open(path.c_str(), O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0 && errno == ENXIO)
    PSRT_FAIL(BadInput, "cannot write \"%s\": this FIFO has no reader; start its reader first",
              path.c_str());
  if (descriptor >= 0)
    fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
  return descriptor;
}

/// Fails while another run has a published file open at `target`. Renaming over it would lose the
/// data that the other run still appends.
static void checkFree(const std::string &target) {
  int descriptor = open(target.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (descriptor < 0)
    return;
  bool isHeld = flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(descriptor);
  if (isHeld)
    PSRT_FAIL(BadArgument,
              "cannot write \"%s\": another run is writing it; give another file, or stop that run",
              target.c_str());
}

OutputFile::OutputFile(const std::string &path, Takes takes) : path(path) {
  int descriptor = -1;
  if (takes == Takes::Devices && isInPlace(path)) {
    descriptor = openInPlace(path);
  } else {
    target = findTarget(path);
    NewFile created = createBeside(target);
    descriptor = created.descriptor;
    temporary = std::move(created.path);
    if (descriptor >= 0)
      (void)flock(descriptor, LOCK_EX | LOCK_NB); // not supported by some file systems
  }
  if (descriptor < 0)
    fail();
  file = fdopen(descriptor, "wb");
  if (!file) {
    close(descriptor);
    fail();
  }
}

OutputFile::~OutputFile() {
  if (file)
    std::fclose(file);
  if (!committed && !temporary.empty())
    unlink(temporary.c_str());
}

void OutputFile::write(const void *data, size_t bytes) {
  if (bytes && std::fwrite(data, 1, bytes, file) != bytes)
    fail();
}

void OutputFile::flush() {
  if (std::fflush(file) != 0)
    fail();
}

void OutputFile::sync() {
  flush();
  bool isSynced = fsync(fileno(file)) == 0 || errno == EINVAL || errno == EROFS;
  if (!isSynced) // devices and pipes cannot be synced
    fail();
}

void OutputFile::finish() {
  sync();
  if (std::fclose(std::exchange(file, nullptr)) != 0)
    fail();
}

void OutputFile::rename() {
  if (temporary.empty())
    return;
  if (std::rename(temporary.c_str(), target.c_str()) != 0)
    fail();
  committed = true;
  syncFolderOf(target);
}

void OutputFile::commit() {
  if (file)
    finish();
  rename();
}

void OutputFile::retract() {
  if (temporary.empty())
    return;
  if (unlink(target.c_str()) != 0 && errno != ENOENT)
    fail();
  syncFolderOf(target);
}

void OutputFile::publish() {
  sync();
  if (!temporary.empty())
    checkFree(target);
  rename();
}

void OutputFile::fail() const { failToWrite(path); }

void checkReplaceable(const std::string &path) {
  NewFile probe = createBeside(findTarget(path));
  if (probe.descriptor < 0)
    refusePath(path);
  close(probe.descriptor);
  unlink(probe.path.c_str());
}

void checkWritable(const std::string &path) {
  if (!isInPlace(path)) {
    checkFree(path);
    return checkReplaceable(path);
  }
  if (access(path.c_str(), W_OK) != 0)
    refusePath(path);
}

} // namespace psrt
