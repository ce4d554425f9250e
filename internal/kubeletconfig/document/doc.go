// Package document reads one YAML or JSON document of a configuration file: its values, and the line of each.
//
// The packages of the configured kinds decode them with it, and make their own errors with its file and line. It is
// pure: it reads no files, and runs no goroutines.
package document
