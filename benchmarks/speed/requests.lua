-- Script of wrk: POST the lines of the file $BODIES in turn, or GET without it; the last line printed is a summary as JSON.
local bodies = os.getenv("BODIES")
if bodies then
  local requests, at = {}, 0
  function init(_)
    for body in io.lines(bodies) do
      table.insert(requests, wrk.format("POST", nil, {["Content-Type"] = "application/json"}, body))
    end
  end
  function request()
    at = at % #requests + 1
    return requests[at]
  end
end

function done(summary, latency, _)
  local wrong = summary.errors
  io.write(string.format(
    '\n{"requests": %d, "failed": %d, "seconds": %f, "median_ms": %f, "p99_ms": %f}\n',
    summary.requests,
    wrong.connect + wrong.read + wrong.write + wrong.status + wrong.timeout,
    summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
