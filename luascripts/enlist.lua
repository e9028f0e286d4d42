-- enlist.lua: an upstream is paced.
--
-- KEYS   upstreams: a sorted set, member = name, score = until when it is remembered (µs since the epoch)
-- ARGV   name: of the upstream
--        keep: for how long it is remembered (µs)
-- Reply  now (µs since the epoch)
-- TTL    until the last one is forgotten
--
-- It is bounded: if there are too many, the first to be forgotten go.

local upstreams = KEYS[1]
local name, keep = ARGV[1], tonumber(ARGV[2])

local now = clock()
redis.call('ZADD', upstreams, 'GT', now + keep, name)
redis.call('ZREMRANGEBYSCORE', upstreams, '-inf', now)
redis.call('ZREMRANGEBYRANK', upstreams, 0, -C.MaxUpstreams - 1)
redis.call('PEXPIRE', upstreams, math.max(ttl(keep), redis.call('PTTL', upstreams)))
return { now }
