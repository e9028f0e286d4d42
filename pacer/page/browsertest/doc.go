// Package browsertest holds the tests of package page that need a browser, a real Chromium without a window. It is a module of its own, so
// that its driver never reaches a user's build.
//
// The tests look for chromium, chromium-browser or google-chrome; HEADWAY_CHROMIUM names another. Without one they are skipped; with
// CI=true they fail. With HEADWAY_PICTURES=<folder> they write the pictures of the documentation there.
package browsertest
