-- report.lua: apply observations of the upstream.
--
-- KEYS   as in reserve.lua
--        done: if the operation has a number: a sorted set, member = score = number of a finished operation, from known on
--        allowances: if a note is of kind 4: a sorted set, member = the name of an allowance, score = until when it matters (µs since the epoch)
--        resets: if a note is of kind 1, 4 or 7: see anew
-- ARGV   number: of an operation, from 1, which is done once even if the process sends it again; 0: it may be done twice
--        known: the first operation whose result the process does not know
--        accounts: how many follow; for each
--          algorithm
--          its parameters
--        notes: how many follow; for each
--          kind
--          entry: the account, from 1
--          a, b, c, d, e: five integers, by kind:
--          1 resume     the statement about an allowance ends
--          2 slow       a call whose slot was a (µs since the epoch; 0: now) was refused: an adaptive rate slows down
--          3 learn      for b µs the upstream allows less: the emission interval or limit a; 0: the whole again
--          4 answer     a call was answered whose slot was a (µs since the epoch; 0: now) and which was charged b: c are left (−1: not
--                       stated), and there is more in d µs (0: not stated); e: C.AnswerRefused if it was refused because of this
--                       limit, C.AnswerGuessed more if d is a guess, C.AnswerTeaches if the refusal teaches a pace, and
--                       C.AnswerOpen for each that is on its way and not known here. It is about an allowance
--          5 settle     a call that was charged a, b at e (µs since the epoch; 0: not known, or the call may not have gone) at cost c really
--                     cost d; a, b and c are 0 if it was charged nothing
--          6 claim      a process remembers a charge a, b
--          7 reset      the account starts anew
--          8 renew      the lease of call a, which began at b (µs since the epoch), is renewed
--          9 release    call a is over, or leaves the queue, where a call of flow b, of weight c, counted at cost d and owed e; b is 0 if it
--                       counted nothing
--         10 stray      a call whose slot was a (µs since the epoch; 0: now) was refused, though there was room: the margin grows by c
--                       millionths, to d at most; it changed something if one was refused within b µs before
--        1 and 7 change the epoch, so that no process restores the state of before; so does the first answer about an allowance, so that
--        it binds the calls of all processes
-- Reply  now (µs since the epoch), how many of the notes of kinds 2 to 4, 6 (of a rate) and 10 changed anything
--        only now: as in reserve.lua
-- TTL    every key that is written gets one, as in reserve.lua
--
-- Exhausted limits, resumptions and slower rates are published on the channel KEYS[1] .. '/pauses', as lines "now" and then "kind until
-- key"; queued calls that must poll, as "4 id key". A failure to publish is ignored: then sleeping calls receive nothing.

local number, known = arg(), arg()
local entries, up, now = stack()
if stale then return { now } end
local changed, queue = 0, queues()
local say = queue.say

-- Unknown notes are found before anything is written.
local notes = arg()
for at = nextarg, nextarg + 7 * (notes - 1), 7 do
  local kind, entry = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  if kind < C.NoteResume or kind > C.NoteStray then unknown('note', kind) end
  if not entries[entry] then unknown('limit', entry) end
  if (kind == C.NoteAnswer or kind == C.NoteResume) and not entries[entry].run.answer then unknown('allowance', entry) end
end
if number > 0 then
  local done = key()
  if redis.call('ZADD', done, number, number) == 0 then return { now, 0 } end
  redis.call('ZREMRANGEBYSCORE', done, '-inf', '(' .. string.format('%.0f', known))
  redis.call('PEXPIRE', done, ttl(C.OnceTTL))
end
open(entries, now)
keepturned(entries)

local answered
local deliberate -- lines of deliberate resets: see anew
for _ = 1, notes do
  local kind, i, a, b, c, d, e = arg(), arg(), arg(), arg(), arg(), arg(), arg()
  local o, did = entries[i], false
  if kind == C.NoteResume or kind == C.NoteReset then
    if kind == C.NoteResume then
      o.run.resume(o, now)
    else
      o.run.reset(o, now)
    end
    deliberate = deliberate or {}
    deliberate[#deliberate + 1] = (kind == C.NoteReset and '=' or '-') .. o.key
    say(C.ChangeResumed, 0, o.key)
  elseif kind == C.NoteSlow then
    did = o.run.slow(o, now, a > 0 and a or now)
    if did then say(C.ChangeSlowed, 0, o.key) end
  elseif kind == C.NoteStray then
    local alone, slower = o.run.stray(o, now, a > 0 and a or now, b, c, d)
    did = not alone
    if slower then say(C.ChangeSlowed, 0, o.key) end
  elseif kind == C.NoteLearn then
    did = o.run.learn(o, now, a, now + b)
  elseif kind == C.NoteAnswer then
    local news = o.run.answer(o, now, a, b, c, d, e)
    if news == C.ChangePaused and o.low > 1 then news = C.ChangeSlowed end
    did = news ~= nil
    answered = answered or {}
    answered[i] = true
    if did then say(news, news == C.ChangePaused and o.till or 0, o.key) end
  elseif kind == C.NoteSettle then
    o.run.settle(o, now, a, b, c, d, e)
  elseif kind == C.NoteRenew then
    o.run.renew(o, now, a, b)
  elseif kind == C.NoteRelease then
    o.run.release(o, a, b, c, d, e)
    o.freed = true
  elseif kind == C.NoteClaim then
    did = o.run.claim(o, now, a, b)
  else
    unknown('note', kind)
  end
  if did then changed = changed + 1 end
end

if answered then
  local names, longest = key(), 0
  redis.call('ZREMRANGEBYSCORE', names, '-inf', now)
  for i in pairs(answered) do
    local lives = math.max(entries[i].run.ends(entries[i]) - now, C.AllowanceLives)
    if redis.call('ZADD', names, now + lives, string.match(entries[i].key, '^[^}]*}:([^:]*)')) > 0 then deliberate = deliberate or {} end
    longest = math.max(longest, lives)
  end
  redis.call('PEXPIRE', names, math.max(ttl(longest), redis.call('PTTL', names)))
end
if deliberate and up.epoch ~= '0' then
  anew(up, key(), deliberate, now)
  writeupstream(up, 0)
  say(C.ChangeBegun, 0, up.key)
end
finish(entries, up, now)
return { now, changed }
