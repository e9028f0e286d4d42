-- settings.lua: the operators' settings for an upstream, in place of its processes' own.
--
-- KEYS   upstream: its key (see account.lua)
--        settings: a hash, field = the setting, value = "until since value" (µs since the epoch); and 'version', the time of the last change
--        resets: see anew
--        allowances: see report.lua
-- ARGV   for each change
--          field
--          lasts: how long (µs)
--          value: '' to remove it
-- Reply  now (µs since the epoch), the fields and values in turn, those of resets, and the names of allowances; only now if there are too
--        many, and nothing was done
-- TTL    until the last one is over
--
-- A change begins a new epoch, as a reset does: every process learns of it with its next request, or by the news of the epoch.

local upstream, settings, resets = KEYS[1], KEYS[2], KEYS[3]
local up, now = readupstream(upstream, redis.call('GET', upstream))
if #ARGV >= 3 then
  local all, known, ends, size = redis.call('HGETALL', settings), {}, now, 0
  for i = 1, #all, 2 do
    local till = tonumber(string.match(all[i + 1], '^(%d+) ') or '')
    if till and till > now and till <= now + C.MaxDebt then
      known[all[i]] = till
    elseif all[i] ~= 'version' then
      redis.call('HDEL', settings, all[i])
    end
  end
  for at = 1, #ARGV - 2, 3 do
    known[ARGV[at]] = ARGV[at + 2] ~= '' and now + tonumber(ARGV[at + 1]) or nil
  end
  for _, till in pairs(known) do ends, size = math.max(ends, till), size + 1 end
  if size > C.MaxSettings then return { now } end
  for at = 1, #ARGV - 2, 3 do
    local field, value = ARGV[at], ARGV[at + 2]
    if value == '' then
      redis.call('HDEL', settings, field)
    else
      redis.call('HSET', settings, field, string.format('%.0f %.0f ', now + tonumber(ARGV[at + 1]), now) .. value)
    end
  end
  redis.call('HSET', settings, 'version', string.format('%.0f', now))
  redis.call('PEXPIRE', settings, lasting(math.max(C.OnceTTL, ends - now)))
  if up.epoch ~= '0' then
    anew(up, resets, {}, now)
    writeupstream(up, 0)
    redis.pcall('PUBLISH', up.key .. '/pauses', string.format('%.0f\n%d 0 %s', now, C.ChangeBegun, up.key))
  end
end
local allowances = redis.call('ZRANGEBYSCORE', KEYS[4], now, '+inf', 'LIMIT', 0, C.MaxListed)
return { now, redis.call('HGETALL', settings), redis.call('HGETALL', resets), allowances }
