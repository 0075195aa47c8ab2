// Just enough JSON for the configuration: values, objects, arrays, strings without \u, numbers.
#pragma once

#include <cctype>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace fake {

struct Json {
  enum class Kind { kNull, kBoolean, kNumber, kString, kArray, kObject } kind = Kind::kNull;
  bool boolean = false;
  double number = 0;
  std::string text;
  std::vector<Json> items;
  std::map<std::string, Json> fields;

  const Json& operator[](const std::string& name) const {
    static const Json missing;
    const auto found = fields.find(name);
    return found == fields.end() ? missing : found->second;
  }
  bool Given() const { return kind != Kind::kNull; }
  double NumberOr(double fallback) const { return kind == Kind::kNumber ? number : fallback; }
  bool BooleanOr(bool fallback) const { return kind == Kind::kBoolean ? boolean : fallback; }
  std::string TextOr(const std::string& fallback) const { return kind == Kind::kString ? text : fallback; }
};

class JsonParser {
 public:
  explicit JsonParser(const std::string& text) : text_(text) {}

  Json Parse() {
    const Json value = Value();
    Blank();
    if (at_ != text_.size()) Refuse();
    return value;
  }

 private:
  Json Value() {
    Blank();
    Json value;
    if (Take('{')) {
      value.kind = Json::Kind::kObject;
      while (!Take('}')) {
        if (!value.fields.empty()) Need(',');
        Blank();
        const std::string name = Text();
        Need(':');
        value.fields[name] = Value();
        Blank();
      }
    } else if (Take('[')) {
      value.kind = Json::Kind::kArray;
      while (!Take(']')) {
        if (!value.items.empty()) Need(',');
        value.items.push_back(Value());
        Blank();
      }
    } else if (Peek() == '"') {
      value.kind = Json::Kind::kString;
      value.text = Text();
    } else if (Word("true") || Word("false")) {
      value.kind = Json::Kind::kBoolean;
      value.boolean = text_[at_ - 2] == 'u';
    } else if (!Word("null")) {
      value.kind = Json::Kind::kNumber;
      char* end = nullptr;
      value.number = std::strtod(text_.c_str() + at_, &end);
      if (end == text_.c_str() + at_) Refuse();
      at_ = static_cast<size_t>(end - text_.c_str());
    }
    return value;
  }

  std::string Text() {
    Need('"');
    std::string out;
    while (Peek() != '"') {
      if (Peek() == '\\') at_++;
      if (at_ >= text_.size()) Refuse();
      const char c = text_[at_++];
      const bool escaped = text_[at_ - 2] == '\\';
      out += escaped && c == 'n' ? '\n' : escaped && c == 't' ? '\t' : c;
    }
    at_++;
    return out;
  }

  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void Blank() {
    while (std::isspace(static_cast<unsigned char>(Peek()))) at_++;
  }
  bool Take(char c) {
    Blank();
    if (Peek() != c) return false;
    at_++;
    return true;
  }
  void Need(char c) {
    if (!Take(c)) Refuse();
  }
  bool Word(const char* word) {
    const std::string wanted = word;
    if (text_.compare(at_, wanted.size(), wanted) != 0) return false;
    at_ += wanted.size();
    return true;
  }
  [[noreturn]] void Refuse() const { throw std::runtime_error("no JSON at byte " + std::to_string(at_)); }

  const std::string& text_;
  size_t at_ = 0;
};

}  // namespace fake
