// Parses a message, changes a field, and serializes the message with matching lengths.
#include "fuzz/WireMutator.h"
#include <optional>
#include <vector>

namespace fuzz {
namespace {

struct Field {
  unsigned number = 0, type = 0;
  uint64_t value = 0;        ///< value of wire type 0 (varint)
  std::string bytes;         ///< bytes of wire types 1, 2 and 5, unless they are a message
  std::vector<Field> fields; ///< fields of wire type 2, if its bytes are a message
  bool isMessage = false;
};
using Fields = std::vector<Field>;

std::optional<uint64_t> readVarint(const std::string &text, size_t &at) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && at < text.size(); shift += 7) {
    unsigned char byte = text[at++];
    value |= uint64_t(byte & 0x7f) << shift;
    if (!(byte & 0x80))
      return value;
  }
  return std::nullopt;
}

bool isText(const std::string &bytes) {
  for (unsigned char c : bytes)
    if (c < 0x20 || c >= 0x7f)
      return false;
  return true;
}

std::optional<Fields> readFields(const std::string &text) {
  Fields fields;
  for (size_t at = 0; at < text.size();) {
    std::optional<uint64_t> key = readVarint(text, at);
    if (!key || *key >> 3 == 0 || *key >> 32)
      return std::nullopt;
    Field field;
    field.number = unsigned(*key >> 3), field.type = *key & 7;
    std::optional<uint64_t> size = field.type == 1   ? std::optional<uint64_t>(8)
                                   : field.type == 5 ? std::optional<uint64_t>(4)
                                                     : readVarint(text, at);
    if (!size || (field.type != 0 && field.type != 1 && field.type != 2 && field.type != 5))
      return std::nullopt;
    if (field.type == 0) {
      field.value = *size;
    } else {
      if (*size > text.size() - at)
        return std::nullopt;
      field.bytes = text.substr(at, *size);
      at += *size;
      std::optional<Fields> inner;
      if (field.type == 2 && !isText(field.bytes))
        inner = readFields(field.bytes);
      field.isMessage = inner.has_value();
      if (inner)
        field.fields = std::move(*inner);
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

void appendVarint(std::string &out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out.push_back(char(value | 0x80));
  out.push_back(char(value));
}

std::string writeFields(const Fields &fields) {
  std::string out;
  for (const Field &field : fields) {
    appendVarint(out, uint64_t(field.number) << 3 | field.type);
    std::string bytes = field.isMessage ? writeFields(field.fields) : field.bytes;
    if (field.type == 0 || field.type == 2)
      appendVarint(out, field.type == 0 ? field.value : bytes.size());
    out += bytes;
  }
  return out;
}

/// A position in a list of fields.
struct Spot {
  Fields *list;
  size_t index;
};

void collect(Fields &fields, std::vector<Spot> &spots) {
  for (size_t i = 0; i < fields.size(); ++i) {
    spots.push_back({&fields, i});
    collect(fields[i].fields, spots);
  }
}

const uint64_t kOdd[] = {0,
                         1,
                         2,
                         3,
                         7,
                         8,
                         13,
                         16,
                         255,
                         uint64_t(-1),
                         uint64_t(-2),
                         uint64_t(1) << 31,
                         uint64_t(1) << 32,
                         uint64_t(1) << 62,
                         uint64_t(1) << 63,
                         (uint64_t(1) << 63) - 1};

void changeInside(Field &field, Random &random) {
  if (field.type == 0)
    field.value = random() % 3 ? kOdd[random() % std::size(kOdd)] : field.value + random() % 5 - 2;
  else if (field.type != 2)
    for (char &c : field.bytes)
      c = random() % 4 ? c : char(random());
  else {
    std::string bytes = field.isMessage ? writeFields(field.fields) : field.bytes;
    field.bytes = mutateBytes(bytes, bytes.size() + 8);
    field.isMessage = false;
  }
}

} // namespace

std::string mutateMessage(const std::string &message, Random &random) {
  std::optional<Fields> fields = readFields(message);
  if (!fields || fields->empty())
    return mutateBytes(message, message.size() + 16);
  std::vector<Spot> spots;
  collect(*fields, spots);
  Spot spot = spots[random() % spots.size()];
  Field &field = (*spot.list)[spot.index];
  Field copy = field;
  switch (random() % 6) {
  case 0:
    spot.list->erase(spot.list->begin() + spot.index);
    break;
  case 1:
    spot.list->insert(spot.list->begin() + random() % (spot.list->size() + 1), copy);
    break;
  case 2: { // replace the field by another field with the same number
    size_t start = random() % spots.size();
    for (size_t i = 0; i < spots.size(); ++i) {
      Spot other = spots[(start + i) % spots.size()];
      const Field &source = (*other.list)[other.index];
      if (source.number == copy.number && source.type == copy.type && &source != &field) {
        Field replacement = source;
        field = std::move(replacement);
        break;
      }
    }
    break;
  }
  case 3:
    std::swap(field, (*spot.list)[random() % spot.list->size()]);
    break;
  default:
    changeInside(field, random);
  }
  return writeFields(*fields);
}

} // namespace fuzz
