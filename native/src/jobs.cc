// The life of a pending job: created with its promise, queued, executed, settled, released.
#include "jobs.h"

#include <new>
#include <system_error>

namespace weightroom {

class PendingJob {
 public:
  PendingJob(std::unique_ptr<Job> job, std::shared_ptr<JobQueue> queue)
      : job_(std::move(job)), queue_(std::move(queue)) {}

  napi_value MakePromise(napi_env env, const std::vector<napi_value>& keep) {
    napi_value promise = nullptr;
    if (napi_create_promise(env, &deferred_, &promise) != napi_ok) throw Failure{ENOMEM, "napi_create_promise"};
    for (napi_value value : keep) {
      napi_ref reference = nullptr;
      if (napi_create_reference(env, value, 1, &reference) == napi_ok) references_.push_back(reference);
    }
    return promise;
  }

  // From here on the job owns itself until Complete runs.
  static void Queue(napi_env env, std::unique_ptr<PendingJob> job) {
    napi_value label = nullptr;
    napi_create_string_utf8(env, "weightroom", NAPI_AUTO_LENGTH, &label);
    PendingJob* self = job.get();
    if (napi_create_async_work(env, nullptr, label, Execute, Complete, self, &self->work_) == napi_ok &&
        napi_queue_async_work(env, self->work_) == napi_ok) {
      job.release();
      return;
    }
    job->failure_ = Failure{EAGAIN, "napi_queue_async_work"};
    Complete(env, napi_ok, job.release());
  }

  void Release(napi_env env) {
    for (napi_ref reference : references_) napi_delete_reference(env, reference);
    references_.clear();
    if (work_ != nullptr) napi_delete_async_work(env, std::exchange(work_, nullptr));
  }

 private:
  static void Execute(napi_env, void* data) {
    auto* self = static_cast<PendingJob*>(data);
    try {
      self->job_->Execute();
    } catch (const Failure& failure) {
      self->failure_ = failure;
    } catch (const std::bad_alloc&) {
      self->failure_ = Failure{ENOMEM, "malloc"};
    } catch (const std::system_error& error) {
      self->failure_ = Failure{error.code().value(), "pthread_create"};
    }
  }

  static void Complete(napi_env env, napi_status status, void* data) {
    std::unique_ptr<PendingJob> self(static_cast<PendingJob*>(data));
    if (status != napi_ok) self->failure_ = Failure{ECANCELED, "napi_queue_async_work"};
    const bool alive = self->Settle(env);
    self->Release(env);
    if (self->queue_) self->queue_->Advance(env, alive);
  }

  bool Settle(napi_env env) {
    if (failure_) {
      napi_value error = ErrorValue(env, *failure_);
      return error != nullptr && napi_reject_deferred(env, deferred_, error) == napi_ok;
    }
    napi_value result = job_->Result(env);
    return result != nullptr && napi_resolve_deferred(env, deferred_, result) == napi_ok;
  }

  std::unique_ptr<Job> job_;
  std::shared_ptr<JobQueue> queue_;
  std::optional<Failure> failure_;
  std::vector<napi_ref> references_;
  napi_deferred deferred_ = nullptr;
  napi_async_work work_ = nullptr;
};

JobQueue::JobQueue() = default;
JobQueue::~JobQueue() = default;

void JobQueue::Add(napi_env env, std::unique_ptr<PendingJob> job) {
  waiting_.push_back(std::move(job));
  if (!busy_) Advance(env, true);
}

void JobQueue::Advance(napi_env env, bool alive) {
  busy_ = false;
  if (!alive) {
    for (auto& job : waiting_) job->Release(env);
    // Each job holds this queue, so the last of them may take it away.
    const auto self = shared_from_this();
    waiting_.clear();
    return;
  }
  if (waiting_.empty()) return;
  busy_ = true;
  auto next = std::move(waiting_.front());
  waiting_.pop_front();
  PendingJob::Queue(env, std::move(next));
}

napi_value StartJob(napi_env env, std::unique_ptr<Job> job, const std::vector<napi_value>& keep,
                    std::shared_ptr<JobQueue> queue) {
  auto pending = std::make_unique<PendingJob>(std::move(job), queue);
  napi_value promise = pending->MakePromise(env, keep);
  if (queue) {
    queue->Add(env, std::move(pending));
  } else {
    PendingJob::Queue(env, std::move(pending));
  }
  return promise;
}

}  // namespace weightroom
