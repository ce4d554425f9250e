// Package wire has the messages between the program parsepods and the tests that start it: on stdin, one JSON
// array of Requests on each line, and on stdout, for each of them, one JSON array of Answers, in the same
// order.
package wire

import "encoding/json"

// Request is one origin to parse.
type Request struct {
	Origin   string
	URL      bool
	Node     string
	Manifest []byte
}

// Answer is what manifest.Parse returned.
type Answer struct {
	Held   bool
	Errors []Refusal
	// Pods are the JSON of the pods.
	Pods []json.RawMessage
}

// Refusal is a finding with the severity Error.
type Refusal struct {
	Field, Message string
}
