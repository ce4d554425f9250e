// Package write has the values of a write to the source "applied": documents with their keys, the change that a caller
// requests, and the plan of what that does to the documents there are.
//
// It is pure: Read parses the files of a request, and Change.Plan compares them with the present documents. Neither does
// I/O nor keeps anything. mergesvc/service makes Changes of requests, and sources/applied carries them out: it stores the
// documents that a Plan puts and removes, and hands over their origins.
//
// A document is one YAML or JSON document as its caller wrote it, byte by byte: one pod, ConfigMap or Secret. A Key names
// it. No key and no set is ever a path.
package write
