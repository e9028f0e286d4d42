// Package shopify knows the limits of Shopify's Admin API, REST and GraphQL.
//
//	p, err := pacer.New(pacer.Config{Upstream: "shopify", Policies: shopify.Limits(shopify.Standard)})
//	client, err := transport.NewClient(p, transport.WithProfile(shopify.Profile))
//
// # What Shopify limits
//
// Both APIs are leaky buckets for each app and store: REST counts calls, GraphQL points. A store is the host of the request, an app is
// identified by a hash of X-Shopify-Access-Token. Every REST reply reports how full its bucket is ("32/40"), every GraphQL reply how many
// points are available.
//
// What a query costs is known afterwards. It is reserved at [QueryCost] points and settled at its actualQueryCost when the
// body has been read, so read bodies to their end. For queries that are far from that, give the transport
// a copy of the Profile whose Costs says so.
//
// # How it refuses
//
// REST with 429 and a Retry-After with decimals ("2.0"). GraphQL with 200 and an error whose code is THROTTLED, which tells
// what the query would have cost and how fast points come back: the wait is what is missing. A throttled query costs nothing.
package shopify
