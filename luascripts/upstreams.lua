-- upstreams.lua: which upstreams are paced. It writes nothing.
--
-- KEYS   upstreams: see enlist.lua
-- ARGV   none
-- Reply  their names
-- TTL    none: nothing is written

local upstreams = KEYS[1]

return redis.call('ZRANGEBYSCORE', upstreams, clock(), '+inf', 'LIMIT', 0, C.MaxUpstreams)
