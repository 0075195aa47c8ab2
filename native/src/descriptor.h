// Owns one file descriptor. Every descriptor that this addon opens for itself lives in one of these.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace weightroom {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { Reset(); }

  int Get() const { return fd_; }
  bool Open() const { return fd_ >= 0; }

  // Keeps errno, so that a destructor never hides why a call failed.
  void Reset() {
    if (fd_ < 0) return;
    const int saved = errno;
    ::close(std::exchange(fd_, -1));
    errno = saved;
  }

 private:
  int fd_ = -1;
};

}  // namespace weightroom
