// Hand-over of chunks between threads; see chunk-ring.h.
#include "chunk-ring.h"

#include <sys/mman.h>

#include <algorithm>

#include "failure.h"

namespace weightroom {

ChunkRing::ChunkRing() {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
  void* mapped = ::mmap(nullptr, kRingSlots * kChunkBytes, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (mapped == MAP_FAILED) Fail("mmap");
  buffers_ = static_cast<uint8_t*>(mapped);
}

ChunkRing::~ChunkRing() { ::munmap(buffers_, kRingSlots * kChunkBytes); }

uint64_t ChunkRing::SlowestLane() const {
  return consumed_.empty() ? published_ : *std::min_element(consumed_.begin(), consumed_.end());
}

uint8_t* ChunkRing::Acquire() {
  std::unique_lock lock(mutex_);
  consumed_changed_.wait(lock, [this] { return published_ - SlowestLane() < kRingSlots; });
  return buffers_ + published_ % kRingSlots * kChunkBytes;
}

void ChunkRing::Publish(Chunk chunk) {
  {
    const std::lock_guard lock(mutex_);
    chunks_[published_ % kRingSlots] = chunk;
    published_++;
  }
  published_changed_.notify_all();
}

void ChunkRing::Begin(size_t lanes) {
  consumed_.assign(lanes, 0);
  published_ = 0;
  closed_ = false;
}

void ChunkRing::Close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  published_changed_.notify_all();
}

std::optional<Chunk> ChunkRing::Next(size_t lane) {
  std::unique_lock lock(mutex_);
  published_changed_.wait(lock, [&] { return consumed_[lane] < published_ || closed_; });
  if (consumed_[lane] == published_) return std::nullopt;
  return chunks_[consumed_[lane] % kRingSlots];
}

void ChunkRing::Done(size_t lane) {
  {
    const std::lock_guard lock(mutex_);
    consumed_[lane]++;
  }
  consumed_changed_.notify_one();
}

LaneThreads::LaneThreads(ChunkRing& ring, std::vector<Lane> lanes) : ring_(ring), lanes_(std::move(lanes)) {
  ring_.Begin(lanes_.size());
  try {
    for (size_t i = 0; i < lanes_.size(); i++) {
      threads_.emplace_back([this, i] {
        while (const auto chunk = ring_.Next(i)) {
          lanes_[i](*chunk);
          ring_.Done(i);
        }
      });
    }
  } catch (...) {
    ring_.Close();
    throw;
  }
}

LaneThreads::~LaneThreads() {
  ring_.Close();
  threads_.clear();
  ring_.Begin(0);
}

}  // namespace weightroom
