-- redeem.lua: replace the records of some bookings of one upstream, in order, each if it is what the client knows and all conditions hold.
--
-- KEYS   as in reserve.lua
--        then the key of each booking's record: a string in the client's form, of what became of it; absent at first
-- ARGV   accounts: how many follow; for each
--          algorithm
--          its parameters
--        then, to the end, for each booking
--          refs: its charged accounts: 0 for those of the booking before (of the first: all), else their number plus one
--          indexes: of these accounts, from 1
--          began: the required start of the data's epoch (µs since the epoch of Unix; 0: any)
--          known: the required record; '' if there must be none
--          next: the record from now on. If the booking has it already, the operation was done before
--          keep: how long it is kept (µs)
--          expires: the latest time without a record (µs since the epoch; 0: any)
--          from, slot, till: now must be between from and till, and no pause may end after both slot and now (µs since the epoch); 0, 0, 0:
--          no condition
--          charges: to give back: 0, or the number of its accounts, and for each its charge and when that was made, as in cancel.lua
-- Reply  now (µs since the epoch), then for each booking a result, and
--          done, lost, expired, early, late   0
--          changed                            the record, '' for none
--          paused                             until when (µs since the epoch)
--        only now: as in reserve.lua
-- TTL    of each record: keep
--
-- Changes are decided before anything is written. Of two bookings with the same record, the second sees the change of the first.

local all, up, now = stack()
local reply, size = { now }, 1
if stale then return reply end
local records, changes = {}, {}
local epoch = string.format('%.0f', (epochof(up)))

-- decide decides about a change. It returns its part of the reply. Numbers are read when they are needed: there are many.
local function decide(b, began, known, expires, from, slot, till)
  local record = records[b.key] or redis.call('GET', b.key) or ''
  records[b.key] = record
  if began ~= '0' and epoch ~= began then return C.BookingLost end
  if record == b.following then return C.BookingDone end
  if record ~= known then return C.BookingChanged, record end
  if record == '' and expires ~= '0' and now > tonumber(expires) then return C.BookingExpired end
  if till ~= '0' then
    for i = 1, #b.entries do
      local till = paused(b.entries[i], math.max(now, tonumber(slot)))
      if till then return C.BookingPaused, till end
    end
    if now < tonumber(from) then return C.BookingEarly end
    if now > tonumber(till) then return C.BookingLate end
  end
  records[b.key] = b.following
  changes[#changes + 1] = b
  return C.BookingDone
end

local entries, argv = all, ARGV
while nextarg <= #argv do
  entries = bound(all, entries)
  local began, known, following, keep, expires, from, slot, till, charges = unpack(argv, nextarg, nextarg + 8)
  local b = { key = key(), entries = entries, following = following, keep = keep, charges = tonumber(charges), refund = nextarg + 9 }
  nextarg = b.refund + 3 * b.charges
  local result, more = decide(b, began, known, expires, from, slot, till)
  reply[size + 1], reply[size + 2], size = result, more or 0, size + 2
end

for i = 1, #changes do
  local b = changes[i]
  nextarg = b.refund
  for k = 1, b.charges do
    giveback(b.entries[k], now, arg(), arg(), arg())
    b.entries[k].freed = true
  end
end
finish(all, up, now)
for i = 1, #changes do
  local b = changes[i]
  redis.call('SET', b.key, b.following, 'PX', string.format('%d', lasting(tonumber(b.keep))))
end
return reply
