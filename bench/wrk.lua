-- Sends the requests of a file in turn; each of its lines is a path, a tab and a body that may be empty.
-- Arguments after `--`: the method and the file. Prints its result as one line of JSON.
local requests = {}
local number = 0
local first_failures = 0

function init(arguments)
  for line in io.lines(arguments[2]) do
    local path, body = line:match("^([^\t]*)\t(.*)$")
    if body == "" then body = nil end
    requests[#requests + 1] = wrk.format(arguments[1], path, nil, body)
  end
  -- Threads and runs begin at different places.
  math.randomseed(os.time() + tonumber(tostring(requests):match("0x(%x+)"), 16) % 1000003)
  number = math.random(#requests)
end

function request()
  number = number % #requests + 1
  return requests[number]
end

function done(summary, latency)
  local errors = summary.errors
  local failed = errors.status + errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format(
    '\n{"requests":%d,"seconds":%f,"failed":%d,"p50_ms":%f,"p99_ms":%f}\n',
    summary.requests, summary.duration / 1e6, failed, latency:percentile(50) / 1000, latency:percentile(99) / 1000
  ))
end
