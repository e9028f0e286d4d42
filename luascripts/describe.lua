-- describe.lua: a process describes itself, its policies, and its recent calls.
--
-- KEYS   upstream: its key (see account.lua)
--        index: a hash. Its fields:
--          process/ID        a process's description of itself
--          policy/NAME       "reported until text": a policy, when it was last reported, and until when it is kept
--          policies/VERSION  "reported until texts": all policies of some processes, one on each line
--          versions          "version until version until …": the lists of policies in use, and until when each counts without a report
--          went/SLOT/NAME    "second cost waits waited": the calls of a policy in a second; SLOT is the second modulo 128
--          swept             the minute in which expired fields were last removed
--        alive: the processes (see heartbeat.lua)
-- ARGV   id: of the process
--        about: its description of itself ('': it leaves)
--        keep: how long its policies are kept (µs)
--        version: a name of all of its policies ('': it leaves)
--        counts: how long its version counts, unless a process reports it again (µs)
--        policies: how many follow; for each
--          name
--          text
--        then, to the end, the calls; for each
--          name: of the policy
--          second: since the epoch
--          cost, waits: in that second, besides earlier reports; a negative cost takes back
--          waited: µs
-- Reply  now (µs since the epoch), the number of processes, the number of versions of the policies that count
-- TTL    the index: while its policies are kept
--
-- The index is bounded: a full one takes no new fields until others expire. A process expires with its membership (see heartbeat.lua);
-- readers skip it.

local most, minute, slots = 32768, 60000000, 128
local mostversions, longest = 16, 16384 -- versions that are counted, and bytes of the texts of one
local upstream, index, alive = KEYS[1], KEYS[2], KEYS[3]
local id, about = ARGV[1], ARGV[2]
nextarg = 3
local keep = arg()
local version = ARGV[nextarg]
nextarg = nextarg + 1
local counts, policies = arg(), arg()

local up, now = readupstream(upstream, redis.call('GET', upstream))

local function whole(n) return string.format('%.0f', n) end

local size = redis.call('HLEN', index)
local function put(field, value)
  if size < most or redis.call('HEXISTS', index, field) == 1 then size = size + redis.call('HSET', index, field, value) end
end

if about == '' then
  redis.call('HDEL', index, 'process/' .. id)
else
  put('process/' .. id, about)
end
local said, texts = whole(now) .. ' ' .. whole(now + keep) .. ' ', {}
for i = 1, policies do
  local name, text = ARGV[nextarg], ARGV[nextarg + 1]
  nextarg = nextarg + 2
  texts[i] = text
  put('policy/' .. name, said .. text)
end
local lines = table.concat(texts, '\n')
if version ~= '' and #lines <= longest then put('policies/' .. version, said .. lines) end

-- The versions: each counts for a while after its last report.
local all = { { version, now + counts } }
for name, till in string.gmatch(redis.call('HGET', index, 'versions') or '', '(%x+) (%d+)') do
  till = tonumber(till)
  if name == version then
    all[1][2] = math.max(all[1][2], math.min(till, now + 2 * counts))
  elseif till > now and till < now + 3 * minute then
    all[#all + 1] = { name, till }
  end
end
if version == '' then table.remove(all, 1) end
local known = {}
for i = 1, math.min(#all, mostversions) do known[i] = all[i][1] .. ' ' .. whole(all[i][2]) end
put('versions', table.concat(known, ' '))
while nextarg <= #ARGV do
  local name = ARGV[nextarg]
  nextarg = nextarg + 1
  local second, cost, waits, waited = arg(), arg(), arg(), arg()
  local field = 'went/' .. whole(second % slots) .. '/' .. name
  local s, c, w, d = string.match(redis.call('HGET', index, field) or '', '^(%d+) (%d+) (%d+) (%d+)$')
  s = s and number(s, index) or 0
  if s == second then cost, waits, waited = cost + number(c, index), waits + number(w, index), waited + number(d, index) end
  cost = math.max(0, cost)
  if s <= second then put(field, whole(second) .. ' ' .. whole(cost) .. ' ' .. whole(waits) .. ' ' .. whole(waited)) end
end

-- Once a minute, expired ones are removed.
local this = whole((now - now % minute) / minute)
if redis.call('HGET', index, 'swept') ~= this then
  local fields = redis.call('HGETALL', index)
  for i = 1, #fields, 2 do
    local field, value, over = fields[i], fields[i + 1], false
    local kind, name = string.match(field, '^(%a+)/(.*)$')
    if kind == 'policy' or kind == 'policies' then
      local till = string.match(value, '^%d+ (%d+) ')
      over = not till or tonumber(till) <= now
    elseif kind == 'went' then
      local second = string.match(value, '^(%d+) ')
      over = not second or tonumber(second) * 1000000 + 2 * minute <= now
    elseif kind == 'process' then
      over = name ~= id and not redis.call('ZSCORE', alive, name)
    end
    if over then redis.call('HDEL', index, field) end
  end
  redis.call('HSET', index, 'swept', this)
end
redis.call('PEXPIRE', index, math.max(lasting(keep), redis.call('PTTL', index)))
return { now, redis.call('ZCARD', alive), #known }
