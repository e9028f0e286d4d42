// Package shopify describes the limits of Shopify's Admin API, REST and GraphQL.
//
//	p, err := pacer.New(pacer.Config{Upstream: "shopify", Policies: shopify.Limits(shopify.Standard)})
//	client, err := transport.NewClient(p, transport.WithProfile(shopify.Profile))
//
// # What Shopify limits
//
// Both APIs have leaky buckets for each app and store: REST counts calls, GraphQL points. The store is the host of the request; a hash of
// X-Shopify-Access-Token identifies the app. Every REST reply reports how full its bucket is ("32/40"), and every GraphQL reply how many
// points are available.
//
// The cost of a query is known only afterwards. [QueryCost] points are reserved for it, and settled at its actualQueryCost when the body
// has been read, so read bodies to their end. The points that are left are read at once from a reply of up to 16 KiB, and with the cost
// from a longer one. If your queries cost far more or less, give the transport a copy of the Profile with Costs of your own.
//
// # How it refuses
//
// REST answers 429 with a Retry-After with decimals ("2.0"). GraphQL answers 200 with an error whose code is THROTTLED, and reports what
// the query would have cost and how fast points are restored: the wait is until the missing points are available. A throttled query costs
// nothing.
package shopify
