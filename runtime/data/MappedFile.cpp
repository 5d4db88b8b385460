// Maps whole files with mmap.
#include "runtime/data/MappedFile.h"
#include "runtime/core/Status.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace psrt {

/// Opens a regular file. On failure, returns -1 and sets `reason`.
static int openRegular(const std::string &path, struct stat &info, const char *&reason) {
  // With O_NONBLOCK, opening a FIFO without a writer does not block.
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0 || fstat(file, &info) != 0) {
    reason = std::strerror(errno);
  } else if (!S_ISREG(info.st_mode)) {
    reason = "not a regular file";
  } else {
    return file;
  }
  if (file >= 0)
    close(file);
  return -1;
}

void checkReadable(const char *flag, const std::string &path) {
  struct stat info;
  const char *reason = "";
  int file = openRegular(path, info, reason);
  if (file < 0)
    PSRT_FAIL(BadArgument, "%s: cannot read \"%s\": %s", flag, path.c_str(), reason);
  close(file);
}

MappedFile::MappedFile(const std::string &path) : name(path) {
  struct stat info;
  const char *reason = "";
  int file = openRegular(path, info, reason);
  if (file < 0)
    PSRT_FAIL(BadInput, "cannot read \"%s\": %s", path.c_str(), reason);
  length = size_t(info.st_size);
  if (length > 0) {
    void *memory = mmap(nullptr, length, PROT_READ, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) {
      close(file);
      PSRT_FAIL(BadInput, "cannot map \"%s\": %s", path.c_str(), std::strerror(errno));
    }
    bytes = static_cast<const char *>(memory);
  }
  close(file);
}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : name(std::move(other.name)), bytes(std::exchange(other.bytes, nullptr)),
      length(std::exchange(other.length, 0)) {}

MappedFile::~MappedFile() {
  if (bytes)
    munmap(const_cast<char *>(bytes), length);
}

} // namespace psrt
