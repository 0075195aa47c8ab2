// The surrogateescape codec. Decoding is strict: overlong forms, encoded surrogates and anything past
// U+10FFFF are not UTF-8, and so become escapes, or a name could have two spellings.
#include "names.h"

#include <algorithm>
#include <cstdint>

namespace weightroom {
namespace {

constexpr bool IsHigh(char32_t unit) { return unit >= 0xD800 && unit <= 0xDBFF; }
constexpr bool IsLow(char32_t unit) { return unit >= 0xDC00 && unit <= 0xDFFF; }
constexpr bool IsEscape(char32_t unit) { return unit >= 0xDC80 && unit <= 0xDCFF; }

void AppendUtf8(std::string& out, char32_t point) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (point < 0x80) return put(point);
  if (point < 0x800) {
    put(0xC0 | point >> 6);
  } else {
    if (point < 0x10000) {
      put(0xE0 | point >> 12);
    } else {
      put(0xF0 | point >> 18);
      put(0x80 | (point >> 12 & 0x3F));
    }
    put(0x80 | (point >> 6 & 0x3F));
  }
  put(0x80 | (point & 0x3F));
}

struct Decoded {
  char32_t point;
  size_t bytes;  // 0: not UTF-8 here
};

Decoded DecodeOne(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < size) return {0, 0};
  char32_t point = lead & (0x7F >> size);
  for (size_t i = 1; i < size; i++) {
    if ((byte(i) & 0xC0) != 0x80) return {0, 0};
    point = point << 6 | (byte(i) & 0x3F);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (point < kSmallest[size] || point > 0x10FFFF || IsHigh(point) || IsLow(point)) return {0, 0};
  return {point, size};
}

}  // namespace

std::optional<std::string> EncodeName(std::u16string_view name) {
  std::string bytes;
  bytes.reserve(name.size());
  for (size_t i = 0; i < name.size(); i++) {
    const char32_t unit = name[i];
    if (IsHigh(unit) && i + 1 < name.size() && IsLow(name[i + 1])) {
      AppendUtf8(bytes, 0x10000 + ((unit - 0xD800) << 10) + (name[++i] - 0xDC00));
    } else if (IsEscape(unit)) {
      bytes.push_back(static_cast<char>(unit - 0xDC00));
    } else if (IsHigh(unit) || IsLow(unit)) {
      return std::nullopt;
    } else {
      AppendUtf8(bytes, unit);
    }
  }
  return bytes;
}

std::u16string DecodeName(std::string_view bytes) {
  std::u16string name;
  name.reserve(bytes.size());
  while (!bytes.empty()) {
    const Decoded next = DecodeOne(bytes);
    if (next.bytes == 0) {
      name.push_back(static_cast<char16_t>(0xDC00 + static_cast<uint8_t>(bytes[0])));
      bytes.remove_prefix(1);
      continue;
    }
    if (next.point < 0x10000) {
      name.push_back(static_cast<char16_t>(next.point));
    } else {
      name.push_back(static_cast<char16_t>(0xD800 + ((next.point - 0x10000) >> 10)));
      name.push_back(static_cast<char16_t>(0xDC00 + ((next.point - 0x10000) & 0x3FF)));
    }
    bytes.remove_prefix(next.bytes);
  }
  return name;
}

napi_value NameValue(napi_env env, std::string_view bytes) {
  napi_value value = nullptr;
  const bool ascii = std::all_of(bytes.begin(), bytes.end(), [](char c) { return (c & 0x80) == 0; });
  if (ascii) {
    napi_create_string_latin1(env, bytes.data(), bytes.size(), &value);
  } else {
    const std::u16string name = DecodeName(bytes);
    napi_create_string_utf16(env, name.data(), name.size(), &value);
  }
  return value;
}

}  // namespace weightroom
