// Package batch makes one request of many: [Requests] does so for any values, [Answered] for those whose owners wait. Here they serve grants
// that are given back at the same time, bookings that are redeemed, and settings that are changed; in package leases, permits that come back.
// (Package dispatch does that for reservations.)
//
// # Cancels
//
// Grants given back during a request share the next one, whatever their stacks: when thousands of calls give up at the same time, the store
// receives a few requests.
//
// # Redemptions
//
// At most one request that changes records of bookings is under way. Changes that come meanwhile share the next one, up to
// [store.MaxBookings]. Each caller gets its own answer, or its own error.
//
// # Changes
//
// At most one request that changes settings is under way. Changes that come meanwhile share the next one, which has the last of those for
// the same key.
//
// # Failures
//
// The function that sends interprets its errors.
package batch
