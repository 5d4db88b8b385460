// Describes a failure of the runtime: kind, text, file, line, rank and step.
#ifndef PSRT_CORE_STATUS_H
#define PSRT_CORE_STATUS_H

#include <cstdint>
#include <exception>
#include <string>

namespace psrt {

/// The kinds of failure, which are also the exit statuses of an executable.
enum class StatusCode { Ok = 0, BadInput = 1, BadArgument = 2, Failed = 3 };

/// The result of an operation. `rank` and `step` are -1 where they do not apply.
struct Status {
  StatusCode code = StatusCode::Ok;
  std::string message;
  const char *file = "";
  int line = 0;
  int rank = -1;
  int64_t step = -1;

  bool ok() const { return code == StatusCode::Ok; }
  /// Returns the message with rank and step, and for internal failures the source location.
  std::string text() const;
};

/// Carries a status inside the runtime. The C API catches it.
class Error : public std::exception {
public:
  explicit Error(Status status) : status(std::move(status)), text(this->status.text()) {}
  const char *what() const noexcept override { return text.c_str(); }
  const Status status;

private:
  std::string text;
};

/// Thrown on a rank whose wait ended because another rank failed.
class Aborted : public std::exception {
public:
  const char *what() const noexcept override { return "another rank failed"; }
};

/// Formats like printf into a string.
std::string format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));

/// Formats a number of bytes, such as "512 B" or "1.50 MB".
std::string describeBytes(double bytes);

/// Returns the kind of a failure to open or create a path that the user gave; `reason` is the value
/// of errno. The kind is BadArgument if the path is at fault, such as a missing folder, else
/// BadInput, such as for a full disk.
StatusCode findPathFault(int reason);

/// Throws an Error with this code, source location and message. Use PSRT_FAIL.
[[noreturn]] void fail(StatusCode code, const char *file, int line, std::string message);

} // namespace psrt

/// Throws a psrt::Error. The message is printf-like, in lower case, without a final period.
#define PSRT_FAIL(code, ...)                                                                       \
  ::psrt::fail(::psrt::StatusCode::code, __FILE__, __LINE__, ::psrt::format(__VA_ARGS__))

#endif
