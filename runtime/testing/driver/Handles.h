// Maps handles to live objects, so that an invalid handle is an error and not a crash.
#ifndef PSRT_TESTING_DRIVER_HANDLES_H
#define PSRT_TESTING_DRIVER_HANDLES_H

#include <memory>
#include <unordered_map>
#include <vector>

namespace psrt::fake {

/// A handle is the object's address, as a pointer to one of the driver API's tag types.
template <typename T> class Handles {
public:
  template <typename Tag> void add(std::shared_ptr<T> thing, Tag *&handle) {
    handle = reinterpret_cast<Tag *>(thing.get());
    live.emplace(handle, std::move(thing));
  }

  /// Returns the object, or null.
  std::shared_ptr<T> find(const void *handle) const {
    auto found = live.find(handle);
    return found == live.end() ? nullptr : found->second;
  }

  void remove(const void *handle) { live.erase(handle); }

  std::vector<std::shared_ptr<T>> all() const {
    std::vector<std::shared_ptr<T>> things;
    for (const auto &entry : live)
      things.push_back(entry.second);
    return things;
  }

private:
  std::unordered_map<const void *, std::shared_ptr<T>> live;
};

} // namespace psrt::fake

#endif
