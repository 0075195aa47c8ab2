// The streaming half of SHA-256: partial blocks, padding, and the choice of the block function.
#include "sha256.h"

#include <algorithm>
#include <cstring>

namespace weightroom {
namespace {

Sha256Compress ChosenCompress() {
  static const Sha256Compress chosen = Sha256NiUsable() ? Sha256CompressNi : Sha256CompressPortable;
  return chosen;
}

}  // namespace

Sha256::Sha256() : Sha256(ChosenCompress()) {}

const char* Sha256::Implementation() {
  return ChosenCompress() == Sha256CompressPortable ? "portable" : "sha-ni";
}

void Sha256::Update(const uint8_t* bytes, size_t size) {
  if (size == 0) return;
  const size_t held = length_ % kSha256Block;
  length_ += size;
  if (held != 0) {
    const size_t taken = std::min(size, kSha256Block - held);
    std::memcpy(partial_.data() + held, bytes, taken);
    if (held + taken < kSha256Block) return;
    compress_(state_.data(), partial_.data(), 1);
    bytes += taken;
    size -= taken;
  }
  const size_t blocks = size / kSha256Block;
  if (blocks != 0) compress_(state_.data(), bytes, blocks);
  const size_t rest = size % kSha256Block;
  if (rest != 0) std::memcpy(partial_.data(), bytes + blocks * kSha256Block, rest);
}

void Sha256::UpdateBoth(Sha256& a, Sha256& b, const uint8_t* bytes, size_t size) {
  const bool paired = a.compress_ == Sha256CompressNi && b.compress_ == Sha256CompressNi;
  if (!paired || size < 2 * kSha256Block) {
    a.Update(bytes, size);
    b.Update(bytes, size);
    return;
  }
  const size_t head_a = a.ToBoundary(), head_b = b.ToBoundary();
  a.Update(bytes, head_a);
  b.Update(bytes, head_b);
  const size_t blocks = (size - std::max(head_a, head_b)) / kSha256Block;
  Sha256CompressPairNi(a.state_.data(), bytes + head_a, b.state_.data(), bytes + head_b, blocks);
  const size_t fed = blocks * kSha256Block;
  a.length_ += fed;
  b.length_ += fed;
  a.Update(bytes + head_a + fed, size - head_a - fed);
  b.Update(bytes + head_b + fed, size - head_b - fed);
}

std::string Sha256::FinishHex() {
  const uint64_t bits = length_ * 8;
  // The padding ends in the length, so that a block boundary falls right after it.
  uint8_t padding[2 * kSha256Block] = {0x80};
  const size_t held = length_ % kSha256Block;
  const size_t size = (held < 56 ? 64 : 128) - held;
  for (size_t i = 0; i < 8; i++) padding[size - 1 - i] = static_cast<uint8_t>(bits >> (8 * i));
  Update(padding, size);

  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const uint32_t word : state_) {
    for (int shift = 28; shift >= 0; shift -= 4) hex.push_back(kDigits[word >> shift & 15]);
  }
  return hex;
}

}  // namespace weightroom
