// Checks that writes to standard output succeed.
#include "runtime/main/StandardOutput.h"
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace psrt {

void prepareStandardOutput() {
  for (int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(descriptor, F_GETFD) < 0)
      (void)!open("/dev/null", O_RDWR); // takes the lowest free descriptor
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

/// Returns whether standard output is a pipe without a reader.
static bool isPipeClosed() {
  pollfd entry{STDOUT_FILENO, POLLOUT, 0};
  return poll(&entry, 1, 0) > 0 && (entry.revents & POLLERR);
}

bool writeStandardOutput(const std::string &text) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0)
    return true;
  if (isPipeClosed())
    std::fprintf(stderr, "note: standard output is closed; the run continues\n");
  else
    std::fprintf(stderr, "warning: cannot write standard output: %s; the run continues\n",
                 std::strerror(errno));
  return false;
}

int finishStandardOutput(int status) {
  errno = 0;
  bool failed = std::fflush(stdout) != 0;
  int reason = errno;
  if ((!failed && !std::ferror(stdout)) || isPipeClosed())
    return status;
  std::fprintf(stderr, "error: cannot write standard output%s%s\n", reason ? ": " : "",
               reason ? std::strerror(reason) : "");
  return status ? status : 1;
}

} // namespace psrt
