// Package sdktest runs vendors' SDKs over the transport, and over a plain client, against the same upstream. The only difference is that
// calls are paced. It is a module of its own, so that no SDK reaches a user's build.
package sdktest
