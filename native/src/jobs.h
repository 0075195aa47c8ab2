// Work on libuv's pool that settles a promise. A job runs Execute on one pool thread and everything else on
// the environment's thread; what it reads or fills there is referenced until it has settled.
//
// This uses Node-API directly: the C++ wrapper throws when a call fails, which is what every call does while
// a worker is being terminated, and there is nobody to catch it.
#pragma once

#include <node_api.h>

#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "failure.h"

namespace weightroom {

class Job {
 public:
  virtual ~Job() = default;
  // On a pool thread. Throws Failure.
  virtual void Execute() = 0;
  // What the promise resolves with; nullptr when the environment no longer answers.
  virtual napi_value Result(napi_env env) = 0;
};

class PendingJob;

// Runs jobs one at a time, in the order in which they came. Used by the environment's thread only.
class JobQueue : public std::enable_shared_from_this<JobQueue> {
 public:
  JobQueue();
  ~JobQueue();
  void Add(napi_env env, std::unique_ptr<PendingJob> job);
  // The running job has settled; `alive` says whether the environment still answers.
  void Advance(napi_env env, bool alive);

 private:
  std::deque<std::unique_ptr<PendingJob>> waiting_;
  bool busy_ = false;
};

// Returns the promise. `keep` stays referenced until it settles.
napi_value StartJob(napi_env env, std::unique_ptr<Job> job, const std::vector<napi_value>& keep,
                    std::shared_ptr<JobQueue> queue = nullptr);

inline napi_value UndefinedValue(napi_env env) {
  napi_value value = nullptr;
  napi_get_undefined(env, &value);
  return value;
}

template <typename Work, typename Convert>
class FunctionJob final : public Job {
 public:
  FunctionJob(Work work, Convert convert) : work_(std::move(work)), convert_(std::move(convert)) {}
  void Execute() override { result_ = work_(); }
  napi_value Result(napi_env env) override { return convert_(env, *result_); }

 private:
  Work work_;
  Convert convert_;
  std::optional<decltype(std::declval<Work>()())> result_;
};

// work() on a pool thread; then convert(env, its result).
template <typename Work, typename Convert>
napi_value RunJob(napi_env env, const std::vector<napi_value>& keep, Work work, Convert convert) {
  return StartJob(env, std::make_unique<FunctionJob<Work, Convert>>(std::move(work), std::move(convert)), keep);
}

// For work that only succeeds or fails.
template <typename Work>
napi_value RunJob(napi_env env, const std::vector<napi_value>& keep, Work work) {
  const auto run = [work = std::move(work)]() mutable {
    work();
    return true;
  };
  return RunJob(env, keep, run, [](napi_env at, bool) { return UndefinedValue(at); });
}

}  // namespace weightroom
