// Package render prints podctl's answers: tables with aligned columns, JSON and YAML documents, and what kubectl's
// expressions make of these.
//
// Pods are written by others than the administrator, so every text that reaches the terminal passes Table, Documents, Text or
// Escape, which replace control and invisible characters. Documents keep line ends and tabs of values that an expression
// prints, and Text those of a log, with its colours.
//
// It starts no goroutines and makes no calls. Package podctl calls it.
package render
