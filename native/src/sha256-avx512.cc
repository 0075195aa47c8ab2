// Sixteen messages in AVX-512 registers. Everything below the pragma is compiled for processors that have it,
// and nothing else is; the upper halves are cleared before anything that uses SHA instructions runs again.
#include "sha256-lanes.h"
#include "sha256.h"

#if defined(__x86_64__)

#include <immintrin.h>

namespace weightroom {

bool Avx512Usable() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"); }

}  // namespace weightroom

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw")

namespace weightroom {
namespace {

using Words = __m512i;

inline Words Load(const uint32_t* from) { return _mm512_loadu_si512(from); }
inline void Store(uint32_t* to, Words x) { _mm512_storeu_si512(to, x); }
inline Words Broadcast(uint32_t k) { return _mm512_set1_epi32(static_cast<int>(k)); }
inline Words Add(Words x, Words y) { return _mm512_add_epi32(x, y); }
template <int bits>
inline Words Rotate(Words x) {
  return _mm512_ror_epi32(x, bits);
}
template <int bits>
inline Words ShiftRight(Words x) {
  return _mm512_srli_epi32(x, bits);
}
// The last argument is the truth table of the three.
inline Words Xor3(Words x, Words y, Words z) { return _mm512_ternarylogic_epi32(x, y, z, 0x96); }
inline Words Choose(Words x, Words y, Words z) { return _mm512_ternarylogic_epi32(x, y, z, 0xCA); }
inline Words Majority(Words x, Words y, Words z) { return _mm512_ternarylogic_epi32(x, y, z, 0xE8); }

// Sixteen words of sixteen messages, turned so that w[i] holds word i of each.
inline void Transpose(const uint8_t* const* messages, size_t offset, Words w[16]) {
  const Words big_endian =
      _mm512_set4_epi32(0x0c0d0e0f, 0x08090a0b, 0x04050607, 0x00010203);
  Words rows[16], pairs[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) {
    rows[i] = _mm512_shuffle_epi8(_mm512_loadu_si512(messages[i] + offset), big_endian);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    pairs[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
  }
  // Quarter q of rows[4 * i + j] now has word 4 * q + j of messages 4 * i to 4 * i + 3.
#pragma GCC unroll 4
  for (int j = 0; j < 4; j++) {
    const Words even_low = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0x88);
    const Words odd_low = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0xDD);
    const Words even_high = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0x88);
    const Words odd_high = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0xDD);
    w[j] = _mm512_shuffle_i32x4(even_low, even_high, 0x88);
    w[4 + j] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
    w[8 + j] = _mm512_shuffle_i32x4(even_low, even_high, 0xDD);
    w[12 + j] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xDD);
  }
}

}  // namespace
}  // namespace weightroom

#include "sha256-lanes-rounds.h"

namespace weightroom {

void Sha256CompressAvx512(LaneStates& states, const uint8_t* const* messages, size_t count) {
  CompressInLanes(states, messages, count);
  _mm256_zeroupper();
}

}  // namespace weightroom

#pragma GCC pop_options

#else

namespace weightroom {

bool Avx512Usable() { return false; }
void Sha256CompressAvx512(LaneStates&, const uint8_t* const*, size_t) {}

}  // namespace weightroom

#endif
