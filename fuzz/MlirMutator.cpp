// Splits a module's text into tokens, bracketed groups and lines, and changes some of them.
#include "fuzz/MlirMutator.h"
#include <cctype>
#include <vector>

namespace fuzz {
namespace {

enum class Kind { Number, Word, Value, Symbol, Attribute, String, Other };

struct Token {
  size_t begin, end;
  Kind kind;
};

bool isWordChar(char c) { return std::isalnum((unsigned char)c) || c == '_' || c == '.'; }

Kind getKind(const std::string &text, size_t at) {
  char c = text[at];
  if (std::isdigit((unsigned char)c) ||
      (c == '-' && at + 1 < text.size() && std::isdigit((unsigned char)text[at + 1])))
    return Kind::Number;
  if (isWordChar(c))
    return Kind::Word;
  return c == '%'   ? Kind::Value
         : c == '@' ? Kind::Symbol
         : c == '#' ? Kind::Attribute
         : c == '"' ? Kind::String
                    : Kind::Other;
}

/// Returns the end of a token. Example: `tensor<4x8xf32>` has the tokens `tensor`, `<`, `4`, `x`,
/// `8`, `x`, `f32` and `>`.
size_t findEnd(const std::string &text, const Token &token, bool afterNumber) {
  size_t at = token.begin + 1;
  if (token.kind == Kind::Other || (afterNumber && text[token.begin] == 'x'))
    return at;
  if (token.kind == Kind::String) {
    while (at < text.size() && text[at] != '"')
      at += text[at] == '\\' ? 2 : 1;
    return std::min(at + 1, text.size());
  }
  bool isNumber = token.kind == Kind::Number;
  while (at < text.size() && (isNumber ? std::isdigit((unsigned char)text[at]) || text[at] == '.'
                                       : isWordChar(text[at])))
    ++at;
  return at;
}

std::vector<Token> tokenize(const std::string &text) {
  std::vector<Token> tokens;
  for (size_t at = 0; at < text.size();) {
    if (std::isspace((unsigned char)text[at])) {
      ++at;
      continue;
    }
    bool afterNumber =
        !tokens.empty() && tokens.back().kind == Kind::Number && tokens.back().end == at;
    Token token{at, at, getKind(text, at)};
    at = token.end = findEnd(text, token, afterNumber);
    tokens.push_back(token);
  }
  return tokens;
}

std::string getText(const std::string &text, const Token &token) {
  return text.substr(token.begin, token.end - token.begin);
}

const char *const kNumbers[] = {"0", "1", "-1", "2",   "3",          "4",
                                "5", "7", "8",  "128", "4294967296", "9223372036854775807"};

/// Returns a replacement for `old`: an unusual number, old + 1, old - 1, old * 2, or `other`.
std::string makeNumber(const std::string &old, const std::string &other, Random &random) {
  long long value = std::strtoll(old.c_str(), nullptr, 10);
  switch (random() % 6) {
  case 0:
  case 1:
    return other;
  case 2:
    return std::to_string((unsigned long long)value + 1);
  case 3:
    return std::to_string((long long)((unsigned long long)value - 1));
  case 4:
    return std::to_string((long long)((unsigned long long)value * 2));
  default:
    return kNumbers[random() % std::size(kNumbers)];
  }
}

/// Replaces all tokens that equal `old`.
void replaceAll(std::string &text, const std::vector<Token> &tokens, const std::string &old,
                const std::string &by) {
  for (size_t i = tokens.size(); i-- > 0;)
    if (getText(text, tokens[i]) == old)
      text.replace(tokens[i].begin, old.size(), by);
}

std::vector<Token> select(const std::vector<Token> &tokens, Kind kind) {
  std::vector<Token> found;
  for (const Token &token : tokens)
    if (token.kind == kind)
      found.push_back(token);
  return found;
}

void changeNumber(std::string &text, const std::vector<Token> &tokens, Random &random) {
  std::vector<Token> numbers = select(tokens, Kind::Number);
  if (numbers.empty())
    return;
  Token token = numbers[random() % numbers.size()];
  std::string old = getText(text, token);
  std::string by = makeNumber(old, getText(text, numbers[random() % numbers.size()]), random);
  if (random() % 2)
    replaceAll(text, tokens, old, by);
  else
    text.replace(token.begin, old.size(), by);
}

void changeName(std::string &text, const std::vector<Token> &tokens, Random &random) {
  if (tokens.empty())
    return;
  Token token = tokens[random() % tokens.size()];
  std::vector<Token> candidates = select(tokens, token.kind);
  std::string by = getText(text, candidates[random() % candidates.size()]);
  text.replace(token.begin, token.end - token.begin, by);
}

/// Returns all bracketed groups, each with the token before its bracket. Examples: `tensor<4xf32>`
/// and `= [1, 2]`.
std::vector<Token> findGroups(const std::string &text, const std::vector<Token> &tokens) {
  std::vector<Token> groups;
  std::vector<size_t> open;
  for (size_t i = 0; i < tokens.size(); ++i) {
    char c = text[tokens[i].begin];
    if (c == '<' || c == '[' || c == '(' || c == '{')
      open.push_back(i);
    else if ((c == ']' || c == ')' || c == '}' || (c == '>' && text[tokens[i].begin - 1] != '-')) &&
             !open.empty()) {
      size_t first = open.back();
      open.pop_back();
      if (first > 0)
        groups.push_back({tokens[first - 1].begin, tokens[i].end, Kind::Other});
    }
  }
  return groups;
}

void changeGroup(std::string &text, const std::vector<Token> &tokens, Random &random) {
  std::vector<Token> groups = findGroups(text, tokens);
  if (groups.empty())
    return;
  auto getHead = [&](const Token &group) {
    return text.substr(group.begin, text.find_first_of("<[({", group.begin) + 1 - group.begin);
  };
  Token group = groups[random() % groups.size()];
  std::vector<Token> candidates;
  for (const Token &other : groups)
    if (getHead(other) == getHead(group))
      candidates.push_back(other);
  std::string old = getText(text, group),
              by = getText(text, candidates[random() % candidates.size()]);
  bool everywhere = random() % 2;
  for (size_t at = everywhere ? text.rfind(old) : group.begin; at != std::string::npos;
       at = everywhere && at > 0 ? text.rfind(old, at - 1) : std::string::npos)
    text.replace(at, old.size(), by);
}

void changeLine(std::string &text, Random &random) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    lines.push_back(text.substr(at, end - at));
    at = end;
  }
  if (lines.size() < 2)
    return;
  size_t from = random() % lines.size(), to = random() % lines.size();
  if (random() % 2) // move by one line: most lines are only valid near their position
    to = std::min(from + 1, lines.size() - 1);
  switch (random() % 4) {
  case 0:
    lines.erase(lines.begin() + from);
    break;
  case 1:
    lines.insert(lines.begin() + to, lines[from]);
    break;
  default:
    std::swap(lines[from], lines[to]);
  }
  text.clear();
  for (const std::string &line : lines)
    text += line;
}

/// Removes a token and a comma after it.
void dropToken(std::string &text, const std::vector<Token> &tokens, Random &random) {
  if (tokens.size() < 2)
    return;
  size_t i = random() % (tokens.size() - 1);
  size_t end = text[tokens[i + 1].begin] == ',' ? tokens[i + 1].end : tokens[i].end;
  text.erase(tokens[i].begin, end - tokens[i].begin);
}

} // namespace

std::string mutateMlir(std::string text, Random &random) {
  for (unsigned changes = 1 + random() % 3; changes > 0; --changes) {
    std::vector<Token> tokens = tokenize(text);
    switch (random() % 10) {
    case 0:
    case 1:
    case 2:
      changeNumber(text, tokens, random);
      break;
    case 3:
    case 4:
      changeName(text, tokens, random);
      break;
    case 5:
    case 6:
      changeGroup(text, tokens, random);
      break;
    case 7:
    case 8:
      changeLine(text, random);
      break;
    default:
      dropToken(text, tokens, random);
    }
  }
  return text;
}

std::string getFirstLine(const std::string &text, const std::string &prefix) {
  if (!text.starts_with(prefix))
    return "";
  return text.substr(prefix.size(), text.find('\n') - prefix.size());
}

} // namespace fuzz
