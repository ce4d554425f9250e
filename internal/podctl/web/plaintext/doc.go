// Package plaintext makes texts of others harmless and short, before `podctl web` sends them to its page.
//
// It escapes as podctl's tables do, by package render. It is pure. Packages board, upstream and service call it.
package plaintext
