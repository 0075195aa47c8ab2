// Where the bytes of a payload come from: memory, or cast runs of source files, as a stream of chunks of
// target bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cast.h"

namespace weightroom {

constexpr size_t kChunkBytes = size_t{1} << 20;

using Chunk = std::span<const uint8_t>;

class PayloadSource {
 public:
  virtual ~PayloadSource() = default;
  // Target bytes still to come.
  virtual uint64_t Remaining() const = 0;
  // The next chunk, in `buffer` (kChunkBytes) or in memory of the source's own. Throws Failure.
  virtual Chunk Next(uint8_t* buffer) = 0;
};

class MemorySource final : public PayloadSource {
 public:
  explicit MemorySource(Chunk bytes) : bytes_(bytes) {}
  uint64_t Remaining() const override { return bytes_.size(); }
  Chunk Next(uint8_t* buffer) override;

 private:
  Chunk bytes_;
};

// `length` counts source bytes and is a multiple of the cast's source element.
struct Segment {
  int fd;
  uint64_t offset;
  uint64_t length;
  Cast cast;
};

uint64_t TargetBytes(const Segment& segment);

class SegmentSource final : public PayloadSource {
 public:
  explicit SegmentSource(std::vector<Segment> segments);
  uint64_t Remaining() const override { return remaining_; }
  Chunk Next(uint8_t* buffer) override;

 private:
  size_t Fill(const Segment& segment, uint8_t* into, size_t room);
  void ReadExactly(const Segment& segment, uint8_t* into, size_t size);

  std::vector<Segment> segments_;
  uint64_t remaining_ = 0;
  size_t current_ = 0;
  uint64_t done_ = 0;  // source bytes of the current segment
  int advised_fd_ = -1;
  std::unique_ptr<uint8_t[]> uncast_;
};

}  // namespace weightroom
