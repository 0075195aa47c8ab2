// The rounds of FIPS 180-4 over vectors, for the files that say what a vector is: `Words` with kLanes elements
// and Load, Store, Add, Rotate, ShiftRight, Xor3, Choose, Majority and Transpose. Included by each of them
// after its target pragma, and nowhere else: the code must be compiled for that processor alone.

namespace weightroom {
namespace {

inline Words Sum0(Words x) { return Xor3(Rotate<2>(x), Rotate<13>(x), Rotate<22>(x)); }
inline Words Sum1(Words x) { return Xor3(Rotate<6>(x), Rotate<11>(x), Rotate<25>(x)); }
inline Words Sigma0(Words x) { return Xor3(Rotate<7>(x), Rotate<18>(x), ShiftRight<3>(x)); }
inline Words Sigma1(Words x) { return Xor3(Rotate<17>(x), Rotate<19>(x), ShiftRight<10>(x)); }

// One round. The caller renames a..h instead of moving them.
inline void Round(Words a, Words b, Words c, Words& d, Words e, Words f, Words g, Words& h, Words w, uint32_t k) {
  const Words t = Add(Add(Add(h, Sum1(e)), Choose(e, f, g)), Add(w, Broadcast(k)));
  d = Add(d, t);
  h = Add(t, Add(Sum0(a), Majority(a, b, c)));
}

// Eight rounds bring every name back to its place.
inline void EightRounds(Words s[8], const Words* w, const uint32_t* k) {
  Round(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], w[0], k[0]);
  Round(s[7], s[0], s[1], s[2], s[3], s[4], s[5], s[6], w[1], k[1]);
  Round(s[6], s[7], s[0], s[1], s[2], s[3], s[4], s[5], w[2], k[2]);
  Round(s[5], s[6], s[7], s[0], s[1], s[2], s[3], s[4], w[3], k[3]);
  Round(s[4], s[5], s[6], s[7], s[0], s[1], s[2], s[3], w[4], k[4]);
  Round(s[3], s[4], s[5], s[6], s[7], s[0], s[1], s[2], w[5], k[5]);
  Round(s[2], s[3], s[4], s[5], s[6], s[7], s[0], s[1], w[6], k[6]);
  Round(s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[0], w[7], k[7]);
}

inline void NextSixteenWords(Words w[16]) {
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) {
    w[i] = Add(Add(w[i], Sigma0(w[(i + 1) & 15])), Add(w[(i + 9) & 15], Sigma1(w[(i + 14) & 15])));
  }
}

inline void CompressInLanes(LaneStates& states, const uint8_t* const* messages, size_t count) {
  Words s[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) s[i] = Load(states[i]);
  for (size_t offset = 0; count > 0; count--, offset += kSha256Block) {
    Words w[16], before[8];
    Transpose(messages, offset, w);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) before[i] = s[i];
    for (int group = 0;; group += 16) {
      EightRounds(s, w, kSha256Constants + group);
      EightRounds(s, w + 8, kSha256Constants + group + 8);
      if (group == 48) break;
      NextSixteenWords(w);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) s[i] = Add(s[i], before[i]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) Store(states[i], s[i]);
}

}  // namespace
}  // namespace weightroom
