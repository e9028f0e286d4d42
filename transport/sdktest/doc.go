// Package sdktest runs vendors' SDKs over the transport, and over a plain client, against the same upstream: they must see
// no difference, but that their calls are paced. It is a module of its own, so that no SDK reaches a user's build.
package sdktest
