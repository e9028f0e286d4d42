// Package batch makes one request of many values, such as grants that are given back, bookings that are redeemed, settings that are changed,
// and permits that come back: [Requests] for any, [Answered] for those whose owners wait. (Package dispatch does that for reservations.)
//
// Values that come during a request share the next one, whatever their stacks: when thousands of calls give up at the same time, the store
// receives a few requests. Each owner gets its own answer, or its own error: the function that sends interprets its errors.
package batch
