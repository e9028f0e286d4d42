-- redeem.lua: replace the record of a booking, if it is what the client knows and all conditions hold.
--
-- KEYS   as in reserve.lua
--        booking: a string, the record of one booking: what became of it, as the client writes it. None: nothing, so far
-- ARGV   began: when the epoch of the data must have begun (µs since the epoch of Unix; 0: any)
--        known: the record must be this one; '' if there must be none
--        next: the record from now on. If it is so already, the operation was done before
--        keep: for how long it is kept (µs)
--        expires: without a record, it must not be later than this (µs since the epoch; 0: at any time)
--        from, slot, till: it must be from then till then, and no pause may end after both slot and now (µs since the epoch); 0, 0, 0: no
--        matter
--        accounts: how many follow; for each
--          algorithm
--          its parameters
--        charges: 0, or the number of accounts, and for each its charge and when that was made, as in cancel.lua: given back
-- Reply  now (µs since the epoch), a result, and
--          done, lost, expired, early, late   nothing else
--          changed                            the record, '' for none
--          paused                             until when (µs since the epoch)
--        now alone: as in reserve.lua
-- TTL    of the record: keep

nextarg = 1
local began, known, following, keep, expires = arg(), ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local from, slot, till = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
nextarg = 9
local all, up, now = stack()
everything(all)
if stale then return { now } end

local booking = key()
local record = redis.call('GET', booking) or ''
if began > 0 and epochof(up) ~= began then return { now, C.BookingLost } end
if record == following then return { now, C.BookingDone } end
if record ~= known then return { now, C.BookingChanged, record } end
if record == '' and expires > 0 and now > expires then return { now, C.BookingExpired } end
if till > 0 then
  local paused = up.pause
  for i = 1, #all do paused = math.max(paused, all[i].run.paused(all[i])) end
  if paused > math.max(now, slot) then return { now, C.BookingPaused, paused } end
  if now < from then return { now, C.BookingEarly } end
  if now > till then return { now, C.BookingLate } end
end

if arg() > 0 then
  if turning then versions().turn(all) end
  local queued = false
  for i = 1, #all do
    local o = all[i]
    local first, last, made = arg(), arg(), arg()
    o.run.cancel(o, now, first, last, made)
    o.run.write(o, now)
    if o.kind then
      queues().call(o, now)
      queued = true
    end
  end
  if queued then queues().publish(up, now) end
end
redis.call('SET', booking, following, 'PX', lasting(keep))
return { now, C.BookingDone }
