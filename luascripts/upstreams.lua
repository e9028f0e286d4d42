-- upstreams.lua: which upstreams are paced. It writes nothing.
--
-- KEYS   the upstreams (see enlist.lua)
-- ARGV   none
-- Reply  their names
-- TTL    none: nothing is written

return redis.call('ZRANGEBYSCORE', KEYS[1], clock(), '+inf', 'LIMIT', 0, C.MaxUpstreams)
