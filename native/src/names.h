// File names between JavaScript (UTF-16) and the kernel (bytes). Bytes that are not UTF-8 travel as
// U+DC80..U+DCFF, one per byte, as Python's surrogateescape does, so that every name survives a round trip.
#pragma once

#include <node_api.h>

#include <optional>
#include <string>
#include <string_view>

namespace weightroom {

// Nothing when a lone surrogate stands for no byte.
std::optional<std::string> EncodeName(std::u16string_view name);
std::u16string DecodeName(std::string_view bytes);
napi_value NameValue(napi_env env, std::string_view bytes);

}  // namespace weightroom
