-- account.lua: what the algorithms share.
--
-- An account is what is known of one key under one algorithm. Each algorithm is a table of functions in
-- `algorithms`, by the number that goes over the wire: parse, loadstring or load, paused, earliest, horizon,
-- commit, cancel, settle, setpause, resume, slow, learn, remaining, inspect, write. See gcra.lua and window.lua; they mirror package engine, and a
-- differential test compares every reply.

local algorithms = {}

-- foreign ends the script, before it has written anything, because a key holds what these scripts did not write.
local function foreign(key)
  error('HEADWAYFOREIGN ' .. key .. ' holds a value that Headway did not write', 0)
end

-- number reads a stored integer.
local function number(v, key)
  local n = tonumber(v)
  if not n or n < 0 or n >= 9007199254740992 or n % 1 ~= 0 then foreign(key) end
  return n
end

-- stale is set when a calendar's table does not hold the store's now: the client's clock is off, and it must
-- compute the table anew.
local stale = false

-- readers walk through KEYS and ARGV.
local nextkey, nextarg = 1, 1

local function key()
  nextkey = nextkey + 1
  return KEYS[nextkey - 1]
end

local function arg()
  nextarg = nextarg + 1
  return tonumber(ARGV[nextarg - 1])
end

-- stack reads the entries of a stack from KEYS and ARGV: the upstream's key, then for each entry its keys;
-- the number of entries, then for each entry the algorithm and its parameters. It loads their state and
-- returns the entries and the instant until which the upstream is paused.
local function stack(now)
  local upstream, entries, strings, owners = key(), {}, {}, {}
  strings[1] = upstream
  for i = 1, arg() do
    local a = algorithms[arg()]
    local o = a.parse()
    o.run = a
    entries[i] = o
    if a.loadstring then
      strings[#strings + 1] = o.key
      owners[#strings] = o
    end
  end
  local values = redis.call('MGET', unpack(strings))
  for i = 1, #strings do
    -- MGET answers nil for a key of another type, too.
    if not values[i] and redis.call('TYPE', strings[i])['ok'] ~= 'none' then foreign(strings[i]) end
    if owners[i] then owners[i].run.loadstring(owners[i], values[i], now) end
  end
  for i = 1, #entries do
    if entries[i].run.load then entries[i].run.load(entries[i], now) end
  end
  return entries, values[1] and number(values[1], upstream) or 0
end
