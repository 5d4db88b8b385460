// Creates a fuzz target's folder, and checks that files outside of the folder are not opened.
#include "fuzz/Scratch.h"
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/syscall.h>
#include <unistd.h>

static bool isWatching = false;

namespace fuzz {
namespace {

struct Folder {
  std::string path;
  Folder() {
    std::error_code error;
    bool hasMemory = std::filesystem::is_directory("/dev/shm", error);
    path = (hasMemory ? "/dev/shm" : std::filesystem::temp_directory_path().string()) +
           "/parashard-fuzz-" + std::to_string(getpid()) + "/inside";
    std::filesystem::create_directories(path);
    // A file outside of the folder, which an input can name with "../outside".
    std::fclose(std::fopen((path + "/../outside").c_str(), "wb"));
  }
  ~Folder() {
    std::error_code error;
    std::filesystem::remove_all(std::filesystem::path(path).parent_path(), error);
  }
};

} // namespace

const std::string &getFolder() {
  static Folder folder;
  return folder.path;
}

std::string writeFile(const std::string &name, const void *data, size_t size) {
  std::string path = getFolder() + "/" + name;
  std::FILE *file = std::fopen(path.c_str(), "wb");
  if (!file || (size && std::fwrite(data, 1, size, file) != size) || std::fclose(file) != 0) {
    std::perror(path.c_str());
    std::abort();
  }
  return path;
}

StayInside::StayInside() { isWatching = true; }
StayInside::~StayInside() { isWatching = false; }

} // namespace fuzz

//===--- replacements of open(), which readers and libraries call --------===//

static int watchedOpen(const char *path, int flags, int mode) {
  if (isWatching) {
    isWatching = false;
    std::error_code error;
    std::string real = std::filesystem::weakly_canonical(path, error).string();
    if (!real.starts_with(fuzz::getFolder() + "/")) {
      std::fprintf(stderr, "error: opened \"%s\", which is outside of the input's folder\n", path);
      std::abort();
    }
    isWatching = true;
  }
  return int(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

extern "C" int open(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  int mode = va_arg(arguments, int);
  va_end(arguments);
  return watchedOpen(path, flags, mode);
}

extern "C" int open64(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  int mode = va_arg(arguments, int);
  va_end(arguments);
  return watchedOpen(path, flags, mode);
}
