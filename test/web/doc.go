// Package web tests the page of `podctl web` in a browser: Chromium, driven over its debugging protocol, on real daemons
// with the simulated runtime.
package web
