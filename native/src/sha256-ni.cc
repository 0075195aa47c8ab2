// The block function on x86's SHA instructions. Only these functions are compiled for them (by attribute),
// and no AVX is enabled in this file, so that the addon loads and runs on processors without either.
#include "sha256.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

namespace weightroom {
namespace {

#define WEIGHTROOM_SHA_TARGET __attribute__((target("sha,sse4.1,ssse3")))

// The instructions want the state as (a,b,e,f) and (c,d,g,h), highest lane first.
struct Halves {
  __m128i abef;
  __m128i cdgh;
};

WEIGHTROOM_SHA_TARGET inline Halves LoadState(const uint32_t state[8]) {
  const __m128i dcba = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state));
  const __m128i hgfe = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state + 4));
  const __m128i cdab = _mm_shuffle_epi32(dcba, 0xB1);
  const __m128i efgh = _mm_shuffle_epi32(hgfe, 0x1B);
  return {_mm_alignr_epi8(cdab, efgh, 8), _mm_blend_epi16(efgh, cdab, 0xF0)};
}

WEIGHTROOM_SHA_TARGET inline void StoreState(uint32_t state[8], const Halves& halves) {
  const __m128i feba = _mm_shuffle_epi32(halves.abef, 0x1B);
  const __m128i dchg = _mm_shuffle_epi32(halves.cdgh, 0xB1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state), _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

WEIGHTROOM_SHA_TARGET inline __m128i LoadWords(const uint8_t* at) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  return _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)), big_endian);
}

// Four rounds with message words `w` of group `group`.
WEIGHTROOM_SHA_TARGET inline void FourRounds(Halves& s, __m128i w, int group) {
  const __m128i k = _mm_load_si128(reinterpret_cast<const __m128i*>(kSha256Constants + 4 * group));
  const __m128i wk = _mm_add_epi32(w, k);
  s.cdgh = _mm_sha256rnds2_epu32(s.cdgh, s.abef, wk);
  s.abef = _mm_sha256rnds2_epu32(s.abef, s.cdgh, _mm_shuffle_epi32(wk, 0x0E));
}

// The next four message words from the sixteen before them, oldest first.
WEIGHTROOM_SHA_TARGET inline __m128i NextWords(__m128i w0, __m128i w1, __m128i w2, __m128i w3) {
  const __m128i partly = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8(w3, w2, 4));
  return _mm_sha256msg2_epu32(partly, w3);
}

}  // namespace

WEIGHTROOM_SHA_TARGET void Sha256CompressNi(uint32_t state[8], const uint8_t* blocks, size_t count) {
  Halves s = LoadState(state);
  for (; count > 0; count--, blocks += kSha256Block) {
    const Halves before = s;
    __m128i w0 = LoadWords(blocks), w1 = LoadWords(blocks + 16);
    __m128i w2 = LoadWords(blocks + 32), w3 = LoadWords(blocks + 48);
#pragma GCC unroll 3
    for (int group = 0; group < 12; group += 4) {
      FourRounds(s, w0, group);
      w0 = NextWords(w0, w1, w2, w3);
      FourRounds(s, w1, group + 1);
      w1 = NextWords(w1, w2, w3, w0);
      FourRounds(s, w2, group + 2);
      w2 = NextWords(w2, w3, w0, w1);
      FourRounds(s, w3, group + 3);
      w3 = NextWords(w3, w0, w1, w2);
    }
    FourRounds(s, w0, 12);
    FourRounds(s, w1, 13);
    FourRounds(s, w2, 14);
    FourRounds(s, w3, 15);
    s.abef = _mm_add_epi32(s.abef, before.abef);
    s.cdgh = _mm_add_epi32(s.cdgh, before.cdgh);
  }
  StoreState(state, s);
}

// Two chains in step: each waits for its own results, and while it does the other one's rounds run.
WEIGHTROOM_SHA_TARGET void Sha256CompressPairNi(uint32_t state_a[8], const uint8_t* a, uint32_t state_b[8],
                                                const uint8_t* b, size_t count) {
  Halves s = LoadState(state_a);
  Halves t = LoadState(state_b);
  for (; count > 0; count--, a += kSha256Block, b += kSha256Block) {
    const Halves before_s = s, before_t = t;
    __m128i w0 = LoadWords(a), w1 = LoadWords(a + 16), w2 = LoadWords(a + 32), w3 = LoadWords(a + 48);
    __m128i v0 = LoadWords(b), v1 = LoadWords(b + 16), v2 = LoadWords(b + 32), v3 = LoadWords(b + 48);
#pragma GCC unroll 3
    for (int group = 0; group < 12; group += 4) {
      FourRounds(s, w0, group);
      FourRounds(t, v0, group);
      w0 = NextWords(w0, w1, w2, w3);
      v0 = NextWords(v0, v1, v2, v3);
      FourRounds(s, w1, group + 1);
      FourRounds(t, v1, group + 1);
      w1 = NextWords(w1, w2, w3, w0);
      v1 = NextWords(v1, v2, v3, v0);
      FourRounds(s, w2, group + 2);
      FourRounds(t, v2, group + 2);
      w2 = NextWords(w2, w3, w0, w1);
      v2 = NextWords(v2, v3, v0, v1);
      FourRounds(s, w3, group + 3);
      FourRounds(t, v3, group + 3);
      w3 = NextWords(w3, w0, w1, w2);
      v3 = NextWords(v3, v0, v1, v2);
    }
    FourRounds(s, w0, 12);
    FourRounds(t, v0, 12);
    FourRounds(s, w1, 13);
    FourRounds(t, v1, 13);
    FourRounds(s, w2, 14);
    FourRounds(t, v2, 14);
    FourRounds(s, w3, 15);
    FourRounds(t, v3, 15);
    s = {_mm_add_epi32(s.abef, before_s.abef), _mm_add_epi32(s.cdgh, before_s.cdgh)};
    t = {_mm_add_epi32(t.abef, before_t.abef), _mm_add_epi32(t.cdgh, before_t.cdgh)};
  }
  StoreState(state_a, s);
  StoreState(state_b, t);
}

bool Sha256NiUsable() {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSSE3) || !(c & bit_SSE4_1)) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}

}  // namespace weightroom

#else

namespace weightroom {

bool Sha256NiUsable() { return false; }
void Sha256CompressNi(uint32_t state[8], const uint8_t* blocks, size_t count) {
  Sha256CompressPortable(state, blocks, count);
}
void Sha256CompressPairNi(uint32_t state_a[8], const uint8_t* a, uint32_t state_b[8], const uint8_t* b,
                          size_t count) {
  Sha256CompressPortable(state_a, a, count);
  Sha256CompressPortable(state_b, b, count);
}

}  // namespace weightroom

#endif
