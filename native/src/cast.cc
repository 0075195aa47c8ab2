// The element loops. They are free of branches, so that the compiler turns them into vector code.
#include "cast.h"

#include <bit>
#include <cstring>

namespace weightroom {
namespace {

static_assert(std::endian::native == std::endian::little);

template <typename Integer>
Integer Load(const uint8_t* at) {
  Integer value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// The compiler makes a branch of a choice between two computed values, and then no vector code.
inline uint32_t MaskOf(bool condition) { return -uint32_t{condition}; }

inline uint16_t RoundToBfloat16(uint32_t bits) {
  const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  const bool nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  return static_cast<uint16_t>(nan ? 0x7FC0 : rounded);
}

// Exact. A subnormal half is a small integer times 2^-24; converting that integer keeps subnormal floats, which
// processors are slow at, out of it.
inline uint32_t WidenHalf(uint16_t half) {
  constexpr uint32_t kRebias = (127 - 15) << 23;
  const uint32_t magnitude = uint32_t{half & 0x7FFFu} << 13;
  const int32_t fraction = half & 0x3FF;
  const uint32_t subnormal = std::bit_cast<uint32_t>(static_cast<float>(fraction) * 0x1p-24f);
  const uint32_t normal = magnitude + kRebias + (kRebias & MaskOf(magnitude >= 0x0F800000));
  const uint32_t is_subnormal = MaskOf(magnitude < 0x00800000);
  return (subnormal & is_subnormal) | (normal & ~is_subnormal) | uint32_t{half & 0x8000u} << 16;
}

void CastFloat32(const uint8_t* __restrict source, uint8_t* __restrict target, size_t elements) {
  for (size_t i = 0; i < elements; i++) {
    const uint16_t value = RoundToBfloat16(Load<uint32_t>(source + 4 * i));
    std::memcpy(target + 2 * i, &value, sizeof value);
  }
}

void CastFloat16(const uint8_t* __restrict source, uint8_t* __restrict target, size_t elements) {
  for (size_t i = 0; i < elements; i++) {
    const uint16_t value = RoundToBfloat16(WidenHalf(Load<uint16_t>(source + 2 * i)));
    std::memcpy(target + 2 * i, &value, sizeof value);
  }
}

}  // namespace

void CastElements(Cast cast, const uint8_t* source, uint8_t* target, size_t elements) {
  switch (cast) {
    case Cast::kNone:
      std::memcpy(target, source, elements);
      return;
    case Cast::kFloat32ToBfloat16:
      return CastFloat32(source, target, elements);
    case Cast::kFloat16ToBfloat16:
      return CastFloat16(source, target, elements);
  }
}

}  // namespace weightroom
