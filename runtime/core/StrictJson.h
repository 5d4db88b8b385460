// Parsing of JSON that somebody else may have written.
#ifndef PSRT_CORE_STRICTJSON_H
#define PSRT_CORE_STRICTJSON_H

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace psrt {

/// Parses JSON in which no key stands twice in an object: `Json::parse` would take the last value
/// and lose the first. Numbers that no double holds are errors of `Json::parse` itself. Throws
/// nlohmann's exceptions.
template <typename Json, typename... Input> Json parseStrictly(Input &&...input) {
  std::vector<std::set<std::string>> keys; // of the objects that are open
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

/// Returns the text of an error of the JSON library, without the name of its exception.
std::string describeJsonError(const std::exception &error);

} // namespace psrt

#endif
