// What an operation of the runtime says when it fails: kind, text, file, line, rank and step.
#ifndef PSRT_CORE_STATUS_H
#define PSRT_CORE_STATUS_H

#include <cstdint>
#include <exception>
#include <string>

namespace psrt {

/// The kinds are the exit statuses of an executable.
enum class StatusCode { Ok = 0, BadInput = 1, BadArgument = 2, Failed = 3 };

/// What happened. `rank` and `step` are -1 where they do not apply.
struct Status {
  StatusCode code = StatusCode::Ok;
  std::string message;
  const char *file = "";
  int line = 0;
  int rank = -1;
  int64_t step = -1;

  bool ok() const { return code == StatusCode::Ok; }
  /// The message, with rank, step and the place in the runtime for failures of the runtime itself.
  std::string text() const;
};

/// Carries a status up inside the runtime; it never crosses the C API.
class Error : public std::exception {
public:
  explicit Error(Status status) : status(std::move(status)), text(this->status.text()) {}
  const char *what() const noexcept override { return text.c_str(); }
  const Status status;

private:
  std::string text;
};

/// Thrown in a rank that was woken because another rank failed first; carries nothing to report.
class Aborted : public std::exception {
public:
  const char *what() const noexcept override { return "another rank failed"; }
};

/// printf into a string.
std::string format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));

/// "512 B", "1.50 MB"
std::string describeBytes(double bytes);

[[noreturn]] void fail(StatusCode code, const char *file, int line, std::string message);

} // namespace psrt

/// Throws a psrt::Error: the message is printf-like, lower-case, without a final period.
#define PSRT_FAIL(code, ...)                                                                       \
  ::psrt::fail(::psrt::StatusCode::code, __FILE__, __LINE__, ::psrt::format(__VA_ARGS__))

#endif
