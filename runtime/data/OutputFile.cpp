// Writing under a temporary name, then renaming.
#include "runtime/data/OutputFile.h"
#include "runtime/core/Status.h"
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace psrt {

static std::string temporaryName(const std::string &path) {
  return path + format(".tmp%d", int(getpid()));
}

/// The file that a name stands for: links are followed, also one to a file that is not there yet.
/// What is there and no regular file is refused: a rename would put a file in place of a device.
static std::string findTarget(const std::string &path) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status))
    PSRT_FAIL(BadArgument, "cannot write \"%s\": it is %s; name a file", path.c_str(),
              fs::is_directory(status) ? "a folder" : "a device or pipe, no regular file");
  fs::path target = path;
  for (int links = 0; links < 40 && fs::is_symlink(fs::symlink_status(target, error)); ++links) {
    fs::path next = fs::read_symlink(target, error);
    if (error)
      break;
    target = target.parent_path() / next; // an absolute one replaces what stands before it
  }
  return target.string();
}

OutputFile::OutputFile(const std::string &path)
    : path(path), target(findTarget(path)), temporary(temporaryName(target)) {
  file = std::fopen(temporary.c_str(), "wb");
  if (!file)
    fail();
}

OutputFile::~OutputFile() {
  if (file)
    std::fclose(file);
  if (!committed)
    unlink(temporary.c_str());
}

void OutputFile::write(const void *data, size_t bytes) {
  if (bytes && std::fwrite(data, 1, bytes, file) != bytes)
    fail();
}

void OutputFile::finish() {
  bool good = std::fflush(file) == 0 && fsync(fileno(file)) == 0;
  int why = errno;
  if (std::fclose(std::exchange(file, nullptr)) == 0)
    errno = why;
  else
    good = false;
  if (!good)
    fail();
}

void OutputFile::commit() {
  if (file)
    finish();
  if (std::rename(temporary.c_str(), target.c_str()) != 0)
    fail();
  committed = true;
}

void OutputFile::fail() const {
  PSRT_FAIL(BadInput, "cannot write \"%s\": %s", path.c_str(), std::strerror(errno));
}

static void tryBeside(const std::string &path, const std::string &target) {
  std::string probe = temporaryName(target);
  std::FILE *file = std::fopen(probe.c_str(), "wb");
  if (!file)
    PSRT_FAIL(BadInput, "cannot write \"%s\": %s", path.c_str(), std::strerror(errno));
  std::fclose(file);
  unlink(probe.c_str());
}

void checkReplaceable(const std::string &path) { tryBeside(path, findTarget(path)); }

void checkWritable(const std::string &path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode) || S_ISDIR(info.st_mode))
    return checkReplaceable(path);
  if (access(path.c_str(), W_OK) != 0)
    PSRT_FAIL(BadInput, "cannot write \"%s\": %s", path.c_str(), std::strerror(errno));
}

} // namespace psrt
