// Formats status messages.
#include "runtime/core/Status.h"
#include "shared/PrintableText.h"
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace psrt {

std::string Status::text() const {
  std::string result;
  if (rank >= 0)
    result += format("rank %d", rank);
  if (step >= 0)
    result += format("%sstep %lld", rank >= 0 ? ", " : "", (long long)step);
  if (!result.empty())
    result += ": ";
  result += parashard::escapeControls(message, "\n  "); // may contain file names
  if (code == StatusCode::Failed && line > 0) {
    const char *name = std::strrchr(file, '/');
    result += format(" (%s:%d)", name ? name + 1 : file, line);
  }
  return result;
}

std::string format(const char *pattern, ...) {
  va_list args, again;
  va_start(args, pattern);
  va_copy(again, args);
  int size = std::vsnprintf(nullptr, 0, pattern, args);
  va_end(args);
  std::string result(size, '\0');
  std::vsnprintf(result.data(), size + 1, pattern, again);
  va_end(again);
  return result;
}

std::string describeBytes(double bytes) {
  const char *units[] = {"B", "KB", "MB", "GB", "TB"};
  int unit = 0;
  while (bytes >= 1000 && unit < 4)
    bytes /= 1000, ++unit;
  return format(unit ? "%.2f %s" : "%.0f %s", bytes, units[unit]);
}

StatusCode findPathFault(int reason) {
  for (int fault : {ENOENT, ENOTDIR, EISDIR, EACCES, EPERM, EROFS, EEXIST, ENAMETOOLONG, ELOOP})
    if (reason == fault)
      return StatusCode::BadArgument;
  return StatusCode::BadInput;
}

void fail(StatusCode code, const char *file, int line, std::string message) {
  Status status;
  status.code = code;
  status.message = std::move(message);
  status.file = file;
  status.line = line;
  throw Error(std::move(status));
}

} // namespace psrt
