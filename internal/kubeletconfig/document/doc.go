// Package document is one YAML or JSON document of a configuration file: its text as values, and where each of them stands.
//
// The packages that know what is configured decode their kinds with it, and make their own complaints with its file and line. It
// is pure: it reads no files, and runs no goroutines.
package document
