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
  local all, ends, size = redis.call('HGETALL', settings), now, 0
  local known = {}
  for i = 1, #all, 2 do
    local till = tonumber(string.match(all[i + 1], '^(%d+) ') or '')
    if all[i] ~= 'version' then
      if till and till > now and till <= now + C.MaxDebt then
        known[all[i]], size = till, size + 1
      else
        redis.call('HDEL', settings, all[i])
      end
    end
  end
  local after = {}
  for field in pairs(known) do after[field] = true end
  for at = 1, #ARGV - 2, 3 do
    local field, holds = ARGV[at], ARGV[at + 2] ~= ''
    if holds and not after[field] then size = size + 1 end
    if not holds and after[field] then size = size - 1 end
    after[field] = holds or nil
  end
  if size > C.MaxSettings then return { now } end
  for at = 1, #ARGV - 2, 3 do
    local field, till = ARGV[at], now + tonumber(ARGV[at + 1])
    if ARGV[at + 2] == '' then
      redis.call('HDEL', settings, field)
      known[field] = nil
    else
      redis.call('HSET', settings, field, string.format('%.0f %.0f ', till, now) .. ARGV[at + 2])
      known[field] = till
    end
  end
  redis.call('HSET', settings, 'version', string.format('%.0f', now))
  for _, till in pairs(known) do ends = math.max(ends, till) end
  redis.call('PEXPIRE', settings, lasting(math.max(C.OnceTTL, ends - now)))
  if up.epoch ~= '0' then
    anew(up, resets, {}, now)
    writeupstream(up, 0)
    redis.pcall('PUBLISH', up.key .. '/pauses', string.format('%.0f\n%d 0 %s', now, C.ChangeBegun, up.key))
  end
end
local allowances = redis.call('ZRANGEBYSCORE', KEYS[4], now, '+inf', 'LIMIT', 0, C.MaxListed)
return { now, redis.call('HGETALL', settings), redis.call('HGETALL', resets), allowances }
