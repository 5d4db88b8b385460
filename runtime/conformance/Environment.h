// Sets environment variables during a test.
#ifndef PSRT_CONFORMANCE_ENVIRONMENT_H
#define PSRT_CONFORMANCE_ENVIRONMENT_H

#include <cstdlib>
#include <string>

namespace psrt {

/// Sets an environment variable. The destructor restores the old value.
class Environment {
public:
  Environment(const char *name, const std::string &value) : name(name) {
    const char *text = std::getenv(name);
    was = text ? text : "";
    hadValue = text != nullptr;
    setenv(name, value.c_str(), 1);
  }
  ~Environment() { hadValue ? setenv(name, was.c_str(), 1) : unsetenv(name); }
  Environment(const Environment &) = delete;
  Environment &operator=(const Environment &) = delete;

private:
  const char *name;
  std::string was;
  bool hadValue;
};

} // namespace psrt

#endif
