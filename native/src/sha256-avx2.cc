// Eight messages in AVX2 registers, for processors that have neither AVX-512 nor SHA instructions. Compiled
// as sha256-avx512.cc is.
#include "sha256-lanes.h"
#include "sha256.h"

#if defined(__x86_64__)

#include <immintrin.h>

namespace weightroom {

bool Avx2Usable() { return __builtin_cpu_supports("avx2"); }

}  // namespace weightroom

#pragma GCC push_options
#pragma GCC target("avx2")

namespace weightroom {
namespace {

using Words = __m256i;

inline Words Load(const uint32_t* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }
inline void Store(uint32_t* to, Words x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), x); }
inline Words Broadcast(uint32_t k) { return _mm256_set1_epi32(static_cast<int>(k)); }
inline Words Add(Words x, Words y) { return _mm256_add_epi32(x, y); }
template <int bits>
inline Words Rotate(Words x) {
  return _mm256_or_si256(_mm256_srli_epi32(x, bits), _mm256_slli_epi32(x, 32 - bits));
}
template <int bits>
inline Words ShiftRight(Words x) {
  return _mm256_srli_epi32(x, bits);
}
inline Words Xor3(Words x, Words y, Words z) { return _mm256_xor_si256(_mm256_xor_si256(x, y), z); }
inline Words Choose(Words x, Words y, Words z) {
  return _mm256_xor_si256(z, _mm256_and_si256(x, _mm256_xor_si256(y, z)));
}
inline Words Majority(Words x, Words y, Words z) {
  return _mm256_or_si256(_mm256_and_si256(x, y), _mm256_and_si256(z, _mm256_or_si256(x, y)));
}

inline void TransposeHalf(const uint8_t* const* messages, size_t offset, Words w[8]) {
  const Words big_endian =
      _mm256_broadcastsi128_si256(_mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203));
  Words rows[8], pairs[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) {
    const auto* at = reinterpret_cast<const __m256i*>(messages[i] + offset);
    rows[i] = _mm256_shuffle_epi8(_mm256_loadu_si256(at), big_endian);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_epi32(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_epi32(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    rows[i] = _mm256_unpacklo_epi64(pairs[i], pairs[i + 2]);
    rows[i + 1] = _mm256_unpackhi_epi64(pairs[i], pairs[i + 2]);
    rows[i + 2] = _mm256_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
    rows[i + 3] = _mm256_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
  }
  // Half q of rows[4 * i + j] now has word 4 * q + j of messages 4 * i to 4 * i + 3.
#pragma GCC unroll 4
  for (int j = 0; j < 4; j++) {
    w[j] = _mm256_permute2x128_si256(rows[j], rows[4 + j], 0x20);
    w[4 + j] = _mm256_permute2x128_si256(rows[j], rows[4 + j], 0x31);
  }
}

inline void Transpose(const uint8_t* const* messages, size_t offset, Words w[16]) {
  TransposeHalf(messages, offset, w);
  TransposeHalf(messages, offset + kSha256Block / 2, w + 8);
}

}  // namespace
}  // namespace weightroom

#include "sha256-lanes-rounds.h"

namespace weightroom {

void Sha256CompressAvx2(LaneStates& states, const uint8_t* const* messages, size_t count) {
  CompressInLanes(states, messages, count);
  _mm256_zeroupper();
}

}  // namespace weightroom

#pragma GCC pop_options

#else

namespace weightroom {

bool Avx2Usable() { return false; }
void Sha256CompressAvx2(LaneStates&, const uint8_t* const*, size_t) {}

}  // namespace weightroom

#endif
