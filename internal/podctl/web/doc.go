// Package web serves the page of `podctl web`.
package web
