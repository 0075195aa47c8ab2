// Conversion of weights to bfloat16: round to nearest, ties to even; subnormals and infinities stay, every
// NaN becomes 0x7FC0. Little-endian on both sides; neither side needs to be aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weightroom {

enum class Cast { kNone, kFloat32ToBfloat16, kFloat16ToBfloat16 };

constexpr size_t SourceElementBytes(Cast cast) {
  return cast == Cast::kNone ? 1 : cast == Cast::kFloat16ToBfloat16 ? 2 : 4;
}
constexpr size_t TargetElementBytes(Cast cast) { return cast == Cast::kNone ? 1 : 2; }

// `source` and `target` do not overlap.
void CastElements(Cast cast, const uint8_t* source, uint8_t* target, size_t elements);

}  // namespace weightroom
