// Reading and casting segments; see payload-source.h.
#include "payload-source.h"

#include <fcntl.h>

#include <algorithm>

#include "failure.h"
#include "transfers.h"

namespace weightroom {
namespace {

// Small enough that what was read is still in the processor's cache when it is cast.
constexpr size_t kUncastBytes = size_t{256} << 10;

}  // namespace

Chunk MemorySource::Next(uint8_t*) {
  const Chunk chunk = bytes_.first(std::min(bytes_.size(), kChunkBytes));
  bytes_ = bytes_.subspan(chunk.size());
  return chunk;
}

uint64_t TargetBytes(const Segment& segment) {
  return segment.length / SourceElementBytes(segment.cast) * TargetElementBytes(segment.cast);
}

SegmentSource::SegmentSource(std::vector<Segment> segments) : segments_(std::move(segments)) {
  for (const Segment& segment : segments_) remaining_ += TargetBytes(segment);
}

// Small segments share a chunk, so that a payload of many of them does not cost a hand-over for each.
Chunk SegmentSource::Next(uint8_t* buffer) {
  size_t filled = 0;
  while (current_ < segments_.size()) {
    const Segment& segment = segments_[current_];
    const size_t added = Fill(segment, buffer + filled, kChunkBytes - filled);
    filled += added;
    if (done_ == segment.length) {
      current_++;
      done_ = 0;
    } else if (added == 0) {
      break;
    }
  }
  remaining_ -= filled;
  return {buffer, filled};
}

// Returns the target bytes added: whole elements only, none when not even one fits or the segment is done.
size_t SegmentSource::Fill(const Segment& segment, uint8_t* into, size_t room) {
  const size_t source_bytes = SourceElementBytes(segment.cast), target_bytes = TargetElementBytes(segment.cast);
  uint64_t elements = std::min<uint64_t>((segment.length - done_) / source_bytes, room / target_bytes);
  if (segment.cast == Cast::kNone) {
    ReadExactly(segment, into, elements);
    return elements;
  }
  elements = std::min<uint64_t>(elements, kUncastBytes / source_bytes);
  if (!uncast_) uncast_ = std::make_unique_for_overwrite<uint8_t[]>(kUncastBytes);
  ReadExactly(segment, uncast_.get(), elements * source_bytes);
  CastElements(segment.cast, uncast_.get(), into, elements);
  return elements * target_bytes;
}

void SegmentSource::ReadExactly(const Segment& segment, uint8_t* into, size_t size) {
  if (size == 0) return;
  if (segment.fd != advised_fd_) {
    ::posix_fadvise(segment.fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    advised_fd_ = segment.fd;
  }
  if (ReadFully(segment.fd, into, size, segment.offset + done_) < size) {
    throw Failure{EIO, "pread", {}, "a source file ends before its segment does"};
  }
  done_ += size;
}

}  // namespace weightroom
