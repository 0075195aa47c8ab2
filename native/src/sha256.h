// SHA-256 (FIPS 180-4), fed in pieces of any length. The block function is chosen once per process by what
// the processor can do; both give the same digests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace weightroom {

constexpr size_t kSha256Block = 64;

struct LaneKernel;

// Folds `count` whole blocks into the state.
using Sha256Compress = void (*)(uint32_t state[8], const uint8_t* blocks, size_t count);

void Sha256CompressPortable(uint32_t state[8], const uint8_t* blocks, size_t count);

// In sha256-ni.cc. Call only where Sha256NiUsable says so.
bool Sha256NiUsable();
void Sha256CompressNi(uint32_t state[8], const uint8_t* blocks, size_t count);
// `count` blocks each of two messages, a third faster than one after the other.
void Sha256CompressPairNi(uint32_t state_a[8], const uint8_t* a, uint32_t state_b[8], const uint8_t* b,
                          size_t count);

extern const uint32_t kSha256Constants[64];

class Sha256 {
 public:
  Sha256();
  explicit Sha256(Sha256Compress compress) : compress_(compress) {}

  void Update(const uint8_t* bytes, size_t size);
  // Feeds `blocks` whole blocks to each of several digests, all of which stand at a block boundary.
  struct Feed {
    Sha256* digest;
    const uint8_t* bytes;
  };
  static void UpdateTogether(std::span<const Feed> feeds, size_t blocks);
  // The same by one kernel, which must be one that this processor can run, for at most as many as it has lanes.
  static void UpdateInLanes(const LaneKernel& kernel, std::span<const Feed> feeds, size_t blocks);
  // How many digests UpdateTogether takes at most, and with how many it is at its best.
  static size_t MostTogether();
  // Lower-case hex. The object is spent afterwards.
  std::string FinishHex();

  // Of a single message, and of many side by side.
  static const char* Implementation();
  static const char* LaneImplementation();

 private:
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, kSha256Block> partial_ = {};
  uint64_t length_ = 0;
  Sha256Compress compress_;
};

}  // namespace weightroom
