// Shares errors among the processes of a job: if one process finds bad data, all processes fail.
#include "runtime/main/Parts.h"
#include <algorithm>

namespace psrt {

std::optional<Status> findErrorOfAny(Session &session, const std::optional<Status> &here) {
  if (!session.isOneOfMany() || !session.isAny(here.has_value()))
    return here;
  std::vector<std::string> messages = session.collect(here ? here->message : "");
  auto first = std::find_if(messages.begin(), messages.end(),
                            [](const std::string &message) { return !message.empty(); });
  Status status;
  status.code = StatusCode::BadInput;
  status.message = session.broadcast(first == messages.end() ? "" : *first);
  return status;
}

void readTogether(Session &session, const std::function<void()> &read) {
  std::optional<Status> error;
  try {
    read();
  } catch (const Error &failure) {
    if (failure.status.code != StatusCode::BadInput)
      throw;
    error = failure.status;
  }
  error = findErrorOfAny(session, error);
  if (error)
    throw Error(*error);
}

} // namespace psrt
