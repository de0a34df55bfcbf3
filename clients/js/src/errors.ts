import type { ApiError as Type, ErrorCode } from "./types.ts";

type Body = Record<string, any>;

/** What calls reject with; see `types.ts`. */
export class ApiError extends Error implements Type {
  override name = "ApiError";
  readonly requestId: string | null;
  readonly details: Type["details"];
  readonly executionId: string | null;

  constructor(
    readonly status: number,
    readonly code: ErrorCode,
    message: string,
    readonly body: Body = {},
    readonly retryAfter: number | null = null,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.requestId = body.request_id ?? null;
    this.details = body.details ?? [];
    this.executionId = body.execution_id ?? null;
  }
}

export function isApiError(value: unknown, code?: ErrorCode): value is ApiError {
  return value instanceof ApiError && (code === undefined || value.code === code);
}

/** Returns the error of an answer whose body is this text. */
export function errorOf(status: number, text: string, retryAfter: string | null): ApiError {
  let body: Body = {};
  try {
    body = JSON.parse(text);
  } catch {
    // A proxy's page, or nothing.
  }
  const seconds = retryAfter === null || retryAfter === "" ? NaN : Number(retryAfter);
  const code = body?.code ?? "BAD_ANSWER";
  return new ApiError(status, code, body?.message ?? `Answered ${status}.`, body ?? {}, isNaN(seconds) ? null : seconds);
}
