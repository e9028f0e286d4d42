-- quick.lua: the common case of reserve.lua, before anything else is defined, which would take longer than this does.
--
-- KEYS, ARGV, Reply and TTL are those of reserve.lua. It is: one run of calls that cost the same for every account, want to
-- go now, and can; rates that do not adapt, of which only the tail is known; and an upstream of which there is nothing to
-- say. In any other case nothing was done, and the rest of the script decides. gcra.lua has the reasons.

local function quickly()
  local n = tonumber(ARGV[3])
  local at, count, cost = 4 + 3 * n, 1, 1
  if #ARGV ~= at then
    if #ARGV ~= at + 5 or ARGV[at] ~= '0' or ARGV[at + 2] == '0' or ARGV[at + 3] ~= '0' then return nil end
    count, cost = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  end
  for i = 4, at - 3, 3 do
    if ARGV[i] ~= '1' then return nil end
  end
  local values = redis.call('MGET', unpack(KEYS)) -- the gaps have no value
  if values[1] then
    if values[1] ~= '0 ' .. ARGV[1] then return nil end
  elseif ARGV[1] ~= '0' or redis.call('TYPE', KEYS[1])['ok'] ~= 'none' then
    return nil
  end
  local now = clock()
  if now < ARGV[2] - 1000000 then return nil end
  local reply, size = { now, count, n > 0 and -1 or 1000000 }, 3
  for i = 2, 2 * n, 2 do
    local t, from, tat = ARGV[3 * i / 2 + 3], now, values[i]
    if tat then
      tat = tonumber(tat)
      if not tat or tat < 0 or tat >= 9007199254740992 or tat % 1 ~= 0 then return nil end
      if tat > now then from = tat end
    elseif redis.call('TYPE', KEYS[i])['ok'] ~= 'none' then
      return nil
    end
    local need = cost * t
    if from + (count - 1) * need > now + (ARGV[3 * i / 2 + 2] - cost) * t then return nil end
    reply[size + 1], reply[size + 2] = from, from + need
    size = size + 2
    values[i] = from + count * need
  end
  for i = 2, 2 * n, 2 do redis.call('SET', KEYS[i], values[i], 'PX', ttl(values[i] - now)) end
  return reply
end

do
  local reply = quickly()
  if reply then return reply end
end
