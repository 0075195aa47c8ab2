/**
 * What a call throws, as what crosses the boundary: a failure is the contract's one typed error; an input that
 * the schema refuses is a failure too; anything else is a bug, of which the caller learns only that.
 */
import { ORPCError, ValidationError } from '@orpc/server';
import { failureErrorCode } from '../contract/call-failure.ts';
import { failure, FailureError, type Failure } from '../contract/failure.ts';

/** `onBug` is told of what is nobody's failure. */
export function callError(error: unknown, onBug: (error: unknown) => void): ORPCError<string, unknown> {
  if (error instanceof FailureError) return failureError(error.failure);
  if (error instanceof ORPCError) {
    const { code, cause } = error as ORPCError<string, unknown>;
    if (code === failureErrorCode) return error as ORPCError<string, unknown>;
    if (code === 'BAD_REQUEST' && cause instanceof ValidationError) return failureError(refusedInput(cause));
  }
  onBug(error);
  return new ORPCError('INTERNAL_SERVER_ERROR', { message: 'This is a bug in Weightroom; see Activity.' });
}

function failureError(value: Failure): ORPCError<string, unknown> {
  return new ORPCError(failureErrorCode, { message: value.message, data: value });
}

const mostIssues = 10;

function refusedInput({ issues }: ValidationError): Failure {
  const listed = issues.slice(0, mostIssues).map(({ path = [], message }) => ({
    field: path.map((part) => String(typeof part === 'object' ? part.key : part)).join('.'),
    message,
  }));
  const words = listed.map(({ field, message }) => (field === '' ? message : `${field}: ${message}`));
  return failure('configuration', 'invalid_config', `The request is not valid: ${words.join('; ')}.`, {
    details: { issues: listed },
  });
}
