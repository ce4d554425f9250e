// Package expression evaluates kubectl's expressions on documents: JSONPath as a format of output, custom columns, and the
// path by which items are sorted.
//
// A document is what encoding/json makes of a value. The expressions are the user's; the documents are a daemon's. What is
// printed isn't escaped here: package render does that, and `podctl get` and others call it. It starts no goroutines.
package expression
