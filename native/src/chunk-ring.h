// A ring of buffers from one producer to a fixed number of lanes, each of which sees every chunk in order.
// A buffer is reused only when all lanes are done with it. The buffers stay until the ring goes, so that one
// ring can serve many runs. They are mapped rather than taken from the heap: untouched ones cost nothing, and
// the memory of a ring that goes is the system's again at once, whichever thread it served.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

namespace weightroom {

constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr size_t kRingSlots = 8;

using Chunk = std::span<const uint8_t>;
using Lane = std::function<void(Chunk)>;

class ChunkRing {
 public:
  // Throws Failure when there is no memory.
  ChunkRing();
  ~ChunkRing();
  ChunkRing(const ChunkRing&) = delete;
  ChunkRing& operator=(const ChunkRing&) = delete;

  // Producer: a free buffer of kChunkBytes. Waits while every slot is still being read.
  uint8_t* Acquire();
  // Producer: hands the chunk to all lanes. It may lie in the acquired buffer or outlive the run elsewhere.
  void Publish(Chunk chunk);

 private:
  friend class LaneThreads;

  void Begin(size_t lanes);
  void Close();
  std::optional<Chunk> Next(size_t lane);
  void Done(size_t lane);
  uint64_t SlowestLane() const;

  uint8_t* buffers_;
  std::array<Chunk, kRingSlots> chunks_;
  std::mutex mutex_;
  std::condition_variable published_changed_;
  std::condition_variable consumed_changed_;
  std::vector<uint64_t> consumed_;
  uint64_t published_ = 0;
  bool closed_ = false;
};

// The lanes of one run, each on a thread of its own. Destruction lets them finish what was published and
// waits for them, also when the producer throws.
class LaneThreads {
 public:
  LaneThreads(ChunkRing& ring, std::vector<Lane> lanes);
  ~LaneThreads();
  LaneThreads(const LaneThreads&) = delete;
  LaneThreads& operator=(const LaneThreads&) = delete;

 private:
  ChunkRing& ring_;
  std::vector<Lane> lanes_;
  std::vector<std::jthread> threads_;
};

}  // namespace weightroom
