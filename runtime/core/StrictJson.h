// Parses JSON from untrusted sources.
#ifndef PSRT_CORE_STRICTJSON_H
#define PSRT_CORE_STRICTJSON_H

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace psrt {

/// Parses JSON. Unlike `Json::parse`, rejects duplicate keys of an object. Throws nlohmann's
/// exceptions.
template <typename Json, typename... Input> Json parseStrictly(Input &&...input) {
  std::vector<std::set<std::string>> keys; // keys of the open objects
  typename Json::parser_callback_t check = [&](int, typename Json::parse_event_t event,
                                               Json &parsed) {
    if (event == Json::parse_event_t::object_start)
      keys.emplace_back();
    else if (event == Json::parse_event_t::object_end)
      keys.pop_back();
    else if (event == Json::parse_event_t::key &&
             !keys.back().insert(parsed.template get<std::string>()).second)
      throw Json::other_error::create(
          501, parsed.dump() + " is given twice in one object; the first would be lost", nullptr);
    return true;
  };
  return Json::parse(std::forward<Input>(input)..., check);
}

/// Returns the text of a JSON library error without the exception's name.
std::string describeJsonError(const std::exception &error);

} // namespace psrt

#endif
