// The streaming half of SHA-256: partial blocks, padding, and the choice of the block function.
#include "sha256.h"

#include <algorithm>
#include <cstring>

#include "sha256-lanes.h"

namespace weightroom {
namespace {

Sha256Compress ChosenCompress() {
  static const Sha256Compress chosen = Sha256NiUsable() ? Sha256CompressNi : Sha256CompressPortable;
  return chosen;
}

}  // namespace

// Measured on an AVX-512 machine with SHA instructions: sixteen lanes give 1.9 times what one chain gives and
// a pair of chains 1.3 times, so that eleven lanes or fewer lose to pairs. Eight AVX2 lanes lose to one chain.
const LaneKernel* ChosenLanes() {
  static const LaneKernel avx512_beside_ni{"avx512", 16, 12, Sha256CompressAvx512};
  static const LaneKernel avx512{"avx512", 16, 3, Sha256CompressAvx512};
  static const LaneKernel avx2{"avx2", 8, 3, Sha256CompressAvx2};
  static const LaneKernel* const chosen = Avx512Usable()     ? Sha256NiUsable() ? &avx512_beside_ni : &avx512
                                          : Sha256NiUsable() ? nullptr
                                          : Avx2Usable()     ? &avx2
                                                             : nullptr;
  return chosen;
}

Sha256::Sha256() : Sha256(ChosenCompress()) {}

const char* Sha256::Implementation() {
  return ChosenCompress() == Sha256CompressPortable ? "portable" : "sha-ni";
}

const char* Sha256::LaneImplementation() {
  const LaneKernel* lanes = ChosenLanes();
  return lanes != nullptr ? lanes->name : ChosenCompress() == Sha256CompressNi ? "sha-ni-pair" : "none";
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

void Sha256::UpdateInLanes(const LaneKernel& kernel, std::span<const Feed> feeds, size_t blocks) {
  alignas(64) LaneStates states;
  const uint8_t* messages[kMostLanes];
  // Lanes without a message of their own repeat the first one.
  for (size_t lane = 0; lane < kMostLanes; lane++) {
    const Feed& feed = feeds[lane < feeds.size() ? lane : 0];
    messages[lane] = feed.bytes;
    for (size_t word = 0; word < 8; word++) states[word][lane] = feed.digest->state_[word];
  }
  kernel.compress(states, messages, blocks);
  for (size_t lane = 0; lane < feeds.size(); lane++) {
    for (size_t word = 0; word < 8; word++) feeds[lane].digest->state_[word] = states[word][lane];
    feeds[lane].digest->length_ += blocks * kSha256Block;
  }
}

void Sha256::UpdateTogether(std::span<const Feed> feeds, size_t blocks) {
  if (blocks == 0) return;
  const LaneKernel* lanes = ChosenLanes();
  if (lanes != nullptr && feeds.size() >= lanes->worthwhile) {
    UpdateInLanes(*lanes, feeds, blocks);
    return;
  }
  const bool paired = ChosenCompress() == Sha256CompressNi;
  for (size_t i = 0; i < feeds.size(); i++) {
    const Feed& feed = feeds[i];
    if (paired && i + 1 < feeds.size()) {
      const Feed& other = feeds[++i];
      Sha256CompressPairNi(feed.digest->state_.data(), feed.bytes, other.digest->state_.data(), other.bytes, blocks);
    } else {
      feed.digest->compress_(feed.digest->state_.data(), feed.bytes, blocks);
    }
  }
  for (const Feed& feed : feeds) feed.digest->length_ += blocks * kSha256Block;
}

size_t Sha256::MostTogether() {
  if (const LaneKernel* lanes = ChosenLanes()) return lanes->lanes;
  return ChosenCompress() == Sha256CompressNi ? 2 : 1;
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
