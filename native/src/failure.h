// What a failed system call becomes: one value that travels through C++ as an exception, from any thread,
// and turns into a JavaScript Error (code, errno, syscall) only on the thread that owns the environment.
#pragma once

#include <node_api.h>

#include <cerrno>
#include <cstdint>
#include <string>

namespace weightroom {

struct Failure {
  int number;
  const char* syscall;
  // Bytes of the name or path concerned; empty when there is none.
  std::string subject = {};
  // Said instead of the errno's own text where that would not tell what happened.
  const char* reason = nullptr;
  // Which of several things given to one call failed; negative when there was one.
  int64_t item = -1;
};

// Throws the current errno.
[[noreturn]] void Fail(const char* syscall, const std::string& subject = {});

// Usable while the environment is being torn down: gives nullptr instead of throwing.
napi_value ErrorValue(napi_env env, const Failure& failure);

// Repeats a call that a signal interrupted before it did anything.
template <typename Call>
auto Retry(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result == -1 && errno == EINTR);
  return result;
}

}  // namespace weightroom
