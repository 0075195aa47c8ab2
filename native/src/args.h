// Reads arguments that JavaScript passed. Nothing is coerced: a value of another type throws a TypeError,
// a number or name out of its range a RangeError, before any system call is made.
#pragma once

#include <napi.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "failure.h"

namespace weightroom {

constexpr uint64_t kLargestSafeInteger = (uint64_t{1} << 53) - 1;

// Memory of a typed array. Valid while the array is referenced and its buffer is not transferred away.
struct Bytes {
  uint8_t* data;
  size_t size;
};

uint64_t SafeIntegerArg(const Napi::Value& value, const char* label, uint64_t largest = kLargestSafeInteger);
int DescriptorArg(const Napi::Value& value, const char* label);
int FlagsArg(const Napi::Value& value);
mode_t ModeArg(const Napi::Value& value);
bool BooleanArg(const Napi::Value& value, const char* label);
std::string PathArg(const Napi::Value& value);
// One component: not empty, no '/', no NUL, neither '.' nor '..'.
std::string NameArg(const Napi::Value& value, const char* label);
Bytes BytesArg(const Napi::Value& value, const char* label);
// The two elements of a Progress, or nullptr when undefined.
int64_t* ProgressArg(const Napi::Value& value);

[[noreturn]] void BadType(Napi::Env env, const std::string& message);
[[noreturn]] void BadRange(Napi::Env env, const std::string& message);

// Every exported function runs inside this, so that no C++ exception reaches Node.
template <Napi::Value (*Function)(const Napi::CallbackInfo&)>
Napi::Value Guarded(const Napi::CallbackInfo& info) {
  try {
    return Function(info);
  } catch (const Failure& failure) {
    throw Napi::Error(info.Env(), ErrorValue(info.Env(), failure));
  } catch (const std::bad_alloc&) {
    throw Napi::Error(info.Env(), ErrorValue(info.Env(), Failure{ENOMEM, "malloc"}));
  }
}

template <Napi::Value (*Function)(const Napi::CallbackInfo&)>
void Export(Napi::Object exports, const char* name) {
  exports.Set(name, Napi::Function::New<Guarded<Function>>(exports.Env(), name));
}

}  // namespace weightroom
