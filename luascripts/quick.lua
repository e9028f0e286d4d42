-- quick.lua: the common case of reserve.lua, before anything else is defined, which would take longer than this does.
--
-- KEYS, ARGV, Reply and TTL are those of reserve.lua. It is: one run of calls that cost the same for every account, want to
-- go now, and can; rates that do not adapt, of which only the tail is known; and an upstream of which there is nothing to
-- say. In any other case nothing was done, and the rest of the script decides. gcra.lua has the reasons.

local function quickly()
  local n = tonumber(ARGV[3])
  local at = 4 + 3 * n
  if #ARGV ~= at + 5 or ARGV[at] ~= '0' or ARGV[at + 2] == '0' or ARGV[at + 3] ~= '0' then return nil end
  local names = { KEYS[1] }
  for i = 1, n do
    if ARGV[1 + 3 * i] ~= '1' then return nil end
    names[i + 1] = KEYS[2 * i]
  end
  local values = redis.call('MGET', unpack(names))
  local up = values[1]
  if up then
    if up ~= '0 ' .. ARGV[1] then return nil end
  elseif ARGV[1] ~= '0' then
    return nil
  end
  local now, count, cost = clock(), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  if now < ARGV[2] - 1000000 then return nil end
  local reply, tails = { now, count, n > 0 and -1 or 1000000 }, {}
  for i = 1, n do
    local limit, t, from = ARGV[2 + 3 * i], ARGV[3 + 3 * i], now
    local tat = values[i + 1]
    if tat then
      tat = tonumber(tat)
      if not tat or tat < 0 or tat >= 9007199254740992 or tat % 1 ~= 0 then return nil end
      if tat > now then from = tat end
    end
    local need = cost * t
    if from + (count - 1) * need > now + (limit - cost) * t then return nil end
    reply[2 + 2 * i], reply[3 + 2 * i], tails[i] = from, from + need, from + count * need
  end
  -- MGET has no value for a key of another type, too.
  for i = 1, n + 1 do
    if not values[i] and redis.call('TYPE', names[i])['ok'] ~= 'none' then return nil end
  end
  for i = 1, n do redis.call('SET', names[i + 1], tails[i], 'PX', ttl(tails[i] - now)) end
  return reply
end

do
  local reply = quickly()
  if reply then return reply end
end
